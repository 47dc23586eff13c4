"""The claim *readout*: some U' with Z U' = Y exactly is within delta of the stored readout U.

Let D be diagonal with the powers of two 2^(-e_t) that bring every context to size one, so that D Z
has rows of size one. Let r = Y - Z U be the residuals. If R is any matrix with
`|I - D Z R| = q < 1` (infinity norm), then U' = U + R (D Z R)^-1 D r is exact, and
`|U' - U| <= kappa max |D r|` with `kappa = |R| / (1 - q)` (`exact.verified`). For most layers
float64 finds such an R; for the ill-conditioned ones R is a right inverse of D Z in balls, where
q = 0.

U is the effective readout, of shape (H d, d_out): f = U^T z. Whether U' can be written in weights
of the stored shapes is another question; it can where d_v >= d_out.
"""

from collections.abc import Callable

import numpy as np
from flint import arb, arb_mat

from constructive.certificates.claims.error import (
    BOUNDED,
    Evaluation,
    Evaluations,
    scaled_representation,
)
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.exact import verified
from constructive.exact.balls import right_inverse_bound
from constructive.exact.directed import at_most, short_bound, working_precision
from constructive.layers.extended import enclose, intermediate
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.verdict import Claim, Verdict
from constructive.support.work import report

STATEMENT = (
    "some U' with Z U' = Y is within {!r} of the stored effective readout U (H d, d_out), "
    "entry by entry"
)
# The statement where no distance is shown.
UNKNOWN = "some U' with Z U' = Y is near the stored effective readout U (H d, d_out)"
# Entries of Z up to which an ill-conditioned one is inverted in balls (16 bytes a bit or so).
LARGEST_IN_BALLS = 2_000_000
_ROOM = 1.25  # What is claimed is this much more than what is shown, as a checker has another R
# A distance of exactly 0 is claimed as this part of the readout, for he rounds, too.
_LEAST = 2.0**-100


def judge(
    evaluation: Evaluation, delta: float | None, representation: Callable[[], arb_mat]
) -> Claim:
    """Bound the distance to an exact readout; without a delta, the claim is what was shown.

    The evaluation has kept Z; `representation` gives Z in balls, where float64 does not suffice.
    """
    if evaluation.midpoints is None:
        raise TypeError("the evaluation did not keep Z")
    if evaluation.bounded and delta is None and not evaluation.sharp:
        detail = f"{evaluation.how} show more than twice the distance; raise max_prec="
        return Claim("readout", UNKNOWN, Verdict.UNDECIDED, detail)
    with working_precision(evaluation.prec):
        kappa = arb(verified.right_inverse_bound(evaluation.midpoints, evaluation.radius))
        how = BOUNDED
        balls = not evaluation.bounded and evaluation.midpoints.size <= LARGEST_IN_BALLS
        if balls and not kappa.is_finite():
            z = scaled_representation(representation(), evaluation)
            kappa = right_inverse_bound(z, evaluation.prec)
            how = f"balls of {evaluation.prec} bits"
        bound = kappa * evaluation.largest_scaled_residual
        if bound == 0:
            bound = evaluation.readout * _LEAST
        shown = short_bound(bound * _ROOM) if delta is None else delta
        statement = STATEMENT.format(shown)
        if not bound.is_finite() or not np.isfinite(shown):
            detail = f"{how} find no right inverse of Z; raise max_prec="
            return Claim("readout", UNKNOWN, Verdict.UNDECIDED, detail)
        if not bound * _ROOM <= shown:
            detail = (
                f"{how} show a distance of at most {at_most(bound)}, and {_ROOM} times that may be "
                "claimed; raise max_prec= or delta="
            )
            return Claim("readout", statement, Verdict.UNDECIDED, detail)
    evidence = {"bound": shown.hex()}
    detail = f"distance at most {at_most(bound, shown)}; kappa = {at_most(kappa)} ({how})"
    return Claim("readout", statement, Verdict.PROVED, detail, evidence=evidence)


class Readout(ClaimKind):
    """The claim *readout*."""

    name = "readout"
    statement = STATEMENT
    options = frozenset({"delta", "max_prec"})
    needs_rows = True
    usual = False

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Bound the distance with more and more bits, unless Z looks singular."""
        layer, dataset = floats_of(subject.weights.layer), subject.data

        def with_bits(evaluation: Evaluation) -> Claim:
            report("bound the exact readout", 0, 1)
            prec = evaluation.prec
            return judge(
                evaluation,
                subject.options.delta,
                lambda: intermediate(enclose(layer, prec), dataset),
            )

        rank = subject.judged.get("rank")
        if rank is not None and not rank.proved:  # more bits would not find an exact readout
            return with_bits(next(iter(Evaluations.of(subject))))
        return Evaluations.of(subject).judged_by(with_bits)


READOUT = Readout()
