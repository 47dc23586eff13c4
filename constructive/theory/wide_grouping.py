"""The claim *wide_grouping*: what Theorem 10 asks of the data, exactly.

In the order in which heads take the examples,

- the queries of each group are independent;
- no query of an earlier group is in the span of those of a later one;
- of any part J of a group the differences of tokens within contexts span |J| dimensions or more (of
  the first group, the tokens).

Queries are decided as for the claim *grouping* (`theory.grouping`). Contexts are wide enough if and
only if random elements of the differences of each context are independent, for almost all choices
(Rado's theorem for subspaces, Proposition 15.3). So one elimination for each group decides:
independent modulo a prime is a proof. Else a part J of the rows that depend on each other is named,
with its dimension over the rational numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.support.arrays import Array, Integers
from constructive.support.verdict import Claim, Verdict, pack
from constructive.theory.bounds import Groups, consecutive
from constructive.theory.context_capacity import dependent_rows, generic_rows
from constructive.theory.context_spans import dimensions
from constructive.theory.grouping import RefutedError, UndecidedError, require_cover, separate

NAME = "wide_grouping"
STATEMENT = (
    "in an order of the examples, the queries of each of {} groups are independent, and no query "
    "of an earlier group is in the span of a later one; any k examples of a group have contexts "
    "whose differences of tokens, or in the first group whose tokens, span k dimensions or more"
)
_ATTEMPTS = 3  # Primes that are tried


@dataclass(frozen=True)
class TooNarrow:
    """A part of a group whose contexts span less than it has examples."""

    examples: tuple[int, ...]  # J
    dimension: int  # what their differences span, or of the first group their tokens
    tokens: bool  # whether it is tokens

    def __str__(self) -> str:
        what = "tokens" if self.tokens else "differences of tokens"
        return (
            f"the {what} of {len(self.examples)} examples of one group span "
            f"{self.dimension} dimensions"
        )


def prove(dataset: Dataset, groups: Groups, order: Integers, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim.

    groups: (start, stop) of consecutive examples in the order
    order: (T,), the examples in the order in which heads take them

    Example:
        >>> same = np.tile([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], (3, 1, 1))
        >>> data = Dataset(same, [[1, 0, 0], [1, 1, 0], [0, 0, 1]], np.zeros(3))
        >>> rng = np.random.default_rng(0)
        >>> prove(data, ((0, 2), (2, 3)), np.arange(3), rng).verdict.name
        'PROVED'
        >>> refuted = prove(data, ((0, 1), (1, 3)), np.arange(3), rng)
        >>> print(refuted.detail)
        the differences of tokens of 2 examples of one group span 1 dimensions
        >>> refuted.witness
        (1, 2)
    """
    statement = STATEMENT.format(len(groups))
    prime = next(modular.safe_primes())
    try:
        require_cover(dataset, groups)
        given = np.array_equal(order, np.arange(len(order)))
        taken = dataset if given else dataset.take(order)
        normals = separate(taken, groups, prime, rng, earlier=True)
        verdict, narrow = widths(taken, tuple(stop - start for start, stop in groups), rng)
        if narrow is not None:
            raise RefutedError(str(narrow), narrow.examples)
        if verdict is not Verdict.PROVED:
            raise UndecidedError("contexts are wide enough, but not modulo some primes")
    except RefutedError as found:
        detail = found.detail if given else f"{found.detail}, in the order of heads"
        return Claim(NAME, statement, Verdict.REFUTED, detail, _given(found.witness, order))
    except UndecidedError as found:
        return Claim(NAME, statement, Verdict.UNDECIDED, str(found))
    evidence = {
        "prime": prime,
        "order": pack(order.astype(np.int64)),
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }
    return Claim(NAME, statement, Verdict.PROVED, f"modulo p = {prime}", evidence=evidence)


def _given(witness: Any, order: Integers) -> tuple[int, ...]:  # noqa: ANN401
    """Examples of a witness, and those of a group (start, stop) in it, as the data count them."""
    parts = [range(*part) if isinstance(part, tuple) else [part] for part in witness]
    return tuple(order[[example for part in parts for example in part]].tolist())


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
    contexts = context_of_each(dataset)
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


def context_of_each(dataset: Dataset) -> Array:
    """Return the context of each example (T, n, d), without copies of a shared one."""
    shape = dataset.num_examples, dataset.context_size, dataset.width
    return np.broadcast_to(dataset.contexts, shape)
