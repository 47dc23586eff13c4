"""The claim *executed* of a decoder: whatever program of a model evaluates it recites the texts.

That is a statement about all programs of a named model (`exact.float_model`), on any machine with
IEEE arithmetic: the bound of what they round is less than the margin, for each other token
(`layers.causal.margins`). The statement says what a program of the model is, and what is assumed
about exp.
"""

from constructive.certificates.claims.decoders.subject import Subject
from constructive.exact.directed import percent
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

STATEMENT = (
    "at all {} positions of S = {} texts the next token has the largest logit for every program of "
    "the model {!r}: {}"
)
_ROOM = 1.0 - 2.0**-20
"""Of a margin may be taken, so that other ways to bound it find less than one."""


def prove(subject: Subject) -> Claim:
    """Prove it, or leave it undecided.

    Args:
        subject: decoder and text
    """
    text, model = subject.text, subject.model
    statement = STATEMENT.format(
        text.num_positions, text.num_texts, model.name, model.of_decoders()
    )
    try:
        margins = subject.margins
    except PrecisionError as failure:
        detail = f"{failure.problem}; {failure.suggestion}"
        return Claim("executed", statement, Verdict.UNDECIDED, detail)
    over = (~(margins.share < _ROOM)).nonzero()[0]
    if not len(over):
        worst = int(margins.share.argmax())
        place = subject.witness(worst)
        detail = (
            f"rounding takes {percent(float(margins.share[worst]))} of a margin at most, after "
            f"token {place[1]} of text {place[0]}"
        )
        evidence = {"model": model.name}
        return Claim("executed", statement, Verdict.PROVED, detail, evidence=evidence)
    first = int(over[0])
    place, share = subject.witness(first), float(margins.share[first])
    if share == float("inf"):
        detail = (
            f"vacuous: nothing bounds rounding after token {place[1]} of text {place[0]}: logits "
            "of heads or stored weights are not exact, sums may be out of range or longer than "
            "2^20 terms, or no margin is known"
        )
    else:
        detail = (
            f"after token {place[1]} of text {place[0]} rounding may take {percent(share)} of "
            f"the margin; {len(over)} positions are like that; more heads, or more bits in storage"
        )
    return Claim("executed", statement, Verdict.UNDECIDED, detail, place)
