"""What a kernel may do so that the answers hold bit for bit: the model of exact answers, in words.

The numbers are those that the hypotheses use; the sentence is made from them.
"""

from constructive.kernels.answer import LOGIT_ERROR
from constructive.kernels.cases.case import GAP
from constructive.kernels.hypotheses import MOST_KEYS
from constructive.kernels.spec import Spec

_WHERE = {"float64": (58, 80)}


def sentence(spec: Spec) -> str:
    """Return the model in words.

    Example:
        >>> sentence(Spec(dtype="bfloat16"))[:60]
        'logits from products of entries in any order, zero where all'
    """
    far, power = _WHERE.get(spec.dtype, (50, 70))
    gap = GAP.get(spec.dtype, 64.0)
    return (
        "logits from products of entries in any order, zero where all products are, else off by "
        f"at most {LOGIT_ERROR:g} of the sum of their sizes, equal products alike for all keys; "
        "weights exp(l - m), m the largest logit of visible keys, in one piece or of the blocks "
        f"so far, 1 at 0 and at most 2^-{power} where l - m <= -{far} (here gaps are {gap:g} or "
        f"more); hidden keys not read, or {far} or more below the winner; sums to nearest or "
        "toward zero in as many bits as the output has, or in float32 where an average needs more "
        "bits than the output has, normalised before or after the average, splits merged by their "
        f"maxima and sums; at most {MOST_KEYS} keys"
    )
