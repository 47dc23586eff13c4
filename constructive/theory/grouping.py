"""Groups of examples, one for each head: their sizes, and what they have to meet, exactly.

The claim *grouping*, of Theorems 1 and 2, says:

- Every context has rank n.
- The queries of every group S are independent.
- But for the first head, no query of another group lies in the span of S. (The first head takes r
  examples, one more than the others, and has no earlier example to saturate on.)

*Proof modulo a prime p.* Scale the data by a power of two, so that they are integers. A matrix of
rank k modulo p has rank at least k. Let S be independent modulo p, and let a vector v be orthogonal
to S but not to e modulo p. Then e is not in the rational span of S: otherwise D e = sum_i C_i e_i
with integers of gcd 1, and modulo p either D != 0, so that e.v = 0, or D = 0, so that S is
dependent. QED

A certificate carries one v for each head but the first; a random one serves all other queries at
once with probability 1 - T/p. Where no prime succeeds, the rank of the one matrix in question is
computed over the rational numbers, which decides.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.errors import require_positive
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import in_pieces

Groups = tuple[tuple[int, int], ...]  # Groups (start, stop) of examples


def group_sizes(num_examples: int, num_heads: int) -> tuple[int, ...]:
    """Share T examples among H heads as evenly as possible, larger groups first.

    At the bound T = H(r - 1) + 1 these are the sizes in the proof: r for the first head and r - 1
    for each later one. Below the bound no group is larger than that.
    """
    require_positive(num_examples=num_examples, num_heads=num_heads)
    each, rest = divmod(num_examples, num_heads)
    return tuple(each + (head < rest) for head in range(num_heads))


def consecutive(sizes: Iterable[int]) -> Groups:
    """Return groups (start, stop) of these sizes, one after the other."""
    return tuple(pairwise([0, *accumulate(sizes)]))


STATEMENT = (
    "all contexts have rank n = {}; the queries of each of {} groups are independent, and no group "
    "but the first has another query in its span"
)
_ATTEMPTS = 8
_AT_ONCE = 1 << 20  # Products of queries and normals that are held at a time
_OTHER = "certify the data that the memorizer was built for"


class UndecidedError(Exception):
    """Why the claim cannot be decided, and what to try."""


class RefutedError(Exception):
    """A part of the claim fails: what, and a witness."""

    def __init__(self, detail: str, witness: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.witness = witness


def prove(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim for groups (start, stop) of consecutive examples."""

    def evidence(prime: int) -> dict[str, Any]:
        _check_cover(dataset, groups)
        _check_contexts(dataset, prime, rng)
        normals = separate(dataset, groups, prime, rng)
        return _evidence(groups, normals, prime)

    return _claim("grouping", _statement(dataset, groups), evidence)


def _claim(name: str, statement: str, evidence: Callable[[int], dict[str, Any]]) -> Claim:
    """Return a claim by the evidence for a prime, or by the error why there is none."""
    prime = next(modular.safe_primes())
    try:
        found = {"prime": prime, **evidence(prime)}
    except RefutedError as error:
        return Claim(name, statement, Verdict.REFUTED, error.detail, error.witness)
    except UndecidedError as error:
        return Claim(name, statement, Verdict.UNDECIDED, str(error))
    return Claim(name, statement, Verdict.PROVED, f"modulo p = {prime}", evidence=found)


def _evidence(groups: Groups, normals: Array, prime: int) -> dict[str, Any]:
    return {
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }


def _statement(dataset: Dataset, groups: Groups) -> str:
    return STATEMENT.format(dataset.context_size, len(groups))


def separate(dataset: Dataset, groups: Groups, prime: int, rng: np.random.Generator) -> Array:
    """Find for each group but the first a vector orthogonal modulo p to it alone.

    groups: (start, stop) of consecutive examples
    """
    queries = modular.residues(dataset.queries, prime)
    normals = np.zeros((len(groups), dataset.width))
    wanted = []

    # All numbers are drawn first: how many are drawn before an error says nothing of threads.
    drawn = [
        (head, start, stop, modular.random_residues(rng, (dataset.width, 1), prime))
        for head, (start, stop) in enumerate(groups)
        if start != stop
    ]

    def orthogonal(piece: tuple[int, int, int, Array]) -> tuple[int, int, int, int, Array]:
        head, start, stop, free = piece
        return head, start, stop, *modular.null_vector(queries[start:stop], prime, free)

    operations = float(sum((stop - start) ** 2 for start, stop in groups)) * dataset.width
    for head, start, stop, rank, normal in in_pieces(orthogonal, drawn, operations):
        if rank != stop - start:
            _check_independent(dataset, start, stop)
        if head > 0:
            normals[head] = normal
            wanted.append(head)
    for some in (wanted[part] for part in row_chunks(len(wanted), len(queries), _AT_ONCE)):
        outside = modular.product(queries, normals[some].T.copy(), prime) != 0
        for head, column in zip(some, outside.T, strict=True):
            start, stop = groups[head]
            others = np.delete(np.arange(len(queries)), np.s_[start:stop])
            if not column[others].all():
                null = modular.null_vectors(queries[start:stop], prime)
                normals[head] = _normal(dataset, queries, (start, stop), others, null, prime, rng)
    return normals


