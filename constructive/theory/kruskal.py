"""The Kruskal rank of vectors: the largest k such that every k of them are independent.

To compute it is hard in general (it is the distance of a linear code, less one). So a report has
three parts, each with its own kind of truth:

- A *proved lower bound*: by enumeration as far as a budget allows, by blocks of vectors that share
  no nonzero coordinate with others, or by coherence after whitening, with a-priori bounds of all
  rounding (Lemma 1.3, proofs/1-assumptions.md).
- A *proved upper bound*: a dependent subset of size k + 1 with its exact coefficients.
- An *estimate*: the share of random subsets that are dependent (`assumptions`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import (
    Array,
    Integers,
    Single,
    checked_matrix,
    components,
    row_chunks,
    unit_rows,
)
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


# Every k vectors are independent: a proof, or the k that are not.
#
# Over a prime field, take the images of the T vectors under a random linear map to k + 1
# dimensions. Vectors that are dependent over the rational numbers have dependent images. So divide
# the image space by k - 2 of the images: two of the others complete a dependent set only if they
# become parallel, that is, equal as points of a projective plane. Equal points are found by
# sorting. That costs T^(k - 1) / (k - 2)! / 2 operations in place of the T^k / k! subsets of plain
# enumeration, and k = 3 is done for ten thousand vectors in seconds.
#
# No collision is a proof that every k are independent. A collision is a question, which
# `exact.dyadic` answers; a chance one occurs with probability 1/p^2 for each pair and k - 2.


_POINTS_AT_ONCE = 1 << 19  # Points of projective planes that are computed at a time
_ATTEMPTS = 8  # Random maps, each with a prime of its own, before an image of zero is given up

_OVERHEAD = 5000  # Points that could be computed in the time that a set of k - 3 divisors takes

Candidate = tuple[int, ...]  # Vectors whose images are dependent, k of them


class CollidingImagesError(Exception):
    """Images of independent vectors were dependent in all random maps."""


def cost(total: int, size: int) -> int:
    """Estimate the number of points that are computed to decide subsets of this size."""
    planes = comb(total, max(size - 2, 0))
    return planes * total + _OVERHEAD * comb(total, max(size - 3, 0))


def enumerated_dependency(vectors: Array, size: int, rng: np.random.Generator) -> Dependency | None:
    """Find a dependent subset of `size` of the vectors (T, d), if no smaller one is.

    None is a proof that there is none.
    """
    if size == 1:
        zero = np.flatnonzero(~vectors.any(axis=1))
        return dyadic.dependency(vectors, zero[:1]) if len(zero) else None
    for prime, _ in zip(modular.safe_primes(), range(_ATTEMPTS), strict=False):
        residues = modular.residues(vectors, prime)
        mixing = modular.random_residues(rng, (vectors.shape[1], size + 1), prime)
        images = modular.product(residues, mixing, prime)
        undecided = False
        for candidate in _collisions(images, size, prime):
            if candidate is None:
                undecided = True
                break
            found = dyadic.dependency(vectors, candidate)
            if found is not None:
                return found
        if not undecided:
            return None
    raise CollidingImagesError


def _collisions(images: Array, size: int, prime: int) -> Iterator[Candidate | None]:
    """Yield candidates for dependent subsets: all of them, or None where a divisor was zero."""
    total = len(images)
    if size == 2:
        yield from _equal_points(images[np.newaxis], prime, [()], 0)
        return
    count = comb(total, size - 3)
    for number, prefix in enumerate(combinations(range(total), size - 3)):
        rest = images[prefix[-1] + 1 if prefix else 0 :]
        first = total - len(rest)
        divisors = [images[i] for i in prefix]
        for k, divisor in enumerate(divisors):
            if divisor[0] == 0:
                yield None
                return
            rest = _quotient(rest, divisor[np.newaxis], prime)[0]
            divisors[k + 1 :] = [
                _quotient(d[np.newaxis], divisor[np.newaxis], prime)[0, 0]
                for d in divisors[k + 1 :]
            ]
        yield from _triples(rest, first, prefix, prime)
        report(f"subsets of {size}", number + 1, count)


def _triples(
    images: Array, first: int, prefix: Candidate, prime: int
) -> Iterator[Candidate | None]:
    """Candidates of the prefix and three of the images (R, 4), which are vectors first, ..."""
    start = 0
    while start < len(images) - 2:
        rest = images[start:]
        rows = min(max(1, _POINTS_AT_ONCE // len(rest)), len(rest))
        if not rest[:rows, 0].all():
            yield None
            return
        points = _quotient(rest, rest[:rows], prime)
        prefixes = [(*prefix, first + start + row) for row in range(rows)]
        yield from _equal_points(points, prime, prefixes, first + start)
        start += rows


def _quotient(images: Array, divisors: Array, prime: int) -> Array:
    """Images (R, m) modulo the span of each divisor (B, m) with nonzero entry 0: (B, R, m - 1)."""
    lead, rest = divisors[:, np.newaxis, :1], divisors[:, np.newaxis, 1:]
    return modular.reduce(images[:, 1:] * lead - images[:, :1] * rest, prime)


def _equal_points(
    points: Array, prime: int, prefixes: list[Candidate], first: int
) -> Iterator[Candidate]:
    """Yield a candidate for each two equal projective points in a row of (B, R, 3).

    Column j belongs to vector first + j. Only columns beyond the last vector of a row's prefix
    count: each subset is looked at once.
    """
    lead = points[:, :, 0]
    scale = modular.inverse(lead, prime)
    keys = _canonical(points[:, :, 1] * scale, prime) * prime
    keys += _canonical(points[:, :, 2] * scale, prime)
    keys[lead == 0] = -1.0  # at infinity: any two are looked at
    columns = np.arange(points.shape[1])
    lasts = np.array([prefix[-1] - first if prefix else -1 for prefix in prefixes])
    np.copyto(keys, -2.0 - columns, where=columns <= lasts[:, np.newaxis])
    ordered = np.sort(keys, axis=1)
    suspicious = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    suspicious |= (ordered == -1.0).any(axis=1)
    for row in np.flatnonzero(suspicious).tolist():
        chosen = columns[lasts[row] + 1 :]
        zero = chosen[~points[row, chosen].any(axis=1)].tolist()
        pairs = {(min(i, j), max(i, j)) for i in zero for j in chosen.tolist() if i != j}
        _, group = np.unique(keys[row, chosen], return_inverse=True)
        for members in np.split(
            chosen[np.argsort(group, kind="stable")], np.bincount(group).cumsum()[:-1]
        ):
            pairs.update(combinations(members.tolist(), 2))
        for i, j in sorted(pairs):
            yield (*prefixes[row], first + i, first + j)


def _canonical(values: Array, prime: int) -> Array:
    """Return integers below 2^53 as residues 0, ..., p - 1."""
    residues = modular.reduce(values, prime)
    residues += prime * (residues < 0)
    return residues


# Look for small dependent subsets among thousands of vectors. What is found is exact.
#
# The smallest dependent subset of given vectors is hard to find in general: it is a shortest word
# of a linear code. But dependent vectors are closer to each other than others are, and that shows.
# Two greedy ways start at each vector in turn:
#
# - *Growth*: take the vector nearest to the span of those taken so far, and go on. k vectors of a
#   subspace of m dimensions hold k/m of the length squared of its other vectors, and only k/d of
#   that of a stranger. Where the nearest vector is in the span, all of these are dependent.
# - *Pursuit* (orthogonal matching pursuit): take the vector nearest in angle to what is left of the
#   first one, take away its span, and go on. Where nothing is left, all of these are dependent.
#   Several partial subsets are kept for each vector (a beam), and more of them in later passes.
#
# Growth finds subspaces with several vectors in no special position, pursuit a vector that is a
# balanced combination of others that have nothing to do with each other.
#
# Dependencies do not change under linear maps, so the vectors are first whitened: a large mean or
# a few large coordinates hide nothing. Floats propose; `exact.dyadic` decides, and a subset that
# is dependent only up to rounding is reported as nearly dependent and proves nothing.


# Pass by pass: partial subsets that pursuit keeps (0: growth), and sizes looked for (or all).
_PASSES = ((0, 6), (1, 6), (4, 6), (0, None), (1, None), (16, 6), (4, None))
# Share of a unit residual (float32) below which a subset is looked at exactly.
_NOTHING_LEFT = 1e-4
_NOTHING_LEFT_OF_MANY = 3e-3  # The same where the rounding of several squares has added up
_LOOKED_AT = 200  # Candidates of one pass that are looked at exactly, smallest first
_BRANCH = 4  # The work of a branch, in inner products for each entry of a vector
_PRODUCTS_AT_ONCE = 1 << 24  # Inner products that are held at a time


def searched_dependency(
    vectors: Array, largest: int, *, budget: float, smallest: int
) -> tuple[Dependency | None, tuple[int, ...] | None]:
    """Look for dependent subsets of `smallest` to `largest` of the vectors (T, d).

    Return the smallest one that was seen, and the smallest set of vectors that are independent, but
    not so in float64. Finding none proves nothing.

    budget: inner products that may be computed
    """
    unit = _whitened(vectors)
    found, near_miss = None, None
    largest = min(largest, unit.shape[1] + 1)
    done = dict.fromkeys((width for width, _ in _PASSES), smallest - 1)  # sizes, by width
    for width, most in _PASSES:
        step = _price(unit, width)
        size = min(largest, most or largest, int(min(budget / step, largest)) + 1)
        if size <= done[width]:
            continue
        done[width] = size
        budget -= step * (size - 1)
        for rows in _candidates(unit, size - 1, width)[:_LOOKED_AT]:
            if len(rows) > largest:
                break
            exact = dyadic.dependency(vectors, rows)
            if exact is not None:
                found, largest = exact, len(exact.rows) - 1
                break
            if near_miss is None and dependency(vectors[list(rows)])[0] < len(rows):
                near_miss = rows
    return found, near_miss


def _price(unit: Single, width: int) -> float:
    """The work of a step for all targets, in inner products: W with all others, W^2 branches."""
    total, dim = (float(length) for length in unit.shape)
    return total * max(width, 1) * (total + _BRANCH * dim * max(width, 1))


def _whitened(vectors: Array) -> Single:
    """Return the vectors with their second moments made equal in all directions, of length one."""
    _, unit = unit_rows(vectors.astype(np.float64, copy=False))
    values, axes = np.linalg.eigh(unit.T @ unit)
    kept = values > 1e-12 * values[-1]
    white = unit @ (axes[:, kept] / np.sqrt(values[kept]))
    return unit_rows(white)[1].astype(np.float32)


def _candidates(unit: Single, steps: int, width: int) -> list[tuple[int, ...]]:
    """Return subsets that seem dependent, each once, smallest first."""
    total = len(unit)
    seen: set[tuple[int, ...]] = set()
    chunk = max(1, min(1024, _PRODUCTS_AT_ONCE // (total * max(width, 1))))
    for part in row_chunks(total, 1, chunk):
        targets = np.arange(part.start, part.stop)
        seen.update(_pursue(unit, targets, steps, width) if width else _grow(unit, targets, steps))
        report("dependent subsets", int(targets[-1]) + 1, total)
    return sorted(seen, key=lambda rows: (len(rows), rows))


def _grow(unit: Single, targets: Integers, steps: int) -> set[tuple[int, ...]]:
    """Growth from a few targets (B,)."""
    chosen = targets[:, np.newaxis]  # (B, step + 1)
    basis = np.zeros((len(targets), 0, unit.shape[1]), dtype=np.float32)
    held = np.zeros((len(targets), len(unit)), dtype=np.float32)  # length squared within the span
    seen: set[tuple[int, ...]] = set()
    for step in range(steps + 1):
        axis, length = _orthogonal(unit[chosen[:, -1]], basis)
        done = length < _NOTHING_LEFT_OF_MANY
        seen.update(tuple(sorted(rows)) for rows in chosen[done].tolist() if _different(rows))
        if step < steps:
            basis = np.concatenate([basis, axis[:, np.newaxis]], axis=1)
            product = axis @ unit.T
            product *= product
            held += product
            np.put_along_axis(held, chosen, 0.0, axis=1)
            chosen = np.concatenate([chosen, held.argmax(axis=1)[:, np.newaxis]], axis=1)
    return seen


def _orthogonal(vectors: Single, bases: Single) -> tuple[Single, Single]:
    """What of vectors (..., d) is orthogonal to bases (..., k, d): directions and lengths."""
    for _ in range(2):  # Gram and Schmidt, twice for orthogonality
        inner = bases @ vectors[..., np.newaxis]
        vectors = vectors - (bases.swapaxes(-1, -2) @ inner)[..., 0]
    lengths: Single = np.linalg.norm(vectors, axis=-1)
    vectors /= np.maximum(lengths, np.float32(1e-30))[..., np.newaxis]
    return vectors, lengths


def _pursue(unit: Single, targets: Integers, steps: int, width: int) -> set[tuple[int, ...]]:
    """Return the pursuit from a few targets (B,); W partial subsets are kept for each."""
    count, dim = len(targets), unit.shape[1]
    each = np.arange(count)[:, np.newaxis]
    chosen = targets[:, np.newaxis, np.newaxis]  # (B, W, step + 1)
    left = unit[targets][:, np.newaxis]  # unit residuals (B, W, d)
    size = np.ones((count, 1), dtype=np.float32)  # what is left of the target
    basis = np.zeros((count, 1, 0, dim), dtype=np.float32)  # orthonormal, of the chosen ones
    seen: set[tuple[int, ...]] = set()
    for step in range(steps):
        angle = (left.reshape(-1, dim) @ unit.T).reshape(count, -1, len(unit))
        np.abs(angle, out=angle)
        np.put_along_axis(angle, chosen, 0.0, axis=2)
        picked = _nearest(angle, 1 if step == steps - 1 else width)
        parent = np.repeat(np.arange(left.shape[1]), picked.shape[1] // left.shape[1])
        spans = basis[:, parent]
        axis, _ = _orthogonal(unit[picked], spans)
        rest = left[:, parent]
        rest = rest - axis * np.einsum("bwd,bwd->bw", axis, rest)[:, :, np.newaxis]
        length = np.linalg.norm(rest, axis=2)
        subsets = np.concatenate([chosen[:, parent], picked[:, :, np.newaxis]], axis=2)
        done = length < _NOTHING_LEFT
        seen.update(tuple(sorted(rows)) for rows in subsets[done].tolist() if _different(rows))
        size = np.where(done, 2.0, size[:, parent] * length)  # subsets that are done come last
        kept = _best_different(np.sort(subsets, axis=2), size, width)
        chosen, size = subsets[each, kept], size[each, kept]
        left = rest[each, kept] / np.maximum(length[each, kept], 1e-30)[:, :, np.newaxis]
        basis = np.concatenate([spans[each, kept], axis[each, kept][:, :, np.newaxis]], axis=2)
    return seen


def _different(rows: list[int]) -> bool:
    """Return whether no vector was taken twice, for want of another."""
    return len(set(rows)) == len(rows)


def _nearest(angle: Single, count: int) -> Integers:
    """The places of the largest few along the last axis of (B, W, T): (B, W count). Uses it up."""
    best = np.empty((*angle.shape[:2], count), dtype=np.int64)
    for k in range(count):
        best[:, :, k] = angle.argmax(axis=2)
        if k < count - 1:
            np.put_along_axis(angle, best[:, :, k : k + 1], 0.0, axis=2)
    return best.reshape(len(angle), -1)


def _best_different(subsets: Integers, size: Array, width: int) -> Integers:
    """For each row of (B, P, k) the places of up to W subsets of least size, repeats last."""
    weights = np.random.default_rng(subsets.shape[2]).random(int(subsets.max()) + 1)
    labels = weights[subsets].sum(axis=2)  # equal for equal subsets, else different
    order = np.argsort(labels, axis=1, kind="stable")
    ordered = np.take_along_axis(labels, order, axis=1)
    repeated = np.zeros(labels.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    penalty: Array = np.where(repeated, 3.0, size)
    return np.argsort(penalty, axis=1)[:, :width]


_ROUNDING = 2.0**-53
_ROWS_AT_ONCE = 1024
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
        spent += cost(count, lower + 1)
        if lower >= _ALWAYS and spent > budget:
            break
        try:
            found = enumerated_dependency(vectors, lower + 1, rng)
        except CollidingImagesError:
            break
        if found is not None:
            return KruskalRank(lower, argument, found, None, count, width)
        lower += 1
    if lower < wanted:
        bound = _coherence_bound(vectors, wanted, search_budget)
        if bound > lower:
            lower, argument = bound, "coherence"
    if lower >= wanted:
        return KruskalRank(lower, argument, None, None, count, width)
    found, near_miss = _too_few_dimensions(vectors, wanted), None
    largest = len(found.rows) - 1 if found else wanted
    if largest > lower:
        seen, near_miss = searched_dependency(
            vectors, largest, smallest=lower + 1, budget=search_budget
        )
        found = seen or found
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
