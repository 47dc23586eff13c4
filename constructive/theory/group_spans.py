"""Groups as large as their contexts allow: condition (2) of Theorem 10, decided exactly.

The queries of a group may be many, if the contexts have as many directions to answer in: of any
part J of a group the differences of tokens within contexts span |J| dimensions at least (of the
first group the tokens). That is so if and only if random elements of the differences of each
context are independent, for almost all choices (Rado's theorem for subspaces, Proposition 15.3), so
one elimination for each group decides: independent modulo a prime is a proof. Else a part J of the
rows that depend on each other is named, with its dimension over the rational numbers.
"""

from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.support.arrays import Array
from constructive.support.verdict import Verdict
from constructive.theory.bounds import consecutive
from constructive.theory.context_capacity import dependent_rows, generic_rows
from constructive.theory.context_spans import dimensions

_ATTEMPTS = 3


@dataclass(frozen=True)
class TooNarrow:
    """A part of a group whose contexts span less than it has examples.

    Attributes:
        examples: J
        dimension: what their differences span, or of the first group their tokens
        tokens: whether it is tokens
    """

    examples: tuple[int, ...]
    dimension: int
    tokens: bool


def widths(
    dataset: Dataset, sizes: tuple[int, ...], rng: np.random.Generator
) -> tuple[Verdict, TooNarrow | None]:
    """Decide whether contexts of all groups are wide enough; if not, name a narrow part.

    sizes: of the groups, which are consecutive examples; tokens count for the first one only,
        which may be empty

    Example:
        >>> same = np.tile([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], (5, 1, 1))
        >>> data = Dataset(same, np.eye(5, 3) + 1.0, np.zeros(5))
        >>> widths(data, (2, 3), np.random.default_rng(0))[1]
        TooNarrow(examples=(2, 3, 4), dimension=1, tokens=False)
    """
    groups = list(consecutive(sizes))
    contexts = own_contexts(dataset)
    of_tokens = np.arange(dataset.num_examples) < sizes[0]
    for prime, _ in zip(modular.safe_primes(), range(_ATTEMPTS), strict=False):
        rows = generic_rows(contexts, 1, prime, rng, ~of_tokens)
        pending = []
        for start, stop in groups:
            factors = modular.factor(rows[start:stop], prime)
            if factors.rank == stop - start:
                continue
            blamed = start + dependent_rows(factors, rng)
            first = bool(of_tokens[start])
            dimension = dimensions(contexts[blamed])[0 if first else 1]
            if dimension < len(blamed):
                return Verdict.REFUTED, TooNarrow(tuple(blamed.tolist()), dimension, first)
            pending.append((start, stop))
        groups = pending
        if not groups:
            return Verdict.PROVED, None
    return Verdict.UNDECIDED, None


def own_contexts(dataset: Dataset) -> Array:
    """Return the context of each example (T, n, d), without copies of a shared one."""
    shape = dataset.num_examples, dataset.context_size, dataset.width
    return np.broadcast_to(dataset.contexts, shape)
