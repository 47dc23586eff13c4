"""Step 5. The readout solves Z U = Y.

Z (T, H d) has more columns than rows, and every U with Z U = Y memorizes. Of these the shortest is
taken: small readouts amplify the rounding of the layer least, on other machines and in float32.

Both ways to it factor Z Z^T = L L^T with L lower triangular:

- Cholesky of the Gram matrix, U = Z^T (Z Z^T)^-1 Y, with one step of iterative refinement on the
  true Z. It squares the condition number of Z, so it is kept only while that leaves digits to
  refine.
- QR of Z^T = Q L^T, U = Q L^-1 Y: several times the work, for ill-conditioned Z.

Entry (t, t) of L is the distance of row t of Z to the span of the rows before it. So the number of
entries above rounding, up to the last example of a group, estimates the rank that the induction of
`intermediate` reaches there. It is an estimate in floats, and labelled so.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr, solve_triangular

from constructive.dataset import Array
from constructive.multihead.intermediate import Intermediate

_GRAM_CONDITION = 1e12
"""Beyond this condition number of the Gram matrix, refinement gains too few digits."""


@dataclass(frozen=True, eq=False)
class Readout:
    """The shortest U with Z U = Y.

    effective: U (H d, d_out);  condition: estimated condition number of Z, in the 1-norm
    ranks: (H,), estimated rank of Z on the examples of the first h groups;  residual: max |Z U - Y|
    """

    effective: Array
    condition: float
    ranks: tuple[int, ...]
    residual: float


def solve(intermediate: Intermediate, targets: Array) -> Readout:
    """Solve Z U = Y for targets Y (T, d_out). A singular Z only shows in the residual."""
    z = intermediate.representation
    targets = targets.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):  # a singular Z overflows here, and is reported as such
        solution = _by_gram(z, targets)
        if solution is None:
            solution = _by_qr(z, targets)
        effective, distances, condition = solution
        residual = np.abs(z @ effective - targets).max()
    independent = distances > np.finfo(np.float64).eps * max(z.shape) * distances.max()
    reached = np.concatenate([[0], np.cumsum(independent)])[intermediate.group_ends]
    return Readout(
        effective,
        float(condition),
        tuple(reached.tolist()),
        float(residual) if np.isfinite(residual) else float("inf"),
    )


def _by_gram(z: Array, targets: Array) -> tuple[Array, Array, float] | None:
    gram = z @ z.T
    norm = np.abs(gram).sum(axis=0).max()
    # LAPACK reads columns, so the transpose of a symmetric matrix saves a copy.
    factor, info = lapack.dpotrf(gram.T, lower=1, clean=0, overwrite_a=1)
    if info != 0 or not np.isfinite(norm):
        return None
    reciprocal, _ = lapack.dpocon(factor, norm, uplo="L")
    if reciprocal * _GRAM_CONDITION < 1.0:
        return None
    dual = np.asfortranarray(lapack.dpotrs(factor, targets, lower=1)[0])
    correction = targets - z @ (z.T @ dual)
    dual += lapack.dpotrs(factor, correction, lower=1)[0]
    return z.T @ dual, np.diagonal(factor), np.sqrt(1.0 / reciprocal)


def _by_qr(z: Array, targets: Array) -> tuple[Array, Array, float]:
    basis, triangle = qr(z.T, mode="economic", check_finite=False)
    distances = np.abs(np.diagonal(triangle))
    reciprocal, _ = lapack.dtrcon(triangle, norm="1", uplo="U")
    condition = 1.0 / reciprocal if reciprocal > 0 else np.inf
    if not distances.all():
        return np.zeros((z.shape[1], targets.shape[1])), distances, np.inf
    effective = basis @ solve_triangular(triangle, targets, trans="T", check_finite=False)
    correction = targets - z @ effective
    effective += basis @ solve_triangular(triangle, correction, trans="T", check_finite=False)
    return effective, distances, condition
