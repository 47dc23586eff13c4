"""Linear algebra modulo a prime near 2^22, exactly, on the BLAS of float64.

Residues are *balanced*: integers of size at most m/2 + 2, kept in float64. A product of two is
below 2^42.01, so a sum of `BLOCK` = 1024 of them stays below 2^53 and float64 computes it without
any rounding, in whatever order BLAS adds, with or without fused operations. So a matrix product
modulo m is a float64 product and one reduction for every 1024 terms of the inner dimension.

Elimination (`factor`, `rank`) works in one array, recursively in the columns, so nearly all of its
work is in large products. It finds the rank of any matrix, singular and rectangular ones included.
A balanced residue is an integer below 2^24, so float32 holds it, too: large matrices are stored in
float32, and computed with in float64, a piece at a time. Small matrices go to python-flint.

Source: Dumas, Giorgi and Pernet, *Dense linear algebra over word-size prime fields: the FFLAS and
FFPACK packages* (ACM TOMS 2008), for the technique.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import flint
import numpy as np

from constructive.support.arrays import Array, Booleans, Integers, row_chunks
from constructive.support.errors import ParameterError
from constructive.support.work import in_pieces, report

# Residues of floats, and sums of their products, each exact in float64.


LARGEST_MODULUS = 1 << 22
BLOCK = 1024  # Inner dimension of an exact product, as BLOCK (2^21 + 2)^2 + 2^21 + 2 < 2^53 - 2^23

_MANTISSA = 53  # Bits of a float64
# Entries that are reduced at a time, so that the passes of a reduction stay in a cache.
_CACHE = 1 << 17
# Rows and columns of a product that are held beside the array from which it is subtracted.
_TILE = 256, 1024


def safe_primes() -> Iterator[int]:
    """Yield primes p below `LARGEST_MODULUS` with (p - 1) / 2 prime, the largest first.

    Modulo such a prime every element but 0, 1 and -1 has order (p - 1) / 2 or p - 1, so a common
    factor of all exponents costs nothing.
    """
    candidate = LARGEST_MODULUS - 1
    while candidate >= 5:
        if flint.fmpz(candidate).is_prime() and flint.fmpz(candidate // 2).is_prime():
            yield candidate
        candidate -= 1


def prime_from(number: int) -> int:
    """Return the smallest prime that is not below a number."""
    while not flint.fmpz(number).is_prime():
        number += 1
    return number


def reduce(values: Array, modulus: int) -> Array:
    """Replace integers of size below 2^53 - 2^23 by balanced residues, in the array itself.

    The quotient is off by at most one half and a rounding of 2^-21, so residues are at most
    m/2 + 2 in size; the product and the difference are exact.
    """
    if values.size > _CACHE and values.flags.c_contiguous:
        flat = values.reshape(-1)
        for start in range(0, flat.size, _CACHE):
            reduce(flat[start : start + _CACHE], modulus)
        return values
    quotient = values * (1.0 / modulus)
    np.rint(quotient, out=quotient)
    quotient *= modulus
    values -= quotient
    return values


def least_exponent(array: Array) -> int:
    """Return the largest known e with all entries integer multiples of 2^e (0 for zeros)."""
    array, smallest = np.atleast_1d(array), np.inf
    for rows in row_chunks(len(array), array[:1].nbytes, 8 * _CACHE):
        sizes = np.abs(array[rows])
        smallest = min(smallest, sizes.min(where=sizes > 0, initial=np.inf))
    return int(np.frexp(smallest)[1]) - _MANTISSA if np.isfinite(smallest) else 0


def residues(array: Array, modulus: int, exponent: int | None = None) -> Array:
    """Return the integers array / 2^exponent modulo m, from float32 or float64 without rounding.

    A float is an integer of 53 bits times a power of two, denormal ones too.
    """
    exponent = least_exponent(array) if exponent is None else exponent
    source = np.ascontiguousarray(array).reshape(-1)
    result = np.empty(source.size)
    _, largest = np.frexp(np.abs(source).max(initial=0.0))
    highest = max(int(largest) - _MANTISSA - exponent, 0)
    powers = np.array([pow(2, k, modulus) for k in range(highest + 28)], dtype=np.float64)
    for start in range(0, source.size, _CACHE):
        part = source[start : start + _CACHE].astype(np.float64, copy=False)
        mantissas, exponents = np.frexp(part)
        shifts = exponents.astype(np.int64) - _MANTISSA - exponent
        shifts[part == 0] = 0
        lowest = int(shifts.min())
        if lowest < 0:  # of 53 bits the last ones have to be zeros, as in differences of floats
            mantissas = np.ldexp(mantissas, shifts.clip(-_MANTISSA - 1, 0))
            shifts = shifts.clip(0)
            quotients = mantissas * 2.0**_MANTISSA
            if (quotients != np.rint(quotients)).any():
                raise ParameterError(
                    f"entries are not integer multiples of 2^{exponent}",
                    witness=exponent,
                    suggestion=f"exponent={exponent + lowest} or less",
                )
        # 26 and 27 bits of a mantissa, each times a power of 22 bits: a sum below 2^50.
        high = np.trunc(mantissas * 2.0**26)
        low = (mantissas * 2.0**26 - high) * 2.0**27
        total = high * powers.take(shifts + 27, mode="clip")
        total += low * powers.take(shifts, mode="clip")
        result[start : start + _CACHE] = reduce(total, modulus)
    return result.reshape(array.shape)


def random_residues(
    rng: np.random.Generator, shape: tuple[int, ...], modulus: int, *, least: int = 0
) -> Array:
    """Draw balanced residues, each as likely as any other."""
    return balanced(rng.integers(least, modulus, size=shape), modulus)


def balanced(integers: Integers, modulus: int) -> Array:
    """Return integers as balanced residues modulo m <= 2^22."""
    return reduce((integers % modulus).astype(np.float64), modulus)


def subtract_product(target: Array, left: Array, right: Array, modulus: int) -> None:
    """Subtract `left @ right` from `target` modulo m, for balanced residues, in place.

    Matrices may be stored in float32, parts of larger ones, and transposed; sums are of float64.
    """
    factors = right.astype(np.float64, copy=False)

    def one(tile: tuple[Any, Any]) -> None:
        rows, columns = tile
        for start in range(0, left.shape[-1], BLOCK):
            inner = slice(start, start + BLOCK)
            terms = left[*rows, inner].astype(np.float64, copy=False)
            terms = terms @ factors[..., inner, columns]
            part = target[*rows, columns]
            target[*rows, columns] = reduce(np.subtract(part, terms, out=terms), modulus)

    if target.ndim > 2:
        one(((..., slice(None)), slice(None)))
        return
    heights, widths = (
        list(row_chunks(k, 1, at)) for k, at in zip(target.shape, _TILE, strict=True)
    )
    tiles = [((rows,), columns) for columns in widths for rows in heights]
    for _ in in_pieces(one, tiles, float(target.size) * left.shape[-1]):
        pass


def product(left: Array, right: Array, modulus: int) -> Array:
    """Multiply `left @ right` modulo m, for balanced residues, batched as numpy's matmul is."""
    result: Array = left[..., :BLOCK] @ right[..., :BLOCK, :]
    reduce(result, modulus)
    if left.shape[-1] > BLOCK:
        np.negative(result, out=result)
        subtract_product(result, left[..., BLOCK:], right[..., BLOCK:, :], modulus)
        np.negative(result, out=result)
    return result


