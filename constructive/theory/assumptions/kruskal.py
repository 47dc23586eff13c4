"""The Kruskal rank of vectors: the largest k such that every k of them are independent.

To compute it is hard in general (it is the distance of a linear code, less one). So a report has
three parts, each with its own kind of truth:

- A *proved lower bound*: the best of these arguments.

  - enumeration: every k at a time, by `enumeration`, as far as a budget allows
  - blocks: a dependent set without dependent parts lies in one block of vectors that share no
    nonzero coordinate with the others; independent blocks hold none
  - moment curve: rows (a, a x, a x^2, ...) with distinct x, exactly or modulo a prime: Vandermonde,
    every d independent
  - coherence: unit vectors whose k - 1 largest products with any one of them add up to less than 1
    have a diagonally dominant Gram matrix (Gershgorin); after whitening, with a-priori bounds of
    all rounding

- A *proved upper bound*: a dependent subset of size k + 1 with its exact coefficients.
- An *estimate*: the share of random subsets that are dependent (`sampling`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import flint
import numpy as np

from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arguments import require_not_negative, require_positive, require_seed
from constructive.support.arrays import Array, Integers, checked_matrix, row_chunks
from constructive.support.components import components
from constructive.theory.assumptions import enumeration, search
from constructive.theory.assumptions.numerical import unit_rows

_ROUNDING = 2.0**-53
_ROWS_AT_ONCE = 1024
_FACTORED = 96  # Bits of a number that is factored in no time
_ALWAYS = 2  # Zero and parallel vectors are found by one sort, whatever the budget is


@dataclass(frozen=True)
class KruskalRank:
    """What is known of the Kruskal rank of T vectors.

    Attributes:
        lower: a proved lower bound
        argument: what proves it, in words
        violation: a dependent subset with exact coefficients, or None
        near_miss: vectors (their indices) that are independent, but only by a rounding error, or
            None
        count, width: T and d
    """

    lower: int
    argument: str
    violation: Dependency | None
    near_miss: tuple[int, ...] | None
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
    vectors: Array,
    wanted: int | None = None,
    *,
    budget: float = 2e8,
    search_budget: float = 6e9,
    seed: int = 0,
) -> KruskalRank:
    """Bound the Kruskal rank of vectors (T, d) from both sides.

    Args:
        vectors: T vectors of d entries, (T, d)
        wanted: a bound that is enough: larger subsets are not looked at; by default d
        budget: points that enumeration may compute: 1e8 are all triples of 10,000 vectors
        search_budget: inner products that the search for dependent subsets may compute
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
    require_not_negative(budget=budget, search_budget=search_budget)
    require_seed(seed)
    require_positive(wanted=1 if wanted is None else wanted)
    most = min(count, width)
    wanted = most if wanted is None else min(wanted, most)
    rng = np.random.default_rng(seed)
    blocks = _dependent_blocks(vectors, rng)
    if not blocks:
        return KruskalRank(count, "all vectors are independent", None, None, count, width)
    shares = budget / len(blocks), search_budget / len(blocks)
    parts = [_of_block(vectors[block], wanted, shares, rng) for block in blocks]
    weakest = min(parts, key=lambda part: part.lower)
    whole = len(blocks[0]) == count
    argument = weakest.argument if whole else f"blocks; {weakest.argument}"
    violations, misses = [], []
    for block, part in zip(blocks, parts, strict=True):
        if part.violation:
            rows = tuple(block[list(part.violation.rows)].tolist())
            violations.append(Dependency(rows, part.violation.coefficients))
        if part.near_miss:
            misses.append(tuple(block[list(part.near_miss)].tolist()))
    return KruskalRank(
        weakest.lower,
        argument,
        min(violations, key=lambda violation: len(violation.rows), default=None),
        min(misses, key=len, default=None),
        count,
        width,
    )


def _of_block(
    vectors: Array, wanted: int, budgets: tuple[float, float], rng: np.random.Generator
) -> KruskalRank:
    """Return bounds for a block, some of whose vectors are dependent; `lower` is at most `wanted`.

    budgets: of enumeration, and of the search
    """
    (count, width), (budget, search_budget) = vectors.shape, budgets
    wanted = min(wanted, count)  # a subset has no more vectors than there are
    lower, spent, argument = 0, 0.0, "enumeration"
    while lower < wanted:
        spent += enumeration.cost(count, lower + 1)
        if lower >= _ALWAYS and spent > budget:
            break
        try:
            found = enumeration.dependent_subset(vectors, lower + 1, rng)
        except enumeration.UndecidedError:
            break
        if found is not None:
            return KruskalRank(lower, argument, found, None, count, width)
        lower += 1
    if 2 <= lower < wanted <= width and _on_moment_curve(vectors):
        lower, argument = wanted, "moment curve"
    if lower < wanted:
        bound = _coherence_bound(vectors, wanted, search_budget)
        if bound > lower:
            lower, argument = bound, "coherence"
    if lower >= wanted:
        return KruskalRank(lower, argument, None, None, count, width)
    found, near_miss = _too_few_dimensions(vectors, wanted), None
    largest = len(found.rows) - 1 if found else wanted
    if largest > lower:
        seen = search.dependent_subset(vectors, largest, smallest=lower + 1, budget=search_budget)
        found, near_miss = seen.dependency or found, seen.near_miss
    return KruskalRank(lower, argument, found, near_miss, count, width)


