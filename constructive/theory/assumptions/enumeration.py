"""Every k vectors are independent: a proof, or the k that are not.

Over a prime field, take the images of the T vectors under a random linear map to k + 1 dimensions.
Vectors that are dependent over the rational numbers have dependent images. So divide the image
space by k - 2 of the images: two of the others complete a dependent set only if they become
parallel, that is, equal as points of a projective plane. Equal points are found by sorting. That
costs T^(k - 1) / (k - 2)! / 2 operations in place of the T^k / k! subsets of plain enumeration,
and k = 3 is done for ten thousand vectors in seconds.

No collision is a proof that every k are independent. A collision is a question, which
`exact.dyadic` answers; a chance one occurs with probability 1/p^2 for each pair and k - 2.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb

import numpy as np

from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array
from constructive.support.progress import report

_AT_ONCE = 1 << 19  # Points of projective planes that are computed at a time
_ATTEMPTS = 8  # Random maps, each with a prime of its own, before an image of zero is given up

_OVERHEAD = 5000  # Points that could be computed in the time that a set of k - 3 divisors takes
_TABLE_PAYS = 1 << 20  # Inverses from which on a table of all p is quicker

Candidate = tuple[int, ...]  # Vectors whose images are dependent, k of them
Inverses = Callable[[Array], Array]


class UndecidedError(Exception):
    """Images of independent vectors were dependent in all random maps."""


def cost(total: int, size: int) -> int:
    """Estimate the number of points that are computed to decide subsets of this size."""
    planes = comb(total, max(size - 2, 0))
    return planes * total + _OVERHEAD * comb(total, max(size - 3, 0))


def dependent_subset(vectors: Array, size: int, rng: np.random.Generator) -> Dependency | None:
    """Find a dependent subset of `size` of the vectors (T, d), if no smaller one is.

    None is a proof that there is none.

    Example:
        >>> points = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [2, 1, 0]])
        >>> print(dependent_subset(points, 3, np.random.default_rng(0)))
        [0] + 1/2 [1] - 1/2 [4] = 0
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
    raise UndecidedError


def _collisions(images: Array, size: int, prime: int) -> Iterator[Candidate | None]:
    """Yield candidates for dependent subsets: all of them, or None where a divisor was zero."""
    total = len(images)
    inverses = _inverses(prime, cost(total, size))
    if size == 2:
        yield from _equal_points(images[np.newaxis], inverses, prime, [()], 0)
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
        yield from _triples(rest, first, prefix, inverses, prime)
        report(f"subsets of {size}", number + 1, count)


def _triples(
    images: Array, first: int, prefix: Candidate, inverses: Inverses, prime: int
) -> Iterator[Candidate | None]:
    """Candidates of the prefix and three of the images (R, 4), which are vectors first, ..."""
    start = 0
    while start < len(images) - 2:
        rest = images[start:]
        rows = min(max(1, _AT_ONCE // len(rest)), len(rest))
        if not rest[:rows, 0].all():
            yield None
            return
        points = _quotient(rest, rest[:rows], prime)
        prefixes = [(*prefix, first + start + row) for row in range(rows)]
        yield from _equal_points(points, inverses, prime, prefixes, first + start)
        start += rows


def _quotient(images: Array, divisors: Array, prime: int) -> Array:
    """Images (R, m) modulo the span of each divisor (B, m) with nonzero entry 0: (B, R, m - 1)."""
    lead, rest = divisors[:, np.newaxis, :1], divisors[:, np.newaxis, 1:]
    return modular.reduce(images[:, 1:] * lead - images[:, :1] * rest, prime)


def _equal_points(
    points: Array, inverses: Inverses, prime: int, prefixes: list[Candidate], first: int
) -> Iterator[Candidate]:
    """Yield a candidate for each two equal projective points in a row of (B, R, 3).

    Column j belongs to vector first + j. Only columns beyond the last vector of a row's prefix
    count: each subset is looked at once.
    """
    lead = points[:, :, 0]
    scale = inverses(lead)
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


def _inverses(prime: int, count: float) -> Inverses:
    """Return inverses modulo p (0 for 0): from a table where many are needed."""
    if count < _TABLE_PAYS:
        return lambda values: modular.inverse(values, prime)
    table = modular.inverse(modular.reduce(np.arange(prime, dtype=np.float64), prime), prime)
    return lambda values: table.take(values.astype(np.int64), mode="wrap")
