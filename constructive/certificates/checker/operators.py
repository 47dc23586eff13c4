"""What a graph of softmax heads computes: its operators on exact numbers, with their roundings.

Entries of a tensor are affine functions of the inputs that vary, with exact coefficients; inputs
whose bounds agree are constants. Beside each entry stands what rounding needs: the sum of the sizes
of all its terms on the box, how many roundings a term passes, and what underflow takes. Softmax
makes weights of rows of them, and products with constants make averages.

Gemm, MatMul, Add, Reshape, Transpose and Split are for affine entries, Exp, ReduceSum and Div are a
softmax together. Outputs of heads may be added to the input, if they are saturated on the box, or
be read by units of Relu. Anything else is refused, and so is any attribute that is not read here.
"""

import math
import re
from collections import namedtuple
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import from_man_exp

from bounds import up
from files import require

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


MOST = 1 << 24  # entries of a tensor, times the inputs that vary
MOST_UNITS = 10  # of a readout: it has as many pieces as they have sets
LARGEST = 2.0**100  # of any number on the way, but for exponentials
FLUSH = 2.0**-125  # what underflow takes of a product, or of a number that is loaded

# offsets (shape) and slopes (shape, varying) in units of 2^-unit; None if nothing varies
# sizes (shape) in float64, from above; steps (shape); and what underflow takes, of any entry
# doubt: by how much real entries may differ from these;  origin: GIVEN, STEPS or None
Affine = namedtuple(
    "Affine", "offsets slopes unit sizes steps lost doubt origin", defaults=[0, None]
)
GIVEN = "numbers of the input or of the file"
STEPS = "rows fl(a x + b) of numbers that are given, a one power of two of size one or more"
# One softmax: logits of n tokens; raw if nothing is subtracted before exp
Row = namedtuple("Row", "logits raw")
# Weights, or what is before them: rows of softmax in order, and the shape of them all
Weights = namedtuple("Weights", "rows shape")
Powers = namedtuple("Powers", "logits")
Totals = namedtuple("Totals", "logits")
# sum_i p_i v_i of one row: values in units of 2^-unit, bound of their size, terms of the sum with
# other rows, roundings of a term beside it, and what underflow takes of values
Part = namedtuple("Part", "row values unit size terms steps lost")
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
    require(math.prod(shape) == len(lower), "the property bounds another number of inputs")
    values = {name: inputs(shape, lower, upper)}
    values |= {key: of_constant(array) for key, array in graph.constants.items()}
    for node in graph.nodes:
        require(node.operator in OPERATORS, f"the operator {node.operator[:40]!r} is refused")
        given = [values.get(name) for name in node.inputs]
        require(all(each is not None for each in given), "an operator comes before its inputs")
        mixed = len({isinstance(each, Affine) for each in given}) == 2
        if node.operator == "Add" and mixed:
            given = [beside(each, lower, upper) for each in given]
        made = OPERATORS[node.operator](node, *given)
        made = made if isinstance(made, list) else [made]
        require(len(made) == len(node.outputs), f"{node.operator} has other outputs")
        sums = [each.sizes for each in made if isinstance(each, Affine)]
        require(all((sizes < LARGEST).all() for sizes in sums), "numbers may overflow on the way")
        values |= dict(zip(node.outputs, made, strict=True))
    name, shape = graph.output
    outputs = values[name]
    if isinstance(outputs, Readout):
        require(shape == (1, 1), "the shape of Y is another")
        return outputs
    require(isinstance(outputs, np.ndarray) and outputs.dtype == object, "Y is not of heads")
    require(outputs.shape == shape and shape[:-1] == (1,), "the shape of Y is another")
    return outputs.reshape(-1).tolist()


