"""Search for proofs that a network meets no condition on a box: weighted means on slabs, intervals.

Slabs are Proposition 20.2 (proofs/20-instances.md): on each part a <= g . x <= b of the box weights
lambda and tilts mu bound each head. The interval form is Proposition 22.1
(proofs/22-perturbations.md): the range of each difference of logits gives bounds of attention, and
the best average of the values within these bounds a head. All is in float64, and nothing is proved
here: the checker does that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.checker import instances as checker
from constructive.checker.properties import read_property
from constructive.checker.softmaxes import KNOWN, heads_of, steepness
from constructive.exact.formats import FLOAT32
from constructive.instances.graphs import graph_of
from constructive.instances.instance import Refutation
from constructive.instances.network import Head, Network
from constructive.instances.properties import Box, Linear, Property, text_of, version_1
from constructive.support.arrays import Array, Integers, Rebuilt
from constructive.support.errors import ParameterError


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


@dataclass(frozen=True, eq=False)
class Slabs(Refutation):
    """Slabs that cover the box, with bounds of all heads on each."""

    kind = "slabs"

    atom: int  # the index of the atom that is refuted
    direction: Array  # g (d,)
    slabs: tuple[Slab, ...]  # in order along g

    def evidence(self) -> dict[str, object]:
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
    """Return the least and the largest g . x on a box, exactly."""
    ends = [
        sorted((Fraction(g) * Fraction(low), Fraction(g) * Fraction(high)))
        for g, low, high in zip(direction, box.lower.tolist(), box.upper.tolist(), strict=True)
    ]
    first, last = (sum(part, Fraction(0)) for part in zip(*ends, strict=True))
    return first, last


# Along a direction g the box is cut into slabs, in halves until each has a bound. Heads that depend
# on g . x alone (*ridges*) are bounded by their values at the ends of a slab, and at the centre if
# that is within; what is left of the threshold is for the other heads.
#
# The weights lambda of a bound are those of softmax over the tokens below c, at a point where the
# head is largest: one on the line through a centre, or a minimum that L-BFGS finds. For one token
# above c they are optimal (duality of geometric programs). Each mu minimizes a convex function with
# corners, at one of these.


_WEIGHTS = 2.0**30  # Of the integers that weights are rounded to
_TILTS = 2.0**24
_BOUNDS = 2.0**40  # The grids of tilts, and of bounds of heads
_PAD = 2.0**-18  # What is added to bounds that are meant to be attained; grids of tilts cost less
_DEPTH = 16  # How often the box is halved along g, at most
_HALVINGS = 60
_FLAT = 1e-300  # More than the width of a box along an axis in which it is flat


@dataclass(frozen=True, eq=False)
class FloatHead:
    """A head with one output, in float64."""

    slopes: Array  # A (n, d)
    offsets: Array  # b (n,)
    values: Array  # v (n,)

    @classmethod
    def of(cls, head: Head, atom: Linear) -> "FloatHead":
        """Combine the outputs of a head by the coefficients of an atom."""
        return cls(head.slopes, head.offsets, head.values @ atom.coefficients)

    def at(self, point: Array) -> float:
        """Evaluate the head at a point x (d,)."""
        logits = self.slopes @ point + self.offsets
        weights = np.exp(logits - logits.max())
        return float(weights @ self.values / weights.sum())

    def is_ridge(self, direction: Array) -> bool:
        """Whether differences of logits depend on g . x alone."""
        square = direction @ direction
        if not square:
            return False
        apart = self.slopes - self.slopes[0]
        return np.array_equal(apart, np.outer(apart @ direction / square, direction))

    def weights_at(self, point: Array, bound: float) -> Integers:
        """Return the weights of softmax at x over the tokens below c, as integers: (n,)."""
        low = self.values < bound
        terms = self.slopes[low] @ point + self.offsets[low] + np.log(bound - self.values[low])
        shares = np.exp(terms - terms.max())
        weights = np.zeros(len(self.values), np.int64)
        weights[low] = np.rint(shares / shares.max() * _WEIGHTS)
        return weights // math.gcd(*weights.tolist())

    def bounded(
        self, bound: float, point: Array, box: Box, direction: Array, ends: tuple[float, float]
    ) -> HeadBound | None:
        """Return the bound c with its weights and tilts, or None where they do not prove it.

        c is on its grid, weights are taken at x (d,), and the ends are those of a slab along g.
        """
        tokens = len(self.values)
        weights, tilts = np.zeros(tokens, np.int64), np.zeros(tokens)
        high = np.flatnonzero(self.values > bound)
        if not len(high):
            return HeadBound(Fraction(bound), weights, tilts)
        if not (self.values < bound).any():
            return None
        weights = self.weights_at(point, bound)
        used = weights > 0
        shares = weights[used] / weights.sum()
        mean = shares @ self.slopes[used]
        rooms = np.log((bound - self.values[used]) / shares)
        offset = float(shares @ (self.offsets[used] + rooms))
        total = 0.0
        for i in high.tolist():
            rest = self.slopes[i] - mean
            tilts[i], most = _best_tilt(rest, box, direction, ends)
            exponent = most + self.offsets[i] - offset
            total += (self.values[i] - bound) * math.exp(min(exponent, 700.0))
        proved = total <= 1.0 - 2.0**-40
        return HeadBound(Fraction(bound), weights, tilts) if proved else None

    def highest(self, box: Box, bound: float, start: Array) -> Array:
        """Find the point of a box where the head is largest, as if c were its value: (d,).

        There have to be tokens above c and below it.
        """
        from scipy.optimize import minimize  # noqa: PLC0415 - it takes long to import

        low, top = self.values < bound, int(np.argmax(self.values))
        slopes = self.slopes[low] - self.slopes[top]
        offsets = self.offsets[low] - self.offsets[top] + np.log(bound - self.values[low])
        middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0

        def objective(u: Array) -> tuple[float, Array]:
            terms = slopes @ (middle + radius * u) + offsets
            largest = terms.max()
            shares = np.exp(terms - largest)
            whole = shares.sum()
            return largest + math.log(whole), slopes.T @ (shares / whole) * radius

        found = minimize(
            objective,
            (start - middle) / np.maximum(radius, _FLAT),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.0, 1.0)] * len(middle),
            options={"maxiter": 100, "ftol": 1e-10, "gtol": 1e-6},
        )
        best: Array = np.clip(middle + radius * found.x, box.lower, box.upper)
        return best

    def maximum(self, box: Box, tolerance: float) -> HeadBound:
        """Bound the head on a box: the least c that can be shown, up to a tolerance.

        Every second c is just above the largest value that was seen. If one token is above c, this
        converges as Newton's method does (Dinkelbach). The others halve what is left.
        """
        point: Array = (box.lower + box.upper) / 2.0
        most = float(self.values.max())
        least = self.at(point)
        none, tokens = np.zeros(self.slopes.shape[1]), len(self.values)
        best = HeadBound(Fraction(most), np.zeros(tokens, np.int64), np.zeros(tokens))
        for turn in range(_HALVINGS):
            if most - least <= tolerance:
                break
            bound = on_grid((least + most) / 2.0 if turn % 2 else least + 0.75 * tolerance)
            if self.values.min() < bound < most:
                point = self.highest(box, bound, point)
            found = self.bounded(bound, point, box, none, (0.0, 0.0))
            if found is None:
                least = max(bound, self.at(point))
            else:
                most, best = bound, found
        return best


def on_grid(bound: float) -> float:
    """Round a bound, below 2^12 in size, up to its grid."""
    return math.ceil(bound * _BOUNDS) / _BOUNDS


def _best_tilt(
    rest: Array, box: Box, direction: Array, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return the mu with the least max (r - mu g) . x + max(mu a, mu b), and that number."""
    used = direction != 0.0
    corners = np.append(rest[used] / direction[used], 0.0)
    corners = np.unique(np.rint(corners * _TILTS) / _TILTS)
    slopes = rest - corners[:, np.newaxis] * direction
    whole = np.where(slopes > 0.0, slopes * box.upper, slopes * box.lower).sum(axis=1)
    whole += np.maximum(corners * ends[0], corners * ends[1])
    best = int(np.argmin(whole))
    return float(corners[best]), float(whole[best])


