"""In which order pairs of heads take the examples.

An example with a small gap between its extreme scores asks for a large c. So examples are
sorted by that gap, smallest first, and the heads of pair p have to saturate on the examples of the
pairs *after* it. So x_{t,p} is not zero only where p is the pair of t or a later one: the system is
block triangular. What is left over above the diagonal (an example that a later pair could not
saturate for free) is the *leftover coupling*: a few entries, which `coupling` evaluates.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.constructions.multihead.assumptions import Assumptions, least_distance
from constructive.constructions.multihead.directions import (
    KeyDirection,
    best_for_all,
    candidates_for_all,
    gaps,
    token_radius,
)
from constructive.data.dataset import Dataset
from constructive.support.arrays import Array, Integers, Single, row_chunks
from constructive.support.errors import AssumptionError
from constructive.support.progress import report
from constructive.theory.assumptions.kruskal import unit_rows
from constructive.theory.bounds import group_sizes


@dataclass(frozen=True, eq=False)
class Seen:
    """What one pass over all contexts tells.

    assumed: that they have rank n, and how well they have it
    direction: one key direction u for all heads, with the gaps of all examples
    radius: (T,), of each context around its mean token; (0,) where heads are of rank one
    """

    assumed: Assumptions
    direction: KeyDirection
    radius: Array


@dataclass(frozen=True, eq=False)
class Coarse:
    """What a sweep looks at, in float32 and in units in which nothing leaves its range.

    unit:           (T, d), the queries scaled to length one, by position
    inverse_length: (T,), 2^a / |e_t|;  query_exponent: a
    inverse_gap:    (T,), 2^b over the smaller gap of t;  gap_exponent: b
    reach:          (T,), 2 radius_t over that gap; (0,) where heads are of rank one
    """

    unit: Single
    inverse_length: Single
    query_exponent: int
    inverse_gap: Single
    gap_exponent: int
    reach: Single

    @property
    def slack(self) -> float:
        """Bounds the error of a product of a unit query and a unit vector, both rounded."""
        return float(self.unit.shape[1] + 8) * 2.0**-24


@dataclass(frozen=True, eq=False)
class Ordered:
    """The examples in the order in which pairs take them: positions, not indices of the data.

    read: gives the contexts of some examples (k, n, d) in float64
    context_size: n
    order: (T,), the example at each position;  queries: (T, d) in float64
    direction: one key direction u for all heads, with the gaps by position
    radius: (T,), of each context around its mean token; (0,) where heads are of rank one
    coarse: the same in float32
    stops: (P,), the position after the last one of each pair; a position beyond is the extra one
    """

    read: Callable[[Any], Array]
    context_size: int
    order: Integers
    queries: Array
    direction: KeyDirection
    radius: Array
    coarse: Coarse
    stops: Integers

    @property
    def width(self) -> int:
        """The width d of queries and tokens."""
        return int(self.queries.shape[1])

    @property
    def num_pairs(self) -> int:
        """P, half the number of heads."""
        return len(self.stops)

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    def start(self, pair: int) -> int:
        """Return the first position of a pair."""
        return int(self.stops[pair - 1]) if pair else 0

    def contexts(self, positions: Integers | slice) -> Array:
        """Return contexts in float64: (k, n, d)."""
        return self.read(self.order[positions])

    def chunks(self, positions: Integers) -> Iterator[Integers]:
        """Walk through indices of `positions`, a chunk of contexts at a time, as the data lie.

        So contexts on disk are read from the first to the last.
        """
        sorted_by_example = np.argsort(self.order[positions], kind="stable")
        for part in row_chunks(len(positions), 8 * self.context_size * self.width):
            yield sorted_by_example[part]

    def gaps(self, positions: Integers) -> KeyDirection:
        """Return the key direction with the gaps of some positions."""
        top, bottom = self.direction.top_gap, self.direction.bottom_gap
        return KeyDirection(self.direction.vector, top[positions], bottom[positions])


def look(dataset: Dataset, rng: np.random.Generator, *, full_rank: bool) -> Seen | AssumptionError:
    """Check the ranks of contexts and find a key direction, in one pass over the contexts.

    Returns an AssumptionError for a context of rank below n.
    """
    vectors = candidates_for_all(dataset, rng)
    total, least = dataset.num_examples, np.inf
    top, bottom = np.empty((2, total, vectors.shape[1]))
    radius = np.empty(total if full_rank else 0)
    for rows, contexts in dataset.context_chunks():
        distance = least_distance(rows, contexts)
        if isinstance(distance, AssumptionError):
            return distance
        least = min(least, distance)
        top[rows], bottom[rows] = gaps(contexts, vectors)
        if full_rank:
            radius[rows] = token_radius(contexts)
        report("check the contexts", rows.stop, total)
    return Seen(Assumptions(least), best_for_all(vectors, top, bottom), radius)


def arrange(dataset: Dataset, seen: Seen, num_heads: int) -> Ordered:
    """Sort the examples, and share them among H // 2 pairs as evenly as possible.

    Where one example is left over, it is the extra one that the readout absorbs: that with the
    widest gap.
    """
    direction = seen.direction
    order = np.argsort(np.minimum(direction.top_gap, direction.bottom_gap), kind="stable")
    queries = dataset.queries[order].astype(np.float64, copy=False)
    # Contiguous, as other processes read it from a file: BLAS rounds otherwise where it is not.
    vector = np.ascontiguousarray(direction.vector)
    sorted_direction = KeyDirection(vector, direction.top_gap[order], direction.bottom_gap[order])
    radius = seen.radius[order] if len(seen.radius) else seen.radius
    return Ordered(
        dataset.contexts_of,
        dataset.context_size,
        order,
        queries,
        sorted_direction,
        radius,
        coarse_of(queries, sorted_direction, radius),
        _stops(dataset, num_heads // 2),
    )


def _stops(dataset: Dataset, pairs: int) -> Integers:
    total = dataset.num_examples
    uneven = total % pairs == 1 and total > pairs
    extra = int(uneven or total == pairs * (dataset.width - 1) + 1)
    return np.cumsum(group_sizes(total - extra, pairs))


def coarse_of(queries: Array, direction: KeyDirection, radius: Array) -> Coarse:
    """Return queries (T, d), gaps and radius by position as a sweep looks at them."""
    unit = np.empty(queries.shape, np.float32)
    lengths = np.empty(len(queries))
    for rows in row_chunks(len(queries), 8 * queries.shape[1]):
        lengths[rows], unit[rows] = unit_rows(queries[rows])
    gap = np.minimum(direction.top_gap, direction.bottom_gap)
    exponents = [int(np.frexp(np.median(values))[1]) for values in (lengths, gap)]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverses = [
            (np.ldexp(1.0, exponent) / values).astype(np.float32)
            for exponent, values in zip(exponents, (lengths, gap), strict=True)
        ]
        reach = (2.0 * radius / gap[: len(radius)]).astype(np.float32)
    return Coarse(unit, inverses[0], exponents[0], inverses[1], exponents[1], reach)
