"""The claim *executed*: |f - y| is within a bound in every evaluation of the layer in float32.

That is a statement about all programs which evaluate the layer by its formula, on any machine with
IEEE arithmetic: in real arithmetic f is near y, as in the claim *error*, and no evaluation is
farther from that than `layers.rounding` says, whatever order it sums in. What it assumes about exp,
and what it takes an evaluation to be, stand in the statement. It says nothing of TensorFloat32 or
of sums in fewer bits than float32.

Logits need not be exact. Where heads read small differences of large numbers, their logits are
not; then the bound is large, and says so where it is no less than the targets. Where weights and
data are such short numbers that all logits are exact, the statement says that, too.
"""

from fractions import Fraction

import numpy as np

from constructive.certificates.claims.error import ROOM
from constructive.certificates.claims.evaluation import Evaluation
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.exact.directed import at_most, percent, short_bound, upper
from constructive.exact.float_model import BLOCK, EXECUTED, EXP_ULPS, IN_WORDS
from constructive.exact.precision import working_precision
from constructive.layers.rounding import Rounding, rounding
from constructive.support.verdict import Claim, Verdict

STATEMENT = (
    "max |fl(f(E_t, e_t)) - y_t| <= {!r} in every IEEE evaluation fl, rounding to nearest, in "
    "float32, weights and data rounded to it first: each logit once{}, products of matrices in any "
    "order, " + IN_WORDS
)
EXACT = " and without error"
"""What is said of logits where all are exact, and nothing where some may not be."""
UNKNOWN = "fl(f(E_t, e_t)) is near y_t in every IEEE evaluation fl in float32"
"""The statement where nothing is bounded."""
_OTHERS = Fraction(1, 1 << 10)
"""Part of the bound of rounding by which others, who check it, may round it up."""


def judge(evaluation: Evaluation, found: Rounding, largest_target: float) -> Claim:
    """Add what rounding does to the largest error in real arithmetic.

    Args:
        evaluation: the layer on all examples
        found: what rounding does to each
        largest_target: the largest size of an entry of the targets
    """
    bounds = found.bounds.max(axis=1)
    worst = int(bounds.argmax())
    moved = float(bounds[worst])
    with working_precision(evaluation.prec):
        wide = max(residual.rad() for residual in evaluation.residuals.entries())
        real = upper(evaluation.largest_residual * ROOM + moved * 2.0**-20)
        narrow = wide <= moved
    finite = np.isfinite(moved) and np.isfinite(real)
    bound = short_bound(Fraction(real) + Fraction(moved) * (1 + _OTHERS)) if finite else np.inf
    if not np.isfinite(bound) or not narrow:
        detail = f"{evaluation.how} do not enclose the layer; raise max_prec="
        return Claim("executed", UNKNOWN, Verdict.UNDECIDED, detail)
    detail = (
        f"at most {at_most(real)} in real arithmetic, and {at_most(moved)} by rounding, at example "
        f"{worst}: {_logits(found, worst)}"
    )
    if bound >= largest_target:
        detail += (
            f"; vacuous, as no target is larger than {at_most(largest_target)}: logits of "
            "construction='generic' are smaller, more heads or a smaller saturated_fraction= may "
            "help"
        )
    statement = STATEMENT.format(bound, EXACT * (found.exact == 1.0), BLOCK, EXP_ULPS)
    evidence = {"bound": bound.hex(), "real": real.hex()}
    return Claim("executed", statement, Verdict.PROVED, detail, evidence=evidence)


def _logits(found: Rounding, example: int) -> str:
    """The part of a bound that is due to logits, in words."""
    if found.exact == 1.0:
        return "none of that by logits, which are exact"
    entry = int(found.bounds[example].argmax())
    share = float(found.logits[example, entry] / found.bounds[example, entry])
    words = f"{percent(share, 0)} of that by logits, which are off by "
    words += f"{at_most(float(found.logit_errors.max()))} at most"
    exact = percent(found.exact, 0, above=False)
    return words + (f", {exact} of them exact" if found.exact > 0.0 else "")


def _of(subject: Subject) -> Claim:
    """At more and more bits, if rounding has a bound."""
    layer = subject.layer.leading
    if layer is not subject.layer:
        detail = (
            f"{subject.layer.in_words}: a sum of several arrays is not evaluated in float32; "
            "precision=53 in build_memorizer"
        )
        return Claim("executed", UNKNOWN, Verdict.UNDECIDED, detail)
    found = rounding(layer, subject.dataset, EXECUTED["float32"], progress=subject.progress)
    beyond = np.flatnonzero(~np.isfinite(found.bounds).all(axis=1))
    if len(beyond):
        first = int(beyond[0])
        detail = (
            f"nothing bounds rounding at example {first}: products of weights and data may be "
            "beyond float32, or sums have more than 2^20 terms; scale contexts, queries or targets"
        )
        return Claim("executed", UNKNOWN, Verdict.UNDECIDED, detail, first)
    largest = float(np.abs(subject.dataset.targets).max())
    return subject.evaluations.judged_by(lambda evaluation: judge(evaluation, found, largest))


EXECUTED_IN_FLOAT32 = ClaimKind(_of)
