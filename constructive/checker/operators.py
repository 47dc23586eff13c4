"""What a graph of softmax heads computes: its operators on exact numbers, with their roundings.

A query is the input, to which saturated heads may be added. Gemm makes logits of it: affine
functions of the inputs that vary, with exact coefficients; inputs whose bounds agree are constants.
Beside each entry stands what rounding needs: the sum of the sizes of all its terms on the box, how
many roundings a term passes, and what underflow takes. Softmax makes attention of logits, MatMul
averages of it, and Add sums of heads, which units of Relu may read. Anything else is refused, and
so is any attribute that is not read here.
"""

import math
import re
from collections import namedtuple
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import from_man_exp

from .bounds import up
from .files import require

# Exact numbers of instances: integers times a power of two, and intervals of their functions.
#
# Every float32 number is a multiple of 2^-149, so arrays of them are arrays of Python's integers in
# that unit; products have the unit 2^-298, and so on. Numbers of a proof that may be any numbers,
# such as weights and tilts, are rounded to a unit.

UNIT = 149  # float32 numbers are multiples of 2^-149
TOP = Fraction((2**24 - 1) * 2**104)  # the largest float32 number
DIGITS = 24  # of float32, in bits
INTERVALS = MPIntervalContext()
INTERVALS.prec = 100
EXACT = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,1200}|/[0-9]{1,400})?")
STEEP = 1000  # exponentials of more, in size, are not computed


def is_single(value):
    """Whether a Fraction is a finite float32 number."""
    top, bottom = value.as_integer_ratio()
    odd = top // (top & -top) if top else 0
    short = abs(odd) < 1 << DIGITS and abs(value) <= TOP
    return short and bottom <= 1 << UNIT and bottom & (bottom - 1) == 0


def nearest_single(value, unit):
    """The float32 number next to an integer times 2^-unit, ties to even, in units of 2^-149."""
    dropped = max(abs(value).bit_length() - DIGITS, unit - UNIT, 0)
    kept = round(Fraction(value, 1 << dropped))
    exponent = dropped - unit + UNIT
    require(exponent >= 0, "a unit is too large")
    return kept << exponent


def exact(text):
    """A number of a proof: a decimal, or p/q."""
    known = isinstance(text, str) and EXACT.fullmatch(text) is not None
    require(known, f"{str(text)[:30]!r} is neither a decimal nor p/q")
    return Fraction(text)


def rounded(value, unit):
    """A Fraction in units of 2^-unit, to the nearest."""
    return round(value * (1 << unit))


