"""A cache of keys and values in pages, in random order.

What no kernel may read is NaN, which shows every read; or stale, that is keys and values of other
tokens, which tell where a wrong read was.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.kernels.memory import converted
from constructive.kernels.problem import Problem
from constructive.support.arguments import require_not_negative, require_positive
from constructive.support.arrays import Array, Integers

_UNUSED = -1


@dataclass(frozen=True, eq=False)
class Pool:
    """Pages as numbers, whatever library a kernel gets them in."""

    k: Array  # (pages, page size, G, d)
    v: Array  # (pages, page size, G, d_v)
    # (B, most pages of a sequence): the page of each block of keys, -1 where there is none
    table: Integers
    lengths: Integers  # (B,) keys of each sequence

    @classmethod
    def of(cls, problem: Problem, page_size: int, spare: int, *, stale: bool) -> "Pool":
        """Return the keys and values of a problem in pages."""
        spec, lengths = problem.spec, problem.spec.lengths[1]
        random = np.random.default_rng((spec.seed, 17))
        counts = -(-lengths // page_size)
        order = random.permutation(int(counts.sum()) + spare)
        width, starts = int(counts.max()), np.cumsum(counts) - counts
        column = np.arange(width)
        there = column < counts[:, None]
        table = np.where(there, order[np.where(there, starts[:, None] + column, 0)], _UNUSED)
        sequence, block = np.nonzero(there)
        keys = block[:, None] * page_size + np.arange(page_size)
        addresses = table[sequence, block][:, None] * page_size + np.arange(page_size)
        rows = np.broadcast_to(sequence[:, None], keys.shape)
        inside = keys < lengths[rows]
        # Stale tokens are of the sequence whose page it is, so some queries read them if they leak.
        owner = np.zeros(len(order) * page_size, dtype=np.int64)
        owner[addresses] = rows
        drawn = np.random.default_rng((spec.seed, 19)).integers(0, spec.keys, owner.shape)
        found = []
        for array, step in ((problem.k, 0), (problem.v, 1)):
            tokens = array.swapaxes(1, 2)
            pool = tokens[owner, (drawn + step) % np.maximum(lengths[owner], 1)]
            pool = pool if stale else np.full_like(pool, np.nan)
            pool[addresses[inside]] = tokens[rows[inside], keys[inside]]
            found.append(pool.reshape(len(order), page_size, *tokens.shape[2:]))
        return cls(found[0], found[1], table, lengths)


@dataclass(frozen=True, eq=False)
class Paged:
    """Keys and values of a problem in pages, as a kernel gets them.

    Attributes:
        k: (pages, page size, G, d)
        v: (pages, page size, G, d_v)
        table: (B, most pages of a sequence) int32: the page of each block of keys, -1 where there
            is none
        lengths: (B,) int32: keys of each sequence
        pool: the same as numbers, for `check`
    """

    k: Any
    v: Any
    table: Any
    lengths: Any
    pool: Pool

    @classmethod
    def of(
        cls, problem: Problem, *, page_size: int = 16, spare: int = 3, library: str = "numpy",
        device: str = "cpu", stale: bool = False,
    ) -> "Paged":  # fmt: skip
        """Return the keys and values of a problem in pages.

        Pages are in random order. What lies beyond the end of a sequence in its last page is NaN,
        and so are pages of no sequence.

        Args:
            problem: the problem; lengths are those of its masks
            page_size: keys of a page
            spare: pages of no sequence
            library: "numpy", "torch" or "jax"
            device: of torch and jax
            stale: keys and values of other tokens in the place of NaN, as in a cache that was used
                before: `check(problem, out, memory=paged)` can then say which page was read

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> paged = Paged.of(Problem.build(Spec(batch=2, keys=20)), page_size=8)
            >>> paged.k.shape, paged.table.shape
            ((9, 8, 2, 64), (2, 3))
        """
        require_positive(page_size=page_size)
        require_not_negative(spare=spare)
        pool = Pool.of(problem, page_size, spare, stale=stale)
        name = problem.spec.dtype
        return cls(
            converted(pool.k, library, device, name),
            converted(pool.v, library, device, name),
            converted(pool.table, library, device, "int32"),
            converted(pool.lengths, library, device, "int32"),
            pool,
        )
