"""The claims about decoders: *rank*, *recites* and *executed* (docs/claims.md).

Margins are bounded in float64, with exponentials from balls (`recite.margins`). A decoder recites
its texts as executed if what programs round is bounded by less than the margin, for each other
token.
"""

from typing import Any

import numpy as np

from constructive.certificates.certificate import DECODER_FORMAT
from constructive.certificates.certify import ClaimFamily, describe_arrays
from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.rank import Rank
from constructive.exact import modular
from constructive.exact.directed import at_least, at_most, percent
from constructive.exact.float_model import FloatModel, model_named
from constructive.exact.softmax import Point, Residues
from constructive.layers import residues
from constructive.layers.attention import CausalView
from constructive.layers.residues import Search
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder
from constructive.recite.margins import Margins, added_tokens, recital
from constructive.support.arrays import Array, Integers
from constructive.support.errors import PrecisionError
from constructive.support.files import digest
from constructive.support.verdict import Claim, Verdict
from constructive.support.work import report

# The share of a margin that is stated, so that other ways to bound it reach it.
_ROOM = 1.0 - 2.0**-20


class DecoderRank(Rank):
    """The claim *rank*, with a row for each different context.

    Contexts at one position with the same tokens in their window are one.
    """

    statement = (
        "rank Z = R = {} on the different contexts: for all Y some readout U ((H + 1) d, d_out) "
        "has Z U = Y"
    )
    advice = "more heads, or every=True for few parameters"

    def is_usual(self, weights: Decoder) -> bool:
        """Return whether the construction promises the rank.

        Few parameters, whose positions are periodic, promise that the text is recited: positions
        with inequalities alone, and tokens in a row, may leave Z with fewer independent rows.
        """
        enough = weights.layer.inner_dim >= weights.record.num_positions
        return weights.longest is None and enough

    def judge(self, subject: Subject[Decoder, Text]) -> Claim:
        """Eliminate one row of each context."""
        decoder, text = subject.weights, subject.data
        layer = decoder.layer
        wanted = text.different(layer.window)
        count, columns = len(wanted), layer.inner_dim

        def search() -> Search:
            added_tokens(decoder, text)  # residues are of sums, which have to be those of float32
            return residues.search_rows(
                lambda point, chosen: _rows(decoder, text, wanted, point, chosen),
                count,
                (layer.num_heads + 1, layer.width),
                subject.rng,
            )

        refutation = f"Z has {columns} columns, fewer than {count} contexts", columns
        return self.judged(subject, count, refutation if count > columns else None, search)


def _rows(decoder: Decoder, text: Text, wanted: Integers, point: Point, columns: Integers) -> Array:
    """Return some columns of Z(a) modulo p, with a row for each place: (R, columns)."""
    number = np.full(len(text) + 1, -1)  # the last one stands for what is filled up
    number[wanted] = np.arange(len(wanted))
    codes = np.concatenate([decoder.embedding, decoder.positions])
    exponent = modular.least_exponent(codes)  # sums of these are multiples of it, too
    arithmetic, layer = Residues(point, exponent, exponent), decoder.layer
    weights = layer.query_weights, layer.key_weights
    rows, done = np.empty((len(wanted), len(columns))), 0
    for batch in text.batches():
        index = number[batch.places]
        view = CausalView(decoder.embedded(batch.ids), layer.window)

        def stored(at: Any, z: Array, index: Integers = index) -> int:  # noqa: ANN401 - an index
            where = index[at]
            rows[where[where >= 0]] = z[where >= 0]
            return int(where.size)

        for count in residues.attended(arithmetic, weights, view, columns, stored, skip=True):
            report("attend modulo a prime", done, len(text))
            done += count
    report("eliminate modulo a prime", 0, 1)
    return rows


