"""The claim *readout*: some U' with Z U' = Y exactly is within delta of the stored readout U.

Let r = Y - Z U be the residuals. If R is any matrix with |I - Z R| = q < 1 (infinity norm), then
U' = U + R (Z R)^-1 r is exact, and |U' - U| <= kappa max |r| with kappa = |R| / (1 - q)
(`exact.verified`). For most layers float64 finds such an R; for the ill-conditioned ones R is
Z^T (Z Z^T)^-1 in balls, where q = 0.
"""

from collections.abc import Callable

import numpy as np
from flint import arb_mat

from constructive.claims.error import upwards
from constructive.claims.evaluation import Evaluation
from constructive.exact import ball, verified
from constructive.verdict import Claim, Verdict

LARGEST_IN_BALLS = 2_000_000
"""Entries of Z up to which an ill-conditioned one is inverted in balls (16 bytes a bit or so)."""
_SMALLEST = 1e-100
"""No smaller distance is claimed unasked: a checker may have to round up."""


def judge(
    evaluation: Evaluation, delta: float | None, representation: Callable[[], arb_mat]
) -> Claim:
    """Bound the distance to an exact readout; without a delta, the claim is what was shown.

    representation: gives Z in balls, where float64 does not suffice
    """
    if evaluation.midpoints is None:
        raise TypeError("the evaluation did not keep Z")
    kappa = verified.right_inverse_bound(evaluation.midpoints, evaluation.radius)
    how = "float64 with a-priori bounds"
    if not np.isfinite(kappa) and evaluation.midpoints.size <= LARGEST_IN_BALLS:
        kappa = ball.right_inverse_bound(representation(), evaluation.prec)
        how = f"balls of {evaluation.prec} bits"
    residual = float(evaluation.largest_residual) * (1 + 2.0**-50)
    bound = kappa * residual * (1 + 2.0**-50)
    if residual == 0:
        bound = 0.0 if np.isfinite(kappa) else float("inf")
    shown = delta if delta is not None else float(upwards(max(1.01 * bound, _SMALLEST)))
    statement = f"an exact readout is within {shown!r} of the stored one, entry by entry"
    if not bound <= shown or not np.isfinite(bound):
        detail = f"{how} show a distance of at most {bound:.1e}; raise max_prec= or delta="
        if not np.isfinite(bound):
            statement = "an exact readout is near the stored one"
            detail = f"{how} find no right inverse of Z; raise max_prec="
        return Claim("readout", statement, Verdict.UNDECIDED, detail)
    evidence = {"bound": float(shown).hex()}
    detail = f"distance at most kappa max |r| = {kappa:.1e} * {residual:.1e} ({how})"
    return Claim("readout", statement, Verdict.PROVED, detail, evidence=evidence)
