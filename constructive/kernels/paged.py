"""A cache of keys and values in pages: in random order, and NaN wherever nothing may be read."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.kernels.memory import converted
from constructive.kernels.problem import Problem
from constructive.support.arguments import require_not_negative, require_positive
from constructive.support.arrays import Array

_UNUSED = -1


@dataclass(frozen=True, eq=False)
class Paged:
    """Keys and values of a problem in pages.

    Attributes:
        k: (pages, page size, G, d)
        v: (pages, page size, G, d_v)
        table: (B, most pages of a sequence) int32: the page of each block of keys, -1 where there
            is none
        lengths: (B,) int32: keys of each sequence
    """

    k: Any
    v: Any
    table: Any
    lengths: Any

    @classmethod
    def of(
        cls, problem: Problem, *, page_size: int = 16, spare: int = 3, library: str = "numpy",
        device: str = "cpu",
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

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> paged = Paged.of(Problem.build(Spec(batch=2, keys=20)), page_size=8)
            >>> paged.k.shape, paged.table.shape
            ((9, 8, 2, 64), (2, 3))
        """
        require_positive(page_size=page_size)
        require_not_negative(spare=spare)
        spec = problem.spec
        lengths = spec.lengths[1]
        counts = -(-lengths // page_size)
        order = np.random.default_rng((spec.seed, 17)).permutation(int(counts.sum()) + spare)
        table = np.full((spec.batch, int(counts.max())), _UNUSED, dtype=np.int32)
        k = np.full((len(order), page_size, *_token(problem.k)), np.nan)
        v = np.full((len(order), page_size, *_token(problem.v)), np.nan)
        ends = np.cumsum(counts)
        for sequence, (end, count, length) in enumerate(zip(ends, counts, lengths, strict=True)):
            pages = order[end - count : end]
            table[sequence, :count] = pages
            for pool, array in ((k, problem.k), (v, problem.v)):
                tokens = array[sequence].swapaxes(0, 1)[:length]
                for index, page in enumerate(pages):
                    part = tokens[index * page_size : (index + 1) * page_size]
                    pool[page, : len(part)] = part
        name = spec.dtype
        return cls(
            converted(k, library, device, name),
            converted(v, library, device, name),
            converted(table, library, device, "int32"),
            converted(lengths, library, device, "int32"),
        )


def _token(array: Array) -> tuple[int, int]:
    return array.shape[1], array.shape[3]
