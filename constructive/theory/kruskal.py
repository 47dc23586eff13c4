"""The Kruskal rank of vectors: the largest k such that every k of them are independent.

To compute it is hard in general: it is the distance of a linear code, less one. So it is bounded
from both sides: by all subsets of k vectors, as long as these are few enough to be looked at, and
by a dependent subset with its exact coefficients.
"""

import math
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, checked_matrix, unit_rows
from constructive.support.errors import require_not_negative, require_positive, require_seed
from constructive.support.work import report

# Ranks and dependencies in floating point: of rows, scaled to length one.


# Below this ratio of singular values, rounding alone can explain that a matrix looks full rank.
RANK_TOLERANCE = 1e-13


def dependency(vectors: Array) -> tuple[int, Array]:
    """Return the numerical rank of rows, and coefficients of the combination closest to zero.

    Example:
        >>> rank, coefficients = dependency(np.array([[1.0, 0.0], [2.0, 0.0]]))
        >>> rank, bool(np.allclose(coefficients @ [[1.0, 0.0], [2.0, 0.0]], 0))
        (1, True)
    """
    lengths, unit = unit_rows(vectors)
    left, singular, _ = np.linalg.svd(unit, full_matrices=True)
    coefficients = left[:, -1] * (lengths.min() / lengths)  # 1 / length may be no float
    return int(np.count_nonzero(singular > RANK_TOLERANCE * singular[0])), coefficients


def describe_dependency(rows: list[int], coefficients: Array) -> tuple[tuple[int, ...], str]:
    """Return the rows that take part in a dependency, and the dependency in words."""
    largest = np.abs(coefficients).max()
    taking_part = [i for i, c in enumerate(coefficients) if abs(c) > 1e-9 * largest]
    scale = coefficients[taking_part[0]]
    terms = [f"{coefficients[i] / scale:+.4g}*[{rows[i]}]" for i in taking_part[:6]]
    words = " ".join(f"{term[0]} {term[1:]}" for term in terms).removeprefix("+ ")
    more = " + ..." if len(taking_part) > len(terms) else ""
    return tuple(rows[i] for i in taking_part), f"{words}{more} = 0"


# Subsets are looked at one by one, the smallest first. Zero vectors are seen at once, and parallel
# ones are equal when each is written as integers without a common divisor.


_AT_ONCE = 1 << 12  # Subsets that are decided together


def smallest_dependency(vectors: Array, size: int, rng: np.random.Generator) -> Dependency | None:
    """Find a dependent subset of `size` of the vectors (T, d), if no smaller one is.

    None is a proof that there is none.
    """
    if size == 1:
        zero = np.flatnonzero(~vectors.any(axis=1))
        return dyadic.dependency(vectors, zero[:1]) if len(zero) else None
    if size == 2:
        return _parallel(vectors, rng)
    subsets = combinations(range(len(vectors)), size)
    while some := list(islice(subsets, _AT_ONCE)):
        independent = dyadic.independent(vectors[np.array(some)], rng)
        if not independent.all():
            return dyadic.dependency(vectors, some[int(independent.argmin())])
    return None


