"""Families whose maximum over the box is known by one dimension.

One head has its maximum at a planted point t; every other head depends on u = w s . (x - t) alone,
for signs s. On the line x = t + s u / (d w) the sum of all heads is as large as it gets for that u
(Proposition 20.3), so the maximum over the box is at most one over u, which is enclosed in balls.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from flint import arb

from constructive.exact.directed import upper, working_precision
from constructive.instances.instance import (
    MARGIN,
    Answer,
    Family,
    Instance,
    Names,
    Option,
    Refutations,
    Witness,
)
from constructive.instances.network import LEAD, Head, Network, Stacked
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.refutations import needed_margin, refute_by_slabs
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

SCALE = Option(64.0, 1.0, 4096.0, "slope of the sharpest logits, beta", drawn=(16.0, 256.0))
# Significant bits of a slope, so that logits at the planted point are exact in float32.
_DIGITS = 6
_BITS = 96
_PIECES = 4000
_FINE = 2.0**-16  # How far an enclosed maximum may be from the largest value that was seen
_FARTHEST = 4.0  # Margins from the maximum to the threshold of a second instance, at most
_ROOM = 0.5  # The part of the margin that an unsat proof has to leave


@dataclass(frozen=True, eq=False)
class Planting:
    """A network with a planted point, and what is known of it."""

    network: Network  # with one output
    box: Box  # of inputs
    point: Array  # t (d,), in the box
    signs: Array  # s (d,), of entries 1, -1 and 0
    falling: Callable[[arb], arb]  # an upper bound of the parts of f that fall with u, at u >= 0
    rising: Callable[[arb], arb]  # an upper bound of those that rise
    slope: float  # w

    def maximum(self) -> tuple[float, float]:
        """Return the value at t, and a bound of the maximum of f on the box."""
        value = float(self.network(self.point[np.newaxis])[0, 0])
        farthest = np.maximum(self.box.upper - self.point, self.point - self.box.lower)
        end = self.slope * (np.abs(self.signs) * farthest).sum()
        with working_precision(_BITS):
            return value, max(value, _enclosed_maximum(self.falling, self.rising, float(end)))


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
    """Round to a multiple of 2^-bits."""
    return round(value * 2.0**bits) / 2.0**bits


def short_slope(value: float) -> float:
    """Round a positive float to 6 significant bits."""
    return short(value, _DIGITS - int(np.frexp(value)[1]))


class Planted(Family):
    """Thresholds around the maximum of a network with a planted point."""

    options = MappingProxyType({"scale": SCALE, "margin": MARGIN})

    @abstractmethod
    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Planting:
        """Draw a network with a planted point."""

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw thresholds a margin below the value at t, and above the maximum.

        Values are multiplied by a number from 1/2 to 2: else thresholds would tell the answer.
        """
        plan = self.plan(dim, random, options)
        height = short_slope(2.0 ** random.uniform(-1.0, 1.0))
        heads = (Head(h.slopes, h.offsets, height * h.values) for h in plan.network.heads)
        network = replace(plan.network, heads=tuple(heads))

        def asked(threshold: float) -> Property:
            return Property(plan.box, ((Atom(np.ones(1), threshold),),))

        margin, needed = options["margin"], needed_margin(network, asked(0.0))
        if not needed <= _ROOM * margin:
            raise ParameterError(
                f"margin={margin:g} is too small for this network of the family {self.name}",
                witness={"least margin": needed / _ROOM},
                suggestion=f"margin={2.0 * needed / _ROOM:.2g}, or a smaller scale",
            )
        least, most = (height * bound for bound in plan.maximum())
        above = asked(float(np.nextafter(np.float32(most + margin), np.float32(np.inf))))
        ((atom,),) = above.disjuncts
        slabs = refute_by_slabs(
            network.reduced(above).network,
            plan.box,
            atom,
            atom.threshold - max(needed, _ROOM * margin),
            direction=plan.signs,
            centre=plan.point,
        )
        if slabs is None:
            raise ParameterError(
                f"no proof was found that {self.name} has no value above its maximum",
                witness=list(names),
                suggestion="another seed, or a larger margin",
            )
        witness = Witness(tuple(Fraction(x) for x in plan.point.tolist()))
        made: list[Instance] = []
        proof: Witness | Refutations
        for name, answer in names.items():
            first = all(each.answer is not answer for each in made)
            far = margin * (1.0 if first else random.uniform(1.5, _FARTHEST))
            if answer is Answer.SAT:
                below = np.nextafter(np.float32(least - far), np.float32(-np.inf))
                wanted, proof = asked(float(below)), witness
            else:
                wanted = above if first else asked(float(np.float32(most + far)))
                proof = Refutations((slabs,))
            made.append(Instance(name, network, wanted, answer, proof, self.name))
        return made


