"""The claim *recites*: in real arithmetic the next token has the largest logit, at every position.

So greedy decoding from each prompt gives the text, and ends where it ends. The margins are bounded
in float64, with exponentials from balls (`layers.causal.margins`).
"""

from constructive.certificates.claims.decoders.subject import Subject
from constructive.exact.directed import at_least, at_most
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

STATEMENT = (
    "at all {} positions of S = {} texts the next token has the largest logit, by {} or more, in "
    "real arithmetic"
)
_ROOM = 1.0 - 2.0**-20
"""Of the margin is left, so that other ways to bound it reach what is stated."""


def prove(subject: Subject) -> Claim:
    """Prove or refute it.

    Args:
        subject: decoder and text
    """
    text = subject.text
    sizes = text.num_positions, text.num_texts
    try:
        margins = subject.margins
    except PrecisionError as failure:
        statement = STATEMENT.format(*sizes, "0.0")
        detail = f"{failure.problem}; {failure.suggestion}"
        return Claim("recites", statement, Verdict.UNDECIDED, detail)
    worst = int(margins.least.argmin())
    least = float(margins.least[worst])
    bound = float(at_least(least * _ROOM)) if least > 0.0 else 0.0
    statement = STATEMENT.format(*sizes, repr(bound))
    place = subject.witness(worst)
    if bound > 0.0:
        detail = f"the smallest margin is that after token {place[1]} of text {place[0]}"
        return Claim("recites", statement, Verdict.PROVED, detail, evidence={"bound": bound.hex()})
    beaten = int(margins.most.argmin())
    if margins.most[beaten] <= 0.0:
        place = subject.witness(beaten)
        detail = (
            f"after token {place[1]} of text {place[0]} another logit is as large, or larger by up "
            f"to {at_most(-float(margins.least[beaten]))}"
        )
        return Claim("recites", statement, Verdict.REFUTED, detail, place)
    detail = (
        f"after token {place[1]} of text {place[0]} the margin is "
        f"-{at_most(-least)} or more, which may "
        "be none; more heads, or a larger width"
    )
    return Claim("recites", statement, Verdict.UNDECIDED, detail)