def inverse(values: Array, modulus: int) -> Array:
    """Return 1/x modulo a prime for balanced residues x != 0, as x^(p - 2) (Fermat)."""
    result, square = np.ones_like(values), values.copy()
    exponent = modulus - 2
    while exponent:
        if exponent & 1:
            result *= square
            reduce(result, modulus)
        square *= square
        reduce(square, modulus)
        exponent >>= 1
    return result


# Many small matrices modulo a prime at once, and a small one for python-flint.


def full_row_rank(batch: Array, modulus: int, mixing: Array) -> Booleans:
    """Return which matrices of a batch (B, k, d) are proved to have rank k modulo p: (B,).

    True is a proof. False is not: the matrices are multiplied by one random d x k matrix, `mixing`,
    and lose rank with probability about k/p.
    """
    count, size, _ = batch.shape
    work = product(batch, mixing, modulus)
    proved = np.ones(count, dtype=bool)
    each = np.arange(count)
    for k in range(size):
        pivot_rows = k + (work[:, k:, k] != 0).argmax(axis=1)
        pivots = work[each, pivot_rows]
        work[each, pivot_rows] = work[:, k]
        proved &= pivots[:, k] != 0
        # Cross-multiplied rows need no division: a row times a nonzero pivot keeps the rank.
        rest = work[:, k + 1 :, k + 1 :] * pivots[:, k, np.newaxis, np.newaxis]
        rest -= work[:, k + 1 :, k, np.newaxis] * pivots[:, np.newaxis, k + 1 :]
        work[:, k + 1 :, k + 1 :] = reduce(rest, modulus)
    return proved