def _dependent_blocks(vectors: Array, rng: np.random.Generator) -> list[Integers]:
    """Return the vectors block by block, without the blocks whose vectors are independent."""
    used = vectors != 0
    if used.all():
        labels = np.zeros(len(vectors), dtype=np.int64)
    else:
        rows, columns = np.nonzero(used)
        total = sum(vectors.shape)
        edges = np.stack([rows, len(vectors) + columns])
        labels = components(edges, total)[: len(vectors)]
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    blocks = np.split(order, ends)
    return [block for block in blocks if not dyadic.independent(vectors[block][np.newaxis], rng)[0]]


def _too_few_dimensions(vectors: Array, wanted: int) -> Dependency | None:
    """Return a dependency of at most `wanted` vectors if all of them span fewer dimensions."""
    prime = next(modular.safe_primes())
    residues = modular.residues(vectors, prime)
    dimensions = modular.rank(residues, prime)
    if dimensions >= wanted or dimensions >= len(vectors):
        return None
    return dyadic.dependency(vectors, np.arange(dimensions + 1))


def _on_moment_curve(vectors: Array) -> bool:
    """Return whether all rows are (a, a x, a x^2, ...) with distinct x, also modulo a prime.

    A prime modulo which they are divides all minors of the two columns next to each other with the
    first two; so it divides their greatest common divisor, which is 1 for other vectors.
    """
    common = 0
    for part in row_chunks(len(vectors), 1, _ROWS_AT_ONCE):
        for row in dyadic.integers(vectors[part])[0].tolist():
            entries = [int(x) for x in row]
            if not any(entries):
                return False
            size = math.gcd(*entries)
            a, b, *rest = (x // size for x in entries)
            for x, y in pairwise((b, *rest)):
                common = math.gcd(common, y * a - x * b)
            if common == 1:
                return False
    if common.bit_length() > _FACTORED:
        return False
    primes = [int(p) for p, _ in flint.fmpz(common).factor()] if common else [None]
    rows = [(int(row[0]), int(row[1])) for row in dyadic.integers(vectors[:, :2])[0].tolist()]
    return any(_distinct_nodes(rows, prime) for prime in primes)


def _distinct_nodes(rows: list[tuple[int, int]], prime: int | None) -> bool:
    """Return whether the x of (a, a x) are defined and distinct, modulo a prime or as fractions."""
    if not all(a if prime is None else a % prime for a, _ in rows):
        return False
    if prime is None:
        return len({Fraction(b, a) for a, b in rows}) == len(rows)
    return len({b * pow(a, -1, prime) % prime for a, b in rows}) == len(rows)


def _coherence_bound(vectors: Array, wanted: int, budget: float) -> int:
    """Return the largest k up to `wanted` that coherence proves (0 if it would cost too much).

    All rounding is bounded: a unit vector computed from d entries is off by (d + 10) u, a product
    of such vectors by d u, with u = 2^-53; whitening is by a matrix of floats, taken as it is.
    """
    count, width = vectors.shape
    if float(count) ** 2 > budget or wanted < 2 or not vectors.any(axis=1).all():
        return 0
    unit_roundoff = (width + 10) * _ROUNDING
    _, unit = unit_rows(vectors.astype(np.float64, copy=False))
    values, axes = np.linalg.eigh(unit.T @ unit)
    whitening = axes / np.sqrt(np.maximum(values, 1e-10 * values[-1]))
    white = unit @ whitening
    error = 2.1 * unit_roundoff * float(np.linalg.norm(whitening))
    least = float(np.linalg.norm(white, axis=1).min()) * (1.0 - unit_roundoff)
    if not least > 2.0 * error:
        return 0
    _, white = unit_rows(white)
    off = 2.1 * error / (least - error) + unit_roundoff
    slack = 2.1 * off + off * off + 1.1 * unit_roundoff
    sums = np.zeros(wanted - 1)
    for rows in row_chunks(count, 1, _ROWS_AT_ONCE):
        products = np.abs(white[rows] @ white.T)
        products[np.arange(len(products)), np.arange(count)[rows]] = 0.0
        largest = np.sort(
            np.partition(products, count - wanted + 1, axis=1)[:, count - wanted + 1 :]
        )
        sums = np.maximum(sums, largest[:, ::-1].cumsum(axis=1).max(axis=0))
    dominated = sums + np.arange(1, wanted) * slack < 1.0 - 1e-12
    return 1 + int(np.count_nonzero(dominated))  # the sums increase