def _parallel(vectors: Array, rng: np.random.Generator) -> Dependency | None:
    """Find two parallel vectors; none is zero."""
    seen: dict[tuple[int, ...], int] = {}
    suspects = _perhaps_parallel(vectors, rng)
    for row, entries in zip(suspects, dyadic.integers(vectors[suspects])[0].tolist(), strict=True):
        whole = [int(entry) for entry in entries]
        divisor = math.gcd(*whole) * (1 if next(filter(None, whole)) > 0 else -1)
        other = seen.setdefault(tuple(entry // divisor for entry in whole), row)
        if other != row:
            return dyadic.dependency(vectors, [other, row])
    return None


def _perhaps_parallel(vectors: Array, rng: np.random.Generator) -> list[int]:
    """Return all vectors but those whose images modulo a prime are parallel to no others."""
    prime = next(modular.safe_primes())
    residues = modular.residues(vectors, prime)
    mixing = modular.random_residues(rng, (vectors.shape[1], 3), prime)
    images = modular.product(residues, mixing, prime)
    if not images[:, 0].all():
        return list(range(len(vectors)))
    points = modular.reduce(images[:, 1:] * modular.inverse(images[:, :1], prime), prime)
    points += prime * (points < 0)  # so that equal residues are equal numbers
    _, which, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    suspects: list[int] = np.flatnonzero(counts[which.reshape(-1)] > 1).tolist()
    return suspects


@dataclass(frozen=True)
class KruskalRank:
    """What is known of the Kruskal rank of T vectors.

    Attributes:
        lower: a proved lower bound
        violation: a dependent subset with exact coefficients, or None
        count, width: T and d
    """

    lower: int
    violation: Dependency | None
    count: int
    width: int

    @property
    def upper(self) -> int:
        """A proved upper bound."""
        most = min(self.count, self.width)
        return min(most, len(self.violation.rows) - 1) if self.violation else most

    @property
    def exact(self) -> bool:
        """Whether both bounds agree."""
        return self.lower == self.upper


def kruskal_rank(
    vectors: Array, wanted: int | None = None, *, budget: float = 1e5, seed: int = 0
) -> KruskalRank:
    """Bound the Kruskal rank of vectors (T, d) from both sides, exactly.

    Args:
        vectors: T vectors of d entries, (T, d)
        wanted: a bound that is enough: larger subsets are not looked at; by default d
        budget: subsets of three vectors and more that may be looked at: a few seconds for 1e5
        seed: of random choices; bounds are proved whatever it is

    Raises:
        DataError: for what is not a matrix of real numbers
        ParameterError: for a negative budget or seed, or a bound below 1

    Example:
        >>> known = kruskal_rank(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]))
        >>> known.lower, known.upper, print(known.violation)
        [0] + [1] - [3] = 0
        (2, 2, None)
    """
    vectors = checked_matrix("vectors", vectors)
    count, width = vectors.shape
    require_not_negative(budget=budget)
    require_seed(seed)
    require_positive(wanted=1 if wanted is None else wanted)
    most = min(count, width)
    wanted = most if wanted is None else min(wanted, most)
    rng = np.random.default_rng(seed)
    if count <= width and dyadic.independent(vectors[np.newaxis], rng)[0]:
        return KruskalRank(count, None, count, width)
    lower, subsets = 0, 0
    while lower < wanted:
        subsets += math.comb(count, lower + 1) if lower >= 2 else 0
        if subsets > budget:
            return KruskalRank(lower, _too_few_dimensions(vectors), count, width)
        found = smallest_dependency(vectors, lower + 1, rng)
        if found is not None:
            return KruskalRank(lower, found, count, width)
        lower += 1
    return KruskalRank(lower, None, count, width)


def _too_few_dimensions(vectors: Array) -> Dependency | None:
    """Return a dependency of the first vectors, if they span fewer dimensions than they may."""
    few = dyadic.seemingly_dependent(vectors[: vectors.shape[1] + 1])
    larger = few is None or len(few) > vectors.shape[1]
    return None if larger else dyadic.dependency(vectors, few)


# Assumption 2, exactly: which contexts have rank n, and the dependency of those that do not.


@dataclass(frozen=True)
class DependentContext:
    """An example whose tokens are dependent, and how.

    Attributes:
        example: its index; 0 for a shared context
        tokens: which of its tokens are dependent, with exact coefficients
    """

    example: int
    tokens: Dependency


def dependent_contexts(dataset: Dataset, *, seed: int = 0) -> tuple[DependentContext, ...]:
    """Return every context of rank below n, decided exactly, with a dependency of its tokens.

    A context counts as what its floats are, however near it is to another.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        seed: of random choices on the way to exact ranks; any seed finds the same

    Raises:
        ParameterError: for a negative seed

    Example:
        >>> contexts = [[[1, 0], [1, 1e-17]], [[1, 0.1], [2, 0.2]]]
        >>> [(found.example, str(found.tokens)) for found in dependent_contexts(
        ...     Dataset(contexts, queries=[[1, 0], [0, 1]], targets=[0, 0]))]
        [(1, '[0] - 1/2 [1] = 0')]
    """
    require_seed(seed)
    rng = np.random.default_rng(seed)
    found = []
    for rows, contexts in dataset.context_chunks():
        for index in np.flatnonzero(~dyadic.independent(contexts, rng)).tolist():
            dependency = dyadic.dependency(contexts[index])
            if dependency is not None:
                found.append(DependentContext(rows.start + index, dependency))
        report("ranks of contexts", rows.stop, dataset.num_examples)
    return tuple(found)
