"""How far float32 evaluations of a graph are from its real values on a box, at most.

    S    largest sum of the sizes of all terms of a logit of a row of softmax
    K    most roundings of a term;  lost: what underflow takes
    eps  = gamma_(K + 2) S + lost               logits, and l - max l, which is at most 2 S in size
    w    = exp(2 eps) - 1                       by so large a part attention moves
    zeta = errors of averages of exact logits (`float_model.averaged`), those of exp included

    |computed - real| <= sum over rows of max |v| ((1 + w)(1 + zeta)(1 + gamma_s) - 1) + underflow

with s roundings of values, and of what follows. Where two outputs are compared, both are off. These
are all numbers of the file, so that none is rounded as it is loaded.

Where a graph takes exp of logits as they are, these are at most 80 on the box as they are computed,
and one of them is at least -40 everywhere: nothing overflows, and underflow takes e^40 < 2^58 times
more of the sum (and what roundings of logits take of it is in w).
"""

from fractions import Fraction

import numpy as np

from bounds import up
from dyadic import UNIT, fraction, interval
from files import require
from float_model import MODELS, averaged, gamma_of, steps_of
from operators import LARGEST
from rounding import growth
from softmaxes import highest, slopes_of

HIGHEST, LOWEST = 80, -40  # of logits that exp is taken of as they are
MOST = 1024  # terms of a sum of exponentials of logits as they are
KNOWN = {
    name: model
    for name, model in MODELS.items()
    if not (model.stored or model.free or model.constants or model.merged)
}


def rounding_of(outputs, weights, box, model):
    """A bound of what evaluations of a combination of outputs are off by: a float64.

    outputs: parts of each;  weights: pairs of an output and its integer factor
    """
    total = 0.0
    for output, weight in weights:
        for part in outputs[output]:
            total += abs(weight) * off(part, box, model)
    total = float(up(total))
    require(total < LARGEST, "what rounding does is not bounded")
    return total


def off(part, box, model):
    """The same for one row of softmax and its values."""
    logits, raw = part.row
    sizes = float(logits.sizes.max())
    require(max(1.0, sizes, part.size) * part.terms < LARGEST, "numbers may overflow")
    if raw:
        require(part.terms <= MOST, "sums of exponentials may overflow")
    steps = int(logits.steps.max()) + 2
    moved = gamma_of(model, steps) * sizes + 2.0 * logits.lost
    if raw:
        require_moderate(logits, box, moved)
    zeta, flushed = (float(x) for x in averaged(model, np.float64(part.terms)))
    flushed = flushed * 2.0**58 if raw else flushed
    larger = float(growth(up(2.0 * up(moved))))
    others = gamma_of(model, part.steps)
    factors = (1.0 + larger) * (1.0 + zeta) * (1.0 + others)
    # (1 + a)(1 + b)(1 + c) - 1 in terms, so that nothing cancels
    part_of = larger + zeta + others + larger * (zeta + others) + zeta * others * (1.0 + larger)
    below = flushed * max(1.0, part.size) * factors + 2.0 * part.lost * factors
    return float(up(up(part_of) * part.size + up(below)))


def require_moderate(logits, box, moved):
    """Bounds on the box of logits of which exp is taken as they are; they are off by `moved`."""
    slopes, unit = slopes_of(logits, box), logits.unit + UNIT
    offsets = logits.offsets * (1 << UNIT)
    most = max(highest(slopes, box) + offsets)
    least = max(offsets - highest(-slopes, box))
    low, high = interval(least, unit).a, interval(most, unit).b
    moderate = fraction(low) >= LOWEST and fraction(high) + Fraction(moved) <= HIGHEST
    require(moderate, "exp of logits as they are may overflow, or all may underflow")


def sentence(name):
    """What a float32 evaluation of a graph is."""
    words = [
        f"{name}: each operator of the graph once, from its numbers as they are",
        *steps_of(MODELS[name]),
        "no TF32 or bfloat16 execution, and no parts in fewer bits",
    ]
    return "; ".join(words)
