"""In which order pairs of heads take the examples.

An example with a small gap between its extreme scores asks for a large c. So examples are
sorted by that gap, smallest first, and the heads of pair p have to saturate on the examples of the
pairs *after* it. So x_{t,p} is not zero only where p is the pair of t or a later one: the system is
block triangular. What is left over above the diagonal (an example that a later pair could not
saturate for free) is the *leftover coupling*: a few entries, which `coupling` evaluates.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.constructions.multihead.directions import KeyDirection, propose_for_all
from constructive.data.dataset import Dataset
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.theory.bounds import group_sizes

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ordered:
    """The examples in the order in which pairs take them: positions, not indices of the data.

    order: (T,), the example at each position;  queries: (T, d) in float64
    direction: one key direction u for all heads, with the gaps by position
    stops: (P,), the position after the last one of each pair; a position beyond is the extra one
    """

    dataset: Dataset
    order: Integers
    queries: Array
    direction: KeyDirection
    stops: Integers

    @property
    def num_pairs(self) -> int:
        """P, half the number of heads."""
        return len(self.stops)

    @property
    def owner(self) -> Integers:
        """The pair of each position which belongs to one."""
        return np.repeat(np.arange(self.num_pairs), np.diff(self.stops, prepend=0))

    def contexts(self, positions: Integers | slice) -> Array:
        """Contexts in float64: (k, n, d)."""
        return self.dataset.contexts_of(self.order[positions])

    def chunks(self, positions: Integers) -> Iterator[Integers]:
        """Walk through indices of `positions`, a chunk of contexts at a time, as the data lie.

        So contexts on disk are read from the first to the last.
        """
        sorted_by_example = np.argsort(self.order[positions], kind="stable")
        for start in range(0, len(positions), self.step):
            yield sorted_by_example[start : start + self.step]

    @property
    def step(self) -> int:
        """How many contexts make a chunk."""
        return max(1, CHUNK_BYTES // (8 * self.dataset.context_size * self.dataset.width))


def arrange(dataset: Dataset, num_heads: int, rng: np.random.Generator) -> Ordered:
    """Sort the examples, and share them among H // 2 pairs as evenly as possible.

    Where one example is left over, it is the extra one which the readout absorbs: that with the
    widest gap.
    """
    direction = propose_for_all(dataset, rng)
    order = np.argsort(np.minimum(direction.top_gap, direction.bottom_gap), kind="stable")
    pairs, total = num_heads // 2, dataset.num_examples
    uneven = total % pairs == 1 and total > pairs
    extra = int(uneven or total == pairs * (dataset.width - 1) + 1)
    return Ordered(
        dataset,
        order,
        dataset.queries[order].astype(np.float64, copy=False),
        KeyDirection(direction.vector, direction.top_gap[order], direction.bottom_gap[order]),
        np.cumsum(group_sizes(total - extra, pairs)),
    )
