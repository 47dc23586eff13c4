"""Choose w and c so that a head saturates on *every* example that it has to, at a small c.

A head saturates on example t where |c w.e_t| is at least what t needs (`Needed`). w is a unit
vector orthogonal to the head's own queries, so it has d - |S| dimensions to choose from. In a plane
of them, w = (cos theta, sin theta) and q_t the projected query,

    |c w.q_t| < needed_t    for theta in two short arcs around the normals of q_t,

the same modulo pi. So every example forbids one arc of [0, pi), and what is sought is an angle
that no arc covers. T arcs which cover an angle m times on average leave about exp(-m) of all
angles free: where random vectors w would have to make c so large that m is below 1, looking at all
angles finds a free one at m = 8 or so, at a c which is so much smaller. That is what makes large
sizes possible: the rounding of c w.e_t, 10^-16 c or so, disturbs the logits on the group itself.

A sweep costs O(T): arcs are counted in bins by where they start and end.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.constructions.multihead.directions import KeyDirection
from constructive.support.arrays import Array

NATS = 45.0
"""Gap between the two largest logits of a saturated head: exp(-45) is far below float64."""

SWEEP = 60
"""Operations an example for each sweep, or so."""

_COVER = 10.0
"""How many arcs cover an angle on average at the c that is tried first."""

_FACTORS = (1.0, 2.0, 4.0, 8.0)
"""So many times that c are tried before examples which count are left unsaturated."""

_LEAST_BINS, _MOST_BINS = 64, 1 << 17


@dataclass(frozen=True, eq=False)
class Needed:
    """The least |c w.e_t| which saturates example t, beside what its heads do on their groups.

    The gap between the extreme scores, times |c w.e_t| - scale_t, has to reach nats + logits_t.
    at_top, at_bottom: (T,), what is needed where w.e_t is positive, and where it is negative
    """

    at_top: Array
    at_bottom: Array

    @classmethod
    def of(
        cls, direction: KeyDirection, *, logits: Array | float = 0.0, scale: Array | float = 0.0
    ) -> "Needed":
        """From logits (T,), the range of the logits of W*, and scale (T,), |b_1.e_t|."""
        total = NATS + logits
        return cls(total / direction.top_gap + scale, total / direction.bottom_gap + scale)

    @property
    def either(self) -> Array:
        """What is needed whatever the sign of w.e_t."""
        return np.maximum(self.at_top, self.at_bottom)

    def at(self, reach: Array) -> Array:
        """What is needed where w.e_t = reach_t: (T,)."""
        return np.where(reach > 0, self.at_top, self.at_bottom)


@dataclass(frozen=True, eq=False)
class Saturating:
    """w as a combination of the axes it was sought in, c, and the examples not saturated."""

    unit: Array
    sharpness: float
    leftover: npt.NDArray[np.int64]


def sharpen(projected: Array, own: slice, needed: Needed, required: slice) -> Saturating:
    """Choose w and c for one group.

    projected: (k, T), the queries along k <= 2 orthonormal axes in the group's complement
    own:       the examples of the group;  required: those on which the head has to saturate;
               others are saturated where that is free

    One axis leaves no angle to choose, and none nothing at all: then examples are left over.
    """
    axes, total = projected.shape
    ratio = needed.either
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio /= np.sqrt(sum((row * row for row in projected), np.zeros(1)))
    ratio[own] = 0.0
    first = _covering(ratio)
    if not 0.0 < first < np.inf:  # nothing to choose, or nothing to saturate on
        return Saturating(np.zeros(axes), 0.0, np.delete(np.arange(total), own))

    unit, reach = np.ones(1), projected[0]
    if axes > 1:
        normal = np.arctan2(projected[1], projected[0]) + np.pi / 2
        weight = np.full(total, 1.0 / (total + 1))
        weight[required] = 1.0
        weight[own] = 0.0
        for factor in _FACTORS:
            angle, covered = _least_covered(normal, ratio / (factor * first), weight)
            if covered < 1.0:
                break
        unit = np.array([np.cos(angle), np.sin(angle)])
        reach = unit @ projected
    with np.errstate(divide="ignore", over="ignore"):
        exact = needed.at(reach) / np.abs(reach)
    exact[own] = 0.0
    least = float(exact[required].max(initial=0.0)) * (1.0 + 2.0**-30)
    sharpness = max(first, least) if least <= _FACTORS[-1] * first else first
    return Saturating(unit, sharpness, np.flatnonzero(exact > sharpness))


def _covering(ratio: Array) -> float:
    """The c at which arcs of half-width arcsin(ratio / c) cover an angle `_COVER` times, or so."""
    cover = min(_COVER, 0.25 * np.count_nonzero(ratio)) * np.pi / 2.0
    if cover == 0.0:
        return 0.0
    sharpness = float(ratio.sum(where=np.isfinite(ratio))) / cover
    for _ in range(40):
        smaller = float(np.minimum(ratio, sharpness).sum()) / cover
        if smaller >= 0.9 * sharpness:
            break
        sharpness = smaller
    return sharpness


def _least_covered(normal: Array, sine: Array, weight: Array) -> tuple[float, float]:
    """An angle in the middle of those on which the least weight of arcs lies, and that weight.

    normal: (T,), the middle of each arc modulo pi;  sine: (T,), the sine of half its width

    >>> normal, sine = np.array([0.5, 2.0]), np.sin([0.5, 0.6])
    >>> angle, covered = _least_covered(normal, sine, np.ones(2))
    >>> covered, 2.6 < angle < np.pi  # the arcs are 0 to 1 and 1.4 to 2.6
    (0.0, True)
    """
    bins = int(np.clip(2 ** np.ceil(np.log2(len(normal))), _LEAST_BINS, _MOST_BINS))
    sine = np.minimum(sine, 1.0)
    half = (
        sine * (1.0 + (np.pi / 2 - 1.0) * sine * sine) * (bins / np.pi)
    )  # at least arcsin, in bins
    start = normal * (bins / np.pi) - half
    start -= np.floor(start * (1.0 / bins)) * bins
    first = np.minimum(start.astype(np.int64), bins - 1)
    last = np.minimum((start + 2.0 * half).astype(np.int64) + 1, 2 * bins)
    steps = np.bincount(first, weight, 2 * bins + 1) - np.bincount(last, weight, 2 * bins + 1)
    running = np.cumsum(steps)
    covered = running[:bins] + running[bins : 2 * bins]
    least = float(covered.min())
    free = np.flatnonzero(covered < least + 0.5 / (len(normal) + 1))
    breaks = np.flatnonzero(np.diff(free) > 1)
    starts = free[np.concatenate([[0], breaks + 1])]
    stops = free[np.concatenate([breaks, [len(free) - 1]])] + 1
    widest = int((stops - starts).argmax())
    return float(starts[widest] + stops[widest]) * 0.5 * np.pi / bins, max(least, 0.0)