def have_full_row_rank(
    batch: Array, modulus: int, rng: np.random.Generator, attempts: int
) -> Booleans:
    """Return which matrices of a batch (B, k, d) one of a few attempts proves to have rank k."""
    found = np.zeros(len(batch), dtype=bool)
    for _ in range(attempts):
        pending = np.flatnonzero(~found)
        if not len(pending):
            break
        mixing = random_residues(rng, batch.shape[:0:-1], modulus)
        found[pending] = full_row_rank(batch[pending], modulus, mixing)
    return found


def as_flint(matrix: Array, modulus: int) -> flint.nmod_mat:
    """Return a matrix of residues for python-flint."""
    rows, columns = matrix.shape
    entries = (matrix.astype(np.int64) % modulus).ravel().tolist()
    return flint.nmod_mat(rows, columns, entries, modulus)


# Elimination modulo a prime, in the array of the matrix, and what its factors are good for.
#
# Columns are eliminated in panels, each in a float64 array of its own; panels are put together by
# recursion, so that what is left of the matrix is updated by products of large blocks. Columns of
# a panel that hold no pivot are moved behind those that do. They are zero below the pivots by then
# and stay so: pivots are found in the first columns that are independent, whatever is moved.


STEP = "eliminate modulo a prime"  # What is said while a matrix is eliminated

_SMALL = 48  # Matrices of at most this many rows or columns are ranked by python-flint
_NARROW = 16  # This many columns are eliminated one by one
_PANEL = 128  # Columns of a panel, which has an array of its own
_COLUMNS_AT_ONCE = 2048  # Columns that are updated at a time
_COLUMNS_OF_PIECE = 256  # Of these, columns that one thread solves for
_ROWS = 1024  # Rows of which columns are moved at a time

Report = Callable[[int], None]  # Called with the number of columns that are done


@dataclass(frozen=True, eq=False)
class Factors:
    """What elimination modulo p finds in a matrix A: A[rows][:, columns] = lower @ upper."""

    modulus: int  # p
    rows: Integers  # (T,), an order of the rows
    columns: Integers  # (rank,), where pivots were found
    # (T, rank), balanced residues in float32 or float64: below the diagonal what `lower` has there,
    # on and above it `upper`
    packed: Array

    @property
    def rank(self) -> int:
        """The rank of A modulo p."""
        return len(self.columns)

    @property
    def lower(self) -> Array:
        """(T, rank), unit lower trapezoidal: a copy."""
        made = np.tril(self.packed, k=-1).astype(np.float64, copy=False)
        np.fill_diagonal(made, 1.0)
        return made

    @property
    def upper(self) -> Array:
        """(rank, rank), upper triangular, with a diagonal without zeros: a copy."""
        return np.triu(self.packed[: self.rank]).astype(np.float64, copy=False)


def factor(matrix: Array, modulus: int, *, overwrite: bool = False) -> Factors:
    """Eliminate a matrix of balanced residues modulo a prime.

    Beside the array in which it works it takes some tens of megabytes.
    """
    kept = np.float32 if matrix.dtype == np.float32 else np.float64
    work: Array = matrix if overwrite else matrix.astype(kept, order="C")
    rows, columns = (np.arange(length) for length in work.shape)
    elimination = _Large(
        work, rows, columns, modulus, lambda done: report(STEP, done, len(columns))
    )
    rank = elimination.run(0, 0, len(columns))
    return Factors(modulus, rows, columns[:rank], work[:, :rank])


def rank(matrix: Array, modulus: int) -> int:
    """Return the rank modulo a prime, of at most 2^22, of a matrix of balanced residues."""
    if min(matrix.shape) == 0:
        return 0
    if min(matrix.shape) <= _SMALL:
        return int(as_flint(matrix, modulus).rank())
    return factor(matrix, modulus).rank


