"""Sums of softmax heads w . f(x) = sum_h v_h . softmax(A_h x + b_h) on a box, exactly.

`heads_of` combines outputs; `least_at` bounds the sum at one input from below, `most_by_slabs` and
`most_by_intervals` on the whole box from above. All numbers of the heads, of the box and of the
input are integers in their units, and only logarithms and exponentials are intervals.

Slabs. For a head with values v and a number c, let lambda > 0 on some tokens with v_j < c, of sum
1, and m(x) = sum_j lambda_j (l_j(x) + ln((c - v_j) / lambda_j)). If, where a <= g . x <= b,

    sum over v_i > c of (v_i - c) exp(max over the box (l_i - m - mu_i g . x) + max(mu_i a, mu_i b))

is at most 1, then the head is at most c there: sum_{v_i > c} (v_i - c) e^{l_i} <= e^m, which is at
most sum_{v_j < c} (c - v_j) e^{l_j} (weighted arithmetic and geometric means). Where no value is
above c nothing is needed. Any lambda and mu will do, so they are rounded first, as are g, a and b.

Steepness. A gradient is sum_{i < j} p_i p_j (v_i - v_j)(a_i - a_j), and sum_{i < j} p_i p_j
|v_i - v_j| is at most a quarter of the largest difference of values. So a head changes by at most
that times the largest 1-norm of a_i - a_j with v_i != v_j, times the largest change of an input.

Intervals. The weight of token i is 1 / sum_j exp(l_j - l_i), so it is between l and h, by the range
of each difference on the box; and for any t a head is t + sum_i p_i (v_i - t), so at most
t + sum_i max(l_i (v_i - t), h_i (v_i - t)).
"""

from collections import namedtuple
from fractions import Fraction

import numpy as np

from .bounds import up
from .files import require
from .float_model import MODELS, averaged, gamma_of, growth, steps_of
from .operators import (
    FLUSH,
    INTERVALS,
    LARGEST,
    LOGIT_UNIT,
    UNIT,
    exact,
    exponential,
    fraction,
    interval,
    nearest_single,
    rounded,
)

SHARE = 100  # weights are multiples of 2^-100, and their sum is 1

# slopes (n, varying) and offsets (n,) in units of 2^-298, values (n,) in those of 2^-149; and what
# logits are
Head = namedtuple("Head", "slopes offsets values logits", defaults=[None])
# bounds of all inputs, in units of 2^-149, and which of them vary
Box = namedtuple("Box", "lower upper varying")


def box_of(lower, upper):
    lower, upper = (np.array(ends, dtype=object) for ends in (lower, upper))
    return Box(lower, upper, np.flatnonzero(lower != upper))


def heads_of(outputs, weights):
    """Heads whose sum is a combination of outputs, in the order of the graph.

    outputs: parts of each;  weights: pairs of an output and its integer factor
    """
    known = {}
    for output, weight in weights:
        require(0 <= output < len(outputs), "a condition is about an output that is not there")
        for part in outputs[output]:
            logits, values = known.get(id(part.logits), (part.logits, 0))
            known[id(part.logits)] = logits, values + weight * part.values
    found = [
        Head(logits.slopes, logits.offsets, values, logits) for logits, values in known.values()
    ]
    require(found, "a condition is about no head")
    return found


def least_at(heads, box, point):
    """A lower bound of the sum at an input, as a Fraction: point in units of 2^-149."""
    total = interval(0)
    for head in heads:
        logits = head.slopes @ point[box.varying] + head.offsets * (1 << UNIT)
        powers = exponentials(logits - max(logits), LOGIT_UNIT + UNIT)
        average = sum(
            (interval(v, UNIT) * p for v, p in zip(head.values, powers, strict=True)),
            interval(0),
        )
        total += average / sum(powers, interval(0))
    return fraction(total.a)


def doubt_of(heads):
    """By how much the sum may differ, as logits may: a Fraction.

    If logits are off by t at most, attention is by a part e^(2 t) - 1, at most 3 t for t <= 2^-20.
    """
    total = Fraction(0)
    for head in heads:
        doubt = Fraction(head.logits.doubt)
        require(doubt <= Fraction(1, 1 << 20), "logits of a second layer are not known")
        total += 3 * doubt * Fraction(int(max(map(abs, head.values))), 1 << UNIT)
    return total


