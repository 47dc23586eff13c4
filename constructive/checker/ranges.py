"""What graphs of operators compute on a box: intervals of all outputs, float32 programs included.

For graphs that are not sums of softmax heads. Each operator takes the exact range of each entry,
by its monotone pieces, and widens it by what programs round; so an interval has the real outputs
of all inputs of a box, and those that any program of the model computes. Entries that depend on one
input are taken for independent, so a box is cut into halves until a bound is reached.

The model. u = 2^-24; a program evaluates each operator once, on its inputs as they were computed.

    Gemm, MatMul, Add, Sub, Mul, Div, Sqrt, Pow, Reciprocal, ReduceMean
        off by 2^-20 times the sum of the sizes of all terms, or times the size of what is returned:
        sums of up to 13 terms in any order, fused or not, and functions up to 8 ulps
    Sigmoid, Tanh, Exp, Log, Sin, Cos, Erf, Gelu, Softmax, LayerNormalization
        off by 2^-18 max(1, |y|); variances of LayerNormalization by 2^-18 times all squares
    others exact; and each number may lose 2^-126, where programs take small numbers for zero
"""

import math
from collections import namedtuple
from fractions import Fraction

import numpy as np

from .files import require
from .operators import INTERVALS, UNIT, exact, exponential, fraction, interval

MODEL = "float32, operator by operator"
SENTENCE = (
    f"{MODEL}: each operator of the graph once; results of Gemm, MatMul, Add, Sub, Mul, Div, Sqrt, "
    "Pow, Reciprocal and ReduceMean off by 2^-20 times the sum of the sizes of all terms; of "
    "Sigmoid, Tanh, Exp, Log, Sin, Cos, Erf, Gelu, Softmax and LayerNormalization by 2^-18 times 1 "
    "or their size, if that is more; numbers below 2^-126 may be zeros; no TF32 or bfloat16"
)
MOST_TERMS = 12  # of a sum, but for an offset
MOST_ENTRIES = 64  # of a value
MOST_CELLS = 4096  # into which a box is cut
PART, FUNCTION, LOST, LARGEST = 2.0**-20, 2.0**-18, 2.0**-126, 2.0**100
NORMAL = 2.0**-126  # the least size of a constant that is not zero

Value = namedtuple("Value", "shape entries")  # intervals, row by row
Constant = namedtuple("Constant", "array value")  # value: of float32 numbers, else None


class UnboundedError(ValueError):
    """An operator has no bound on this box; on a smaller one it may have."""


def bounded(condition):
    if not condition:
        raise UnboundedError("an operator is not bounded on the box")


def hull(low, high):
    return INTERVALS.mpf([low.a, high.b])


def size(x):
    return abs(x).b


def widened(x, by):
    """X and all that is off by so much, or by what underflow takes."""
    by = by + LOST
    found = x + INTERVALS.mpf([-by.b, by.b])
    bounded(size(found) < LARGEST)
    return found


def rounded(x):
    return widened(x, size(x) * PART)


def computed(x):
    """The result of a function that programs approximate."""
    return widened(x, largest(size(x), INTERVALS.mpf(1)) * FUNCTION)


def largest(x, y):
    """The maximum of two intervals."""
    ends = [max(x_end, y_end) for x_end, y_end in ((x.a, y.a), (x.b, y.b))]
    return hull(*ends)


def least(x, y):
    return -largest(-x, -y)


def total(terms):
    """A sum in any order, with products or without."""
    found = sum(terms, INTERVALS.mpf(0))
    return widened(found, sum(map(size, terms), INTERVALS.mpf(0)) * PART)


# Functions of one number: their ranges.


def sigmoid(x):
    return 1 / (1 + exponential(-x))


def tanh(x):
    return 1 - 2 / (exponential(2 * x) + 1)


def logarithm(x):
    bounded(x.a > 0)
    return INTERVALS.log(x)


def root(x):
    bounded(x.a >= 0)
    return INTERVALS.sqrt(x)


def inverse(x):
    bounded(x.a > 0 or x.b < 0)
    return 1 / x


FAR, NOTHING = 6, 2.0**-60