def solve(factors: Factors, right: Array) -> Array:
    """Return X with A[:, columns] X = B modulo p, balanced; ParameterError unless A has rank T.

    factors: of A, with its p;  right: B (T, k), balanced residues
    """
    if factors.rank < len(factors.rows):
        raise ParameterError(
            f"the matrix has rank {factors.rank} modulo {factors.modulus}, "
            f"less than its {len(factors.rows)} rows",
            witness=factors.rank,
            suggestion="another prime, or a matrix of full row rank",
        )
    modulus = factors.modulus
    result: Array = np.ascontiguousarray(right[factors.rows], dtype=np.float64)
    _solve_unit_lower(factors.packed, result, modulus)
    diagonal: Array = np.diagonal(factors.packed).astype(np.float64)
    _solve_upper(factors.packed, inverse(diagonal, modulus), result, modulus)
    return result


def dependencies(factors: Factors, mixtures: Array) -> Array:
    """Express combinations of the rows beside the first `rank` ones in terms of these."""
    rank, modulus = factors.rank, factors.modulus
    below = factors.packed[rank:].astype(np.float64, copy=False)
    right = product(mixtures, below, modulus).T.copy()
    # X L = R, where L is unit lower triangular: its transpose is upper triangular.
    _solve_upper(factors.packed[:rank].T, np.ones(rank), right, modulus)
    return right.T.copy()


def null_vector(matrix: Array, modulus: int, free: Array) -> tuple[int, Array]:
    """Return the rank of A modulo p, and an x with A x = 0: (d,).

    free: random residues (d, 1), which are used up: x has them but where pivots are
    """
    factors = factor(matrix, modulus)
    rank = factors.rank
    free[factors.columns] = 0.0
    first = Factors(modulus, np.arange(rank), factors.columns, factors.packed[:rank])
    values = product(matrix[factors.rows[:rank]], free, modulus)
    free[factors.columns] = solve(first, np.negative(values, out=values))
    return rank, free[:, 0]