def exponentials(numbers, unit):
    return [exponential(interval(number, unit)) for number in numbers]


def most_by_intervals(heads, box, evidence):
    """An upper bound of the sum on the box, as a Fraction; nothing is stored for it."""
    require(set(evidence) == {"atom", "kind"}, "an interval form has evidence")
    total = Fraction(0)
    for head in heads:
        apart = head.slopes[None] - head.slopes[:, None]  # of l_j - l_i at [i, j]
        offsets = (head.offsets[None] - head.offsets[:, None]) * (1 << UNIT)
        most = highest(apart, box) + offsets
        least = -highest(-apart, box) + offsets
        total += most_between(head, least, most, LOGIT_UNIT + UNIT)
    return total


def most_between(head, least, most, unit):
    """An upper bound of a head whose l_j - l_i at [i, j] are between these, in a unit."""
    low, high = [], []
    for row, other in zip(most, least, strict=True):
        # at least one, as l_i - l_i = 0
        sums = [sum(exponentials(each, unit), interval(0)) for each in (row, other)]
        low.append(fraction((1 / sums[0]).a))
        high.append(fraction((1 / sums[1]).b))
    values = [Fraction(v, 1 << UNIT) for v in head.values]
    return min(above_at(t, values, low, high) for t in set(values))


def above_at(t, values, low, high):
    """Above t sum_i p_i + sum_i p_i (v_i - t), for weights between bounds whose sum is 1."""
    parts = zip(values, low, high, strict=True)
    return t + sum(max(least * (v - t), most * (v - t)) for v, least, most in parts)


def wider(box, by):
    """A box whose bounds that vary are moved outward by a Fraction, or a little more."""
    step = 1 + int(by * (1 << UNIT))
    lower, upper = box.lower.copy(), box.upper.copy()
    lower[box.varying] -= step
    upper[box.varying] += step
    return Box(lower, upper, box.varying)


def steepness(heads):
    """By how much the sum changes at most, if all inputs that vary change by one: a Fraction."""
    total = Fraction(0)
    for head in heads:
        spread, most = max(head.values) - min(head.values), 0
        for value, row in zip(head.values, head.slopes, strict=True):
            others = head.slopes[(head.values != value).astype(bool)]
            most = max([most, *np.abs(others - row).sum(axis=1)])
        total += Fraction(spread * most, 1 << (UNIT + LOGIT_UNIT + 2))
    return total


def highest(slopes, box):
    """The maxima over the box of slopes . x, along the last axis, for inputs that vary."""
    lower, upper = box.lower[box.varying], box.upper[box.varying]
    positive = (slopes > 0).astype(bool)
    return (slopes * np.where(positive, upper, lower)).sum(axis=-1)


def most_by_slabs(heads, box, evidence):
    """An upper bound of the sum on the box: the largest on a slab of the bounds of all heads."""
    require(set(evidence) == {"atom", "kind", "direction", "slabs"}, "slabs have other evidence")
    listed = evidence["direction"]
    require(len(listed) == len(box.lower), "the direction has another length")
    direction = np.array([rounded(exact(g), UNIT) for g in listed], dtype=object)
    steep = (direction > 0).astype(bool)
    start = (direction * np.where(steep, box.lower, box.upper)).sum()
    end = (direction * np.where(steep, box.upper, box.lower)).sum()
    slabs = []
    for slab in evidence["slabs"]:
        require(set(slab) == {"from", "to", "heads"}, "a slab has other entries")
        ends = [rounded(exact(slab[name]), 2 * UNIT) for name in ("from", "to")]
        require(ends[0] <= ends[1], "a slab ends before it begins")
        slabs.append((*ends, slab["heads"]))
    slabs.sort(key=lambda slab: slab[:2])
    require(slabs and slabs[0][0] <= start, "the slabs do not cover the box")
    at, bounds = slabs[0][0], []
    for a, b, proofs in slabs:
        require(a <= at, "the slabs do not cover the box")
        at = max(at, b)
        require(len(proofs) == len(heads), "a slab has another number of heads")
        parts = zip(heads, proofs, strict=True)
        bounds.append(sum(on_slab(head, box, direction, a, b, proof) for head, proof in parts))
    require(at >= end, "the slabs do not cover the box")
    return max(bounds)


