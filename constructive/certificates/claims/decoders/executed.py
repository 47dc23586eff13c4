"""The claim *executed*: every evaluation in float32 gives the next token, at every position.

That is a statement about all programs which evaluate the layer by its formula, in whatever order
they sum, on any machine with IEEE arithmetic: the bound of what they round (`exact.float_model`) is
less than the margin, for each other token (`layers.causal.margins`). Its assumption about exp, and
what it takes an evaluation to be, stand in the statement. It says nothing of TensorFloat32, of
sums in fewer bits than float32, or of logits of heads which are computed in yet another order.
"""

from constructive.certificates.claims.decoders.subject import Subject
from constructive.exact.directed import percent
from constructive.exact.float_model import BLOCK, EXP_ULPS, IN_WORDS
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

STATEMENT = (
    "at all {} positions of S = {} texts the next token has the largest logit in every IEEE "
    "evaluation, rounding to nearest, {}: queries and keys first or their matrix first, " + IN_WORDS
)
STORED = {
    "float32": "in float32",
    "bfloat16": "in float32, with weights, tokens, queries, keys, attention weights, averages, "
    "outputs and the last logits stored in bfloat16",
    "float16": "in float32, with weights, tokens, queries, keys, attention weights, averages, "
    "outputs and the last logits stored in float16, where underflow is gradual",
}


def prove(subject: Subject) -> Claim:
    """Prove it, or leave it undecided.

    Args:
        subject: decoder and text
    """
    text, storage = subject.text, subject.decoder.record.storage
    statement = STATEMENT.format(
        text.num_positions, text.num_texts, STORED[storage], BLOCK, EXP_ULPS
    )
    try:
        margins = subject.margins
    except PrecisionError as failure:
        detail = f"{failure.problem}; {failure.suggestion}"
        return Claim("executed", statement, Verdict.UNDECIDED, detail)
    over = (~(margins.share < 1.0)).nonzero()[0]
    if not len(over):
        worst = int(margins.share.argmax())
        place = subject.witness(worst)
        detail = (
            f"rounding takes {percent(float(margins.share[worst]))} of a margin at most, after "
            f"token {place[1]} of text {place[0]}"
        )
        return Claim("executed", statement, Verdict.PROVED, detail)
    first = int(over[0])
    place, share = subject.witness(first), float(margins.share[first])
    if share == float("inf"):
        detail = (
            f"nothing bounds rounding after token {place[1]} of text {place[0]}: logits of heads "
            "or stored weights are not exact, sums may be out of range, or no margin is known"
        )
    else:
        detail = (
            f"after token {place[1]} of text {place[0]} rounding may take {percent(share)} of "
            f"the margin; {len(over)} positions are like that; more heads, or more bits in storage"
        )
    return Claim("executed", statement, Verdict.UNDECIDED, detail, place)