def erf_at(x):
    """The alternating series at one number; beyond 6 it is 1 - 2^-50 at least."""
    if x.a < 0:
        return -erf_at(-x)
    if x.b > FAR:
        return INTERVALS.mpf([1 - 2.0**-50, 1])
    term, square, found, n = x, x**2, INTERVALS.mpf(0), 0
    while n < square.b or size(term) > NOTHING:
        found += term / (2 * n + 1)
        term *= -square / (n + 1)
        n += 1
    # terms fall in size from n > x^2 on, so what is left is less than the next one
    return 2 * (found + INTERVALS.mpf([-1, 1]) * size(term)) / INTERVALS.sqrt(INTERVALS.pi)


def erf(x):
    return hull(erf_at(x.a), erf_at(x.b))


LOWEST, AROUND = 0.169972, (-0.752, -0.751)  # gelu is above -LOWEST, least between these, convex


def gelu(x):
    """X (1 + erf(x / sqrt 2)) / 2, which falls to its minimum and then rises."""
    root_of_two = INTERVALS.sqrt(INTERVALS.mpf(2))
    ends = [end * (1 + erf_at(end / root_of_two)) / 2 for end in (x.a, x.b)]
    low = least(*ends)
    if x.a < AROUND[1] and x.b > AROUND[0]:
        low = least(low, INTERVALS.mpf(-LOWEST))
    return hull(low, largest(*ends))


FUNCTIONS = {
    "Sigmoid": sigmoid,
    "Tanh": tanh,
    "Exp": exponential,
    "Log": logarithm,
    "Sin": INTERVALS.sin,
    "Cos": INTERVALS.cos,
    "Erf": erf,
    "Gelu": gelu,
}
ROUNDED = {"Sqrt": root, "Reciprocal": inverse}
EXACT = {
    "Relu": lambda x: largest(x, INTERVALS.mpf(0)),
    "Abs": abs,
    "Neg": lambda x: -x,
    "Identity": lambda x: x,
}
PAIRS = {
    "Add": lambda x, y: total([x, y]),
    "Sub": lambda x, y: total([x, -y]),
    "Mul": lambda x, y: rounded(x * y),
    "Div": lambda x, y: rounded(x * inverse(y)),
    "Max": largest,
    "Min": least,
}


# Operators on values: given, of a node's inputs, and its attributes.


def constant(array):
    if array.dtype != np.float32:
        return Constant(array, None)
    require((np.abs(array[array != 0]) >= NORMAL).all(), "a constant is too small")
    entries = [INTERVALS.mpf(x) for x in array.reshape(-1).tolist()]
    return Constant(array, Value(array.shape or (1,), entries))


def numbers(value):
    """A value of the box, or of a constant."""
    found = value.value if isinstance(value, Constant) else value
    require(found is not None, "a constant is not of float32 numbers")
    return found


def row(value):
    """The same of shape (1, n): what is along axis 1 is all there is."""
    found = numbers(value)
    require(len(found.shape) == 2 and found.shape[0] == 1, "a value is not a row")
    return found


def integers(value):
    known = isinstance(value, Constant) and value.array.dtype == np.int64
    require(known and value.array.ndim == 1, "a shape is not a constant row of integers")
    return value.array.tolist()


def each(function, x):
    return Value(x.shape, [function(entry) for entry in x.entries])