def on_slab(head, box, direction, a, b, proof):
    """The bound of one head on a slab, if it is proved: a Fraction."""
    require(set(proof) == {"bound", "weights", "tilts"}, "the bound of a head has other entries")
    tokens, shift = len(head.values), 1 << SHARE
    lengths = len(proof["weights"]), len(proof["tilts"])
    require(lengths == (tokens, tokens), "weights or tilts are not one for each token")
    given = [exact(weight) for weight in proof["weights"]]
    require(min(given) >= 0, "a weight is negative")
    tilts = [rounded(exact(tilt), SHARE + UNIT) for tilt in proof["tilts"]]
    c = rounded(exact(proof["bound"]), UNIT)
    sides = head.values - c, c - head.values
    high, low = (np.flatnonzero((side > 0).astype(bool)) for side in sides)
    bound = Fraction(c, 1 << UNIT)
    if not len(high):
        return bound
    used, shares = shares_of(given, low)
    slope = shares @ head.slopes[used]
    offset = shares @ head.offsets[used]
    logs = sum(
        (
            interval(share, SHARE) * INTERVALS.log(interval(c - v, UNIT) / interval(share, SHARE))
            for share, v in zip(shares, head.values[used], strict=True)
        ),
        interval(0),
    )
    tilts = np.array(tilts, dtype=object)[high]
    fixed = np.setdiff1d(np.arange(len(box.lower)), box.varying)
    constant = (direction[fixed] * box.lower[fixed]).sum()
    apart = head.slopes[high] * shift - slope - tilts[:, None] * direction[box.varying]
    tops = highest(apart, box) + (head.offsets[high] * shift - offset) * (1 << UNIT)
    tops += np.maximum(tilts * a, tilts * b) - tilts * constant
    total = interval(0)
    for top, v in zip(tops, head.values[high], strict=True):
        exponent = interval(top, LOGIT_UNIT + SHARE + UNIT) - logs
        total += interval(v - c, UNIT) * exponential(exponent)
    require(total.b <= 1, "a bound of a head on a slab does not hold")
    return bound


def shares_of(given, low):
    """Tokens whose weights are positive, and these, rounded so that their sum is 2^SHARE.

    They are rounded before they are added, too: sums of many fractions have long denominators.
    """
    most = max((given[j] for j in low), default=0)
    require(most > 0, "a bound of a head has no weights")
    parts = {j: rounded(given[j] / most, 2 * SHARE) for j in low}
    whole = sum(parts.values())
    shares = {j: rounded(Fraction(part, whole), SHARE) for j, part in parts.items()}
    shares = {j: share for j, share in shares.items() if share > 0}
    largest = max(shares, key=shares.get)
    shares[largest] += (1 << SHARE) - sum(shares.values())
    require(shares[largest] > 0, "weights cannot be rounded")
    return np.array(list(shares)), np.array(list(shares.values()), dtype=object)


REFUTATIONS = {"slabs": most_by_slabs, "interval": most_by_intervals}

# How far float32 evaluations of a graph are from its real values on a box, at most.
#
#     S    largest sum of the sizes of all terms of a logit of a row of softmax
#     K    most roundings of a term;  lost: what underflow takes
#     eps  = gamma_(K + 2) S + lost              logits, and l - max l, which is at most 2 S in size
#     w    = exp(2 eps) - 1                       by so large a part attention moves
#     zeta = errors of averages of exact logits (`float_model.averaged`), those of exp included
#
#     |computed - real| <= sum over rows of max |v| ((1 + w)(1 + zeta)(1 + gamma_s) - 1) + underflow
#
# with s roundings of values, and of what follows. Where two outputs are compared, both are off.
# These are all numbers of the file, so that none is rounded as it is loaded.

KNOWN = {
    name: model
    for name, model in MODELS.items()
    if not (model.stored or model.free or model.constants or model.merged)
}


