"""Needles: a sharp peak inside of the box, and a decoy that leads away from it.

Token 0 of the first head has logit 0 and value 1. Each coordinate has two guards, of logits
beta (x_i - t_i) - gamma and -beta (x_i - t_i) - gamma, and of value 0. The second head is
eta sigma(w s . (x - t) + z). Propositions 20.3 to 20.5 are about it.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from flint import arb

from constructive.instances.families.family import Option
from constructive.instances.families.hidden import Decoy, Hidden, falling_needle
from constructive.instances.families.planted import Plan, Planted, short, short_slope
from constructive.instances.network import Head, Network
from constructive.instances.properties import Box
from constructive.support.arrays import Array

DECOY = Option(0.5, 0.0, 1.0, "height of the decoy, eta; 0 for none")
_REST = 2.0  # Logits by which guards are below the needle at t, beyond ln of their number
_STEEPEST = 0.5
_REACH = 4.0  # About the largest |u| of a decoy on the box


def decoy_slope(dim: int) -> float:
    """Return w, a power of two, so that u = w s . (x - t) stays of one size for all d.

    Example:
        >>> decoy_slope(2), decoy_slope(8), decoy_slope(64)
        (0.5, 0.5, 0.0625)
    """
    return min(_STEEPEST, 2.0 ** math.floor(math.log2(_REACH / dim)))


def decoy_head(
    tokens: int, point: Array, signs: Array, height: float, shift: float
) -> tuple[Head, Decoy]:
    """Return the head eta sigma(w s . (x - t) + z), of one token with a slope, and what it is.

    `height` is eta; `shift` is near z, which is such that logits have few bits.
    """
    slope = decoy_slope(len(point))
    slopes, offsets, values = np.zeros((tokens, len(point))), np.zeros(tokens), np.zeros(tokens)
    slopes[0], values[0] = slope * signs, height
    at_point = slope * float(signs @ point)
    offsets[0] = short(math.log(tokens - 1) + shift - at_point, 8)
    exact = arb(float(offsets[0]) + at_point) - arb(tokens - 1).log()
    return Head(slopes, offsets, values[:, np.newaxis]), Decoy(height, slope, exact)


class Peaked(Planted):
    """A head with a peak, whose other tokens are guards, and a decoy."""

    options = MappingProxyType({**Planted.options, "decoy": DECOY})
    shift: ClassVar[float]  # about z of the decoy
    two_sided: ClassVar[bool]  # whether guards stand on both sides of each coordinate

    def peak(
        self, box: Box, point: Array, signs: Array, guards: Array, gamma: float,
        options: Mapping[str, float],
    ) -> Plan:  # fmt: skip
        """Return the network whose guards g (G, d) have logits beta g . (x - t) - gamma."""
        beta, height = short_slope(options["scale"]), short(options["decoy"], 8)
        slopes = np.vstack([np.zeros((1, len(point))), beta * guards])
        offsets = np.append(0.0, -(guards @ (beta * point)) - gamma)
        values = np.eye(len(slopes), 1)
        decoy_tokens, decoy = decoy_head(len(slopes), point, signs, height, self.shift)
        heads = (Head(slopes, offsets, values), decoy_tokens)[: 1 + (height > 0.0)]
        hidden = Hidden(box, point, signs, beta, gamma, decoy)
        rate = beta / (len(point) * decoy.slope)
        return Plan(
            Network(heads), box, point, signs,
            falling_needle(len(guards), gamma, rate, two_sided=self.two_sided), decoy.value,
            float(decoy.slope * np.maximum(box.upper - point, point - box.lower).sum()), hidden,
        )  # fmt: skip


class Needle(Peaked):
    """Peaks inside of the box."""

    name = "needle"
    purpose = "a sharp maximum inside of the box, which gradients lead away from"
    shift = 0.0
    two_sided = True

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Plan:
        """Draw the middle of the box, t off its middle and off its corners, and signs."""
        middle = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(middle - 1.0, middle + 1.0)
        point = np.array([short(x, 8) for x in middle + random.uniform(-0.7, 0.7, dim)])
        signs = random.choice([-1.0, 1.0], dim)
        gamma = math.ceil(4.0 * math.log(2 * dim)) / 4.0 + _REST
        guards = np.kron(np.eye(dim), [[1.0], [-1.0]])
        return self.peak(box, point, signs, guards, gamma, options)
