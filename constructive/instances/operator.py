"""One operator between two affine maps, on boxes around what verifiers get wrong of it.

A network is Y = sum_j v_j g_j(a) + c with a = W x + b, in one or two inputs x: g is the operator,
as one node or spelled out. Each entry of a is drawn in a range around a vertex, an inflection, an
asymptote or a breakpoint of the operator, or far from these, where it saturates.

Thresholds are around the largest or the least output on the box. Both are found by halving the box
(`extreme`) with the intervals of the checker, which then proves the answers
(`constructive.checker.ranges`).
"""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from constructive.checker import ranges
from constructive.checker.graphs import Graph
from constructive.checker.operators import UNIT
from constructive.instances.graphs import Attribute, Drawing, OperatorGraph, graph_of
from constructive.instances.instance import (
    Answer,
    Family,
    Instance,
    Names,
    Option,
    Refutation,
    Refutations,
    Witness,
)
from constructive.instances.properties import Atom, Box, Property, text_of
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


@dataclass(frozen=True)
class CellBound(Refutation):
    """That w . Y is at most a number on the box, which intervals on halves of it show."""

    kind = "cells"

    atom: int
    most: Fraction

    def evidence(self) -> dict[str, str]:
        """Return the number."""
        return {"most": text_of(self.most)}


class Extreme(NamedTuple):
    """The largest output, nearly: the output of an input, and a bound on the box."""

    point: tuple[Fraction, ...]  # whose output is near the largest one
    reached: Fraction  # is at most its output, also as programs compute it
    most: Fraction  # is at least all outputs
    spread: Fraction  # of the outputs that were seen


_MOST_CELLS = 200  # A search for the largest output ends then
_CLOSE = Fraction(1, 4)  # The part of a margin up to which the largest output is found
MARGIN = Option(0.03, 1e-3, 1.0, "distance of thresholds from the maximum, of the range of outputs")
_FAR = 3.0  # Margins to the threshold of a second instance, at most


