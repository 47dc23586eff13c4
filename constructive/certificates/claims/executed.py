"""The claim *executed*: what holds whatever program of a model evaluates a layer or a decoder.

That is a statement about all programs of a named model (`exact.float_model`), on any machine with
IEEE arithmetic. It says what a program of the model is, and what is assumed about exp.

- `|f - y|` of a layer is within a bound: in real arithmetic f is near y, as in the claim *error*,
  and no program is farther from that than `layers.exact_logits` says.
- A decoder recites its texts: the bound of what programs round is less than the margin, for each
  other token (`layers.margins`).

Logits need not be exact. Where heads read small differences of large numbers, their logits are
not; then the bound is large, and vacuous where it is no less than the targets. Where weights and
data are such short numbers that all logits are exact, the statement says that, too.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.real import ROOM, Evaluation, Evaluations
from constructive.certificates.claims.recites import margins_of, model_of, position
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.exact.directed import at_most, percent, short_bound, upper, working_precision
from constructive.exact.float_model import FloatModel, model_named
from constructive.layers.decoder import Decoder
from constructive.layers.exact_logits import LogitRounding, rounding
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

STATEMENT = "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}"
# What is said of a bound that is no less than the targets.
VACUOUS = " (vacuous, as no target is larger than {!r})"
# The statement where nothing is bounded.
UNKNOWN = "fl(f(E_t, e_t)) is near y_t for every program fl of the model {!r}"
# Part of the bound of rounding by which others, who check it, may round it up.
_OTHERS = Fraction(1, 1 << 10)
# Of a margin may be taken, so that other ways to bound it find less than one.
_MARGIN_ROOM = 1.0 - 2.0**-20


class Executed(ClaimKind):
    """The claim *executed*, of a layer or of a decoder."""

    name = "executed"
    options = frozenset({"model"})

    def require_options(self, weights: Any, options: CertifyOptions) -> None:  # noqa: ANN401
        """Refuse a model that there is not. Raises ParameterError."""
        self.model(weights, options)

    def model(self, weights: Any, options: CertifyOptions) -> FloatModel:  # noqa: ANN401, ARG002
        """Return how programs round, as they store weights and logits."""
        return model_named(options.model)


class LayerExecuted(Executed):
    """The claim about a layer, which is made if it is asked for."""

    statement = STATEMENT
    options = frozenset({"model", "epsilon", "max_prec"})
    usual = False

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Judge it with more and more bits, if rounding has a bound."""
        layer = floats_of(subject.weights.layer)
        model = self.model(subject.weights, subject.options)
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


class DecoderExecuted(Executed):
    """The claim about a decoder."""

    statement = (
        "at all {} positions of S = {} texts the next token has the largest logit for every "
        "program of the model {!r}: {}"
    )

    def model(self, weights: Decoder, options: CertifyOptions) -> FloatModel:
        """Return how programs round that store as the decoder does."""
        return model_of(weights, options)

    def judge(self, subject: Subject[Decoder, Text]) -> Claim:
        """Prove it, or leave it undecided."""
        text, model = subject.data, self.model(subject.weights, subject.options)
        sizes = text.num_positions, text.num_texts
        statement = self.statement.format(*sizes, model.name, model.of_decoders())
        try:
            margins = margins_of(subject)
        except PrecisionError as failure:
            return self.undecided(statement, failure)
        share = margins.share
        over = (~(share < _MARGIN_ROOM)).nonzero()[0]
        index = int(over[0]) if len(over) else int(share.argmax())
        place, taken = position(subject, margins, index), float(share[index])
        after = f"after token {place[1]} of text {place[0]}"
        if not len(over):
            detail = f"rounding takes {percent(taken)} of a margin at most, {after}"
            evidence = {"model": model.name}
            return Claim("executed", statement, Verdict.PROVED, detail, evidence=evidence)
        if taken == float("inf"):
            detail = (
                f"vacuous: nothing bounds rounding {after}: logits of heads or stored weights are "
                "not exact, sums may be out of range or longer than 2^20 terms, or no margin is "
                "known"
            )
        else:
            detail = (
                f"{after} rounding may take {percent(taken)} of the margin; {len(over)} positions "
                "are like that; more heads, or more bits in storage"
            )
        return Claim("executed", statement, Verdict.UNDECIDED, detail, place)


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


EXECUTED = LayerExecuted()
DECODER_EXECUTED = DecoderExecuted()