def of_pair(function, x, y):
    """Of entries of the same places; one of two values may have a single entry for all."""
    count, shapes = max(len(x.entries), len(y.entries)), [core(v.shape) for v in (x, y)]
    single = 1 in (len(x.entries), len(y.entries))
    require(single or shapes[0] == shapes[1], "shapes misfit")
    left, right = (v.entries * (count // len(v.entries)) for v in (x, y))
    shape = max(x, y, key=lambda v: len(v.entries)).shape
    more = max(len(v.shape) for v in (x, y)) - len(shape)
    return Value((1,) * more + shape, [function(a, b) for a, b in zip(left, right, strict=True)])


def core(shape):
    """A shape without the ones before it."""
    found = list(shape)
    while found[:1] == [1]:
        found.pop(0)
    return found


def columns(weights, transposed=0):
    """The columns of a constant matrix."""
    known = isinstance(weights, Constant) and weights.array.ndim == 2
    require(known, "a factor is not a constant matrix")
    entries, (rows, width) = numbers(weights).entries, weights.array.shape
    found = [entries[k * width : (k + 1) * width] for k in range(rows)]
    return found if transposed else [list(column) for column in zip(*found, strict=True)]


def products(x, weights, offsets):
    """X W, plus a row of offsets."""
    found = []
    for column, offset in zip(weights, offsets, strict=True):
        require(x.shape == (1, len(column)) and len(column) <= MOST_TERMS, "matrices do not fit")
        terms = [a * b for a, b in zip(x.entries, column, strict=True) if b.a or b.b]
        found.append(total([*terms, *offset]))
    return Value((1, len(found)), found)


def matmul(given, _):
    weights = columns(given[1])
    return products(numbers(given[0]), weights, [[]] * len(weights))


def gemm(given, attributes):
    x, weights, offsets = given
    require(attributes.get("alpha", 1) == attributes.get("beta", 1) == 1, "Gemm has factors")
    require(not attributes.get("transA", 0), "the input of Gemm is transposed")
    weights, offsets = columns(weights, attributes.get("transB", 0)), numbers(offsets)
    require(offsets.shape in ((len(weights),), (1, len(weights))), "offsets misfit")
    return products(numbers(x), weights, [[entry] for entry in offsets.entries])


def power(given, _):
    x, exponent = given
    known = isinstance(exponent, Constant) and exponent.array.shape == ()
    require(known and exponent.array.item() in (2, 3), "the exponent is neither 2 nor 3")
    return each(lambda entry: rounded(entry ** int(exponent.array.item())), numbers(x))


def leaky(given, attributes):
    slope = INTERVALS.mpf(attributes.get("alpha", 0.01))
    require(0 <= slope < 1, "a slope is not from 0 to 1")
    return each(lambda x: rounded(largest(x, x * slope)), numbers(given[0]))


def clip(given, _):
    x, *ends = given
    known = all(isinstance(end, Constant) and end.array.shape == () for end in ends)
    require(known, "bounds of Clip are not numbers")
    (low,), (high,) = (numbers(end).entries for end in ends)
    return each(lambda v: least(largest(v, low), high), numbers(x))


def softmax(given, attributes):
    x = row(given[0])
    require(attributes.get("axis", -1) in (-1, 1), "softmax of another axis")
    require(len(x.entries) <= MOST_TERMS, "softmax of too many")
    found = []
    for i, own in enumerate(x.entries):
        apart = [total([y, -own]) for j, y in enumerate(x.entries) if j != i]
        found.append(computed(1 / (1 + sum(map(exponential, apart), INTERVALS.mpf(0)))))
    return Value(x.shape, found)


def mean(entries):
    return rounded(total(entries) / len(entries))


def reduce_mean(given, attributes):
    x, right = row(given[0]), attributes.get("axes") in ([1], [-1])
    require(right and attributes.get("keepdims", 1) == 1, "means of another axis")
    require(len(x.entries) <= MOST_TERMS, "a mean of too many")
    return Value((1, 1), [mean(x.entries)])


def normalized(given, attributes):
    """(x - mean) / sqrt(variance + epsilon) scale + bias, with the variance in one pass or two."""
    x, (scale, bias) = row(given[0]), map(numbers, given[1:])
    require(attributes.get("axis", -1) in (-1, 1), "another axis")
    right = scale.shape == bias.shape == x.shape[1:] and len(x.entries) <= MOST_TERMS
    require(right, "scale or bias misfit")
    middle = mean(x.entries)
    square = size(sum((entry**2 for entry in x.entries), INTERVALS.mpf(0)))
    apart = [total([entry, -middle]) for entry in x.entries]
    spread = mean([rounded(entry**2) for entry in apart])
    spread = largest(widened(spread, square * FUNCTION), INTERVALS.mpf(0))
    bottom = root(total([spread, INTERVALS.mpf(attributes.get("epsilon", 1e-5))]))
    bounded(bottom.a > 0)
    tops = zip(apart, scale.entries, bias.entries, strict=True)
    return Value(x.shape, [computed(total([top / bottom * s, b])) for top, s, b in tops])


def max_pool(given, attributes):
    """Along the last axis, in windows that do not overlap and leave nothing over."""
    x, length = numbers(given[0]), attributes.get("kernel_shape")
    require(set(attributes) == {"kernel_shape", "strides"}, "MaxPool with other attributes")
    right = len(x.shape) == 3 and x.shape[0] == 1 == len(length)
    right = right and attributes["strides"] == length
    require(right and length[0] > 0 and x.shape[2] % length[0] == 0, "windows misfit")
    found = []
    for start in range(0, len(x.entries), length[0]):
        top = x.entries[start]
        for entry in x.entries[start + 1 : start + length[0]]:
            top = largest(top, entry)
        found.append(top)
    return Value((1, x.shape[1], x.shape[2] // length[0]), found)


def reshape(given, _):
    x, shape = numbers(given[0]), integers(given[1])
    require(shape[:1] == [1] and len(shape) <= 3 and min(shape) > 0, "a shape misfits")
    require(math.prod(shape) == len(x.entries), "a shape misfits")
    return Value(tuple(shape), x.entries)


def flatten(given, attributes):
    x = numbers(given[0])
    require(attributes.get("axis", 1) == 1, "Flatten of another axis")
    require(len(x.shape) > 1 and x.shape[0] == 1, "Flatten of several rows")
    return Value((1, len(x.entries)), x.entries)


def concat(given, attributes):
    parts = list(map(row, given))
    require(attributes.get("axis") == 1, "parts of another axis")
    entries = [entry for part in parts for entry in part.entries]
    return Value((1, len(entries)), entries)


def split(given, attributes):
    """Two halves."""
    x = row(given[0])
    half, rest = divmod(len(x.entries), 2)
    require(attributes.get("axis") == 1 and not rest, "halves misfit")
    return [Value((1, half), part) for part in (x.entries[:half], x.entries[half:])]


# By operator: numbers of inputs, attributes that are read, opsets where it is this one, and what it
# computes. From opset 18 ReduceMean and Split are others.
Operator = namedtuple("Operator", "inputs attributes opsets compute")
ALL, EARLY = {13, 17, 20}, {13, 17}
ATTRIBUTES = {
    **dict.fromkeys(("alpha", "beta", "epsilon"), float),
    **dict.fromkeys(("axis", "keepdims", "transA", "transB"), int),
    **dict.fromkeys(("axes", "kernel_shape", "strides"), list),
}


def of_entries(function, after=lambda x: x):
    return lambda given, _: each(lambda x: after(function(x)), numbers(given[0]))


def of_entry_pairs(function):
    return lambda given, _: of_pair(function, *map(numbers, given))


OPERATORS = {
    "Gemm": Operator(3, {"alpha", "beta", "transA", "transB"}, ALL, gemm),
    "MatMul": Operator(2, set(), ALL, matmul),
    "Pow": Operator(2, set(), ALL, power),
    "LeakyRelu": Operator(1, {"alpha"}, ALL, leaky),
    "Clip": Operator(3, set(), ALL, clip),
    "Softmax": Operator(1, {"axis"}, ALL, softmax),
    "ReduceMean": Operator(1, {"axes", "keepdims"}, EARLY, reduce_mean),
    "LayerNormalization": Operator(3, {"axis", "epsilon"}, {17, 20}, normalized),
    "MaxPool": Operator(1, {"kernel_shape", "strides"}, ALL, max_pool),
    "Reshape": Operator(2, set(), ALL, reshape),
    "Flatten": Operator(1, {"axis"}, ALL, flatten),
    "Concat": Operator(2, {"axis"}, ALL, concat),
    "Split": Operator(1, {"axis"}, EARLY, split),
    **{name: Operator(1, set(), ALL, of_entries(f, computed)) for name, f in FUNCTIONS.items()},
    **{name: Operator(1, set(), ALL, of_entries(f, rounded)) for name, f in ROUNDED.items()},
    **{name: Operator(1, set(), ALL, of_entries(f)) for name, f in EXACT.items()},
    **{name: Operator(2, set(), ALL, of_entry_pairs(f)) for name, f in PAIRS.items()},
}
OPERATORS["Gelu"] = OPERATORS["Gelu"]._replace(opsets={20})


def outputs_on(graph, constants, lower, upper):
    """Intervals of the outputs on a box, whose bounds are integers in units of 2^-149."""
    name, shape = graph.input
    require(shape == (1, len(lower)), "the property bounds another number of inputs")
    require(len(lower) <= MOST_ENTRIES, "there are too many inputs")
    ends = zip(lower, upper, strict=True)
    inputs = [hull(interval(a, UNIT), interval(b, UNIT)) for a, b in ends]
    values = constants | {name: Value(shape, [widened(x, INTERVALS.mpf(0)) for x in inputs])}
    for node in graph.nodes:
        require(node.operator in OPERATORS, f"the operator {node.operator[:40]!r} is refused")
        known = OPERATORS[node.operator]
        require(graph.opset in known.opsets, f"{node.operator} of opset {graph.opset} is refused")
        kinds = {name: type(value) for name, value in node.attributes.items()}
        right = all(kinds[name] is ATTRIBUTES.get(name) for name in kinds)
        require(right and set(kinds) <= known.attributes, f"{node.operator} has other attributes")
        require(len(node.inputs) == known.inputs, f"{node.operator} has other inputs")
        given = [values.get(name) for name in node.inputs]
        require(all(value is not None for value in given), "an operator comes before its inputs")
        found = known.compute(given, node.attributes)
        found = found if isinstance(found, list) else [found]
        require(len(found) == len(node.outputs), f"{node.operator} has other outputs")
        for output, value in zip(node.outputs, found, strict=True):
            require(len(value.entries) <= MOST_ENTRIES, "a value is too large")
            values[output] = value
    name, shape = graph.output
    found = numbers(values[name])
    require(found.shape == shape and len(shape) == 2, "the shape of Y is another")
    return found.entries


def above(outputs, weights):
    """Bounds of a combination of outputs, from below and from above: Fractions."""
    require(max(place for place, _ in weights) < len(outputs), "an output is not there")
    found = sum((outputs[place] * weight for place, weight in weights), INTERVALS.mpf(0))
    return fraction(found.a), fraction(found.b)


def constants_of(graph):
    return {name: constant(array) for name, array in graph.constants.items()}


def most_in_cells(graph, box, weights, claimed):
    """Require that a combination of outputs is at most a Fraction on a box, by halves of it."""
    constants, cells = constants_of(graph), [box]
    widths = [max(high - low, 1) for low, high in zip(*box, strict=True)]
    for _ in range(MOST_CELLS):
        if not cells:
            return
        low, high = cells.pop()
        try:
            if above(outputs_on(graph, constants, low, high), weights)[1] <= claimed:
                continue
        except UnboundedError:
            pass
        cells += halves(low, high, widths)
    raise ValueError("a bound is not reached with so many cells")


def halves(low, high, widths):
    """Both halves of a box along the side that is longest, next to widths."""
    shares = [Fraction(b - a, width) for a, b, width in zip(low, high, widths, strict=True)]
    side = max(range(len(shares)), key=shares.__getitem__)
    middle = (low[side] + high[side]) // 2
    require(low[side] < middle, "a bound is not reached")
    return [
        (low, [*high[:side], middle, *high[side + 1 :]]),
        ([*low[:side], middle, *low[side + 1 :]], high),
    ]


def least_margin(graph, wanted, point):
    """By how much the real and the computed outputs of an input meet an alternative."""
    outputs, margins = outputs_on(graph, constants_of(graph), point, point), []
    for conditions in wanted.alternatives:
        found = [above(outputs, each.weights)[0] - each.threshold for each in conditions]
        margins.append(min(found))
    return max(margins)


def refuted_margin(graph, wanted, box, evidence):
    """By how much all inputs of a box miss a condition of each alternative."""
    listed = type(evidence) is list and len(evidence) == len(wanted.alternatives)
    require(listed, "there is not one refutation of each alternative")
    margins = []
    for conditions, part in zip(wanted.alternatives, evidence, strict=True):
        require(set(part) == {"atom", "kind", "most"}, "a refutation has other entries")
        place, claimed = part["atom"], exact(part["most"])
        known = type(place) is int and 0 <= place < len(conditions) and part["kind"] == "cells"
        require(known, "a refutation is of no condition, or of an unknown kind")
        margins.append(conditions[place].threshold - claimed)
        require(margins[-1] > 0, "a refutation does not reach the threshold")
        most_in_cells(graph, box, conditions[place].weights, claimed)
    return min(margins)