# Needles: a sharp peak inside of the box, and a decoy that leads away from it.
#
# Token 0 of the first head has logit 0 and value 1. Each coordinate has two guards, of logits
# beta (x_i - t_i) - gamma and -beta (x_i - t_i) - gamma, and of value 0. The second head is
# eta sigma(w s . (x - t) + z). Proposition 20.3 is about it.


DECOY = Option(0.5, 0.0, 1.0, "height of the decoy, eta; 0 for none")
_REST = 2.0  # Logits by which guards are below the needle at t, beyond ln of their number
_STEEPEST = 0.5
_REACH = 4.0  # About the largest |u| of a decoy on the box


def decoy_slope(dim: int) -> float:
    """Return w, a power of two, so that u = w s . (x - t) stays of one size for all d."""
    return min(_STEEPEST, 2.0 ** math.floor(math.log2(_REACH / dim)))


def decoy_head(
    tokens: int, point: Array, signs: Array, height: float, shift: float
) -> tuple[Head, arb]:
    """Return the head eta sigma(w s . (x - t) + z), of one token with a slope, and z.

    `height` is eta; `shift` is near z, which is such that logits have few bits.
    """
    slope = decoy_slope(len(point))
    slopes, offsets, values = np.zeros((tokens, len(point))), np.zeros(tokens), np.zeros(tokens)
    slopes[0], values[0] = slope * signs, height
    at_point = slope * float(signs @ point)
    offsets[0] = short(math.log(tokens - 1) + shift - at_point, 8)
    exact = arb(float(offsets[0]) + at_point) - arb(tokens - 1).log()
    return Head(slopes, offsets, values[:, np.newaxis]), exact


class Peaked(Planted):
    """A head with a peak, whose other tokens are guards, and a decoy."""

    options = MappingProxyType({**Planted.options, "decoy": DECOY})
    shift: ClassVar[float]  # about z of the decoy
    two_sided: ClassVar[bool]  # whether guards stand on both sides of each coordinate

    def peak(
        self, box: Box, point: Array, signs: Array, guards: Array, gamma: float,
        options: Mapping[str, float],
    ) -> Planting:  # fmt: skip
        """Return the network whose guards g (G, d) have logits beta g . (x - t) - gamma."""
        beta, height = short_slope(options["scale"]), short(options["decoy"], 8)
        slopes = np.vstack([np.zeros((1, len(point))), beta * guards])
        offsets = np.append(0.0, -(guards @ (beta * point)) - gamma)
        values = np.eye(len(slopes), 1)
        decoy, shift = decoy_head(len(slopes), point, signs, height, self.shift)
        heads = (Head(slopes, offsets, values), decoy)[: 1 + (height > 0.0)]
        slope = decoy_slope(len(point))
        rate = beta / (len(point) * slope)

        def falling(u: arb) -> arb:
            """1 / (1 + G cosh(r u)), or 1 / (1 + G exp(r u)) with guards on one side alone."""
            grown = (u * rate).cosh() if self.two_sided else (u * rate).exp()
            return 1 / (1 + len(guards) * (-arb(gamma)).exp() * grown)

        def rising(u: arb) -> arb:
            return height / (1 + (-(u + shift)).exp())

        return Planting(Network(heads), box, point, signs, falling, rising, slope)


class Needle(Peaked):
    """Peaks inside of the box."""

    name = "needle"
    purpose = "a sharp maximum inside of the box, which gradients lead away from"
    shift = 0.0
    two_sided = True

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Planting:
        """Draw the middle of the box, t off its middle and off its corners, and signs."""
        middle = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(middle - 1.0, middle + 1.0)
        point = np.array([short(x, 8) for x in middle + random.uniform(-0.7, 0.7, dim)])
        signs = random.choice([-1.0, 1.0], dim)
        gamma = math.ceil(4.0 * math.log(2 * dim)) / 4.0 + _REST
        guards = np.kron(np.eye(dim), [[1.0], [-1.0]])
        return self.peak(box, point, signs, guards, gamma, options)


