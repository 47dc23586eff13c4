"""What tokens span, and what differences within contexts span, exactly.

Both spaces are known by the vectors orthogonal to them: x with e.x = 0 for every token e, and x
with e.x constant within every context. Candidates come from few rows that span the others modulo
a prime; that they are orthogonal to all the others is checked over the rational numbers, and where
it fails the row that shows so is added. So dimensions are those over the rational numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import flint
import numpy as np

from constructive.exact import dyadic, modular
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.components import components

Vectors = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Spans:
    """Two spaces of contexts: that of their tokens, and that of differences within them."""

    tokens: int  # k, the dimension that all tokens span
    differences: int  # delta, the dimension that the differences of tokens of one context span
    # d - delta integer vectors, the first d - k orthogonal to all tokens, the others constant
    # within each context; entry `pivots[i]` of vector i is not zero, and that of all later ones is,
    # so that they are independent
    orthogonal: Vectors
    pivots: tuple[int, ...]  # an entry of each vector


def spans_of(contexts: Array) -> Spans:
    """Return the spans of contexts (C, n, d) of finite floats, decided over the rational numbers.

    Example:
        >>> spans_of(np.array([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]]))
        Spans(tokens=2, differences=1, orthogonal=((1, 1, -1), (0, 0, 1)), pivots=(0, 2))
    """
    contexts = np.unique(np.asarray(contexts, dtype=np.float64) + 0.0, axis=0)
    width = contexts.shape[2]
    zero = _orthogonal(contexts, _tokens)
    constant = _orthogonal(contexts, _differences)
    vectors, pivots = _triangular(zero, constant)
    return Spans(width - len(zero), width - len(constant), vectors, pivots)


def dimensions(contexts: Array) -> tuple[int, int]:
    """Return only k and delta of `spans_of`, which is quicker.

    Example:
        >>> dimensions(np.array([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]]))
        (2, 1)
    """
    contexts = np.unique(np.asarray(contexts, dtype=np.float64) + 0.0, axis=0)
    tokens, differences = (len(_orthogonal(contexts, part)) for part in (_tokens, _differences))
    return contexts.shape[2] - tokens, contexts.shape[2] - differences


def count_spans(contexts: Array) -> tuple[int, int]:
    """Bound both by counting: V tokens, and V less the parts that contexts (C, n, d) join.

    Example:
        >>> count_spans(np.array([[[1.0], [2.0]], [[2.0], [3.0]], [[7.0], [7.0]]]))
        (4, 2)
    """
    tokens = contexts.reshape(-1, contexts.shape[2]) + 0.0
    different, ids = np.unique(tokens, axis=0, return_inverse=True)
    ids, count = ids.reshape(contexts.shape[:2]), len(different)
    edges = np.stack([np.repeat(ids[:, :1], ids.shape[1], axis=1), ids]).reshape(2, -1)
    parts = components(edges, count)
    return count, count - len(np.unique(parts))


def _triangular(
    zero: list[list[int]], constant: list[list[int]]
) -> tuple[Vectors, tuple[int, ...]]:
    """Return the vectors of the first list, then some of the second, each with a pivot.

    The second list spans the first, so that there are as many vectors in the end as it has.
    """
    rows: list[list[int]] = []
    pivots: list[int] = []
    for candidate in (*zero, *constant):
        if len(rows) == len(constant):
            break
        x = list(candidate)
        for row, pivot in zip(rows, pivots, strict=True):
            if x[pivot]:
                x = [row[pivot] * a - x[pivot] * b for a, b in zip(x, row, strict=True)]
        common = gcd(*x)
        if common:
            rows.append([a // common for a in x])
            pivots.append(_pivot(rows[-1], zero))
    return tuple(map(tuple, rows)), tuple(pivots)


def _pivot(x: list[int], others: list[list[int]]) -> int:
    """An entry of a vector that is not zero; where there is one, at which most others are zero.

    A basis of a null space has, for each vector, an entry where all others are zero, which saves
    to eliminate it from them.
    """
    places = [j for j, entry in enumerate(x) if entry]
    return min(places, key=lambda j: sum(other[j] != 0 for other in others))


@dataclass(frozen=True)
class _Part:
    """Which rows are meant: tokens, or their differences from the first token of their context."""

    differences: bool

    def modulo(self, residues: Array, prime: int) -> Array:
        """Return the rows (C, n, d) modulo a prime, from those of the tokens."""
        if not self.differences:
            return residues
        return modular.reduce(residues[:, 1:] - residues[:, :1], prime)

    def exact(self, context: Array, row: int) -> list[int]:
        """Return one of these rows, times a power of two that makes it integers."""
        if self.differences:
            pairs = zip(context[row + 1].tolist(), context[0].tolist(), strict=True)
            entries = [Fraction(a) - Fraction(b) for a, b in pairs]
        else:
            entries = list(map(Fraction, context[row].tolist()))
        unit = lcm(*(x.denominator for x in entries))
        return [int(x * unit) for x in entries]

    def first_off(self, contexts: Array, kernel: flint.fmpz_mat) -> tuple[int, int] | None:
        """Find a row that is not orthogonal to all columns, as (context, row); or None."""
        size = contexts.shape[1]
        whole, exponents = dyadic.integers(contexts.reshape(-1, contexts.shape[2]))
        products = (whole * kernel).tolist()
        for index, values in enumerate(products):
            context, row = divmod(index, size)
            if not self.differences:
                if any(values):
                    return context, row
                continue
            first = products[context * size]
            shift = exponents[index] - exponents[context * size]
            up, down = max(shift, 0), max(-shift, 0)
            if any(a << up != b << down for a, b in zip(values, first, strict=True)):
                return context, row - 1
        return None


_tokens, _differences = _Part(differences=False), _Part(differences=True)


def _orthogonal(contexts: Array, part: _Part) -> list[list[int]]:
    """Return a basis of the vectors that are orthogonal to all rows, over the rational numbers."""
    width = contexts.shape[2]
    rows = [part.exact(contexts[c], row) for c, row in _spanning(contexts, part)]
    while True:
        matrix = flint.fmpz_mat(len(rows), width, [x for row in rows for x in row])
        columns = dyadic.null_vectors(matrix)
        if not columns:
            return []
        kernel = dyadic.as_columns(columns, width)
        for chunk, _ in _chunks(contexts):
            off = part.first_off(chunk, kernel)
            if off is not None:
                rows.append(part.exact(chunk[off[0]], off[1]))
                break
        else:
            return columns


def _spanning(contexts: Array, part: _Part) -> list[tuple[int, int]]:
    """Rows that span all rows modulo a prime, as (context, row); few, and found early if so."""
    prime = next(modular.safe_primes())
    exponent = modular.least_exponent(contexts)
    width = contexts.shape[2]
    held: Array = np.empty((0, width))
    where: Integers = np.empty((0, 2), dtype=np.int64)
    for chunk, start in _chunks(contexts):
        rows = part.modulo(modular.residues(chunk, prime, exponent), prime)
        count = rows.shape[1]
        index = np.arange(len(rows) * count)
        places = np.stack([start + index // max(count, 1), index % max(count, 1)], axis=1)
        rows = np.concatenate([held, rows.reshape(-1, width)])
        where = np.concatenate([where, places])
        if not len(rows):
            continue
        factors = modular.factor(rows, prime)
        chosen = np.sort(factors.rows[: factors.rank])
        held, where = rows[chosen], where[chosen]
        if len(held) == width:
            break
    return [(int(c), int(row)) for c, row in where]


def _chunks(contexts: Array) -> Iterator[tuple[Array, int]]:
    """Yield a few contexts at a time, and the index of the first."""
    for rows in row_chunks(len(contexts), 8 * contexts.shape[1] * contexts.shape[2]):
        yield contexts[rows], rows.start
