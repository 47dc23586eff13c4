"""Families whose maximum over the box is known by one dimension.

One head has its maximum at a planted point t; every other head depends on u = w s . (x - t) alone,
for signs s. On the line x = t + s u / (d w) the sum of all heads is as large as it gets for that u
(Proposition 20.3), so the maximum over the box is at most one over u, which is enclosed in balls.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from flint import arb

from constructive.exact.directed import upper
from constructive.exact.precision import working_precision
from constructive.instances.families.family import MARGIN, Family, Option
from constructive.instances.instance import Answer, Hardness, Instance, Twins
from constructive.instances.network import Network
from constructive.instances.proof import Refutations, Witness
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.rounding import needed_margin
from constructive.instances.search import refute_by_slabs
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

SCALE = Option(64.0, 1.0, 4096.0, "slope of the sharpest logits, beta", drawn=(16.0, 256.0))
# Significant bits of a slope, so that logits at the planted point are exact in float32.
_DIGITS = 6
_BITS = 96
_PIECES = 4000
_FINE = 2.0**-16  # How far an enclosed maximum may be from the largest value that was seen
_ROOM = 0.5  # The part of the margin that an unsat proof has to leave


@dataclass(frozen=True, eq=False)
class Plan:
    """A network with a planted point, and what is known of it."""

    network: Network  # with one output
    box: Box  # of inputs
    point: Array  # t (d,), in the box
    signs: Array  # s (d,), of entries 1 and -1
    falling: Callable[[arb], arb]  # an upper bound of the parts of f that fall with u, at u >= 0
    rising: Callable[[arb], arb]  # an upper bound of those that rise
    end: float  # u at the end of the box, or above it
    hardness: Callable[[float], Hardness]  # of finding f >= c, for a threshold c

    def maximum(self) -> tuple[float, float]:
        """Return bounds of the maximum of f on the box, rounded outward."""
        value = self.network.enclosed(self.point.tolist())[0]
        with working_precision(_BITS):
            return (
                -upper(-value),
                max(upper(value), _enclosed_maximum(self.falling, self.rising, self.end)),
            )


def _enclosed_maximum(
    falling: Callable[[arb], arb], rising: Callable[[arb], arb], end: float
) -> float:
    """Bound max (p(u) + q(u)) on [0, end] for p that falls and q that rises, in balls.

    On [a, b] the sum is at most p(a) + q(b). Pieces are halved until that is within `_FINE` of the
    largest sum that was seen.
    """
    seen, most = -np.inf, -np.inf
    todo = [(Fraction(0), Fraction(end))]
    for _ in range(_PIECES):
        if not todo:
            break
        a, b = todo.pop()
        low, high = arb(float(a)), arb(float(b))
        bound = upper(falling(low) + rising(high))
        seen = max(seen, float((falling(high) + rising(high)).mid()))
        seen = max(seen, float((falling(low) + rising(low)).mid()))
        if bound <= seen + _FINE:
            most = max(most, bound)
        else:
            half = Fraction(float((a + b) / 2))
            todo += [(a, half), (half, b)]
    left = [upper(falling(arb(float(a))) + rising(arb(float(b)))) for a, b in todo]
    return max([most, *left])


def short(value: float, bits: int) -> float:
    """Round to a multiple of 2^-bits.

    Example:
        >>> short(0.3, 2)
        0.25
    """
    return round(value * 2.0**bits) / 2.0**bits


def short_slope(value: float) -> float:
    """Round a positive float to 6 significant bits.

    Example:
        >>> short_slope(100.3), short_slope(64.0)
        (100.0, 64.0)
    """
    return short(value, _DIGITS - int(np.frexp(value)[1]))


class Planted(Family):
    """Twins around the maximum of a network with a planted point."""

    options = MappingProxyType({"scale": SCALE, "margin": MARGIN})

    @abstractmethod
    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Plan:
        """Draw a network with a planted point."""

    def draw(
        self, name: str, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> tuple[Instance, ...]:
        """Draw twins: thresholds a margin below the value at t, and above the maximum."""
        plan = self.plan(dim, random, options)
        least, most = plan.maximum()
        margin = options["margin"]
        letters = ["a", "b"] if random.integers(2) else ["b", "a"]

        def asked(threshold: float) -> Property:
            return Property(plan.box, ((Atom(np.ones(1), threshold),),))

        below = asked(float(np.nextafter(np.float32(least - margin), np.float32(-np.inf))))
        above = asked(float(np.nextafter(np.float32(most + margin), np.float32(np.inf))))
        needed = needed_margin(plan.network, below)
        if not needed <= _ROOM * margin:
            raise ParameterError(
                f"margin={margin:g} is too small for this network of the family {self.name}",
                witness={"least margin": float(needed / _ROOM)},
                suggestion=f"margin={2.0 * needed / _ROOM:.2g}, or a smaller scale",
            )
        ((above_atom,),) = above.disjuncts
        slabs = refute_by_slabs(
            plan.network,
            plan.box,
            above_atom,
            above_atom.threshold - max(needed, _ROOM * margin),
            direction=plan.signs,
            centre=plan.point,
        )
        if slabs is None:
            raise ParameterError(
                f"no proof was found that {name} has no value above its maximum",
                witness=name,
                suggestion="another seed, or a larger margin",
            )
        witness = Witness(tuple(Fraction(x) for x in plan.point.tolist()))
        return Twins(
            Instance(
                f"{name}_{letters[0]}", plan.network, below, Answer.SAT, witness, self.name,
                plan.hardness(below.disjuncts[0][0].threshold),
            ),
            Instance(
                f"{name}_{letters[1]}", plan.network, above, Answer.UNSAT,
                Refutations((slabs,)), self.name,
            ),
        )  # fmt: skip