def rounding_of(outputs, weights, model):
    """A bound of what evaluations of a combination of outputs are off by: a float64.

    outputs: parts of each;  weights: pairs of an output and its integer factor
    """
    total = 0.0
    for output, weight in weights:
        for part in outputs[output]:
            total += abs(weight) * off(part, model)
    total = float(up(total))
    require(total < LARGEST, "what rounding does is not bounded")
    return total


def off(part, model, moved=None):
    """The same for one row of softmax and its values; moved: by how much l - max l is off."""
    logits, terms = part.logits, len(part.values)
    sizes = float(logits.sizes.max())
    require(max(1.0, sizes, part.size) * terms < LARGEST, "numbers may overflow")
    if moved is None:
        steps = int(logits.steps.max()) + 2
        moved = gamma_of(model, steps) * sizes + 2.0 * logits.lost
    zeta, flushed = (float(x) for x in averaged(model, np.float64(terms)))
    larger = float(growth(up(2.0 * up(moved))))
    others = gamma_of(model, part.steps)
    factors = (1.0 + larger) * (1.0 + zeta) * (1.0 + others)
    # (1 + a)(1 + b)(1 + c) - 1 in terms, so that nothing cancels
    part_of = larger + zeta + others + larger * (zeta + others) + zeta * others * (1.0 + larger)
    below = flushed * max(1.0, part.size) * factors + 2.0 * FLUSH * factors
    return float(up(up(part_of) * part.size + up(below)))


# What float32 programs compute where each logit is one rounding, fl(a x + b) with an exact product.
#
# Rounding is monotone, so on a box a logit is between its values at the two ends; all programs
# compute the same, but for underflow, also of inputs as they are loaded. l - max l, in blocks or in
# one piece, is off by less than 4 u D, where D is the largest difference of two logits.


def computed_most(outputs, weights, box, model):
    """An upper bound, a Fraction, of a combination of outputs as programs compute it on a box."""
    total, moved = Fraction(0), {}
    for head in heads_of(outputs, weights):
        require(head.logits.one_rounding, "a logit is not one rounding")
        offsets = head.offsets * (1 << UNIT)
        ends = offsets - highest(-head.slopes, box), offsets + highest(head.slopes, box)
        low, high = (
            np.array([nearest_single(int(x), LOGIT_UNIT + UNIT) for x in end], dtype=object)
            for end in ends
        )
        least, most = low[None] - high[:, None], high[None] - low[:, None]
        for i in range(len(low)):
            least[i, i] = most[i, i] = 0
        total += most_between(head, least, most, UNIT)
        largest = max(map(abs, most.reshape(-1)))
        apart = float(Fraction(largest, 1 << UNIT))
        moved[id(head.logits)] = float(up(4.0 * model.unit * apart + 2.0 * head.logits.lost))
    for output, weight in weights:
        for part in outputs[output]:
            rounding = off(part, model, moved[id(part.logits)])
            total += abs(weight) * Fraction(float(up(rounding)))
    return total


def off_readout(readout, model):
    """A bound of what evaluations of a sum of units after Relu are off by: a float64.

    Products with -1 and 1 are exact, and Relu passes on what its operand is off by. A unit adds
    k + 1 numbers of sizes Z together, and the sum of the m units is at most sum Z.
    """
    each = [sum(off(part, model) for part in parts) for parts in readout.features]
    reach = [
        rounding + sum(part.size for part in parts)
        for rounding, parts in zip(each, readout.features, strict=True)
    ]
    rounding, sizes = 0.0, 0.0
    for weights, bias in zip(readout.weights.T, readout.biases, strict=True):
        sizes += float(Fraction(abs(int(bias)), 1 << UNIT)) * (1.0 + 2.0**-50)
        for weight, moved, size in zip(weights, each, reach, strict=True):
            rounding += abs(int(weight)) * moved
            sizes += abs(int(weight)) * size
    steps = gamma_of(model, len(each) + len(readout.biases) + 4)
    total = float(up(up(rounding) + up(steps * up(sizes))))
    require(total < LARGEST, "what rounding does is not bounded")
    return total


def sentence(name):
    """What a float32 evaluation of a graph is."""
    words = [
        f"{name}: each operator of the graph once, from its numbers as they are",
        *steps_of(MODELS[name]),
        "no TF32 or bfloat16 execution, and no parts in fewer bits",
    ]
    return "; ".join(words)