def inputs(shape, lower, upper):
    """The input: each entry that varies is itself."""
    varying = [i for i, (low, high) in enumerate(zip(lower, upper, strict=True)) if low != high]
    require(len(lower) * (len(varying) + 1) <= MOST, "the graph is too large")
    offsets, slopes = np.array(lower, dtype=object), np.full((len(lower), len(varying)), 0, object)
    offsets[varying] = 0
    slopes[varying, range(len(varying))] = 1 << UNIT
    reach = [max(abs(low), abs(high)) for low, high in zip(lower, upper, strict=True)]
    sizes = np.array([math.ldexp(size, -UNIT) for size in reach])  # float32 numbers: exact
    steps = np.zeros(len(lower), np.int64)
    flat = Affine(offsets, slopes, UNIT, sizes, steps, FLUSH, origin=GIVEN)
    return on_entries(flat, lambda array: array.reshape(shape))


def of_constant(array):
    """A constant of floats as an affine tensor; integers are sizes, and stay."""
    if array.dtype.kind == "i":
        return array
    sizes = np.abs(array.astype(np.float64))
    steps = np.zeros(array.shape, np.int64)
    return Affine(integers(array), None, UNIT, sizes, steps, FLUSH, origin=GIVEN)


def reads(node, inputs, **defaults):
    """Attributes of a node, or their defaults; None for those that have to be there."""
    require(len(node.inputs) == inputs, f"{node.operator} has other inputs")
    unknown = set(node.attributes) - set(defaults)
    require(not unknown, f"{node.operator} has an attribute that is not understood")
    found = defaults | node.attributes
    for name, value in found.items():
        kind = type(defaults[name])
        require(type(value) is kind, f"the attribute {name} of {node.operator} is of another type")
    return found


def affine(*tensors):
    require(all(isinstance(each, Affine) for each in tensors), "an operand is not affine")


def axis_of(axis, shape):
    require(-len(shape) <= axis < len(shape), "an axis is not there")
    return axis % len(shape)


def gemm(node, x, weights, offsets):
    found = reads(node, 3, alpha=1.0, beta=1.0, transA=0, transB=0)
    plain = found["alpha"] == found["beta"] == 1.0 and found["transA"] == 0
    require(plain and found["transB"] in (0, 1), "a factor or a transposition of Gemm is refused")
    if isinstance(x, np.ndarray):
        return units(x, turn(weights, (1, 0)) if found["transB"] else weights, offsets)
    affine(x, weights, offsets)
    require(x.sizes.ndim == weights.sizes.ndim == 2, "an operand of Gemm is not a matrix")
    turned = turn(weights, (1, 0)) if found["transB"] else weights
    made = multiplied(x, turned)
    require(offsets.sizes.shape in (made.sizes.shape, made.sizes.shape[1:]), "offsets misfit")
    given = x.origin == weights.origin == offsets.origin == GIVEN
    steps = given and turned.slopes is None and all(map(is_step, turned.offsets.T))
    return added(made, offsets)._replace(origin=STEPS if steps else None)


def is_step(column):
    """Whether at most one weight is not zero, and is a power of two of size one or more."""
    sizes = [abs(weight) for weight in column if weight]
    return len(sizes) <= 1 and all(size >> UNIT and not size & (size - 1) for size in sizes)


def units(heads, weights, biases):
    """Units of outputs of heads (1, k), before Relu."""
    affine(weights, biases)
    require(heads.dtype == object and heads.shape[:-1] == (1,), "an operand of Gemm is no row")
    require(weights.slopes is None is biases.slopes, "weights of units vary")
    inner, count = (*weights.sizes.shape, 0)[:2]
    fits = weights.sizes.ndim == 2 and (inner,) == heads.shape[1:] and count <= MOST_UNITS
    require(fits and biases.sizes.shape in ((count,), (1, count)), "units misfit, or are too many")
    whole = weights.offsets.astype(object) // (1 << weights.unit)
    exact = weights.origin == biases.origin == GIVEN and biases.unit == UNIT
    same = (whole * (1 << weights.unit) == weights.offsets).all()
    small = all(abs(weight) <= 1 for weight in whole.reshape(-1))
    require(exact and same and small, "weights of units are not -1, 0, 1")
    return Units(heads.reshape(-1).tolist(), whole, biases.offsets.reshape(-1), active=False)


