"""The claim *executed*: |f - y| is within a bound whatever program of a model evaluates the layer.

That is a statement about all programs of a named model (`exact.float_model`), on any machine with
IEEE arithmetic: in real arithmetic f is near y, as in the claim *error*, and no program is farther
from that than `layers.rounding` says. The statement says what a program of the model is, and what
is assumed about exp.

Logits need not be exact. Where heads read small differences of large numbers, their logits are
not; then the bound is large, and vacuous where it is no less than the targets. Where weights and
data are such short numbers that all logits are exact, the statement says that, too.
"""

from fractions import Fraction

import numpy as np

from constructive.certificates.claims.error import ROOM
from constructive.certificates.claims.evaluation import Evaluation
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.exact.directed import at_most, percent, short_bound, upper
from constructive.exact.precision import working_precision
from constructive.layers.rounding import Rounding, rounding
from constructive.support.verdict import Claim, Verdict

STATEMENT = "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}"
VACUOUS = " (vacuous, as no target is larger than {!r})"
"""What is said of a bound that is no less than the targets."""
UNKNOWN = "fl(f(E_t, e_t)) is near y_t for every program fl of the model {!r}"
"""The statement where nothing is bounded."""
_OTHERS = Fraction(1, 1 << 10)
"""Part of the bound of rounding by which others, who check it, may round it up."""


def judge(evaluation: Evaluation, subject: Subject, found: Rounding) -> Claim:
    """Add what rounding does to the largest error in real arithmetic.

    Args:
        evaluation: the layer on all examples
        subject: whose model rounds
        found: what rounding does to each
    """
    model, unknown = subject.model, UNKNOWN.format(subject.model.name)
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
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    detail = (
        f"at most {at_most(real)} in real arithmetic, and {at_most(moved)} by rounding, at example "
        f"{worst}: {_logits(found, worst)}"
    )
    largest = float(np.abs(subject.dataset.targets).max())
    vacuous = bound >= largest
    if vacuous:
        detail += (
            "; logits of construction='generic' are smaller, more heads or a smaller "
            "saturated_fraction= may help"
        )
    if subject.allowed is not None and bound > subject.allowed:
        detail += f"; that is more than epsilon={subject.allowed!r}"
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    words = model.of_layers(exact=found.exact == 1.0)
    said = VACUOUS.format(largest) if vacuous else ""
    evidence = {"model": model.name, "bound": bound.hex(), "real": real.hex()}
    if vacuous:
        evidence["vacuous"] = largest.hex()
    statement = STATEMENT.format(bound, said, model.name, words)
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
    """Judge it with more and more bits, if rounding has a bound."""
    layer, unknown = subject.layer.leading, UNKNOWN.format(subject.model.name)
    if layer is not subject.layer:
        detail = (
            f"{subject.layer.in_words}: a sum of several arrays is not evaluated in float32; "
            "precision=53 in build_memorizer"
        )
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    found = rounding(layer, subject.dataset, subject.model)
    beyond = np.flatnonzero(~np.isfinite(found.bounds).all(axis=1))
    if len(beyond):
        first = int(beyond[0])
        detail = (
            f"vacuous: nothing bounds rounding at example {first}: products of weights and data "
            "may be beyond float32, or sums have more than 2^20 terms; scale contexts, queries or "
            "targets, or take another model="
        )
        return Claim("executed", unknown, Verdict.UNDECIDED, detail, first)
    return subject.evaluations.judged_by(lambda evaluation: judge(evaluation, subject, found))


EXECUTED = ClaimKind(_of)
