"""Upper bounds of softmax heads by weighted means: Proposition 20.2, in ball arithmetic.

Let v be the values of a head, c a number, lambda > 0 on some tokens with v_j < c, sum 1, and ::

    m(x) = sum_j lambda_j (l_j(x) + ln((c - v_j) / lambda_j)),     an affine function.

If, on the part a <= g . x <= b of the box, ::

    sum over i with v_i > c of (v_i - c) exp(max (l_i - m - mu_i g . x) + max(mu_i a, mu_i b)) <= 1,

where the first maximum is over the whole box, then the head is at most c on that part, by the
inequality of weighted arithmetic and geometric means. Where no v_i is above c nothing is needed.
Slabs that cover the box, and bounds c_h whose sum is below a threshold on each, refute an atom.

How lambda and mu were found does not matter (`search`).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat

from constructive.exact.directed import lower
from constructive.exact.precision import working_precision
from constructive.instances.network import Head, Network
from constructive.instances.proof import Refutation, exact_ball, text_of
from constructive.instances.properties import Atom, Box
from constructive.support.arrays import Array, Integers

BITS = 128


@dataclass(frozen=True, eq=False)
class HeadBound:
    """That a head is at most c on a slab."""

    bound: Fraction  # c
    weights: Integers  # integers in proportion to lambda (n,), 0 where a token is not used
    tilts: Array  # mu (n,), 0 where a token is not used


@dataclass(frozen=True, eq=False)
class Slab:
    """The part a <= g . x <= b of a box, with a bound of each head."""

    start: Fraction  # a
    end: Fraction  # b
    heads: tuple[HeadBound, ...]  # one bound for each head


class BallHead:
    """A head and a box in balls; the coefficients of an atom combine the outputs."""

    def __init__(self, head: Head, atom: Atom, box: Box) -> None:
        wanted = [int(w) for w in atom.coefficients.tolist()]
        self.values = [
            sum((Fraction(v) * w for v, w in zip(row, wanted, strict=True)), Fraction(0))
            for row in head.values.tolist()
        ]
        self._rows = head.slopes.tolist()
        self._offsets = head.offsets.tolist()
        self._slopes = arb_mat(self._rows)
        self._ends = list(zip(box.lower.tolist(), box.upper.tolist(), strict=True))

    def exponents(
        self, bound: HeadBound, direction: list[float], start: Fraction, end: Fraction
    ) -> arb | None:
        """Enclose the sum that has to be at most 1 on a slab; None where no weights are given."""
        c, tokens = bound.bound, len(self.values)
        high = [i for i in range(tokens) if self.values[i] > c]
        if not high:
            return arb(0)
        given = [int(weight) for weight in bound.weights.tolist()]
        low = [j for j in range(tokens) if self.values[j] < c and given[j] > 0]
        whole = sum(given[j] for j in low)
        if not whole:
            return None
        shares = [arb(0)] * tokens
        for j in low:
            shares[j] = arb(given[j]) / whole
        mean = (arb_mat([shares]) * self._slopes).entries()
        offset = arb(0)
        for j in low:
            room = exact_ball(c - self.values[j])
            offset += shares[j] * (self._offsets[j] + (room / shares[j]).log())
        total = arb(0)
        for i in high:
            tilt = Fraction(bound.tilts[i].item())
            slope = float(tilt)
            top = exact_ball(max(tilt * start, tilt * end)) + self._offsets[i] - offset
            columns = zip(self._rows[i], mean, direction, self._ends, strict=True)
            for a, other, g, (least, most) in columns:
                rest = a - other - arb(slope) * g
                top += (rest * least).max(rest * most)
            total += exact_ball(self.values[i] - c) * top.exp()
        return total


@dataclass(frozen=True, eq=False)
class Slabs(Refutation):
    """Slabs that cover the box, with bounds of all heads on each."""

    kind = "slabs"

    atom: int  # the index of the atom that is refuted
    direction: Array  # g (d,)
    slabs: tuple[Slab, ...]  # in order along g

    def margin(self, network: Network, box: Box, atom: Atom) -> float:
        """Return the least c - sum_h c_h over the slabs, if all of it is proved."""
        nothing = -float("inf")
        direction = self.direction.tolist()
        tokens, heads = network.num_tokens, len(network.heads)
        if len(direction) != network.input_dim or len(box.lower) != network.input_dim:
            return nothing
        at, end = reach(box, direction)
        margin: Fraction | None = None
        with working_precision(BITS):
            balls = [BallHead(head, atom, box) for head in network.heads]
            for slab in self.slabs:
                if slab.start > at or slab.start > slab.end or len(slab.heads) != heads:
                    return nothing
                at = max(at, slab.end)
                for ball, bound in zip(balls, slab.heads, strict=True):
                    if not len(bound.weights) == len(bound.tilts) == tokens:
                        return nothing
                    total = ball.exponents(bound, direction, slab.start, slab.end)
                    if total is None or not total <= 1:
                        return nothing
                left = Fraction(atom.threshold) - sum(bound.bound for bound in slab.heads)
                margin = left if margin is None else min(margin, left)
        return nothing if margin is None or at < end else lower(margin)

    def after(self, fixed: Array) -> "Slabs":
        """Return slabs whose direction has a zero for each input that comes first."""
        direction = np.concatenate([np.zeros(len(fixed)), self.direction])
        return Slabs(self.atom, direction, self.slabs)

    def evidence(self) -> dict[str, Any]:
        """Return the direction and the slabs."""
        return {
            "direction": [text_of(g) for g in self.direction.tolist()],
            "slabs": [
                {
                    "from": text_of(slab.start),
                    "to": text_of(slab.end),
                    "heads": [
                        {
                            "bound": text_of(bound.bound),
                            "weights": [str(weight) for weight in bound.weights.tolist()],
                            "tilts": [text_of(tilt) for tilt in bound.tilts.tolist()],
                        }
                        for bound in slab.heads
                    ],
                }
                for slab in self.slabs
            ],
        }


def reach(box: Box, direction: list[float]) -> tuple[Fraction, Fraction]:
    """Return the least and the largest g . x on a box, exactly.

    Example:
        >>> reach(Box([0.0, 0.0], [1.0, 2.0]), [1.0, -1.0])
        (Fraction(-2, 1), Fraction(1, 1))
    """
    ends = [
        sorted((Fraction(g) * Fraction(low), Fraction(g) * Fraction(high)))
        for g, low, high in zip(direction, box.lower.tolist(), box.upper.tolist(), strict=True)
    ]
    first, last = (sum(part, Fraction(0)) for part in zip(*ends, strict=True))
    return first, last