def extreme(graph: Graph, box: Box, sign: int, margin: float, place: int = 0) -> Extreme:
    """Find the largest sign * Y_k on a box, up to a part of a margin, by halves of the box.

    The box with the largest bound is cut first. Raises ParameterError where there are too many.
    """
    constants = ranges.constants_of(graph)
    ends = [
        [round(Fraction(x) * (1 << UNIT)) for x in side.tolist()] for side in (box.lower, box.upper)
    ]
    widths = [max(high - low, 1) for low, high in zip(*ends, strict=True)]
    seen: list[tuple[Fraction, tuple[Fraction, ...]]] = []

    def bounds(low: list[int], high: list[int]) -> tuple[Fraction, Fraction] | None:
        try:
            outputs = ranges.outputs_on(graph, constants, low, high)
        except ranges.UnboundedError:
            return None
        found: tuple[Fraction, Fraction] = ranges.above(outputs, [(place, sign)])
        return found

    def add(low: list[int], high: list[int]) -> None:
        for point in (low, high, [(a + b) // 2 for a, b in zip(low, high, strict=True)]):
            near = [np.float32(x / (1 << UNIT)) for x in point]
            at = [round(Fraction(float(x)) * (1 << UNIT)) for x in near]
            value = bounds(at, at)
            inside = all(a <= x <= b for a, x, b in zip(ends[0], at, ends[1], strict=True))
            if value and inside:
                seen.append((value[0], tuple(Fraction(float(x)) for x in near)))
        whole = bounds(low, high)
        top = whole[1] if whole else Fraction(2) ** 200
        heapq.heappush(queue, (-top, len(seen), low, high))

    queue: list[tuple[Fraction, int, list[int], list[int]]] = []
    add(*ends)
    for _ in range(_MOST_CELLS):
        reached, point = max(seen)
        spread = reached - min(seen)[0]
        if -queue[0][0] - reached <= _CLOSE * Fraction(margin) * spread:
            return Extreme(point, reached, -queue[0][0], spread)
        _, _, low, high = heapq.heappop(queue)
        for half in ranges.halves(low, high, widths):
            add(*half)
    raise ParameterError(
        "the largest output of a graph is not found",
        witness=[*box.lower.tolist(), *box.upper.tolist()],
        suggestion="another seed, or a larger margin",
    )


def around(
    found: Extreme, names: Names, network: OperatorGraph, box: Box, sign: int, family: str,
    margin: float, random: np.random.Generator,
) -> list[Instance]:  # fmt: skip
    """Make instances with thresholds around the largest sign * Y_0 on a box."""
    made: list[Instance] = []
    for name, answer in names.items():
        first = all(each.answer is not answer for each in made)
        far = Fraction(margin * (1.0 if first else random.uniform(1.5, _FAR))) * found.spread
        exact = found.reached - far if answer is Answer.SAT else found.most + far
        threshold = float(np.float32(float(exact)))
        wanted = Property(box, ((Atom(np.array([float(sign)]), threshold),),))
        most = Fraction(float(found.most + far / 2))
        proof = Witness(found.point) if answer is Answer.SAT else Refutations((CellBound(0, most),))
        made.append(Instance(name, network, wanted, answer, proof, family))
    return made


# The operators: how each is drawn from a value `a` (1, m), and ranges of the entries of `a`.


Draw = Callable[[Drawing, str], str]


class OperatorCase(NamedTuple):
    """An operator, or a way to spell one."""

    draw: Draw  # adds nodes for a value, and returns the last one's name
    ranges: Sequence[tuple[float, float]]  # of entries of a
    units: tuple[int, int]  # entries of a and of what is returned; 0: any number, and as many
    opset: int = 13
    # Whether several entries are parts of means: their intervals are wide, so there is one input,
    # and margins are four times as large
    means: bool = False


def node(operator: str, **attributes: Attribute) -> Draw:
    """Return how one node is drawn."""
    return lambda made, a: made.node(operator, a, name="", **attributes)


def with_number(operator: str, *numbers: float) -> Draw:
    """Return how a node is drawn that has constants beside a value."""

    def draw(made: Drawing, a: str) -> str:
        names = [made.constant(f"number_{k}", x) for k, x in enumerate(numbers)]
        return made.node(operator, a, *names)

    return draw


def of_halves(operator: str) -> Draw:
    """Return how a node of two values is drawn: of the two entries of a."""

    def draw(made: Drawing, a: str) -> str:
        parts = [
            made.node("MatMul", a, made.constant(f"unit_{k}", np.eye(2)[:, k : k + 1]))
            for k in range(2)
        ]
        return made.node(operator, *parts)

    return draw


def square(made: Drawing, a: str) -> str:
    """Draw a product of a value with itself."""
    return made.node("Mul", a, a)


def variance(made: Drawing, a: str) -> str:
    """Draw the mean of squares of distances from the mean, as exporters spell it."""
    apart = made.node("Sub", a, made.node("ReduceMean", a, axes=[1], keepdims=1))
    squares = made.node("Pow", apart, made.constant("two", 2.0))
    return made.node("ReduceMean", squares, axes=[1], keepdims=1)


_EPSILON = 1.0


def normalized(made: Drawing, a: str) -> str:
    """Draw LayerNormalization as exporters spell it."""
    apart = made.node("Sub", a, made.node("ReduceMean", a, axes=[1], keepdims=1))
    squares = made.node("Pow", apart, made.constant("two", 2.0))
    spread = made.node("ReduceMean", squares, axes=[1], keepdims=1)
    spread = made.node("Add", spread, made.constant("epsilon", _EPSILON))
    return made.node("Div", apart, made.node("Sqrt", spread))


def normalization(made: Drawing, a: str) -> str:
    """Draw LayerNormalization as one node."""
    scale, bias = made.constant("scale", np.ones(2)), made.constant("bias", np.zeros(2))
    return made.node("LayerNormalization", a, scale, bias, axis=1, epsilon=_EPSILON)


def gelu(made: Drawing, a: str) -> str:
    """Draw Gelu as exporters spell it."""
    inner = made.node("Erf", made.node("Div", a, made.constant("root", np.sqrt(2.0))))
    inner = made.node("Add", inner, made.constant("one", 1.0))
    return made.node("Mul", made.node("Mul", a, inner), made.constant("half", 0.5))


def pooled(made: Drawing, a: str) -> str:
    """Draw the larger one of each two neighbours, as a pool along an axis."""
    row = made.node("Reshape", a, made.constant("row", [1, 1, 4], np.int64))
    most = made.node("MaxPool", row, kernel_shape=[2], strides=[2])
    return made.node("Flatten", most, axis=1)


def sigmoid(made: Drawing, a: str) -> str:
    """Draw 1 / (1 + exp(-a))."""
    power = made.node("Exp", made.node("Neg", a))
    return made.node("Reciprocal", made.node("Add", power, made.constant("one", 1.0)))


def touched(start: float) -> tuple[float, float]:
    """Return a range on which cos is just above its chord, but for its upper end.

    The chord is a tangent there, up to 2^-12. Bounds go from chords to tangents at such ranges. The
    start is between -pi / 2 and 0.
    """
    low, high = math.pi / 2.0, math.pi
    for _ in range(40):
        end = (low + high) / 2.0
        above = math.cos(end) + math.sin(end) * (end - start) > math.cos(start)
        low, high = (end, high) if above else (low, end)
    return start, high + 2.0**-12


ANY, TWO = (0, 0), (2, 2)
_AROUND, _SATURATED = ((-1.0, 2.0), (-2.0, 0.25)), ((-20.0, -10.0), (10.0, 20.0), (-20.0, 20.0))
_POSITIVE = ((0.0625, 4.0), (1.0, 1.5), (0.25, 16.0))
_TOUCHED = tuple(map(touched, (-1.5, -1.0, -0.75, -0.5, -0.25)))
_WAVES = ((-8.0, -4.5), (0.25, 12.0))
_APART = ((-4.5, -0.25), (0.25, 4.5), (-1.0, 2.0))
CASES: dict[str, OperatorCase] = {
    "relu": OperatorCase(node("Relu"), (*_AROUND, (-0.001, 1.0)), ANY),
    "leaky relu": OperatorCase(
        node("LeakyRelu", alpha=0.125),
        ((-20.0, -10.0), (-8.0, -1.0), (-2.0, -0.5), (-1.0, 2.0)),
        ANY,
    ),
    "sigmoid": OperatorCase(node("Sigmoid"), (*_AROUND, *_SATURATED), ANY),
    "sigmoid, spelled": OperatorCase(sigmoid, (*_AROUND, *_SATURATED), ANY),
    "tanh": OperatorCase(node("Tanh"), (*_AROUND, *_SATURATED), ANY),
    "exp": OperatorCase(node("Exp"), (*_AROUND, (-20.0, 3.0), (4.0, 6.0)), ANY),
    "log": OperatorCase(node("Log"), _POSITIVE, ANY),
    "sqrt": OperatorCase(node("Sqrt"), _POSITIVE, ANY),
    "square": OperatorCase(with_number("Pow", 2.0), (*_APART, (0.5, 3.0)), ANY),
    "square, spelled": OperatorCase(square, _APART, ANY),
    "cube": OperatorCase(with_number("Pow", 3.0), _APART, ANY),
    "reciprocal": OperatorCase(node("Reciprocal"), (*_POSITIVE, (-4.0, -0.125)), ANY),
    "sin": OperatorCase(
        node("Sin"), (*_WAVES, *((a + math.pi / 2.0, b + math.pi / 2.0) for a, b in _TOUCHED)), ANY
    ),
    "cos": OperatorCase(node("Cos"), (*_WAVES, *_TOUCHED), ANY),
    "abs": OperatorCase(node("Abs"), _APART, ANY),
    "clip": OperatorCase(
        with_number("Clip", -0.5, 1.5), ((-1.0, 2.0), (1.0, 4.0), (-4.0, 0.5)), ANY
    ),
    "pool": OperatorCase(pooled, (*_AROUND, (-1.0, 1.0)), (4, 2)),
    "product": OperatorCase(of_halves("Mul"), _APART, (2, 1)),
    "quotient": OperatorCase(of_halves("Div"), _POSITIVE, (2, 1)),
    "variance": OperatorCase(variance, _APART, (2, 1), means=True),
    "normalization": OperatorCase(normalization, _AROUND, TWO, 17, means=True),
    "normalization, spelled": OperatorCase(normalized, _AROUND, TWO, means=True),
    "softmax": OperatorCase(node("Softmax", axis=1), (*_AROUND, (-30.0, 30.0)), (3, 3)),
    "gelu": OperatorCase(node("Gelu"), (*_AROUND, (-8.0, -2.0)), ANY, 20),
    "gelu, spelled": OperatorCase(gelu, (*_AROUND, (-8.0, -2.0)), ANY),
}
# Operators whose bounds were found wrong in released verifiers come six times as often.
OFTEN = ("square", "cos", "leaky relu") * 5
TRIES = 12
_MOST_UNITS = 2


def short(values: Array) -> Array:
    """Round to 16 significant bits."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.round(mantissas * 2.0**16) / 2.0**16, exponents)


def drawn_box(dim: int, random: np.random.Generator) -> Box:
    """Draw a box of few bits."""
    middle, radius = short(random.uniform(-2.0, 2.0, dim)), 2.0 ** random.integers(-2, 2, dim)
    return Box(
        np.round((middle - radius) * 256.0) / 256.0, np.round((middle + radius) * 256.0) / 256.0
    )


def affine(
    box: Box, wanted: Sequence[tuple[float, float]], random: np.random.Generator
) -> tuple[Array, Array]:
    """Draw W (d, m) and b (m,), so that entries of x W + b have nearly these ranges on a box."""
    low, high = np.array(wanted).T
    shares = random.dirichlet(np.ones(len(box.lower)), len(low)).T
    signs = random.choice([-1.0, 1.0], shares.shape)
    weights = short(signs * shares * (high - low) / box.widths[:, np.newaxis])
    middle = (box.lower + box.upper) / 2.0
    offsets = (low + high) / 2.0 - middle @ weights
    return weights, np.round(offsets * 2.0**16) / 2.0**16


class Operator(Family):
    """Instances of one operator each; operators take turns."""

    name = "operator"
    purpose = "one operator between two affine maps, where bounds of it are hard"
    options = MappingProxyType({"margin": MARGIN})

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw an operator, a network and a box, until the largest output is found."""
        case = CASES[str(random.choice([*CASES, *OFTEN]))]
        margin = options["margin"] * (4.0 if case.means else 1.0)
        return first_found(
            lambda: _network(case, min(dim, 2), random), names, self.name, margin, random
        )


def first_found(
    draw: Callable[[], tuple[OperatorGraph, Box]],
    names: Names,
    family: str,
    margin: float,
    random: np.random.Generator,
) -> list[Instance]:
    """Make instances on the first network that is drawn whose largest or least output is found."""
    for _ in range(TRIES):
        network, box = draw()
        sign = int(random.choice([-1, 1]))
        try:
            found = extreme(graph_of(network), box, sign, margin)
            return around(found, names, network, box, sign, family, margin, random)
        except ParameterError:  # too many cells, or hardly any range of outputs
            continue
    raise ParameterError(
        f"no network of the family {family} was found whose largest output is",
        witness=list(names),
        suggestion="another seed, or a larger margin",
    )


def _network(
    case: OperatorCase, dim: int, random: np.random.Generator
) -> tuple[OperatorGraph, Box]:
    """Draw a network of an operator, and a box of its inputs."""
    count, left = case.units if case.units[0] else (int(random.integers(1, _MOST_UNITS + 1)),) * 2
    box = drawn_box(1 if case.means else int(random.integers(1, dim + 1)), random)
    picked = [case.ranges[k] for k in random.integers(len(case.ranges), size=count)]
    weights, offsets = affine(box, picked, random)
    made = Drawing()
    a = made.node("Gemm", "X", made.constant("W", weights), made.constant("b", offsets))
    after = case.draw(made, a)
    readout = short(random.choice([-1.0, 1.0], left) * 2.0 ** random.uniform(-1.0, 1.0, left))
    v = made.constant("v", readout[:, np.newaxis])
    made.node("Gemm", after, v, made.constant("c", short(random.normal(size=1))), name="Y")
    return OperatorGraph(len(box.lower), 1, made.nodes, made.constants, case.opset), box


# Nearly fixed inputs: boxes around few points, and slopes of one over their width.
#
# A network is Y = v relu(W x + b) + c, or without relu, on a box whose sides are 1e-9 to 1e-3 long;
# entries of W are about as large as the inverse, and of v up to 1e8. So W x + b crosses breakpoints
# within the box, where a verifier whose numbers have absolute tolerances sees one point.


_WIDTH = Option(1e-5, 1e-9, 1e-3, "length of the sides of the box", drawn=(1e-9, 1e-3))
_MOST_INPUTS, _NARROW_UNITS, _FARTHEST = 2, 3, 4
_SIZES = 8.0  # Powers of ten of v, at most
_RANGES = ((-1.0, 2.0), (-8.0, 8.0), (0.0, 8.0))  # of entries of W x + b
_AFFINE = 0.2  # The part of networks without relu


class Narrow(Family):
    """Instances on narrow boxes, with steep networks."""

    name = "narrow"
    purpose = "nearly fixed inputs, steep slopes and large outputs"
    options = MappingProxyType({"margin": MARGIN, "width": _WIDTH})

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw a box some widths from zero, and a network."""
        width = float(short(np.array(options["width"])))
        return first_found(
            lambda: _narrow_network(min(dim, _MOST_INPUTS), width, random),
            names, self.name, options["margin"], random,
        )  # fmt: skip


def _narrow_network(
    most: int, width: float, random: np.random.Generator
) -> tuple[OperatorGraph, Box]:
    """Draw a network with up to so many inputs, and a box with sides of a length."""
    inputs, units = (int(random.integers(1, each + 1)) for each in (most, _NARROW_UNITS))
    lower = width * random.integers(-_FARTHEST, _FARTHEST + 1, inputs)
    box, made = Box(lower, lower + width), Drawing()
    picked = [_RANGES[k] for k in random.integers(len(_RANGES), size=units)]
    weights, offsets = affine(box, picked, random)
    a = made.node("Gemm", "X", made.constant("W", weights), made.constant("b", offsets))
    if random.random() > _AFFINE:
        a = made.node("Relu", a)
    size = 10.0 ** random.uniform(0.0, _SIZES)
    v = size * random.choice([-1.0, 1.0], (units, 1)) * random.uniform(0.5, 2.0, (units, 1))
    c = made.constant("c", short(size * random.normal(size=1)))
    made.node("Gemm", a, made.constant("v", short(v)), c, name="Y")
    return OperatorGraph(inputs, 1, made.nodes, made.constants), box