def relu(node, x):
    reads(node, 1)
    require(isinstance(x, Units) and not x.active, "Relu of anything but units")
    return x._replace(active=True)


def readout(active, ones):
    affine(ones)
    all_one = ones.origin == GIVEN and (ones.offsets == 1 << ones.unit).all()
    all_one = all_one and ones.slopes is None
    fits = active.active and ones.sizes.shape == (len(active.biases), 1)
    require(fits and all_one, "a readout is not the sum of units after Relu")
    return Readout(active.features, active.weights, active.biases)


def beside(value, lower, upper):
    """What is added to the input: values of tokens that have all but e^-128 of the weight.

    Where the other logits are 128 nats lower, an entry is off by 2 n e^-128 < n 2^-183 times the
    largest value at most. Computed logits are 80 nats apart at least, so the other exponentials of
    a program are below 2^-100, sums of them and 1 are 1, and products and sums with the value are
    off by twice what is added to it: 2^-75 times the largest value, in all, for 2^20 tokens.
    """
    if isinstance(value, Affine):
        return value
    require(isinstance(value, np.ndarray) and value.dtype == object, "the summands of Add misfit")
    offsets, sizes, steps, doubt, lost = [], [], [], 0.0, 0.0
    for parts in value.reshape(-1):
        total = 0
        for part in parts:
            require(part.unit == UNIT and not part.row.raw, "heads before others are not plain")
            total += part.values[leader(part.row.logits, lower, upper)]
        largest = sum(max(1.0, part.size) for part in parts)
        offsets.append(total)
        sizes.append(float(up(sum(part.size for part in parts))))
        steps.append(max(part.steps for part in parts) + len(parts))
        doubt = max(doubt, max(part.terms for part in parts) * 2.0**-183 * largest)
        lost = max(lost, 2.0**-75 * largest)
    made = [np.array(each).reshape(value.shape) for each in (sizes, steps)]
    return Affine(
        np.array(offsets, dtype=object).reshape(value.shape), None, UNIT, *made, lost, doubt
    )


def leader(logits, lower, upper):
    """The token that leads by 128 nats on the box, and by 80 as programs compute logits."""
    require(len(logits.offsets) <= 1 << 20, "a row of softmax is too long")
    slopes, offsets = logits.slopes, logits.offsets * (1 << UNIT)
    if slopes is None:
        slopes = np.full((len(offsets), 0), 0, dtype=object)
    varying = [i for i, (low, high) in enumerate(zip(lower, upper, strict=True)) if low != high]
    low, high = (np.array([side[i] for i in varying], dtype=object) for side in (lower, upper))
    best = int(np.argmax(slopes @ low + offsets))
    apart = slopes[best] - slopes
    least = (apart * np.where((apart > 0).astype(bool), low, high)).sum(axis=1)
    least = np.delete(least + offsets[best] - offsets, best)
    saturated = all(lead >> (logits.unit + UNIT) >= 128 for lead in least.tolist())
    off = (int(logits.steps.max()) + 3) * 2.0**-23 * float(logits.sizes.max()) + logits.lost
    require(saturated and 4.0 * off <= 48.0, "a head before others is not saturated on the box")
    require(not logits.doubt, "there are more than two layers")
    return best


def matmul(node, left, right):
    reads(node, 2)
    if isinstance(left, Weights):
        return averages(left, right)
    if isinstance(left, Units):
        return readout(left, right)
    affine(left, right)
    require(left.sizes.ndim == right.sizes.ndim == 2, "an operand of MatMul is not a matrix")
    return multiplied(left, right)


