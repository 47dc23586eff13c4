"""Step 5. The readout solves Z U = Y.

Z (T, H d) has more columns than rows, and every U with Z U = Y memorizes. Of these the shortest is
taken: small readouts amplify the rounding of the layer least, on other machines and in float32.

Both ways to it factor Z Z^T = L L^T with L lower triangular:

- Cholesky of the Gram matrix, U = Z^T (Z Z^T)^-1 Y, with one step of iterative refinement on the
  true Z. It squares the condition number of Z, so it is kept only if its residual is small.
- QR of Z^T = Q L^T, U = Q L^-1 Y: several times the work, for ill-conditioned Z.

Entry (t, t) of L is the distance of row t of Z to the span of the rows before it. So the number of
entries above rounding, up to the last example of a group, estimates the rank that the induction of
`intermediate` reaches there. It is an estimate in floats, and labeled so.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, qr, solve_triangular

from constructive.constructions.construction import Cost
from constructive.constructions.multihead.intermediate import operations_of_z
from constructive.data.shapes import ExampleShapes
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.work import in_pieces

_GRAM_RESIDUAL = 1e-9  # Relative residual up to which the readout from the Gram matrix is kept


class SolvedReadout(NamedTuple):
    """The shortest U with Z U = Y."""

    effective: Array  # U (H d, d_out)
    distances: Array  # (T,), entries (t, t) of L, but for signs
    condition: float  # estimated condition number of Z, in the 1-norm
    residuals: Array  # (d_out,), max |Z U - Y| over the examples

    def ranks(self, counts: Integers) -> tuple[int, ...]:
        """Return the estimated rank of Z on the first so many examples, for each count."""
        size = max(len(self.effective), len(self.distances))
        smallest = np.finfo(np.float64).eps * size * self.distances.max()
        reached = np.concatenate([[0], np.cumsum(self.distances > smallest)])
        return tuple(reached[counts].tolist())


def solve(z: Array, targets: Array) -> SolvedReadout:
    """Solve Z U = Y for Z (T, H d) and Y (T, d_out). A singular Z only shows in the residual."""
    targets = targets.astype(np.float64, copy=False)
    allowed = _GRAM_RESIDUAL * np.abs(targets).max(axis=0)
    with np.errstate(all="ignore"):  # a singular Z overflows here, and is reported as such
        solution = _by_gram(z, targets)
        if solution is None or not (solution.residuals <= allowed).all():
            solution = _by_qr(z, targets)
    return solution


def dense_cost(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Cost:  # noqa: ARG001 - as for all
    """Estimate Z, and its factors: T^3."""
    total, columns = shapes.num_examples, num_heads * shapes.width
    solve = 2.0 * total**2 * columns + total**3 / 3
    return Cost(operations_of_z(shapes, num_heads) + solve, 8.0 * total * (columns + total))


def _by_gram(z: Array, targets: Array) -> SolvedReadout | None:
    """Return the readout by Cholesky, or None where the Gram matrix is not positive in float64."""
    products = gram(z)

    def norm_of(rows: slice) -> float:
        return float(np.abs(products[rows]).sum(axis=1).max())

    norm = max(in_pieces(norm_of, row_chunks(len(products), 1, 256), float(products.size)))
    factor = cholesky(products)
    if factor is None or not np.isfinite(norm):
        return None
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    condition = _estimate(np.sqrt(1.0 / reciprocal)) if reciprocal > 0 else float("inf")
    effective = z.T @ lapack.dpotrs(factor, targets, lower=1)[0]
    effective += z.T @ lapack.dpotrs(factor, targets - z @ effective, lower=1)[0]
    return SolvedReadout(
        effective, np.diagonal(factor).copy(), condition, largest(z @ effective - targets)
    )


def _estimate(condition: float) -> float:
    """Round to six digits: LAPACK's sums of sizes depend on where arrays lie in memory."""
    return float(f"{condition:.6g}")


