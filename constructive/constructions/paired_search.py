"""In which order pairs of heads take the examples, and how a head saturates on those of others.

An example with a small gap between its extreme scores asks for a large c. So examples are
sorted by that gap, smallest first, and the heads of pair p have to saturate on the examples of the
pairs *after* it. So x_{t,p} is not zero only where p is the pair of t or a later one: the system is
block triangular. What is left over above the diagonal (an example that a later pair could not
saturate for free) is the *leftover coupling*: a few entries, which `paired` evaluates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead.assumptions import least_distance
from constructive.constructions.multihead.heads import (
    KeyDirection,
    best_for_all,
    candidates_for_all,
    gaps,
)
from constructive.data.dataset import Dataset
from constructive.support.arrays import Array, Booleans, Integers, Single, row_chunks, unit_rows
from constructive.support.errors import AssumptionError
from constructive.support.work import report
from constructive.theory.bounds import group_sizes

# Gap between the two largest logits of a head of a pair: exp(-45) is far below float64.
NATS = 45.0


@dataclass(frozen=True, eq=False)
class Ordered:
    """The examples in the order in which pairs take them: positions, not indices of the data.

    order: (T,), the example at each position;  queries: (T, d) in float64
    direction: one key direction u for all heads, with the gaps by position
    stops: (P,), the position after the last one of each pair; a position beyond is the extra one

    What a sweep looks at is in float32, and in units in which nothing leaves its range: c and b_1
    count times 2^exponent, about the length of a query times a gap.

    unit: (T, d), the queries scaled to length one
    alone: (T,), what saturates such a query, if the head has no part of its own there
    """

    dataset: Dataset
    order: Integers
    queries: Array
    direction: KeyDirection
    stops: Integers
    unit: Single
    alone: Single
    exponent: int

    @property
    def num_pairs(self) -> int:
        """P, half the number of heads."""
        return len(self.stops)

    @property
    def slack(self) -> float:
        """Bounds the error of a product of a unit query and a unit vector, both rounded."""
        return float(self.unit.shape[1] + 8) * 2.0**-24

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    def start(self, pair: int) -> int:
        """Return the first position of a pair."""
        return int(self.stops[pair - 1]) if pair else 0

    def contexts(self, positions: Integers | slice) -> Array:
        """Return contexts in float64: (k, n, d)."""
        return self.dataset.contexts_of(self.order[positions])

    def gaps(self, positions: Integers) -> KeyDirection:
        """Return the key direction with the gaps of some positions."""
        top, bottom = self.direction.top_gap, self.direction.bottom_gap
        return KeyDirection(self.direction.vector, top[positions], bottom[positions])


def arrange(
    dataset: Dataset, num_heads: int, rng: np.random.Generator
) -> Ordered | AssumptionError:
    """Sort the examples, and share them among H // 2 pairs as evenly as possible.

    Where one example is left over, it is the extra one that the readout absorbs: that with the
    widest gap. Returns an AssumptionError for a context of rank below n.
    """
    vectors = candidates_for_all(dataset, rng)
    total = dataset.num_examples
    top, bottom = np.empty((2, total, vectors.shape[1]))
    for rows, contexts in dataset.context_chunks():
        distance = least_distance(rows, contexts)
        if isinstance(distance, AssumptionError):
            return distance
        top[rows], bottom[rows] = gaps(contexts, vectors)
        report("check the contexts", rows.stop, total)
    found = best_for_all(vectors, top, bottom)
    order = np.argsort(np.minimum(found.top_gap, found.bottom_gap), kind="stable")
    queries = dataset.queries[order].astype(np.float64, copy=False)
    unit, lengths = np.empty(queries.shape, np.float32), np.empty(total)
    for rows in row_chunks(total, 8 * dataset.width):
        lengths[rows], unit[rows] = unit_rows(queries[rows])
    # Contiguous: BLAS rounds otherwise where it is not.
    vector = np.ascontiguousarray(found.vector)
    direction = KeyDirection(vector, found.top_gap[order], found.bottom_gap[order])
    alone, exponent = np.full(total, NATS, np.float32), 0
    for sizes in (lengths, np.minimum(direction.top_gap, direction.bottom_gap)):
        power = int(np.frexp(np.median(sizes))[1])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            alone *= (np.ldexp(1.0, power) / sizes).astype(np.float32)
        exponent += power
    stops = _stops(dataset, num_heads // 2)
    return Ordered(dataset, order, queries, direction, stops, unit, alone, exponent)


def _stops(dataset: Dataset, pairs: int) -> Integers:
    total = dataset.num_examples
    uneven = total % pairs == 1 and total > pairs
    extra = int(uneven or total == pairs * (dataset.width - 1) + 1)
    return np.cumsum(group_sizes(total - extra, pairs))


# Choose w and c so that a head saturates on *every* example that it has to, at a small c.
#
# A head saturates on example t where |c w.q_t| is at least what t needs. Here q_t is its query,
# scaled to length one. w is a unit vector orthogonal to the head's own queries, so it has d - |S|
# dimensions to choose from. In a plane of two of them, w = (cos theta, sin theta) and q_t is (x_t,
# y_t), and
#
#     |c w.q_t| < needed_t    for theta in two short arcs around the normals of q_t,
#
# the same modulo pi. So every example forbids one arc of [0, pi), and what is sought is an angle
# that no arc covers. N arcs that cover an angle m times on average leave about N exp(-m) gaps:
# where random vectors w would have to make c so large that m is below 1, looking at all angles
# finds a gap at m = log N or so, at a c that is so much smaller. That is what makes large sizes
# possible: the rounding of c w.e_t, 10^-16 c or so, disturbs the logits on the group itself.
#
# So many gaps are more than enough if T is large. Therefore angles are looked at in a *window* that
# about `_CANDIDATES` arcs meet, where arcs are rare, as a sample says. Of all others, those with
# |x_t| > slope |y_t| + needed_t sqrt(1 + slope^2) / c, the head is saturated for each of its
# angles.
# So a sweep is a few passes over T numbers, in float32, which *screen* the examples; and arcs of a
# bounded number of examples, counted in bins by where they start and end. Float32 is for choosing
# only: what was screened out has room for its rounding, and what is close to the w that was chosen
# is decided in float64.


SWEEP = 20  # Operations an example for each sweep, or so

SAMPLE = 512  # Examples, evenly spread, by which c is guessed

_CANDIDATES = 16384  # Arcs among which a gap is looked for, if there are so many examples

# The part of all directions that a window has at most, so that its ends stay apart.
_WIDEST = 0.875

# Directions are counted in so many parts of the half-circle, to see where they are rare.
_SECTORS = 32

_COVER = 8.5  # How many arcs cover an angle on average at the c that is tried first

# So many times that c are tried before examples that count are left unsaturated.
_FACTORS = tuple(2.0 ** (power / 3) for power in range(10))

# So many examples that are not required may stay unsaturated for a smaller c: at so many times the
# first c so many times the square of that.
_FEW = 1.5

# What reaches more than so many times what is needed, as float32 has it, is saturated.
_CLOSE = 1.05


@dataclass(frozen=True, eq=False)
class AngleWindow:
    """Where w is looked for: at |theta| <= arctan slope, and c is `sharpness` at least.

    turn: (axes, axes), w for theta = 0 and for pi / 2, as combinations of the axes given
    slack: bounds the error of products with unit queries
    """

    turn: Array
    slope: float
    sharpness: float
    slack: float

    @property
    def axes(self) -> int:
        """How many there are, 0 to 2."""
        return len(self.turn)

    def screen(self, projected: Array, needed: Array) -> Integers:
        """Return the examples that are not saturated for every w in the window, at its sharpness.

        projected: (axes, C), unit queries along the turned axes;  needed: (C,), -inf for examples
            that are not asked for
        """
        if not (self.axes and 0.0 < self.sharpness < np.inf):
            return np.flatnonzero(needed != -np.inf)
        least = needed * (float(np.sqrt(1.0 + self.slope**2)) / self.sharpness)
        least += self.slack * (1.0 + self.slope)
        if self.axes > 1:
            least += np.abs(projected[1]) * self.slope
        # What is not a number is not saturated.
        return np.flatnonzero(~(np.abs(projected[0]) > least))


@dataclass(frozen=True, eq=False)
class SaturatingVector:
    """w as a combination of the axes it was sought in, c, and the examples not saturated."""

    unit: Array
    sharpness: float
    leftover: Integers


def window_of(projected: Array, needed: Array, weight: Array, slack: float) -> AngleWindow:
    """Return a window, from a sample of the examples without the group itself.

    It lies where arcs are rarest: queries need not point everywhere alike.

    projected: (axes, k);  needed: (k,);  weight: (k,), for how many examples each one stands
    """
    axes, count = projected.shape
    total = float(weight.sum())
    if not axes or not count:
        return AngleWindow(np.eye(axes), 0.0, 0.0, slack)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = (needed / np.sqrt(np.einsum("at,at->t", projected, projected))).astype(np.float64)
    part = min(_WIDEST, _CANDIDATES / max(total, 1.0))
    cover = min(_COVER, 0.25 * total)
    if axes == 1:
        return AngleWindow(np.eye(1), 0.0, _covering(ratio, weight, cover), slack)
    everywhere = _covering(ratio, weight, cover)
    if not 0.0 < everywhere < np.inf:
        return AngleWindow(np.eye(2), 0.0, everywhere, slack)
    normal = np.arctan2(projected[1], projected[0]) / np.pi + 0.5
    at = (normal * _SECTORS).astype(np.int64) % _SECTORS
    around = max(round(_SECTORS * part / 2), 2)  # sectors on each side
    sums = np.tile(np.bincount(at, weight * np.minimum(ratio, everywhere), _SECTORS), 3)
    near = np.convolve(sums, np.ones(2 * around), "same")[_SECTORS : 2 * _SECTORS]
    middle = int(near.argmin())  # the boundary before this sector
    inside = (at - middle + around) % _SECTORS < 2 * around
    share = 2.0 * around / _SECTORS
    angle = np.pi * middle / _SECTORS
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    slope = float(np.tan(0.5 * np.pi * part))
    return AngleWindow(turn, slope, _covering(ratio[inside], weight[inside], cover * share), slack)


def _covering(ratio: Array, weight: Array, cover: float) -> float:
    """The c at which arcs of half-width arcsin(ratio / c) cover an angle so many times, or so."""
    goal = cover * np.pi / 2.0
    sharpness = float((ratio * weight).sum(where=np.isfinite(ratio))) / goal
    for _ in range(40):
        smaller = float((np.minimum(ratio, sharpness) * weight).sum()) / goal
        if smaller >= 0.9 * sharpness:
            break
        sharpness = smaller
    return sharpness


def sharpen(
    window: AngleWindow,
    positions: Integers,
    projected: Array,
    needed: Array,
    required: Booleans,
    exact: Callable[[Integers, Array], Array],
) -> SaturatingVector:
    """Choose w and c for one group, from the examples that the window does not saturate.

    Where no w saturates on all of them, those that are not required are left over, and where no w
    saturates on all that are, some of these.

    positions: (k,), which examples these are;  projected: (axes, k);  needed: (k,)
    required:  (k,), whether the head has to saturate there
    exact:     for some positions and a unit vector, the c from which on they are saturated
    """
    axes, first = window.axes, window.sharpness
    if not 0.0 < first < np.inf:  # nothing to choose, or nothing to saturate on
        return SaturatingVector(np.zeros(axes), 0.0, positions)
    limit = _FACTORS[-1] * first
    unit, content = np.ones(1), limit
    if axes > 1:
        angle, content = _least_covered(projected, needed, required, window)
        unit = np.array([np.cos(angle), np.sin(angle)])
    reach = np.abs(sum(part * row for part, row in zip(unit, projected, strict=True)))
    close = np.flatnonzero(~(reach * first > _CLOSE * needed + 2.0 * window.slack * first))
    least = exact(positions[close], unit) * (1.0 + 2.0**-30)
    needs = float(least[required[close]].max(initial=0.0))
    sharpness = first
    if needs <= limit:  # as sharp as those need that count, and those that can be had beside
        within = least[least <= _CLOSE * content]
        sharpness = max(first, needs, float(within.max(initial=0.0)))
    return SaturatingVector(unit, sharpness, positions[close[~(least <= sharpness)]])


def _least_covered(
    projected: Array, needed: Array, required: Booleans, window: AngleWindow
) -> tuple[float, float]:
    """Return the middle of a gap between arcs, but for a few that are not required, and its c.

    The least c is taken at which there is one.
    """
    width, total = 2.0 * np.arctan(window.slope), len(needed)
    bins = 1 << int(np.clip(np.log2(2 * max(total, 1)), 6, 17))
    # More than all others together count those that are required.
    weight = np.where(required, total + 1, 1)
    with np.errstate(all="ignore"):
        center = (np.arctan(-projected[0] / projected[1]) + 0.5 * width) * (bins / width)
        center[np.isnan(center)] = 0.0  # queries without a normal: their arcs are everywhere
        sine = needed / np.sqrt(projected[0] ** 2 + projected[1] ** 2)
        sine /= window.sharpness
    for factor in _FACTORS:
        with np.errstate(all="ignore"):
            ratio = sine / factor
            # The arc sine or more, in bins; what has none is everywhere.
            half = ratio * ratio
            half *= (np.pi / 2 - 1.0) * (bins / width)
            half += bins / width
            half *= ratio
            half[~(ratio < 1.0)] = np.inf
        first = np.clip(center - half, 0.0, bins).astype(np.int64)
        last = np.clip(center + half + 1.0, 0.0, bins).astype(np.int64)
        steps = np.zeros(bins + 1, np.int64)
        np.add.at(steps, first, weight)
        np.subtract.at(steps, last, weight)
        covered = np.cumsum(steps[:bins])
        least = int(covered.min())
        if least <= _FEW * factor**2:
            break
    free = np.flatnonzero(covered == least)
    breaks = np.flatnonzero(np.diff(free) > 1)
    starts = free[np.concatenate([[0], breaks + 1])]
    stops = free[np.concatenate([breaks, [len(free) - 1]])] + 1
    widest = int((stops - starts).argmax())
    angle = (float(starts[widest] + stops[widest]) / bins - 1.0) * 0.5 * width
    return angle, factor * window.sharpness