def _check_cover(dataset: Dataset, groups: Groups) -> None:
    """Groups of at most n, then n - 1 examples, which are all of the examples.

    Others are not groups of these data. The claim does not say so, so nothing is refuted.
    """
    require_cover(dataset, groups)
    for head, (start, stop) in enumerate(groups):
        if stop - start > max(dataset.context_size - (head > 0), 1):
            raise UndecidedError(f"the group of head {head} has {stop - start} examples; {_OTHER}")


def require_cover(dataset: Dataset, groups: Groups) -> None:
    """Raise UndecidedError unless the groups are all of the examples, one after the other."""
    ends = [0, *(stop for _, stop in groups)]
    if [start for start, _ in groups] != ends[:-1] or ends[-1] != dataset.num_examples:
        raise UndecidedError(
            f"the groups cover {ends[-1]} of {dataset.num_examples} examples; {_OTHER}"
        )


def _check_contexts(dataset: Dataset, prime: int, rng: np.random.Generator) -> None:
    exponent = modular.least_exponent(dataset.contexts)
    if dataset.context_size > dataset.width:
        raise RefutedError("contexts have more tokens than dimensions", dataset.context_size)
    mixing = modular.random_residues(rng, (dataset.width, dataset.context_size), prime)

    def tried(piece: tuple[slice, Array]) -> list[tuple[int, Array]]:
        rows, contexts = piece
        residues = modular.residues(contexts, prime, exponent)
        proved = modular.full_row_rank(residues, prime, mixing)
        return [(rows.start + i, contexts[i]) for i in np.flatnonzero(~proved).tolist()]

    operations = float(dataset.contexts.size) * dataset.context_size**2
    doubtful = chain.from_iterable(in_pieces(tried, dataset.context_chunks(), operations))
    for example, context in list(doubtful):  # all pieces are looked at, whatever is found
        if modular.rank(modular.residues(context, prime, exponent), prime) < len(context):
            rank = dyadic.rank(context)
            if rank < len(context):
                raise RefutedError(f"the context of example {example} has rank {rank}", example)
            raise UndecidedError(f"a context has rank n, but not modulo p = {prime}")


def _check_independent(dataset: Dataset, start: int, stop: int) -> None:
    rank = dyadic.rank(dataset.queries[start:stop])
    if rank < stop - start:
        members = tuple(range(start, stop))
        raise RefutedError(
            f"the queries of examples {start} to {stop - 1}, one group, have rank {rank}", members
        )
    raise UndecidedError("a group of queries is independent, but not modulo p; another prime")


def _normal(
    dataset: Dataset,
    queries: Array,
    group: tuple[int, int],
    others: Integers,
    null: Array,
    prime: int,
    rng: np.random.Generator,
) -> Array:
    """Return a vector orthogonal modulo p to the group and to none of the others."""
    start, stop = group
    outside = queries[others]
    for _ in range(_ATTEMPTS):
        if null.shape[1] == 0:
            break
        mixing = modular.random_residues(rng, (null.shape[1], 1), prime, least=1)
        normal = modular.product(null, mixing, prime)
        if modular.product(outside, normal, prime).all():
            return normal[:, 0]
    orthogonal = ~modular.product(outside, null, prime).any(axis=1)
    for example in others[orthogonal].tolist():
        members = [*range(start, stop), example]
        if dyadic.rank(dataset.queries[members]) == stop - start:
            raise RefutedError(
                f"query {example} is in the span of the queries {start} to {stop - 1} of a group",
                (example, group),
            )
    raise UndecidedError("a query is in the span of a group modulo p only; another prime")
