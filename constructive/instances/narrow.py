"""Boxes that are nearly points, and slopes of one over their width.

A network is Y = v relu(W x + b) + c, or without relu, on a box whose sides are 1e-9 to 1e-3 long;
entries of W are about as large as the inverse, and of v up to 1e8. So W x + b crosses breakpoints
within the box, where a verifier whose numbers have absolute tolerances sees one point.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from constructive.instances.graphs import Drawing, OperatorGraph
from constructive.instances.instance import Family, Instance, Names, Option
from constructive.instances.operator import MARGIN, affine, first_found, short
from constructive.instances.properties import Box

_WIDTH = Option(1e-5, 1e-9, 1e-3, "length of the sides of the box", drawn=(1e-9, 1e-3))
_MOST_INPUTS, _MOST_UNITS, _FARTHEST = 2, 3, 4
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
            lambda: _network(min(dim, _MOST_INPUTS), width, random),
            names, self.name, options["margin"], random,
        )  # fmt: skip


def _network(most: int, width: float, random: np.random.Generator) -> tuple[OperatorGraph, Box]:
    """Draw a network with up to so many inputs, and a box with sides of a length."""
    inputs, units = (int(random.integers(1, each + 1)) for each in (most, _MOST_UNITS))
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
