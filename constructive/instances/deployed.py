"""Answers of float32 programs that are not those of real arithmetic: both are proved.

In a *step* row of logits at most one slope is not zero, and it is a power of two of size one or
more. So its product with an input has no error, and every program of the model computes one number,
fl(a x + b), in whatever order and with or without fused multiply-add. Rounding is monotone, so on a
box this is between its values at the two ends, which exact arithmetic finds. From there the
interval form bounds attention, and Proposition 20.7 what softmax and sums round, where l - max l is
off by less than eta = 4 u D, D the largest difference of two logits, and by what underflow takes
(Proposition 20.11).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from constructive.exact.upward import gamma, up
from constructive.instances.family import Family, Names, Option
from constructive.instances.instance import Answer, InFloat32, Instance, Refutations, Witness
from constructive.instances.network import Head, Network
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.refutations import Interval, ranges_of
from constructive.instances.rounding import MODEL, averages_rounding, flushed_logit, reach_of
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

_LARGEST = 2.0**100  # More than any logit may be
_POWER = 0.5  # The mantissa of a power of two, as numpy says it
_SUBTRACTED = 4  # Roundings of differences to the largest logit, of blocks and of their merges


@dataclass(frozen=True)
class Deployed(InFloat32):
    """The answer of every float32 program of the model: by a point, or on the whole box."""

    answer: Answer
    witness: Witness | None = None  # of sat

    def margin(self, network: Network, wanted: Property) -> float:
        """Return a lower bound of the distance of computed outputs from the threshold."""
        if self.answer is Answer.SAT:
            if self.witness is None or not self.witness.is_in(wanted.box):
                return -math.inf
            point = [float(x) for x in self.witness.point]
            outputs = Computed(network, Box(np.array(point), np.array(point)))
            return max(
                min(-outputs.most(-a.coefficients) - a.threshold for a in atoms)
                for atoms in wanted.disjuncts
            )
        outputs = Computed(network, wanted.box)
        return min(
            max(a.threshold - outputs.most(a.coefficients) for a in atoms)
            for atoms in wanted.disjuncts
        )

    def check(self, instance: Instance) -> None:
        """Require positive margins of both answers."""
        margins = instance.margin, self.margin(instance.network, instance.property)
        if not min(margins) > 0.0:
            raise ParameterError(
                f"{instance.name} has no proof of both answers",
                witness={"real": margins[0], "float32": margins[1]},
                suggestion="a threshold between the values of both",
            )

    def rounding(self, instance: Instance) -> float:
        """Bound what softmax and sums round, if logits are those that are computed."""
        rounding: Array = Computed(instance.network, instance.property.box).rounding
        return float(rounding.max())

    def document(self) -> dict[str, Any]:
        """Return its entry in a proof file."""
        evidence = self.witness.document() if self.witness else {}
        return {"answer": str(self.answer), **evidence}


class Computed:
    """What float32 programs compute on a box, for a network whose rows are step rows."""

    def __init__(self, network: Network, box: Box) -> None:
        etas, reaches, largest = [], [], 0.0
        for head in network.heads:
            low, high = computed_logits(head, box)
            reach = high - low[:, np.newaxis]  # M: l_j - l_i at [i, j]
            reach = reach + gamma(4) * np.abs(reach)
            np.fill_diagonal(reach, 0.0)
            reaches.append(reach)
            moved = up(_SUBTRACTED * MODEL.unit * np.abs(reach).max())
            etas.append(float(up(moved + flushed_logit(head, reach_of(box)))))
            largest = max(largest, float(np.abs([low, high]).max()))
        self._ranges = ranges_of(network, reaches)
        self.rounding = averages_rounding(network, etas, largest)

    def most(self, coefficients: Array) -> float:
        """Return an upper bound of the computed w . f."""
        off = float(up(np.abs(coefficients) @ self.rounding))
        return math.nextafter(self._ranges.upper_bound(coefficients) + off, math.inf)


def computed_logits(head: Head, box: Box) -> tuple[Array, Array]:
    """Return the least and the largest logits that float32 programs compute on a box: (n,) each."""
    sizes = np.abs(head.slopes[head.slopes != 0.0])
    mantissas, exponents = np.frexp(sizes)
    steps = (mantissas == _POWER) & (exponents >= 1)
    if not steps.all() or (np.count_nonzero(head.slopes, axis=1) > 1).any():
        raise ParameterError(
            "a logit is more than one rounding",
            witness=float(sizes.max()),
            suggestion="at most one slope in a row, a power of two of size one or more",
        )
    ends: list[list[float]] = [[], []]
    for row, offset in zip(head.slopes, head.offsets.tolist(), strict=True):
        (places,) = np.nonzero(row)
        slope, *bounds = (
            (row[places[0]], box.lower[places[0]], box.upper[places[0]])
            if len(places)
            else (0.0, 0.0, 0.0)
        )
        values = sorted(
            nearest(Fraction(float(slope)) * Fraction(float(x)) + Fraction(offset)) for x in bounds
        )
        for side, value in zip(ends, values, strict=True):
            side.append(value)
    low, high = np.array(ends)
    if not max(float(np.abs(low).max()), float(np.abs(high).max())) < _LARGEST:
        raise ParameterError(
            "a logit may overflow",
            witness=float(np.abs(high).max()),
            suggestion="offsets and inputs below 2^99 in size",
        )
    return low, high


def nearest(exact: Fraction) -> float:
    """Round to the nearest float32 number, ties to even; below 2^100 in size."""
    if not exact:
        return 0.0
    unit = Fraction(2) ** (max(math.frexp(float(exact))[1], -125) - 24)
    return float(round(exact / unit) * unit)


# Steps: with a large number in all logits of a head, float32 rounds them to multiples of S.
#
# Some tokens have the logit B = 1.5 2^23 S and the value v. d others have the logits
# B - gamma + s_i beta (x_i - t_i), and the value 0. Real weights see r_i = s_i beta (x_i - t_i), a
# program the multiple of S that is next to it, which is 0 up to S / 2. On the box with
# -3 S / 8 <= r_i <= -S / 8 the program returns one number, which the real maximum is above. On its
# mirror image it returns the same number, which the real maximum is below. Where S is small the
# boxes are wider: from -7 S / 16 to 7 S / 16, and from -5 S / 8 to S / 4, where the program rounds
# to -S and is above the real maximum.


_STEP = Option(16.0, 2.0**-4, 256.0, "distance of float32 numbers near the logits", (0.25, 256.0))
_COARSE = 4.0  # Steps from which boxes are those beside the planted point
# Ends of boxes, and what the largest computed logits are rounded to, in steps: for real answers.
_BESIDE = {Answer.SAT: (-0.375, -0.125, 0.0), Answer.UNSAT: (0.125, 0.375, 0.0)}
_AROUND = {Answer.SAT: (-0.4375, 0.4375, 0.0), Answer.UNSAT: (-0.625, 0.25, -1.0)}


class Rounding(Family):
    """Instances whose answers in real arithmetic are not those of float32 programs."""

    name = "rounding"
    purpose = "real arithmetic and float32 programs have different answers"
    options = MappingProxyType({"step": _STEP})

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw a network and boxes, with thresholds between real and computed maxima."""
        step = 2.0 ** round(math.log2(options["step"]))
        beta = max(step, 1.0)
        point, signs = random.integers(-2, 3, dim).astype(float), random.choice([-1.0, 1.0], dim)
        gamma = step * round(math.log(dim) / step)
        tops = max(1, round(dim * math.exp(-gamma)))
        level = 1.5 * 2.0**23 * step
        slopes = np.vstack([np.zeros((tops, dim)), beta * np.diag(signs)])
        offsets = np.append(np.full(tops, level), level - gamma - beta * signs * point)
        value = round(64.0 * 2.0 ** random.uniform(-1.0, 1.0)) / 64.0
        values = np.repeat([[value], [0.0]], [tops, dim], axis=0)
        network = Network((Head(slopes, offsets, values),))

        def height(steps: float) -> float:
            """The output where all r_i are so many S."""
            return value / (1.0 + dim * math.exp(steps * step - gamma) / tops)

        made = []
        for name, answer in names.items():
            low, high, rounded = (_AROUND if step < _COARSE else _BESIDE)[answer]
            ends = np.array([[low], [high]]) * signs * (step / beta) + point
            real, computed, share = height(low), height(rounded), random.uniform(0.375, 0.625)
            threshold = float(np.float32(real + share * (computed - real)))
            wanted = Property(Box(*np.sort(ends, axis=0)), ((Atom(np.ones(1), threshold),),))
            lowest = Witness(tuple(map(Fraction, ends[0].tolist())))  # where all r_i are least
            is_sat = answer is Answer.SAT
            made.append(
                Instance(
                    name, network, wanted, answer,
                    lowest if is_sat else Refutations((Interval(0),)), self.name,
                    float32=Deployed(Answer.UNSAT) if is_sat else Deployed(Answer.SAT, lowest),
                )
            )  # fmt: skip
        return made