def integers(array):
    """Float32 numbers in units of 2^-149: Python's integers."""
    found = np.empty(array.size, dtype=object)
    for k, number in enumerate(array.reshape(-1).tolist()):
        top, bottom = number.as_integer_ratio()
        found[k] = top * ((1 << UNIT) // bottom)
    return found.reshape(array.shape)


def product(left, right):
    """The product of two matrices of integers; most entries may be zeros."""
    found = np.full((len(left), right.shape[1]), 0, dtype=object)
    for j in range(len(right)):
        rows, columns = np.flatnonzero(left[:, j]), np.flatnonzero(right[j])
        if len(rows) and len(columns):
            found[np.ix_(rows, columns)] += left[rows, j, None] * right[j, columns]
    return found


def interval(value, unit=0):
    """An interval around an integer times 2^-unit."""
    ends = (from_man_exp(int(value), -unit, INTERVALS.prec, side) for side in "fc")
    return INTERVALS.make_mpf(tuple(ends))


def exponential(exponent):
    """An interval with exp of an interval: from 0 far below, and infinite far above."""
    if exponent.a > -STEEP and exponent.b < STEEP:
        return INTERVALS.exp(exponent)
    far = [INTERVALS.exp(interval(end)) for end in (-STEEP, STEEP)]
    require(exponent.a <= exponent.b, "an exponent is not a number")
    if exponent.b <= -STEEP:
        return INTERVALS.mpf([0, far[0].b])
    if exponent.a >= STEEP:
        return INTERVALS.mpf([far[1].a, "inf"])
    return INTERVALS.mpf([0, "inf"])


def fraction(end):
    """The end of an interval, which is an interval of its own."""
    sign, mantissa, exponent, _ = end._mpi_[0]
    require(mantissa or not exponent, "an interval is not bounded")
    value = Fraction(-int(mantissa) if sign else int(mantissa))
    return value * Fraction(2) ** int(exponent)


def decimal_below(value, digits=3):
    """Decimal text of a Fraction, rounded down."""
    places = Context(digits, ROUND_FLOOR)
    return str(places.divide(Decimal(value.numerator), Decimal(value.denominator)))


OPSET = 13
LOGIT_UNIT = 2 * UNIT  # logits are sums of products of float32 numbers
MOST = 1 << 24  # logits, times the inputs that vary
MOST_UNITS = 10  # of a readout: it has as many pieces as they have sets
LARGEST = 2.0**100  # of any number on the way, but for exponentials
FLUSH = 2.0**-125  # what underflow takes of a product, or of a number that is loaded

# The input: offsets (d,) in units of 2^-149, and places and bounds of the entries that vary, which
# are added to them; sizes (d,) in float64, from above; steps (d,); and what underflow takes, of any
# doubt: by how much real entries may differ from these;  given: whether nothing was added
Query = namedtuple("Query", "offsets varying low high sizes steps lost doubt given")
# The same of logits: offsets (n,) and slopes (n, varying) in units of 2^-298
# one_rounding: rows fl(a x + b) of an input, where a is a power of two of size one or more
Logits = namedtuple("Logits", "offsets slopes sizes steps lost doubt one_rounding")
Attention = namedtuple("Attention", "logits")
# For each output, its parts
Heads = namedtuple("Heads", "outputs")
# sum_i p_i v_i of one row of softmax: values in units of 2^-149, bound of their size, and roundings
# of a term beside it
Part = namedtuple("Part", "logits values size steps")
# Units w . f + c of outputs f of heads, parts of each: whole weights (k, m), and biases (m,) in
# units of 2^-149;  active: after Relu
Units = namedtuple("Units", "features weights biases active")
# The sum of all active units
Readout = namedtuple("Readout", "features weights biases")


def evaluate(graph, lower, upper):
    """The parts of each output of a graph on a box: a list for each, in order; or a Readout.

    lower, upper: the box, integers in units of 2^-149
    """
    name, shape = graph.input
    require(shape == (1, len(lower)), "the property bounds another number of inputs")
    require(graph.opset == OPSET, f"sums of heads are of opset {OPSET}")
    single = all(array.dtype == np.float32 for array in graph.constants.values())
    require(single, "a constant of a sum of heads is not float32")
    values = graph.constants | {name: query_of(lower, upper)}
    for node in graph.nodes:
        require(node.operator in OPERATORS, f"the operator {node.operator[:40]!r} is refused")
        operator, inputs = OPERATORS[node.operator]
        right = len(node.inputs) == inputs and len(node.outputs) == 1
        require(right, f"{node.operator} has other inputs or outputs")
        require_attributes(node)
        given = [values.get(name) for name in node.inputs]
        require(all(each is not None for each in given), "an operator comes before its inputs")
        values[node.outputs[0]] = operator(*given)
    name, shape = graph.output
    outputs = values[name]
    if isinstance(outputs, Readout):
        require(shape == (1, 1), "the shape of Y is another")
        return outputs
    require(isinstance(outputs, Heads), "Y is not of heads")
    require(shape == (1, len(outputs.outputs)), "the shape of Y is another")
    return list(outputs.outputs)


def require_attributes(node):
    """Those of one operator: Softmax along the last axis of a matrix."""
    known = {"axis"} if node.operator == "Softmax" else set()
    unknown = set(node.attributes) - known
    require(not unknown, f"{node.operator} has an attribute that is not understood")
    axis = node.attributes.get("axis", -1)
    require(type(axis) is int and axis in (1, -1), "softmax of another axis")


def query_of(lower, upper):
    """The input: each entry that varies is itself."""
    varying = [i for i, (low, high) in enumerate(zip(lower, upper, strict=True)) if low != high]
    ends = [np.array(side, dtype=object) for side in (lower, upper)]
    low, high = (side[varying] for side in ends)
    offsets = ends[0].copy()
    offsets[varying] = 0
    reach = [max(abs(low), abs(high)) for low, high in zip(lower, upper, strict=True)]
    sizes = np.array([math.ldexp(size, -UNIT) for size in reach])  # float32 numbers: exact
    steps = np.zeros(len(lower), np.int64)
    return Query(offsets, varying, low, high, sizes, steps, FLUSH, 0.0, given=True)


def is_matrix(value):
    """Whether this is a constant of two axes."""
    return isinstance(value, np.ndarray) and value.ndim == 2


def gemm(x, weights, offsets):
    """Logits of a query, or units of outputs of heads."""
    constant = is_matrix(weights) and isinstance(offsets, np.ndarray)
    require(constant, "a factor or the offsets of Gemm are not constant")
    require(offsets.shape == weights.shape[1:], "offsets misfit")
    if isinstance(x, Heads):
        return units(x, weights, offsets)
    require(isinstance(x, Query), "Gemm of anything but a query or heads")
    inner, count = weights.shape
    require(inner == len(x.sizes), "matrices do not fit")
    require(count * (len(x.varying) + 1) <= MOST, "the graph is too large")
    whole = integers(weights)
    fixed = product(x.offsets[None], whole)[0] + integers(offsets) * (1 << UNIT)
    slopes = whole[x.varying].T * (1 << UNIT)
    factors, shifts = (np.abs(array.astype(np.float64)) for array in (weights, offsets))
    # terms with a factor zero are exact
    terms = (x.sizes > 0).astype(np.int64) @ (factors > 0).astype(np.int64)
    steps = x.steps.max() + terms + (shifts > 0)
    sizes = up(up(x.sizes @ factors) + shifts)
    require((sizes < LARGEST).all(), "numbers may overflow on the way")
    tops = x.sizes.sum(), factors.sum(axis=0).max()
    lost = x.lost * tops[1] + FLUSH * tops[0] + (x.lost + 1.0) * FLUSH * inner
    lost = float(up(2.0 * (up(2.0 * lost) + FLUSH)))
    one_rounding = x.given and all(map(is_step, whole.T))
    return Logits(fixed, slopes, sizes, steps, lost, doubts(x.doubt * tops[1]), one_rounding)


def is_step(column):
    """Whether at most one weight is not zero, and is a power of two of size one or more."""
    sizes = [abs(weight) for weight in column if weight]
    return len(sizes) <= 1 and all(size >> UNIT and not size & (size - 1) for size in sizes)


def doubts(bound):
    """A bound, above its rounding; zero if it is."""
    return float(up(bound)) if bound else 0.0


def units(heads, weights, biases):
    """Units of outputs of heads, before Relu."""
    inner, count = weights.shape
    fits = inner == len(heads.outputs) and count <= MOST_UNITS
    require(fits, "units misfit, or are too many")
    require(np.isin(weights, (-1, 0, 1)).all(), "weights of units are not -1, 0, 1")
    whole = weights.astype(np.int64).astype(object)
    return Units(list(heads.outputs), whole, integers(biases), active=False)


def relu(x):
    require(isinstance(x, Units) and not x.active, "Relu of anything but units")
    return x._replace(active=True)


def softmax(logits):
    require(isinstance(logits, Logits), "Softmax of anything but logits")
    return Attention(logits)


def matmul(left, right):
    """Averages of values, or the sum of units."""
    require(is_matrix(right), "a factor of MatMul is not constant")
    if isinstance(left, Units):
        fits = left.active and right.shape == (len(left.biases), 1)
        require(fits and (right == 1).all(), "a readout is not the sum of units after Relu")
        return Readout(left.features, left.weights, left.biases)
    require(isinstance(left, Attention), "MatMul of anything but attention or units")
    require(len(right) == len(left.logits.offsets), "weights and values misfit")
    sizes = np.abs(right.astype(np.float64)).max(axis=0).tolist()
    parts = zip(integers(right).T, sizes, strict=True)
    return Heads(tuple((Part(left.logits, values, size, 0),) for values, size in parts))


def add(one, other):
    """A sum of heads, or heads added to the input."""
    if isinstance(one, Heads) and isinstance(other, Heads):
        require(len(one.outputs) == len(other.outputs), "the summands of Add misfit")
        pairs = zip(one.outputs, other.outputs, strict=True)
        return Heads(
            tuple(tuple(part._replace(steps=part.steps + 1) for part in a + b) for a, b in pairs)
        )
    query, heads = (one, other) if isinstance(one, Query) else (other, one)
    known = isinstance(query, Query) and isinstance(heads, Heads)
    require(known and len(heads.outputs) == len(query.sizes), "the summands of Add misfit")
    return beside(query, heads)


def beside(query, heads):
    """What is added to the input: values of tokens that have all but e^-128 of the weight.

    Where the other logits are 128 nats lower, an entry is off by 2 n e^-128 < n 2^-183 times the
    largest value at most. Computed logits are 80 nats apart at least, so the other exponentials of
    a program are below 2^-100, sums of them and 1 are 1, and products and sums with the value are
    off by twice what is added to it: 2^-75 times the largest value, in all, for 2^20 tokens.
    """
    require(query.given, "heads are added to more than the input")
    offsets, sizes, steps, doubt, lost = [], [], [], 0.0, 0.0
    for parts in heads.outputs:
        offsets.append(sum(part.values[leader(part.logits, query)] for part in parts))
        largest = sum(max(1.0, part.size) for part in parts)
        sizes.append(float(up(sum(part.size for part in parts))))
        steps.append(max(part.steps for part in parts) + len(parts))
        doubt = max(doubt, max(len(part.values) for part in parts) * 2.0**-183 * largest)
        lost = max(lost, 2.0**-75 * largest)
    sums = up(query.sizes + np.array(sizes))
    require((sums < LARGEST).all(), "numbers may overflow on the way")
    return query._replace(
        offsets=query.offsets + np.array(offsets, dtype=object),
        sizes=sums,
        steps=np.maximum(query.steps, np.array(steps)) + (query.sizes > 0),
        lost=float(up(2.0 * (query.lost + lost))),
        doubt=doubts(doubt),
        given=False,
    )


def leader(logits, query):
    """The token that leads by 128 nats on the box, and by 80 as programs compute logits."""
    require(len(logits.offsets) <= 1 << 20, "a row of softmax is too long")
    slopes, offsets = logits.slopes, logits.offsets * (1 << UNIT)
    best = int(np.argmax(slopes @ query.low + offsets))
    apart = slopes[best] - slopes
    least = (apart * np.where((apart > 0).astype(bool), query.low, query.high)).sum(axis=1)
    least = np.delete(least + offsets[best] - offsets, best)
    saturated = all(lead >> (LOGIT_UNIT + UNIT) >= 128 for lead in least.tolist())
    off = (int(logits.steps.max()) + 3) * 2.0**-23 * float(logits.sizes.max()) + logits.lost
    require(saturated and 4.0 * off <= 48.0, "a head before others is not saturated on the box")
    require(not logits.doubt, "there are more than two layers")
    return best


# with the number of their inputs
OPERATORS = {
    "Gemm": (gemm, 3),
    "MatMul": (matmul, 2),
    "Add": (add, 2),
    "Softmax": (softmax, 1),
    "Relu": (relu, 1),
}
