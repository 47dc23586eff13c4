"""Step 5. The readout solves Z U = Y.

Z (T, H d) has more columns than rows, and every U with Z U = Y memorizes. Of these the shortest is
taken: small readouts amplify the rounding of the layer least, on other machines and in float32.

Both ways to it factor Z Z^T = L L^T with L lower triangular:

- Cholesky of the Gram matrix, U = Z^T (Z Z^T)^-1 Y, with one step of iterative refinement on the
  true Z. It squares the condition number of Z, so it is kept only if its residual is small.
- QR of Z^T = Q L^T, U = Q L^-1 Y: several times the work, for ill-conditioned Z.

Entry (t, t) of L is the distance of row t of Z to the span of the rows before it. So the number of
entries above rounding, up to the last example of a group, estimates the rank that the induction of
`intermediate` reaches there. It is an estimate in floats, and labelled so.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, qr, solve_triangular

from constructive.support import blocks
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.work import in_pieces

_GRAM_RESIDUAL = 1e-9  # Relative residual up to which the readout from the Gram matrix is kept


@dataclass(frozen=True, eq=False)
class SolvedReadout:
    """The shortest U with Z U = Y.

    effective: U (H d, d_out);  condition: estimated condition number of Z, in the 1-norm
    ranks: (H,), estimated rank of Z on the examples of the first h groups
    residuals: (d_out,), max |Z U - Y| over the examples
    """

    effective: Array
    condition: float
    ranks: tuple[int, ...]
    residuals: Array


def solve(z: Array, targets: Array, group_ends: Integers) -> SolvedReadout:
    """Solve Z U = Y for Z (T, H d) and Y (T, d_out). A singular Z only shows in the residual.

    group_ends: (H,), the number of examples in the groups of each head and those before it
    """
    targets = targets.astype(np.float64, copy=False)
    allowed = _GRAM_RESIDUAL * np.abs(targets).max(axis=0)
    with np.errstate(all="ignore"):  # a singular Z overflows here, and is reported as such
        solution = _by_gram(z, targets)
        if solution is None or not (solution.residuals <= allowed).all():
            solution = _by_qr(z, targets)
    smallest = np.finfo(np.float64).eps * max(z.shape) * solution.distances.max()
    reached = np.concatenate([[0], np.cumsum(solution.distances > smallest)])
    return SolvedReadout(
        solution.effective,
        solution.condition,
        tuple(reached[group_ends].tolist()),
        solution.residuals,
    )


class _Solution(NamedTuple):
    effective: Array
    distances: Array
    condition: float
    residuals: Array


def _by_gram(z: Array, targets: Array) -> _Solution | None:
    """Return the readout by Cholesky, or None where the Gram matrix is not positive in float64."""
    gram = blocks.gram(z)

    def norm_of(rows: slice) -> float:
        return float(np.abs(gram[rows]).sum(axis=1).max())

    norm = max(in_pieces(norm_of, row_chunks(len(gram), 1, 256), float(gram.size)))
    factor = blocks.cholesky(gram)
    if factor is None or not np.isfinite(norm):
        return None
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    condition = _estimate(np.sqrt(1.0 / reciprocal)) if reciprocal > 0 else float("inf")
    effective = z.T @ lapack.dpotrs(factor, targets, lower=1)[0]
    effective += z.T @ lapack.dpotrs(factor, targets - z @ effective, lower=1)[0]
    return _Solution(
        effective, np.diagonal(factor).copy(), condition, largest(z @ effective - targets)
    )


def _estimate(condition: float) -> float:
    """Round to six digits: LAPACK's sums of sizes depend on where arrays lie in memory."""
    return float(f"{condition:.6g}")


def _by_qr(z: Array, targets: Array) -> _Solution:
    basis, triangle = qr(z.T, mode="economic", check_finite=False)
    distances = np.abs(np.diagonal(triangle))
    if not distances.all():
        nothing = np.zeros((z.shape[1], targets.shape[1]))
        return _Solution(nothing, distances, float("inf"), largest(z @ nothing - targets))
    reciprocal, _ = lapack.dtrcon(triangle, norm="1", uplo="U")
    condition = _estimate(1.0 / reciprocal) if reciprocal > 0 else float("inf")
    effective = basis @ solve_triangular(triangle, targets, trans="T", check_finite=False)
    correction = targets - z @ effective
    effective += basis @ solve_triangular(triangle, correction, trans="T", check_finite=False)
    return _Solution(effective, distances, condition, largest(z @ effective - targets))


def largest(residuals: Array) -> Array:
    """Return the largest `|f - y|` for each entry of the targets (d_out,), infinite if it is NaN.

    residuals: (T, d_out)
    """
    found = np.abs(residuals).max(axis=0)
    return np.where(np.isfinite(found), found, np.inf)
