"""One question in several spellings: graphs that compute one function, texts that ask one thing.

A network of two layers with ReLU is written as several ONNX graphs: affine maps as Gemm, MatMul and
Add, or parts beside each other; ReLU as one of four operators; and nodes that do nothing but give
the input another shape. The property, a disjunction, has a style of its own in each VNN-LIB text.
All instances of a group have one answer, so a tool whose answers differ is wrong once.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from constructive.instances.graphs import Drawing, OperatorGraph, graph_of
from constructive.instances.instance import (
    Answer,
    Family,
    Instance,
    Names,
    Refutations,
    Witness,
)
from constructive.instances.operator import (
    MARGIN,
    TRIES,
    CellBound,
    affine,
    drawn_box,
    extreme,
    short,
)
from constructive.instances.properties import STYLES, Atom, Property
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

_INPUTS, _HIDDEN, _OUTPUTS, _SPELLINGS = 2, 2, 2, 4
_LARGE = 2.0**60  # The upper bound of Clip as ReLU
Affine = Callable[[Drawing, str, Array, Array, str], str]


def gemm(made: Drawing, x: str, weights: Array, offsets: Array, layer: str) -> str:
    """Draw one node."""
    w, b = made.constant(f"W{layer}", weights), made.constant(f"b{layer}", offsets)
    return made.node("Gemm", x, w, b)


def transposed(made: Drawing, x: str, weights: Array, offsets: Array, layer: str) -> str:
    """Draw Gemm with a transposed matrix."""
    w, b = made.constant(f"W{layer}", weights.T), made.constant(f"b{layer}", offsets)
    return made.node("Gemm", x, w, b, transB=1)


def product(made: Drawing, x: str, weights: Array, offsets: Array, layer: str) -> str:
    """Draw MatMul and Add."""
    w, b = made.constant(f"W{layer}", weights), made.constant(f"b{layer}", offsets)
    return made.node("Add", b, made.node("MatMul", x, w))


def difference(made: Drawing, x: str, weights: Array, offsets: Array, layer: str) -> str:
    """Draw MatMul and Sub."""
    w, b = made.constant(f"W{layer}", weights), made.constant(f"b{layer}", -offsets)
    return made.node("Sub", made.node("MatMul", x, w), b)


def halves(made: Drawing, x: str, weights: Array, offsets: Array, layer: str) -> str:
    """Draw two Gemms beside each other."""
    half = len(offsets) // 2
    parts = [
        gemm(made, x, weights[:, place], offsets[place], f"{layer}_{k}")
        for k, place in enumerate((slice(half), slice(half, None)))
    ]
    return made.node("Concat", *parts, axis=1)


def relu_by_max(made: Drawing, a: str) -> str:
    """Draw max(a, 0)."""
    return made.node("Max", a, made.constant("nothing", [0.0]))


def relu_by_clip(made: Drawing, a: str) -> str:
    """Draw a clipped from 0 to a large number."""
    return made.node("Clip", a, made.constant("nothing", 0.0), made.constant("large", _LARGE))


def reshaped(made: Drawing, x: str) -> str:
    """Draw the same shape."""
    return made.node("Reshape", x, made.constant("shape", [1, _INPUTS], np.int64))


def split(made: Drawing, x: str) -> str:
    """Draw two halves, and these beside each other."""
    parts = made.split(x)
    return made.node("Concat", *parts, axis=1)


AFFINE: tuple[Affine, ...] = (gemm, transposed, product, difference, halves)
RELU: tuple[Callable[[Drawing, str], str], ...] = (
    lambda made, a: made.node("Relu", a),
    lambda made, a: made.node("LeakyRelu", a, alpha=0.0),
    relu_by_max,
    relu_by_clip,
)
BEFORE: tuple[Callable[[Drawing, str], str], ...] = (
    lambda _, x: x,
    lambda made, x: made.node("Flatten", x, axis=1),
    lambda made, x: made.node("Identity", x),
    reshaped,
    split,
)


class Spelling(Family):
    """Groups of instances with one answer, in several spellings."""

    name = "spelling"
    purpose = "parsers: one network and one property, written in several ways"
    options = MappingProxyType({"margin": MARGIN})

    def draw(
        self,
        names: Names,
        dim: int,  # noqa: ARG002 - there are two inputs
        random: np.random.Generator,
        options: Mapping[str, float],
    ) -> list[Instance]:
        """Draw a network and a property, for the first name and answer, and write it four times."""
        for _ in range(TRIES):
            try:
                return self._attempt(names, random, options["margin"])
            except ParameterError:  # too many cells
                continue
        raise ParameterError(
            "no network was found whose largest outputs are",
            witness=list(names),
            suggestion="another seed, or a larger margin",
        )

    def _attempt(self, names: Names, random: np.random.Generator, margin: float) -> list[Instance]:
        (name, answer), *_ = names.items()
        box = drawn_box(_INPUTS, random)
        first = affine(box, [(-1.0, 2.0)] * _HIDDEN, random)
        second = short(random.normal(size=(_HIDDEN, _OUTPUTS))), short(random.normal(size=_OUTPUTS))
        plain = graph_of(spelled(first, second, (0, 0, 0, 0)))
        found = [extreme(plain, box, 1, margin, place) for place in range(_OUTPUTS)]
        met, atoms, parts = int(random.integers(_OUTPUTS)), [], []
        for place, (each, unit) in enumerate(zip(found, np.eye(_OUTPUTS), strict=True)):
            far, is_met = margin * float(each.spread), answer is Answer.SAT and place == met
            threshold = float(each.reached) - far if is_met else float(each.most) + far
            atoms.append((Atom(unit, float(np.float32(threshold))),))
            parts.append(CellBound(0, Fraction(float(each.most) + far / 2.0)))
        wanted = Property(box, tuple(atoms))
        proof = Witness(found[met].point) if answer is Answer.SAT else Refutations(tuple(parts))
        made, group = [], name.rpartition("_")[0] or name
        for number in range(_SPELLINGS):
            sizes = (len(AFFINE), len(RELU), len(AFFINE), len(BEFORE))
            choice = tuple(int(random.integers(size)) for size in sizes) if number else (0, 0, 0, 0)
            network, letter = spelled(first, second, choice), chr(ord("a") + number)
            style = int(random.integers(STYLES)) if number else 0
            given = f"{group}{letter}_a", network, wanted, answer, proof, self.name
            made.append(Instance(*given, style=style))
        return made


def spelled(
    first: tuple[Array, Array], second: tuple[Array, Array], choice: tuple[int, ...]
) -> OperatorGraph:
    """Return a network of two layers with ReLU, spelled as a choice of each of four things says."""
    made, (one, relu, other, before) = Drawing(), choice
    a = AFFINE[one](made, BEFORE[before](made, "X"), *first, "1")
    AFFINE[other](made, RELU[relu](made, a), *second, "2")
    made.end()
    return OperatorGraph(len(first[0]), len(second[1]), made.nodes, made.constants)