@dataclass(frozen=True, eq=False)
class _Elimination(ABC):
    """A matrix that is being eliminated in its own array, by halves of its columns.

    Pivot number i stands in row i. What is left of a pivot's column below it are multipliers.
    """

    work: Array
    rows: Integers
    columns: Integers
    modulus: int

    width: ClassVar[int]  # Of the columns that are not cut into halves

    def run(self, top: int, first: int, last: int) -> int:
        """Eliminate columns first, ..., last - 1 below row `top`: how many pivots they hold.

        Their columns are moved to `first` and those next to it.
        """
        if top == len(self.work):
            return 0
        if last - first <= self.width:
            return self.few(top, first, last)
        # Parts are of the whole width, but for the last one.
        middle = first + self.width * -(-(last - first) // (2 * self.width))
        left = self.run(top, first, middle)
        bottom = top + left
        if bottom == len(self.work):
            return left
        if left:
            pivots = slice(first, first + left)
            for start in range(middle, last, _COLUMNS_AT_ONCE):
                some = slice(start, min(start + _COLUMNS_AT_ONCE, last))
                upper = self.work[top:bottom, some].astype(np.float64)
                self.solve(slice(top, bottom), pivots, upper)
                self.work[top:bottom, some] = upper
                rest = self.work[bottom:, some]
                subtract_product(rest, self.work[bottom:, pivots], upper, self.modulus)
        right = self.run(bottom, middle, last)
        if right and left < middle - first:
            order = np.r_[middle : middle + right, first + left : middle]
            self._move(slice(first + left, middle + right), order)
        return left + right

    @abstractmethod
    def few(self, top: int, first: int, last: int) -> int:
        """Do the same for a few columns."""

    @abstractmethod
    def solve(self, rows: slice, pivots: slice, upper: Array) -> None:
        """Solve L X = B in the array B, where L are the multipliers of rows and pivots."""

    def _move(self, place: slice, order: Integers) -> None:
        """Put columns in another order into the place that they hold."""
        for rows in row_chunks(len(self.work), 1, _ROWS):
            some = self.work[rows]
            some[:, place] = some[:, order]
        self.columns[place] = self.columns[order]


@dataclass(frozen=True, eq=False)
class _Large(_Elimination):
    """A matrix of any size, whose panels are eliminated in arrays of their own."""

    report: Report
    # of the multipliers of each panel, in the rows of its pivots, by the first of these rows
    inverses: dict[int, Array] = field(default_factory=dict)

    width = _PANEL

    def few(self, top: int, first: int, last: int) -> int:
        """Eliminate a panel: by the square at its top, unless that is singular; else all of it."""
        size = last - first
        tall = len(self.work) - top >= 2 * size
        found = self._eliminated(top, first, last, top + size) if tall else 0
        if found < size:
            found = self._eliminated(top, first, last, len(self.work))
        if found:
            lower = self.work[top : top + found, first : first + found]
            self.inverses[top] = _inverse_of_unit_lower(lower, self.modulus)
        self.report(last)
        return found

    def _eliminated(self, top: int, first: int, last: int, bottom: int) -> int:
        """Eliminate some rows of a panel; unless they are all, nothing where they are singular."""
        panel = self.work[top:bottom, first:last].astype(np.float64)
        rows, columns = (np.arange(length) for length in panel.shape)
        found = _Panel(panel, rows, columns, self.modulus).run(0, 0, len(columns))
        below = self.work[bottom:, first:last]
        if len(below) and found < len(columns):
            return found
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        if len(moved):
            self.work[top + moved] = self.work[top + rows[moved]]
            self.rows[top + moved] = self.rows[top + rows[moved]]
        self.work[top:bottom, first:last] = panel
        if (columns[1:] < columns[:-1]).any():
            above = self.work[:top]
            above[:, first:last] = above[:, first + columns]
            self.columns[first:last] = self.columns[first + columns]
        if len(below):
            self._multiply(below, panel)
        return found

    def _multiply(self, below: Array, square: Array) -> None:
        """Make multipliers of rows below a square that is eliminated: A U^-1."""
        modulus = self.modulus
        scales = inverse(np.diagonal(square).copy(), modulus)
        unit = reduce(square.T * scales, modulus)  # U^T = L D with L unit lower triangular
        turned = reduce(_inverse_of_unit_lower(unit, modulus) * scales[:, np.newaxis], modulus).T

        def one(rows: slice) -> None:
            below[rows] = product(below[rows].astype(np.float64, copy=False), turned, modulus)

        for _ in in_pieces(one, row_chunks(len(below), 1, _TILE[0]), below.size * len(square)):
            pass

    def solve(self, rows: slice, pivots: slice, upper: Array) -> None:
        """Solve with the inverses of panels, some columns at a time."""

        def one(columns: slice) -> None:
            start = 0
            while start < len(upper):
                inverse = self.inverses[rows.start + start]
                stop = start + len(inverse)
                part = upper[start:stop, columns]
                lower = self.work[rows.start + start : rows.start + stop, pivots][:, :start]
                subtract_product(part, lower, upper[:start, columns], self.modulus)
                part[:] = product(inverse, part, self.modulus)
                start = stop

        pieces = row_chunks(upper.shape[1], 1, _COLUMNS_OF_PIECE)
        for _ in in_pieces(one, pieces, float(upper.size) * len(upper) / 2):
            pass


class _Panel(_Elimination):
    """A few columns in float64; `rows` and `columns` say what was moved."""

    width = _NARROW

    def solve(self, rows: slice, pivots: slice, upper: Array) -> None:
        """Solve in few steps: these are few columns."""
        _solve_unit_lower(self.work[rows, pivots], upper, self.modulus)

    def few(self, top: int, first: int, last: int) -> int:
        """Eliminate columns one by one; here each of them is a row of an array."""
        held = self.work[top:, first:last].T.copy()
        pivots: list[int] = []
        for column in range(last - first):
            row = len(pivots)
            if row == held.shape[1]:
                break
            found = row + int((held[column, row:] != 0).argmax())
            if held[column, found] == 0:
                continue
            if found != row:
                held[:, [row, found]] = held[:, [found, row]]
                both, exchanged = [top + row, top + found], [top + found, top + row]
                self.work[both] = self.work[exchanged]
                self.rows[both] = self.rows[exchanged]
            scale = float(pow(int(held[column, row]), -1, self.modulus))
            multipliers = reduce(held[column, row + 1 :] * scale, self.modulus)
            held[column, row + 1 :] = multipliers
            if column + 1 < last - first:
                below = held[column + 1 :, row + 1 :]
                below -= multipliers * held[column + 1 :, row, np.newaxis]
                reduce(below, self.modulus)
            pivots.append(column)
        rest = [column for column in range(last - first) if column not in pivots]
        order = [*pivots, *rest]
        self.work[top:, first:last] = held[order].T
        if order != sorted(order):
            self.work[:top, first:last] = self.work[:top, first:last][:, order]
            self.columns[first:last] = self.columns[first:last][order]
        return len(pivots)


def _solve_unit_lower(lower: Array, right: Array, modulus: int) -> None:
    """Solve L X = B modulo p in the array B, reading only what is below the diagonal of L."""
    size = len(right)
    if size <= 2 * _NARROW:
        lower = lower[:size, :size].astype(np.float64, copy=False)
        for i in range(1, size):
            right[i] -= lower[i, :i] @ right[:i]
            reduce(right[i], modulus)
        return
    half = size // 2
    _solve_unit_lower(lower[:half, :half], right[:half], modulus)
    subtract_product(right[half:], lower[half:size, :half], right[:half], modulus)
    _solve_unit_lower(lower[half:size, half:size], right[half:], modulus)


def _inverse_of_unit_lower(lower: Array, modulus: int) -> Array:
    """Return L^-1 modulo p, reading only what is below the diagonal of L.

    The inverses of small blocks on the diagonal come first, all at once, then those of twice the
    size: the one of A, C, B is that of A, - B^-1 C A^-1, and that of B.
    """
    total, size = len(lower), _NARROW
    doublings = max(0, math.ceil(math.log2(total / size)))
    whole = np.eye(size << doublings)
    whole[:total, :total] += np.tril(lower, k=-1)
    blocks = whole.reshape(1 << doublings, size, -1, size)
    every = np.arange(len(blocks))
    found = np.broadcast_to(np.eye(size), (len(blocks), size, size)).copy()
    for row in range(1, size):
        known = blocks[every, row, every, np.newaxis, :row]
        found[:, row, :row] = reduce(-(known @ found[:, :row, :row])[:, 0], modulus)
    while len(found) > 1:
        first, second = found[::2], found[1::2]
        places = np.arange(0, len(found), 2)
        corner = whole.reshape(len(found), size, -1, size)[places + 1, :, places]
        below = product(product(second, corner, modulus), first, modulus)
        size *= 2
        found = np.zeros((len(first), size, size))
        found[:, : size // 2, : size // 2] = first
        found[:, size // 2 :, size // 2 :] = second
        found[:, size // 2 :, : size // 2] = -below
    return found[0, :total, :total]


def _solve_upper(upper: Array, inverses: Array, right: Array, modulus: int) -> None:
    """Solve U X = B modulo p in the array B, reading only what is above the diagonal of U.

    inverses: of the diagonal of U
    """
    size = len(right)
    if size <= 2 * _NARROW:
        scales = inverses[:size, np.newaxis]
        unit = reduce(upper[:size, :size] * scales, modulus)
        right *= scales
        reduce(right, modulus)
        for i in reversed(range(size - 1)):
            right[i] -= unit[i, i + 1 :] @ right[i + 1 :]
            reduce(right[i], modulus)
        return
    half = size // 2
    _solve_upper(upper[half:size, half:size], inverses[half:], right[half:], modulus)
    subtract_product(right[:half], upper[:half, half:size], right[half:], modulus)
    _solve_upper(upper[:half, :half], inverses[:half], right[:half], modulus)


# Powers modulo a prime, for whole arrays, by tables.


class PowerTable:
    """Powers a^k modulo a prime p <= 2^22 of one base, for whole arrays of exponents.

    With k = 2048 j + i, a^k is the product of the table entries a^i and (a^2048)^j. Both tables
    stay in a cache.
    """

    def __init__(self, base: int, modulus: int) -> None:
        roots = (base, 2048), (pow(base, 2048, modulus), ((modulus - 1) >> 11) + 1)
        self._modulus = modulus
        self._low, self._high = (
            balanced(np.array([pow(root, k, modulus) for k in range(count)]), modulus)
            for root, count in roots
        )

    def __call__(self, exponents: Array) -> Array:
        """a^k for balanced residues k modulo p - 1."""
        index = exponents.astype(np.int64)
        index += (index < 0) * (self._modulus - 1)
        low = self._low.take(index & 2047, mode="clip")
        return reduce(low * self._high.take(index >> 11, mode="clip"), self._modulus)
