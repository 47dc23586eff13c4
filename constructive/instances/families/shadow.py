"""Shadows: a head whose weight is far below the largest one for most of the box.

With u = s . (x - t) in [0, d], the first head is sigma(R u / d - R): it rises by R nats, from next
to nothing to one half. The second, 6 sigma(1 - 2 u / d), falls. The sum is largest at u = 0. Bounds
that add a small number to probabilities, or cut them off, are wrong here.
"""

from collections.abc import Mapping

import numpy as np
from flint import arb

from constructive.instances.families.planted import Plan, Planted, short, short_slope
from constructive.instances.instance import Hardness
from constructive.instances.network import Head, Network
from constructive.instances.properties import Box

_HEIGHT = 6.0
_FALL = 2.0
_START = 1.0


class Shadow(Planted):
    """Sums of a head that rises out of nothing, and one that falls."""

    name = "shadow"
    purpose = "a weight far below the largest one, which must not be cut off"

    def plan(self, dim: int, random: np.random.Generator, options: Mapping[str, float]) -> Plan:
        """Draw the box and the corner t."""
        lower = np.array([short(x, 6) for x in random.uniform(-1.0, 1.0, dim)])
        box = Box(lower, lower + 1.0)
        signs = random.choice([-1.0, 1.0], dim)
        point = np.where(signs > 0.0, box.lower, box.upper)
        rise = short_slope(options["scale"] / dim)
        fall = short_slope(_FALL / dim)
        at_point = float(signs @ point)

        def head(slope: float, offset: float, height: float) -> Head:
            slopes = np.stack([slope * signs, np.zeros(dim)])
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

        return Plan(network, box, point, signs, falling, rising, float(dim), lambda _: Hardness())
