"""Needles at a corner of the box, with a guard on one side of each coordinate.

Token 0 of the first head has logit 0 and value 1; guards have logits beta s_i (x_i - t_i) - gamma
and value 0, where t is the corner and s points into the box. The second head is a decoy, as in
`needle`. The logits of a needle of the same scale are farther from each other.
"""

import math
from collections.abc import Mapping

import numpy as np

from constructive.instances.families.needle import Peaked
from constructive.instances.families.planted import Plan, short
from constructive.instances.properties import Box

_REST = 1.0


class Corner(Peaked):
    """Peaks at a corner of the box."""

    name = "corner"
    purpose = "a sharp maximum at a corner, which gradients lead away from"
    shift = -1.0  # The decoy starts lower at a corner, as it can only rise from there
    two_sided = False

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Plan:
        """Draw the box and one of its corners."""
        lower = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(lower, lower + 1.0)
        signs = random.choice([-1.0, 1.0], dim)
        point = np.where(signs > 0.0, box.lower, box.upper)
        gamma = math.ceil(4.0 * math.log(dim)) / 4.0 + _REST
        return self.peak(box, point, signs, np.diag(signs), gamma, options)