def _by_qr(z: Array, targets: Array) -> SolvedReadout:
    basis, triangle = qr(z.T, mode="economic", check_finite=False)
    distances = np.abs(np.diagonal(triangle))
    if not distances.all():
        nothing = np.zeros((z.shape[1], targets.shape[1]))
        return SolvedReadout(nothing, distances, float("inf"), largest(z @ nothing - targets))
    reciprocal, _ = lapack.dtrcon(triangle, norm="1", uplo="U")
    condition = _estimate(1.0 / reciprocal) if reciprocal > 0 else float("inf")
    effective = basis @ solve_triangular(triangle, targets, trans="T", check_finite=False)
    correction = targets - z @ effective
    effective += basis @ solve_triangular(triangle, correction, trans="T", check_finite=False)
    return SolvedReadout(effective, distances, condition, largest(z @ effective - targets))


def largest(residuals: Array) -> Array:
    """Return the largest `|f - y|` for each entry of the targets (d_out,), infinite if it is NaN.

    residuals: (T, d_out)
    """
    found = np.abs(residuals).max(axis=0)
    return np.where(np.isfinite(found), found, np.inf)


# Gram matrices and their factorizations in blocks, on all cores.
#
# BLAS and LAPACK add in another order for another number of threads, so that the last bits differ.
# Here blocks have a fixed size, and each is computed by one thread (`support.work`). What fits
# into one block is what numpy and LAPACK make of it.


_BLOCK = 256  # Rows of a block, and columns of one on a diagonal
_WIDE = 4  # Blocks side by side in a product: larger ones are faster, and there are fewer


def _blocks(total: int, start: int = 0, width: int = 1) -> list[slice]:
    pieces = row_chunks(total - start, 1, width * _BLOCK)
    return [slice(start + piece.start, start + piece.stop) for piece in pieces]


def gram(rows: Array) -> Array:
    """Return Z Z^T for Z (T, m)."""
    total, blocks = len(rows), _blocks(len(rows))
    if len(blocks) == 1:
        whole: Array = rows @ rows.T
        return whole
    out = np.empty((total, total))

    def one(pair: tuple[slice, slice]) -> None:
        first, second = pair
        out[first, second] = rows[first] @ rows[second].T
        if first != second:
            out[second, first] = out[first, second].T

    pairs = [
        (first, second)
        for first in blocks
        for second in (first, *_blocks(total, first.stop, _WIDE))
    ]
    for _ in in_pieces(one, pairs, rows.size * total / 2):
        pass
    return out


def cholesky(matrix: Array) -> Array | None:
    """Return L with L L^T = A, on and below the diagonal of a matrix in the order of LAPACK.

    A (T, T) is symmetric, in the order of C, and used up: what is above the diagonal of the result
    are other numbers. None where A is not positive definite in its floats.
    """
    blocks, work = _blocks(len(matrix)), matrix
    if len(blocks) == 1:
        # LAPACK reads columns, so the transpose of a symmetric matrix saves a copy.
        potrf = lapack.get_lapack_funcs("potrf", (work,))
        factor, info = potrf(work.T, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None
    # Rows of U = L^T, a block of them at a time: U_kj = U_kk^-T (A_kj - sum over i of U_ik^T U_ij).
    for rows in blocks:
        above = work[: rows.start, rows].T
        work[rows, rows] -= above @ work[: rows.start, rows]
        try:
            lower = np.linalg.cholesky(work[rows, rows])
        except np.linalg.LinAlgError:
            return None
        work[rows, rows] = lower.T
        apply = partial(_finish_block, work, rows, above, np.linalg.inv(lower))
        rest = len(matrix) - rows.stop
        pieces = _blocks(len(matrix), rows.stop, _WIDE // 2)
        for _ in in_pieces(apply, pieces, float(rows.stop) * _BLOCK * rest):
            pass
    return work.T


def _finish_block(work: Array, rows: slice, above: Array, inverse: Array, columns: slice) -> None:
    rest = work[rows, columns] - above @ work[: rows.start, columns]
    work[rows, columns] = inverse @ rest