def multiplied(left, right):
    """A product of matrices, of which one is constant: terms with a factor zero are exact."""
    require(left.sizes.shape[1] == right.sizes.shape[0], "matrices do not fit")
    require(left.slopes is None or right.slopes is None, "both factors vary")
    shape = left.sizes.shape[0], right.sizes.shape[1]
    varying = next((x.slopes.shape[-1] for x in (left, right) if x.slopes is not None), 0)
    require(math.prod(shape) * (varying + 1) <= MOST, "the graph is too large")
    offsets, slopes = product(left.offsets, right.offsets), None
    if left.slopes is not None:
        turned = right.offsets.T
        slopes = np.stack([product(turned, row) for row in left.slopes])
    elif right.slopes is not None:
        flat = right.slopes.reshape(len(right.slopes), -1)
        slopes = product(left.offsets, flat).reshape(*shape, -1)
    terms = (left.sizes > 0).astype(np.int64) @ (right.sizes > 0).astype(np.int64)
    steps = left.steps.max(axis=1, keepdims=True) + right.steps.max(axis=0) + terms
    tops = left.sizes.sum(axis=1).max(), right.sizes.sum(axis=0).max()
    inner = left.sizes.shape[1]
    lost = left.lost * tops[1] + right.lost * tops[0] + left.lost * right.lost * inner
    lost = float(up(2.0 * (lost + inner * FLUSH)))
    sizes = up(left.sizes @ right.sizes)
    doubt = doubts(left.doubt * tops[1] + right.doubt * tops[0])
    return Affine(offsets, slopes, left.unit + right.unit, sizes, steps, lost, doubt)


def add(node, one, other):
    reads(node, 2)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        heads = one.dtype == other.dtype == object and one.shape == other.shape
        require(heads, "the summands of Add misfit")
        pairs = zip(one.reshape(-1), other.reshape(-1), strict=True)
        summed = [tuple(part._replace(steps=part.steps + 1) for part in a + b) for a, b in pairs]
        return objects(summed, one.shape)
    affine(one, other)
    if one.sizes.ndim < other.sizes.ndim:
        one, other = other, one
    fits = other.sizes.shape in (one.sizes.shape, one.sizes.shape[1:])
    require(fits, "the summands of Add misfit")
    return added(one, other)


def added(one, other):
    """A sum: a constant or affine tensor may be the same for all rows."""
    shape, unit = one.sizes.shape, max(one.unit, other.unit)
    one_up, other_up = (1 << (unit - each.unit) for each in (one, other))
    offsets = one.offsets * one_up + other.offsets * other_up
    slopes = [
        each.slopes * factor
        for each, factor in ((one, one_up), (other, other_up))
        if each.slopes is not None
    ]
    summed = sum(slopes[1:], slopes[0]) if slopes else None
    if summed is not None:
        summed = np.broadcast_to(summed, (*shape, summed.shape[-1]))
    steps = np.maximum(one.steps, other.steps) + ((one.sizes > 0) & (other.sizes > 0))
    sizes, lost = up(one.sizes + other.sizes), up(2.0 * (one.lost + other.lost))
    return Affine(offsets, summed, unit, sizes, steps, lost, doubts(one.doubt + other.doubt))


def doubts(sum_of):
    """A sum, above its rounding; zero if it is."""
    return float(up(sum_of)) if sum_of else 0.0


def on_entries(x, move):
    """Another arrangement of the entries, or some of them, which may be constants."""
    slopes = x.slopes
    if slopes is not None:
        moved = [move(slopes[..., k]) for k in range(slopes.shape[-1])]
        slopes = np.stack(moved, axis=-1) if any(part.any() for part in moved) else None
    return x._replace(
        offsets=move(x.offsets), slopes=slopes, sizes=move(x.sizes), steps=move(x.steps)
    )


def turn(x, order):
    return on_entries(x, lambda array: array.transpose(order))


def transpose(node, x):
    found = reads(node, 1, perm=())
    affine(x)
    ordered = sorted(found["perm"]) == list(range(x.sizes.ndim))
    require(ordered, "Transpose names no order of its axes")
    return turn(x, found["perm"])


def reshape(node, x, shape):
    reads(node, 2)
    sized = isinstance(shape, np.ndarray) and shape.dtype == np.int64 and shape.ndim == 1
    require(sized and (shape > 0).all(), "Reshape has no explicit shape")
    wanted = tuple(shape.tolist())
    if not isinstance(x, Weights | np.ndarray):
        affine(x)
    kept = x.sizes.shape if isinstance(x, Affine) else x.shape
    require(math.prod(kept) == math.prod(wanted), "Reshape changes the number of entries")
    if isinstance(x, Weights):
        return x._replace(shape=wanted)
    if isinstance(x, np.ndarray):
        return x.reshape(wanted)
    return on_entries(x, lambda array: array.reshape(wanted))


