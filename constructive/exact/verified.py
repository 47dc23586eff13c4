"""Verified linear algebra in float64: approximate solutions, rigorous bounds, T in thousands.

*Lemma.* Let Z (T, m) and R (m, T) be real matrices with q = |I - Z R| < 1 in the infinity norm.
Then for every r there is a c with Z c = r and |c| <= |R| |r| / (1 - q).
*Proof.* I - (I - Z R) = Z R is invertible by the Neumann series; c = R (Z R)^-1 r. QED

So Z has rank T, and kappa = |R| / (1 - q) bounds how far an exact readout is from one with
residuals r. Any R will do, so it is computed in plain float64; only q and |R| are bounded
rigorously. The computed product Z R is off by at most gamma_m |Z| |R| entry by entry, in whatever
order BLAS adds (Higham, section 3.5), and the row sums of |Z| |R| are those of |Z| (|R| 1).

Source: Rump, *Verification methods: rigorous results using floating-point arithmetic* (Acta
Numerica 2010), section 10, for the square case.
"""

import numpy as np
from scipy.linalg import lapack

from constructive.dataset import Array

_UNIT = 2.0**-53
_SLACK = 1.0 + 1e-9
"""Covers the rounding of a sum of up to 10^6 non-negative numbers, a few products included."""
_TINY = 1e-250
"""Covers underflow in as many products."""


def right_inverse_bound(midpoints: Array, error: float) -> float:
    """An upper bound of kappa for every Z (T, m) within `error` of `midpoints`, entry by entry.

    Infinite if float64 proves nothing, as for an ill-conditioned Z.

    >>> 1.0 <= right_inverse_bound(np.eye(3), 0.0) < 1.000001
    True
    >>> right_inverse_bound(np.ones((2, 2)), 0.0)
    inf
    """
    terms = max(midpoints.shape) + 16
    with np.errstate(all="ignore"):  # what overflows gives an infinity or a NaN, and proves nothing
        candidate = _approximate_right_inverse(midpoints)
        if candidate is None:
            return float("inf")
        sizes = np.abs(candidate)
        row_sums = sizes.sum(axis=1)
        defect = midpoints @ candidate
        defect[np.diag_indices_from(defect)] -= 1.0
        defects = np.abs(defect, out=defect).sum(axis=1)
        gamma = terms * _UNIT * _SLACK
        rounding = gamma * (np.abs(midpoints) @ row_sums) + gamma
        # Every entry of |Z - midpoints| |R| is at most error times a column sum of |R|.
        q = float((defects + rounding).max() + error * row_sums.sum()) * _SLACK + _TINY
        if not q < 1.0:
            return float("inf")
        bound = float(row_sums.max()) * _SLACK / (1.0 - q) * _SLACK + _TINY
    return bound if np.isfinite(bound) else float("inf")


def _approximate_right_inverse(matrix: Array) -> Array | None:
    """Z^T (Z Z^T)^-1 by Cholesky, or None where that fails."""
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
