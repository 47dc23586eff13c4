"""Needles at a corner of the box, with a guard on one side of each coordinate.

Token 0 of the first head has logit 0 and value 1; guards have logits beta s_i (x_i - t_i) - gamma
and value 0, where t is the corner and s points into the box. The second head is a decoy, as in
`needle`. The logits of a needle of the same scale are farther from each other.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from constructive.instances.families.family import Option
from constructive.instances.families.hidden import Hidden, falling_needle
from constructive.instances.families.needle import DECOY, decoy_head
from constructive.instances.families.planted import Plan, Planted, short, short_slope
from constructive.instances.network import Head, Network
from constructive.instances.properties import Box

_REST = 1.0
_SHIFT = -1.0
"""The decoy starts lower at a corner, as it can only rise from there."""


class Corner(Planted):
    """Peaks at a corner of the box."""

    name: ClassVar[str] = "corner"
    purpose: ClassVar[str] = "a sharp maximum at a corner, which gradients lead away from"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({**Planted.options, "decoy": DECOY})

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Plan:
        """Draw the box and one of its corners.

        Args:
            dim: d
            random: of all that is drawn
            options: scale, margin and decoy
        """
        beta, height = short_slope(options["scale"]), short(options["decoy"], 8)
        lower = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(lower, lower + 1.0)
        signs = random.choice([-1.0, 1.0], dim)
        point = np.where(signs > 0.0, box.lower, box.upper)
        gamma = math.ceil(4.0 * math.log(dim)) / 4.0 + _REST
        tokens = dim + 1
        slopes, offsets, values = np.zeros((tokens, dim)), np.zeros(tokens), np.zeros((tokens, 1))
        values[0] = 1.0
        slopes[1:] = beta * np.diag(signs)
        offsets[1:] = -beta * signs * point - gamma
        decoy_tokens, decoy = decoy_head(tokens, point, signs, height, _SHIFT)
        heads = (Head(slopes, offsets, values), decoy_tokens)[: 1 + (height > 0.0)]
        hidden = Hidden(box, point, signs, beta, gamma, decoy)
        rate = beta / (dim * decoy.slope)
        return Plan(
            Network(heads), box, point, signs,
            falling_needle(dim, gamma, rate, two_sided=False), decoy.value,
            float(decoy.slope * box.widths.sum()), hidden,
        )  # fmt: skip