def split(node, x, sizes):
    found = reads(node, 2, axis=0)
    affine(x)
    axis = axis_of(found["axis"], x.sizes.shape)
    sized = isinstance(sizes, np.ndarray) and sizes.dtype == np.int64 and sizes.ndim == 1
    require(sized and (sizes > 0).all(), "Split has no sizes")
    require(sizes.sum() == x.sizes.shape[axis], "the sizes of Split do not fit")
    ends = np.cumsum(sizes).tolist()
    parts = [(slice(None),) * axis + (slice(end - size, end),) for end, size in
             zip(ends, sizes.tolist(), strict=True)]  # fmt: skip
    return [on_entries(x, lambda array, part=part: array[part]) for part in parts]


def rows_of(x, *, raw):
    """Softmax along the last axis: a row for each entry of the others, in order."""
    affine(x)
    count = x.sizes.shape[-1]
    flat = on_entries(x, lambda array: array.reshape(-1, count))
    rows = [Row(on_entries(flat, lambda array, i=i: array[i]), raw) for i in range(len(flat.sizes))]
    return Weights(tuple(rows), x.sizes.shape)


def softmax(node, x):
    found = reads(node, 1, axis=-1)
    affine(x)
    require(axis_of(found["axis"], x.sizes.shape) == x.sizes.ndim - 1, "softmax of another axis")
    return rows_of(x, raw=False)


def exp(node, x):
    reads(node, 1)
    affine(x)
    return Powers(x)


def reduce_sum(node, powers, axes):
    found = reads(node, 2, keepdims=1)
    require(isinstance(powers, Powers) and found["keepdims"] == 1, "ReduceSum of anything else")
    last = powers.logits.sizes.ndim - 1
    known = isinstance(axes, np.ndarray) and axes.dtype == np.int64
    require(known and axes.tolist() in ([last], [-1]), "ReduceSum along another axis")
    return Totals(powers.logits)


def div(node, powers, totals):
    reads(node, 2)
    softmax = isinstance(powers, Powers) and isinstance(totals, Totals)
    require(softmax and powers.logits is totals.logits, "Div of anything but a softmax")
    return rows_of(powers.logits, raw=True)


def averages(weights, values):
    """Products of weights of rows with constant values, summed over tokens, and over rows.

    The product is (s, m)(m, k), where m entries are some rows in order.
    """
    affine(values)
    require(values.slopes is None, "values vary")
    require(len(weights.shape) == values.sizes.ndim == 2, "an operand of MatMul is not a matrix")
    (count, inner), outputs = weights.shape, values.sizes.shape[1]
    tokens = math.prod(weights.shape) // len(weights.rows)
    require(inner == len(values.sizes) and inner % tokens == 0, "weights and values misfit")
    each = inner // tokens
    found = []
    for s in range(count):
        for k in range(outputs):
            parts = []
            for r in range(each):
                some = slice(r * tokens, (r + 1) * tokens)
                parts.append(
                    Part(
                        weights.rows[s * each + r],
                        values.offsets[some, k],
                        values.unit,
                        float(values.sizes[some, k].max()),
                        inner,
                        int(values.steps[some, k].max()),
                        values.lost,
                    )
                )
            found.append(tuple(parts))
    return objects(found, (count, outputs))


def objects(listed, shape):
    """An array of tuples."""
    array = np.empty(len(listed), dtype=object)
    for k, entry in enumerate(listed):
        array[k] = entry
    return array.reshape(shape)


OPERATORS = {
    "Gemm": gemm,
    "MatMul": matmul,
    "Add": add,
    "Softmax": softmax,
    "Relu": relu,
    "Reshape": reshape,
    "Transpose": transpose,
    "Split": split,
    "Exp": exp,
    "ReduceSum": reduce_sum,
    "Div": div,
}