def refute_by_slabs(
    network: Network,
    box: Box,
    atom: Linear,
    target: float,
    *,
    direction: Array,
    centre: Array,
) -> Slabs | None:
    """Search for slabs along g (d,) on which w . f <= target; None where halving finds none.

    The network is a sum of heads. The atom is the only one of its disjunct. Weights of heads that
    are not ridges are taken on the line through the centre (d,).
    """
    heads = [FloatHead.of(head, atom) for head in network.heads]
    ridges = [head.is_ridge(direction) for head in heads]
    if sum(ridges) < len(heads) - 1:
        return None
    first, last = reach(box, direction.tolist())
    middle, square = float(direction @ centre), float(direction @ direction)

    def on_line(at: float) -> Array:
        return centre + direction * ((at - middle) / square)

    def bounds(start: float, end: float) -> tuple[HeadBound, ...] | None:
        found: list[HeadBound | None] = [None] * len(heads)
        left = target
        for i in np.flatnonzero(ridges).tolist():
            ends = start, end, min(max(middle, start), end)
            top, at = max((heads[i].at(on_line(at)), at) for at in ends)
            bound = on_grid(top + _PAD * max(1.0, abs(top)))
            found[i] = heads[i].bounded(bound, on_line(at), box, direction, (start, end))
            left -= bound
        if left < 0.0 and all(ridges):
            return None
        for i in np.flatnonzero(~np.array(ridges)).tolist():
            near = on_line(min(max(middle, start), end))
            point = np.clip(near, box.lower, box.upper)
            bound = on_grid(left - 2.0 / _BOUNDS)
            found[i] = heads[i].bounded(bound, point, box, direction, (start, end))
        kept = tuple(each for each in found if each is not None)
        return kept if len(kept) == len(found) else None

    slabs, todo = [], [(first, last, 0)]
    while todo:
        start, end, depth = todo.pop()
        shown = bounds(float(start), float(end))
        if shown is not None:
            slabs.append(Slab(start, end, shown))
        elif depth == _DEPTH:
            return None
        else:
            half = (start + end) / 2
            todo += [(half, end, depth + 1), (start, half, depth + 1)]
    return Slabs(0, direction, tuple(slabs))


