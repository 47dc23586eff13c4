"""How hard a planted point is to find: Propositions 20.4 and 20.5, in balls."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb

from constructive.exact.directed import lower, upper
from constructive.exact.precision import working_precision
from constructive.instances.instance import Hardness
from constructive.instances.properties import Box
from constructive.support.arrays import Array

_BITS = 96


@dataclass(frozen=True, eq=False)
class Decoy:
    """A head eta sigma(w s . (x - t) + z), which leads away from t."""

    height: float  # eta
    slope: float  # w
    shift: arb  # z, as a ball

    def value(self, u: arb) -> arb:
        """Enclose eta sigma(u + z)."""
        return self.height / (1 + (-(u + self.shift)).exp())

    def steepness(self, u: arb) -> arb:
        """Enclose the derivative in u, eta sigma'(u + z)."""
        return self.height / (2 + (u + self.shift).exp() + (-(u + self.shift)).exp())


@dataclass(frozen=True, eq=False)
class Hidden:
    """A needle at t, other tokens with logits of slope beta and offset -gamma, and a decoy."""

    box: Box  # of inputs
    point: Array  # t (d,)
    signs: Array  # s (d,)
    beta: float  # slope of the guards
    gamma: float  # their offset
    decoy: Decoy  # the other head

    def range_of_decoy(self) -> tuple[arb, arb]:
        """Enclose the least and the largest u = w s . (x - t) on the box."""
        ends = np.sort(
            self.signs * (np.stack([self.box.lower, self.box.upper]) - self.point), axis=0
        )
        first, last = (sum((arb(x) for x in row), arb(0)) for row in ends.tolist())
        return first * self.decoy.slope, last * self.decoy.slope

    def radius(self, tau: arb) -> arb | None:
        """Enclose ln(e^gamma (1 / tau - 1)) / beta for a share tau; None unless it is positive."""
        if not (tau > 0 and tau < 1):
            return None
        radius = (self.gamma + (1 / tau - 1).log()) / self.beta
        return radius if radius > 0 else None

    def share(self, radius: arb, *, ascending: bool = False) -> float | None:
        """Bound the part of the box with |x_i - t_i| <= rho from above; None if it is all of it.

        If `ascending`, coordinates count as all of the box where t_i + s_i rho is not inside.
        """
        part = arb(1)
        rho = upper(radius)
        for low, high, t, s in zip(
            self.box.lower.tolist(),
            self.box.upper.tolist(),
            self.point.tolist(),
            self.signs.tolist(),
            strict=True,
        ):
            face = high if s > 0 else low
            if ascending and not (arb(face) - t) * s > rho:
                continue
            least, most = arb(low).max(arb(t) - rho), arb(high).min(arb(t) + rho)
            part *= ((most - least) / (arb(high) - low)).min(arb(1))
        share = upper(part)
        return share if share < 1.0 else None

    def __call__(self, threshold: float) -> Hardness:
        """Bound the probability that an evaluation finds f >= c."""
        with working_precision(_BITS):
            first, last = self.range_of_decoy()
            room = threshold - self.decoy.value(last)
            rho = self.radius(room)
            if rho is None:
                return Hardness()
            random = self.share(rho)
            gentle = self.decoy.steepness(first).min(self.decoy.steepness(last))
            tau = arb(lower(gentle * self.decoy.slope / self.beta))
            blind = self.radius(tau)
            if blind is None:
                return Hardness(random)
            return Hardness(random, self.share(blind.max(rho), ascending=True))


def falling_needle(
    count: int, gamma: float, rate: float, *, two_sided: bool
) -> Callable[[arb], arb]:
    """Return the bound 1 / (1 + G cosh(r u)) of a needle, or 1 / (1 + G exp(r u)) of a corner.

    G is the number of guards times e^-gamma, r = beta / (d w); a needle has guards on both sides.
    """

    def bound(u: arb) -> arb:
        grown = (u * rate).cosh() if two_sided else (u * rate).exp()
        return 1 / (1 + count * (-arb(gamma)).exp() * grown)

    return bound
