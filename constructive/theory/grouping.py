"""The claim *grouping*: what the construction asks of the data, exactly.

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

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.support.arrays import Array
from constructive.support.verdict import Claim, Verdict, pack

_ATTEMPTS = 8

Groups = tuple[tuple[int, int], ...]


class _UndecidedError(Exception):
    """Why the claim cannot be decided, and what to try."""


class _RefutedError(Exception):
    """A part of the claim fails: what, and a witness."""

    def __init__(self, detail: str, witness: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.witness = witness


def prove(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim for groups (start, stop) of consecutive examples."""
    statement = (
        f"all contexts have rank n = {dataset.context_size}; the queries of each of "
        f"{len(groups)} groups are independent, and no group but the first has another query "
        "in its span"
    )
    prime = next(modular.safe_primes())
    try:
        _check_cover(dataset, groups)
        _check_contexts(dataset, prime, rng)
        queries = modular.residues(dataset.queries, prime, modular.least_exponent(dataset.queries))
        normals = np.zeros((len(groups), dataset.width))
        for head, (start, stop) in enumerate(groups):
            if start == stop:
                continue
            null = modular.null_vectors(queries[start:stop], prime)
            if null.shape[1] != dataset.width - (stop - start):
                _check_independent(dataset, start, stop)
            if head > 0:
                normals[head] = _normal(dataset, queries, start, stop, null, prime, rng)
    except _RefutedError as found:
        return Claim("grouping", statement, Verdict.REFUTED, found.detail, found.witness)
    except _UndecidedError as found:
        return Claim("grouping", statement, Verdict.UNDECIDED, str(found))
    evidence = {
        "prime": prime,
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }
    return Claim("grouping", statement, Verdict.PROVED, f"modulo p = {prime}", evidence=evidence)


def _check_cover(dataset: Dataset, groups: Groups) -> None:
    """Groups of at most n, then n - 1 examples, which are all of the examples.

    Others are no groups of these data. The claim does not say so, so nothing is refuted.
    """
    ends = [0, *(stop for _, stop in groups)]
    suggestion = "certify the data which the memorizer was built for"
    if [start for start, _ in groups] != ends[:-1] or ends[-1] != dataset.num_examples:
        raise _UndecidedError(
            f"the groups cover {ends[-1]} of {dataset.num_examples} examples; {suggestion}"
        )
    for head, (start, stop) in enumerate(groups):
        if stop - start > max(dataset.context_size - (head > 0), 1):
            raise _UndecidedError(
                f"the group of head {head} has {stop - start} examples; {suggestion}"
            )


def _check_contexts(dataset: Dataset, prime: int, rng: np.random.Generator) -> None:
    exponent = modular.least_exponent(dataset.contexts)
    if dataset.context_size > dataset.width:
        raise _RefutedError("contexts have more tokens than dimensions", dataset.context_size)
    for rows, contexts in dataset.context_chunks():
        residues = modular.residues(contexts, prime, exponent)
        pending = np.arange(len(contexts))
        for _ in range(_ATTEMPTS):
            proved = modular.full_row_rank(residues[pending], prime, rng)
            pending = pending[~proved]
            if not len(pending):
                break
        for index in pending:
            rank = dyadic.rank(contexts[index])
            if rank < dataset.context_size:
                example = rows.start + int(index)
                raise _RefutedError(f"the context of example {example} has rank {rank}", example)
            raise _UndecidedError(f"a context has rank n, but not modulo p = {prime}")


def _check_independent(dataset: Dataset, start: int, stop: int) -> None:
    rank = dyadic.rank(dataset.queries[start:stop])
    if rank < stop - start:
        members = tuple(range(start, stop))
        raise _RefutedError(
            f"the queries of examples {start} to {stop - 1}, one group, have rank {rank}", members
        )
    raise _UndecidedError("a group of queries is independent, but not modulo p; another prime")


def _normal(
    dataset: Dataset,
    queries: Array,
    start: int,
    stop: int,
    null: Array,
    prime: int,
    rng: np.random.Generator,
) -> Array:
    """A vector orthogonal modulo p to the group and to no other query."""
    others = np.delete(np.arange(len(queries)), np.s_[start:stop])
    outside = queries[others]
    for _ in range(_ATTEMPTS):
        if null.shape[1] == 0:
            break
        mixing = rng.integers(1, prime, size=(null.shape[1], 1)).astype(np.float64)
        normal = modular.product(null, modular.reduce(mixing, prime), prime)
        if modular.product(outside, normal, prime).all():
            return normal[:, 0]
    orthogonal = ~modular.product(outside, null, prime).any(axis=1)
    for example in others[orthogonal].tolist():
        members = [*range(start, stop), example]
        if dyadic.rank(dataset.queries[members]) == stop - start:
            raise _RefutedError(
                f"query {example} is in the span of the queries {start} to {stop - 1} of a group",
                (example, (start, stop)),
            )
    raise _UndecidedError("a query is in the span of a group modulo p only; another prime")
