"""What a kernel may do so that the answers hold bit for bit: the model of exact answers, in words.

The numbers are those that the hypotheses use; the sentence is made from them.
"""

from constructive.exact.float_model import power
from constructive.kernels.answer import EXP_ERROR, LOGIT_ERROR, TANH_ERROR, far
from constructive.kernels.cases import GAP
from constructive.kernels.hypotheses import MOST_KEYS
from constructive.kernels.spec import Spec


def sentence(spec: Spec) -> str:
    """Return the model in words.

    Example:
        >>> sentence(Spec(dtype="bfloat16"))[:60]
        'logits from products of entries in any order, zero where all'
    """
    below, least = far(spec)
    gap, inputs, output = GAP.get(spec.dtype, 64.0), spec.inputs, spec.output
    cap = f"tanh off by at most {power(TANH_ERROR)} of itself; "
    stored = f"weights may be rounded to normal numbers of {inputs.name}"
    if spec.dtype == "tf32":
        stored = f"operands of products may be rounded or cut off to {inputs.digits} bits"
    elif inputs.digits < output.digits:
        stored += " before they are divided"
    sums = (
        "as many bits as the output has, or in float32 where an average needs more bits than the "
        "output has"
    )
    if spec.soft_cap is not None:
        sums = "float64" if output.name == "float64" else "float32"
    return (
        "logits from products of entries in any order, zero where all products are, else off by "
        f"at most {LOGIT_ERROR:g} of the sum of their sizes, equal products alike for all keys; "
        f"{cap if spec.soft_cap is not None else ''}"
        "weights exp(l - m), m the largest logit of visible keys, in one piece or of the blocks "
        f"so far, 1 at 0, else off by at most {power(EXP_ERROR)} of themselves or at most "
        f"2^-{least} where l - m <= -{below} (here gaps are {gap:g} or more); {stored}; hidden "
        f"keys not read, or {below} or more below the winner; sums to nearest or toward zero in "
        f"{sums}, normalised before or after the average, splits merged by their maxima and sums; "
        f"at most {MOST_KEYS} keys"
    )