class Recites(ClaimKind):
    """The claim *recites*."""

    name = "recites"
    statement = (
        "at all {} positions of S = {} texts the next token has the largest logit, by {} or more, "
        "in real arithmetic"
    )

    def judge(self, subject: Subject[Decoder, Text]) -> Claim:
        """Look at the smallest margin, and at the one which is surely lost."""
        text = subject.data
        sizes = text.num_positions, text.num_texts
        try:
            margins = _real_margins(subject)
        except PrecisionError as failure:
            return self.undecided(self.statement.format(*sizes, "0.0"), failure)
        worst = int(margins.least.argmin())
        least = float(margins.least[worst])
        bound = float(at_least(least * _ROOM)) if least > 0.0 else 0.0
        statement = self.statement.format(*sizes, repr(bound))
        place = position(subject, margins, worst)
        if bound > 0.0:
            detail = f"the smallest margin is that after token {place[1]} of text {place[0]}"
            return Claim(
                "recites", statement, Verdict.PROVED, detail, evidence={"bound": bound.hex()}
            )
        beaten = int(margins.most.argmin())
        if margins.most[beaten] <= 0.0:
            place = position(subject, margins, beaten)
            detail = (
                f"after token {place[1]} of text {place[0]} another logit is as large, or larger "
                f"by up to {at_most(-float(margins.least[beaten]))}"
            )
            return Claim("recites", statement, Verdict.REFUTED, detail, place)
        detail = (
            f"after token {place[1]} of text {place[0]} the margin is "
            f"-{at_most(-least)} or more, which may "
            "be none; more heads, or a larger width"
        )
        return Claim("recites", statement, Verdict.UNDECIDED, detail)


class DecoderExecuted(ClaimKind):
    """The claim *executed*: so it has for every program of a model (`exact.float_model`)."""

    name = "executed"
    options = frozenset({"model"})
    statement = (
        "at all {} positions of S = {} texts the next token has the largest logit for every "
        "program of the model {!r}: {}"
    )

    def require_options(self, weights: Decoder, options: CertifyOptions) -> None:
        """Refuse a model that there is not. Raises ParameterError."""
        model_of(weights, options)

    def judge(self, subject: Subject[Decoder, Text]) -> Claim:
        """Prove it, or leave it undecided."""
        text, model = subject.data, model_of(subject.weights, subject.options)
        sizes = text.num_positions, text.num_texts
        statement = self.statement.format(*sizes, model.name, model.of_decoders())
        try:
            margins = margins_of(subject)
        except PrecisionError as failure:
            return self.undecided(statement, failure)
        share = margins.share
        over = (~(share < _ROOM)).nonzero()[0]
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


def _real_margins(subject: Subject[Decoder, Text]) -> Margins:
    """Return the margins, of which real arithmetic counts, whatever the model. As `margins_of`."""
    try:
        return margins_of(subject)
    except PrecisionError:
        if model_of(subject.weights, subject.options).factors is None:
            raise
        usual = model_named(None, subject.weights.record.storage)
        return recital(subject.weights, subject.data, model=usual)


def model_of(decoder: Decoder, options: CertifyOptions) -> FloatModel:
    """Return the model that is asked for, or that of the decoder's storage."""
    return model_named(options.model, decoder.record.storage, decoder=True)


def margins_of(subject: Subject[Decoder, Text]) -> Margins:
    """Return the margins of all positions, which are bounded once for all claims.

    Raises PrecisionError where there are none.
    """
    decoder = subject.weights
    model = model_of(decoder, subject.options)
    return subject.once(Margins, lambda: recital(decoder, subject.data, model=model))


def position(subject: Subject[Decoder, Text], margins: Margins, index: int) -> tuple[int, int]:
    """Return the position of a margin, as text and token."""
    text, token = subject.data.position(int(margins.places[index]))
    return int(text), int(token)


DECODER_RANK, RECITES, DECODER_EXECUTED = DecoderRank(), Recites(), DecoderExecuted()


# What a certificate says that it is about.


def _describe(weights: Decoder, data: Text) -> tuple[dict[str, Any], dict[str, Any]]:
    weights.require_same_tokens(data)
    about_text = {
        "texts": data.num_texts,
        "tokens": len(data),
        "vocabulary": len(data.vocabulary),
        "sha256": digest(data.content()),
    }
    more = {"window": weights.layer.window, "storage": weights.record.storage}
    return about_text, describe_arrays(weights.tensors) | more | weights.periodic


FAMILY = ClaimFamily(
    "decoders",
    Text,
    DECODER_FORMAT,
    {kind.name: kind for kind in (DECODER_RANK, RECITES, DECODER_EXECUTED)},
    _describe,
)