def refute_by_heads(
    network: Network, box: Box, atom: Linear, *, tolerance: float = 1e-6, index: int = 0
) -> Slabs:
    """Bound each head on the whole box, as if they did not share the input, for an atom.

    The index is that of the atom in its disjunct. The bounds may be above the threshold: then
    nothing is refuted.
    """
    heads = [FloatHead.of(head, atom) for head in network.heads]
    bounds = tuple(head.maximum(box, tolerance) for head in heads)
    whole = (Slab(Fraction(0), Fraction(0), bounds),)
    return Slabs(index, np.zeros(network.input_dim), whole)


@dataclass(frozen=True, eq=False)
class AttentionRanges(Rebuilt):
    """Bounds of the attention of every token of every head, for all inputs of a box.

    They are those of Proposition 22.1, as float64 rounds them.
    """

    network: Network  # whose attention it is
    least: Array  # P- (H, n)
    most: Array  # P+ (H, n)

    def upper_bound(self, coefficients: Array) -> float:
        """Return an upper bound of w . f over the box, the sum of one for each head.

        w (k,) has entries -1, 0 and 1, at most two of them not 0.
        """
        values = np.stack([head.values for head in self.network.heads]) @ coefficients
        above = values[:, np.newaxis, :] - values[:, :, np.newaxis]  # v_i - theta: (H, theta, i)
        gain = np.einsum("hti,hi->ht", np.maximum(above, 0.0), self.most)
        loss = np.einsum("hti,hi->ht", np.maximum(-above, 0.0), self.least)
        return math.fsum((gain - loss + values).min(axis=1))


