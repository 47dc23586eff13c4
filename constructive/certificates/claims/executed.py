"""The claim *executed*: `|f - y|` of a layer is within a bound for all programs of a model.

In real arithmetic f is near y, as in the claim *error*, and no program of the model
(`exact.float_model`) is farther from that than `layers.exact_logits` says. Logits need not be
exact. Where heads read small differences of large numbers, their logits are not; then the bound is
large, and vacuous where no target is larger. Where weights and data are such short
numbers that all logits are exact, the statement says that, too.
"""

from fractions import Fraction

import numpy as np

from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.real import ROOM, Evaluation, Evaluations
from constructive.data.dataset import Dataset
from constructive.exact.directed import at_most, percent, short_bound, upper, working_precision
from constructive.exact.float_model import FloatModel, model_named
from constructive.layers.exact_logits import LogitRounding, rounding
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.verdict import Claim, Verdict

STATEMENT = "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}"
# What is said of a bound that is no less than the targets.
VACUOUS = " (vacuous, as no target is larger than {!r})"
# The statement where nothing is bounded.
UNKNOWN = "fl(f(E_t, e_t)) is near y_t for every program fl of the model {!r}"
# Part of the bound of rounding by which others, who check it, may round it up.
_OTHERS = Fraction(1, 1 << 10)


class Executed(ClaimKind):
    """The claim *executed* of a layer, which is made if it is asked for."""

    name = "executed"
    statement = STATEMENT
    options = frozenset({"model", "epsilon", "max_prec"})
    usual = False

    def require_options(self, weights: Memorizer, options: CertifyOptions) -> None:  # noqa: ARG002
        """Refuse a model that there is not. Raises ParameterError."""
        model_named(options.model)

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Judge it with more and more bits, if rounding has a bound."""
        layer = floats_of(subject.weights.layer)
        model = model_named(subject.options.model)
        unknown = UNKNOWN.format(model.name)
        if layer.leading is not layer:
            detail = (
                f"{layer.in_words}: a sum of several arrays is not evaluated in float32; "
                "precision=53 in build_memorizer"
            )
            return Claim("executed", unknown, Verdict.UNDECIDED, detail)
        found = rounding(layer.leading, subject.data, model)
        beyond = np.flatnonzero(~np.isfinite(found.bounds).all(axis=1))
        if len(beyond):
            first = int(beyond[0])
            detail = (
                f"vacuous: nothing bounds rounding at example {first}: products of weights and "
                "data may be beyond float32, or sums have more than 2^20 terms; scale contexts, "
                "queries or targets, or take another model="
            )
            return Claim("executed", unknown, Verdict.UNDECIDED, detail, first)
        largest, allowed = float(np.abs(subject.data.targets).max()), subject.options.epsilon
        return Evaluations.of(subject).judged_by(
            lambda evaluation: judge(evaluation, model, found, largest, allowed)
        )


def judge(
    evaluation: Evaluation,
    model: FloatModel,
    found: LogitRounding,
    largest: float,
    allowed: float | None,
) -> Claim:
    """Add what rounding does to the largest error of a layer in real arithmetic.

    `largest` is the size of the largest target, `allowed` the largest bound, or None for any.
    """
    unknown = UNKNOWN.format(model.name)
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
    vacuous = bound >= largest
    if vacuous:
        detail += (
            "; logits of construction='generic' are smaller, more heads or a smaller "
            "saturated_fraction= may help"
        )
    if allowed is not None and bound > allowed:
        detail += f"; that is more than epsilon={allowed!r}"
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    words = model.of_layers(exact=found.exact == 1.0)
    said = VACUOUS.format(largest) if vacuous else ""
    evidence = {"model": model.name, "bound": bound.hex(), "real": real.hex()}
    if vacuous:
        evidence["vacuous"] = largest.hex()
    statement = STATEMENT.format(bound, said, model.name, words)
    return Claim("executed", statement, Verdict.PROVED, detail, evidence=evidence)


def _logits(found: LogitRounding, example: int) -> str:
    """Return the part of a bound that is due to logits, in words."""
    if found.exact == 1.0:
        return "none of that by logits, which are exact"
    entry = int(found.bounds[example].argmax())
    share = float(found.logits[example, entry] / found.bounds[example, entry])
    words = f"{percent(share, 0)} of that by logits, which are off by "
    words += f"{at_most(float(found.logit_errors.max()))} at most"
    exact = percent(found.exact, 0, above=False)
    return words + (f", {exact} of them exact" if found.exact > 0.0 else "")


EXECUTED = Executed()
