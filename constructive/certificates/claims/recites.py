"""The claim *recites*: in real arithmetic the next token has the largest logit, at every position.

So greedy decoding from each prompt gives the text, and ends where it ends. The margins are bounded
in float64, with exponentials from balls (`layers.margins`).
"""

from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.data.corpus import Text
from constructive.exact.directed import at_least, at_most
from constructive.exact.float_model import FloatModel, model_named
from constructive.layers.decoder import Decoder
from constructive.layers.margins import Margins, recital
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

# Of the margin is left, so that other ways to bound it reach what is stated.
_ROOM = 1.0 - 2.0**-20


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


RECITES = Recites()
