"""Verified linear algebra in float64: approximate solutions, rigorous bounds, T in thousands.

*Lemma.* Let Z (T, m) and R (m, T) be real matrices with `q = |I - Z R| < 1` in the infinity
norm. Then for every r there is a c with Z c = r and `|c| <= |R| |r| / (1 - q)`.
*Proof.* I - (I - Z R) = Z R is invertible by the Neumann series; c = R (Z R)^-1 r. QED

So Z has rank T, and `kappa = |R| / (1 - q)` bounds how far an exact readout is from one with
residuals r. Any R will do, so it is computed in plain float64; only q and `|R|` are bounded
rigorously. The computed product Z R is off by at most `gamma_m |Z| |R|` entry by entry, in whatever
order BLAS adds (Higham, section 3.5), and the row sums of `|Z| |R|` are those of `|Z| (|R| 1)`.

Source: Rump, *Verification methods: rigorous results using floating-point arithmetic* (Acta
Numerica 2010), section 10, for the square case.
"""

import numpy as np
from scipy.linalg import lapack

from constructive.exact.upward import LONGEST, gamma, up
from constructive.support.arrays import Array

_NEAR = 0.1  # q above which R is too far from a right inverse: its norm may be any number then
_STEPS = 3  # Candidates R that are tried, each a step of Newton's iteration from the one before


def right_inverse_bound(midpoints: Array, error: float) -> float:
    """Bound kappa for every Z (T, m) within `error` of `midpoints`, entry by entry.

    Infinite if float64 proves nothing, as for an ill-conditioned Z. It proves most where the rows
    of Z are of size one, and nothing false elsewhere.

    Example:
        >>> 1.0 <= right_inverse_bound(np.eye(3), 0.0) < 1.000001
        True
        >>> right_inverse_bound(np.ones((2, 2)), 0.0)
        inf
    """
    if max(midpoints.shape) > LONGEST:
        return float("inf")
    with np.errstate(all="ignore"):  # what overflows gives an infinity or a NaN, and proves nothing
        candidate = _approximate_right_inverse(midpoints)
        for _ in range(_STEPS):
            if candidate is None:
                break
            defect = midpoints @ candidate
            defect[np.diag_indices_from(defect)] -= 1.0
            row_sums = up(np.abs(candidate).sum(axis=1))
            # The diagonal is rounded once more. What underflows in a row of Z R is less than
            # LONGEST^2 2^-1075, and `up` has room for it.
            off = gamma(midpoints.shape[1] + 2) * (up(np.abs(midpoints) @ row_sums) + 1.0)
            defects = up(np.abs(defect).sum(axis=1) + off)
            # A row of |Z - midpoints| |R| sums to at most error times all entries of |R|.
            q = float(up(defects.max() + up(error * up(row_sums.sum()))))
            if q < _NEAR:
                return float(up(row_sums.max() / (1.0 - q)))
            candidate = candidate - candidate @ defect if q < 1.0 else None  # Newton
    return float("inf")


def _approximate_right_inverse(matrix: Array) -> Array | None:
    """Return Z^T (Z Z^T)^-1 by Cholesky, or None where that fails."""
    gram = matrix @ matrix.T
    factor, info = lapack.dpotrf(gram, lower=1)
    if info != 0:
        return None
    inverse, info = lapack.dpotri(factor, lower=1)
    if info != 0:
        return None
    inverse = np.tril(inverse) + np.tril(inverse, k=-1).T
    result: Array = matrix.T @ inverse
    return result