@dataclass(frozen=True)
class Interval(Refutation):
    """The interval form. It needs no evidence, since a checker computes the bound again.

    Attributes:
        atom: the index of the atom that is refuted

    Example:
        >>> Interval(0).document()
        {'atom': 0, 'kind': 'interval'}
    """

    kind = "interval"

    atom: int


def attention_ranges(network: Network, box: Box) -> AttentionRanges:
    """Bound the attention of every token of every head on a box."""
    if len(box.lower) != network.input_dim:
        raise ParameterError(
            f"the box has {len(box.lower)} inputs, the network {network.input_dim}",
            witness=len(box.lower),
            suggestion=f"a box of {network.input_dim} inputs",
        )
    least, most = [], []
    for head in network.heads:
        steps = head.slopes - head.slopes[:, np.newaxis]  # A_j - A_i: (i, j, d)
        rises = head.offsets - head.offsets[:, np.newaxis]
        low = rises + np.minimum(steps * box.lower, steps * box.upper).sum(axis=2)
        high = rises + np.maximum(steps * box.lower, steps * box.upper).sum(axis=2)
        with np.errstate(over="ignore"):
            least.append(1.0 / np.exp(high).sum(axis=1))
            most.append(1.0 / np.exp(low).sum(axis=1))
    return AttentionRanges(network, np.stack(least), np.stack(most))


def refute(
    network: Network, wanted: Property, needed: float, *, tolerance: float | None = None
) -> tuple[Refutation, ...] | None:
    """Refute each disjunct of a sum of heads with a margin; None where that fails.

    A disjunct is refuted by the first of its atoms for which there is a proof: in the interval
    form, or by weighted means of each head (`refute_by_heads`), which take longer and are tried if
    their tolerance is given.
    """
    ranges = attention_ranges(network, wanted.box)

    def shown(atoms: Sequence[Linear]) -> Refutation | None:
        for index, atom in enumerate(atoms):
            if atom.threshold - ranges.upper_bound(atom.coefficients) >= needed:
                return Interval(index)
        if tolerance is None:
            return None
        for index, atom in enumerate(atoms):
            slabs = refute_by_heads(network, wanted.box, atom, tolerance=tolerance, index=index)
            (whole,) = slabs.slabs
            if Fraction(atom.threshold) - sum(bound.bound for bound in whole.heads) >= needed:
                return slabs
        return None

    parts: list[Refutation] = []
    for atoms in wanted.disjuncts:
        part = shown(atoms)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def needed_margin(network: Network, wanted: Property, *, beyond: bool = True) -> float:
    """Return the least margin at which an answer is shipped, the largest over all atoms.

    It is at least twice the bound of rounding, which the checker computes. Scorers accept witnesses
    slightly outside of the box, so, if `beyond`, it is also `1e-3 + 1e-4 sup |grad f|_1`. It is
    infinite where nothing is bounded.
    """
    asked = read_property(version_1(wanted).encode(), "vnnlib")
    try:
        problem = checker.Problem(graph_of(network), asked, KNOWN[FLOAT32])
        conditions = [each for atoms in problem.alternatives for each in atoms]
        needed = [2 * problem.rounding(each) for each in conditions]
        if beyond:
            heads = [heads_of(problem.outputs, each.weights) for each in conditions]
            needed += [Fraction(1, 1000) + steepness(each) / 10_000 for each in heads]
    except ValueError:
        return math.inf
    return float(max(needed))