# Two layers: a needle for x + g(x), where g is a layer of one head that is saturated on the box.
#
# The first token of g leads by 128 nats or more everywhere, so g is its value v, and the second
# layer sees x + v, up to less than 1e-50.


class TwoLayers(Needle):
    """Needles behind a layer of attention that is saturated on the box."""

    name = "stacked"
    purpose = "two layers: bounds of the first must not grow on the way through the second"

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Planting:
        """Draw a needle, and a layer before it; the offsets of the needle make up for v."""
        plan = super().plan(dim, random, options)
        box, tokens = plan.box, int(random.integers(2, _FIRST_TOKENS + 1))
        values = random.integers(-4, 5, (tokens, dim)) / 4.0
        slopes = random.integers(-16, 17, (tokens, dim)) / 16.0
        offsets = random.integers(-8, 9, tokens) / 8.0
        reach = np.abs(slopes).sum(axis=1).max() * np.abs([box.lower, box.upper]).max()
        offsets[0] = math.ceil(LEAD + 2.0 + 2.0 * reach)
        heads = tuple(
            Head(head.slopes, head.offsets - head.slopes @ values[0], head.values)
            for head in plan.network.heads
        )
        network = Stacked(heads, Network((Head(slopes, offsets, values),)))
        return replace(plan, network=network)


# Needles at a corner of the box, with a guard on one side of each coordinate.
#
# Token 0 of the first head has logit 0 and value 1; guards have logits beta s_i (x_i - t_i) - gamma
# and value 0, where t is the corner and s points into the box. The second head is a decoy, as in
# `needle`. The logits of a needle of the same scale are farther from each other.


_CORNER_REST = 1.0
_FIRST_TOKENS = 6  # Of a first layer, at most


class Corner(Peaked):
    """Peaks at a corner of the box."""

    name = "corner"
    purpose = "a sharp maximum at a corner, which gradients lead away from"
    shift = -1.0  # The decoy starts lower at a corner, as it can only rise from there
    two_sided = False

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Planting:
        """Draw the box and one of its corners."""
        lower = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(lower, lower + 1.0)
        signs = random.choice([-1.0, 1.0], dim)
        point = np.where(signs > 0.0, box.lower, box.upper)
        gamma = math.ceil(4.0 * math.log(dim)) / 4.0 + _CORNER_REST
        return self.peak(box, point, signs, np.diag(signs), gamma, options)


# Shadows: a head whose weight is far below the largest one for most of the box.
#
# With u = s . (x - t) in [0, d], the first head is sigma(R u / d - R): it rises by R nats, from
# next to nothing to one half. The second, 6 sigma(1 - 2 u / d), falls. The sum is largest at u =
# 0. Bounds that add a small number to probabilities, or cut them off, are wrong here.


_WIDEST = 64  # Inputs that u is a sum of, at most
_HEIGHT = 6.0
_FALL = 2.0
_START = 1.0


class Shadow(Planted):
    """Sums of a head that rises out of nothing, and one that falls."""

    name = "shadow"
    purpose = "a weight far below the largest one, which must not be cut off"

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Planting:
        """Draw the box and the corner t."""
        lower = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(lower, lower + 1.0)
        signs = random.choice([-1.0, 1.0], dim)
        point = np.where(signs > 0.0, box.lower, box.upper)
        if dim > _WIDEST:  # float32 rounds a sum of more by more than margins allow
            signs[random.permutation(dim)[_WIDEST:]] = 0.0
            dim = _WIDEST
        rise = short_slope(options["scale"] / dim)
        fall = short_slope(_FALL / dim)
        at_point = float(signs @ point)

        def head(slope: float, offset: float, height: float) -> Head:
            slopes = np.stack([slope * signs, np.zeros(len(signs))])
            return Head(slopes, np.array([offset, 0.0]), np.array([[height], [0.0]]))

        network = Network(
            (
                head(rise, -rise * (at_point + dim), 1.0),
                head(-fall, fall * at_point + _START, _HEIGHT),
            )
        )

        def falling(u: arb) -> arb:
            return _HEIGHT / (1 + (u * fall - _START).exp())

        def rising(u: arb) -> arb:
            return 1 / (1 + (rise * dim - u * rise).exp())

        return Planting(network, box, point, signs, falling, rising, 1.0)
