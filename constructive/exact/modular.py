"""Linear algebra modulo a prime near 2^22, exactly, on the BLAS of float64.

Residues are *balanced*: integers of size at most m/2 + 2, kept in float64. A product of two is
below 2^42.01, so a sum of `BLOCK` = 1024 of them stays below 2^53 and float64 computes it without
any rounding, in whatever order BLAS adds, with or without fused operations. So a matrix product
modulo m is a float64 product and one reduction for every 1024 terms of the inner dimension.

The elimination is recursive in the columns, so nearly all of its work is in large products. It
finds the rank of any matrix, singular and rectangular ones included. Small matrices go to
python-flint.

Source: Dumas, Giorgi and Pernet, *Dense linear algebra over word-size prime fields: the FFLAS and
FFPACK packages* (ACM TOMS 2008), for the technique.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import flint
import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

LARGEST_MODULUS = 1 << 22
BLOCK = 1024
"""Inner dimension of an exact product, as BLOCK (2^21 + 2)^2 + 2^21 + 2 < 2^53 - 2^23."""

_SMALL = 48
"""Matrices of at most this many rows or columns are ranked by python-flint."""
_NARROW = 8
"""Panels of at most this many columns are eliminated column by column."""
_MANTISSA = 53
"""Bits of a float64."""
_CACHE = 1 << 14
"""Entries which are reduced at a time, so that the passes of a reduction stay in a cache."""

Integers = npt.NDArray[np.int64]


def safe_primes(limit: int = LARGEST_MODULUS) -> Iterator[int]:
    """Primes p < limit with (p - 1) / 2 prime, the largest first.

    Modulo such a prime every element but 0, 1 and -1 has order (p - 1) / 2 or p - 1, so a common
    factor of all exponents costs nothing.

    Args:
        limit: above all of them; by default 2^22

    Example:
        >>> next(safe_primes())
        4194287
    """
    candidate = limit - 1
    while candidate >= 5:
        if flint.fmpz(candidate).is_prime() and flint.fmpz(candidate // 2).is_prime():
            yield candidate
        candidate -= 1


def reduce(values: Array, modulus: int) -> Array:
    """Replace integers of size below 2^53 - 2^23 by balanced residues, in the array itself.

    The quotient is off by at most one half and a rounding of 2^-21, so residues are at most
    m/2 + 2 in size; the product and the difference are exact.

    Args:
        values: integers in float64, of any shape; they are overwritten
        modulus: m, 2^22 at most

    Returns:
        the array itself

    Example:
        >>> reduce(np.array([7.0, -8.0, 16.0]), 5)
        array([2., 2., 1.])
    """
    flat = values.reshape(-1) if values.flags.c_contiguous else None
    if flat is None:
        quotient = np.rint(values * (1.0 / modulus))
        quotient *= modulus
        values -= quotient
        return values
    for start in range(0, flat.size, _CACHE):
        part = flat[start : start + _CACHE]
        quotient = part * (1.0 / modulus)
        np.rint(quotient, out=quotient)
        quotient *= modulus
        part -= quotient
    return values


def least_exponent(array: Array) -> int:
    """The largest known e with every entry an integer multiple of 2^e (0 for a zero array).

    Args:
        array: finite floats, of any shape

    Example:
        >>> least_exponent(np.array([0.75, 0.0]))
        -53
    """
    sizes = np.abs(array)
    smallest = sizes.min(where=sizes > 0, initial=np.inf)
    return int(np.frexp(smallest)[1]) - _MANTISSA if np.isfinite(smallest) else 0


def residues(array: Array, modulus: int, exponent: int) -> Array:
    """The integers array / 2^exponent modulo m, from float32 or float64 without rounding.

    A float is an integer of 53 bits times a power of two, denormal ones too; `exponent` is at most
    `least_exponent(array)`, so no quotient is fractional.

    Args:
        array: float32 or float64, finite, of any shape
        modulus: m, 2^22 at most
        exponent: of the power of two which divides all entries

    Returns:
        balanced residues, of the shape of the array

    Raises:
        ParameterError: if a quotient is fractional

    Example:
        >>> residues(np.array([1e300, 5e-324, -3.0]), 1009, -1126)
        array([ -25.,  410., -432.])
    """
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
        if lowest < 0:
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


def _balanced(integers: Integers, modulus: int) -> Array:
    return reduce((integers % modulus).astype(np.float64), modulus)


def subtract_product(target: Array, left: Array, right: Array, modulus: int) -> None:
    """`target -= left @ right` modulo m, for balanced residues, in the array itself.

    Args:
        target: (..., i, k); it is overwritten
        left: (..., i, j)
        right: (..., j, k)
        modulus: m, 2^22 at most
    """
    for start in range(0, left.shape[-1], BLOCK):
        inner = slice(start, start + BLOCK)
        target -= left[..., inner] @ right[..., inner, :]
        reduce(target, modulus)


def product(left: Array, right: Array, modulus: int) -> Array:
    """`left @ right` modulo m, for balanced residues, batched as numpy's matmul is.

    Args:
        left: (..., i, j)
        right: (..., j, k)
        modulus: m, 2^22 at most

    Returns:
        balanced residues (..., i, k)

    Example:
        >>> product(np.array([[2.0, 3.0]]), np.array([[4.0], [5.0]]), 7)
        array([[2.]])
    """
    result: Array = left[..., :BLOCK] @ right[..., :BLOCK, :]
    reduce(result, modulus)
    if left.shape[-1] > BLOCK:
        np.negative(result, out=result)
        subtract_product(result, left[..., BLOCK:], right[..., BLOCK:, :], modulus)
        np.negative(result, out=result)
    return result


@dataclass(frozen=True, eq=False)
class PowerTable:
    """Powers a^k modulo p of one base, for whole arrays of exponents, by two small tables.

    With k = 2048 j + i, a^k is the product of the table entries a^i and (a^2048)^j. Both tables
    stay in a cache. Use `power_table`.

    Attributes:
        modulus: p
        low: a^i for i = 0, ..., 2047, as balanced residues (2048,)
        high: (a^2048)^j for all j up to (p - 1) / 2048, as balanced residues
    """

    modulus: int
    low: Array
    high: Array

    def __call__(self, exponents: Array) -> Array:
        """a^k for balanced residues k modulo p - 1."""
        index = exponents.astype(np.int64)
        index += (index < 0) * (self.modulus - 1)
        low = self.low.take(index & 2047, mode="clip")
        return reduce(low * self.high.take(index >> 11, mode="clip"), self.modulus)


def power_table(base: int, modulus: int) -> PowerTable:
    """Tables for powers of `base` modulo a prime p <= 2^22.

    Args:
        base: a, of the powers a^k
        modulus: p

    Example:
        >>> power_table(3, 1009)(np.array([0.0, 2.0, -1.0]))  # 3 * (-336) = 1 modulo 1009
        array([   1.,    9., -336.])
    """
    step = pow(base, 2048, modulus)
    low, high = [1], [1]
    for _ in range(2047):
        low.append(low[-1] * base % modulus)
    for _ in range((modulus - 1) >> 11):
        high.append(high[-1] * step % modulus)
    tables = (_balanced(np.array(table, dtype=np.int64), modulus) for table in (low, high))
    return PowerTable(modulus, *tables)


def logarithm_table(generator: int, modulus: int) -> npt.NDArray[np.int32]:
    """log[x] with generator^log[x] = x modulo p, for x = 1, ..., p - 1 (log[0] is -1).

    Args:
        generator: of all residues but zero, a primitive root
        modulus: p, a prime

    Returns:
        logarithms (p,), by x

    Raises:
        ParameterError: if `generator` does not generate all residues but zero

    Example:
        >>> logarithm_table(3, 7)
        array([-1,  0,  2,  1,  4,  5,  3], dtype=int32)
    """
    powers = np.ones(modulus - 1, dtype=np.int64)
    known, step = 1, generator % modulus
    while known < len(powers):  # a^known to a^(2 known - 1) from a^0 to a^(known - 1)
        count = min(known, len(powers) - known)
        powers[known : known + count] = powers[:count] * step % modulus
        known, step = known + count, step * step % modulus
    table = np.full(modulus, -1, dtype=np.int32)
    table[powers] = np.arange(modulus - 1, dtype=np.int32)
    if (table[1:] < 0).any():
        raise ParameterError(
            f"{generator} does not generate the residues modulo {modulus}",
            witness=generator,
            suggestion="a primitive root of a prime",
        )
    return table


def inverse(values: Array, modulus: int) -> Array:
    """1/x modulo a prime for balanced residues x != 0, as x^(p - 2) (Fermat).

    Args:
        values: x, of any shape
        modulus: p, a prime of at most 2^22
    """
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


@dataclass(frozen=True, eq=False)
class Factors:
    """What elimination modulo p finds in a matrix A: A[rows][:, columns] = lower @ upper.

    Attributes:
        modulus: p
        rows: (T,), an order of the rows
        columns: (rank,), where pivots were found
        lower: (T, rank), unit lower trapezoidal
        upper: (rank, rank), upper triangular, with a diagonal without zeros
    """

    modulus: int
    rows: Integers
    columns: Integers
    lower: Array
    upper: Array

    @property
    def rank(self) -> int:
        """The rank of A modulo p."""
        return len(self.columns)


def factor(matrix: Array, modulus: int) -> Factors:
    """Eliminate a matrix of balanced residues modulo a prime; it is not changed.

    Args:
        matrix: A (T, k)
        modulus: p, a prime of at most 2^22

    Example:
        >>> factor(np.array([[0.0, 2.0, 3.0], [0.0, 4.0, 6.0]]), 1009).columns
        array([1])
    """
    work = np.array(matrix, dtype=np.float64, order="C")
    rows = np.arange(len(work))
    columns = np.array(_eliminate(work, rows, 0, 0, work.shape[1], modulus), dtype=np.int64)
    pivots = work[:, columns]
    lower = np.tril(pivots, k=-1)
    np.fill_diagonal(lower, 1.0)
    return Factors(modulus, rows, columns, lower, np.triu(pivots[: len(columns)]))


def rank(matrix: Array, modulus: int) -> int:
    """The rank modulo a prime of a matrix of balanced residues.

    Args:
        matrix: (T, k)
        modulus: p, a prime of at most 2^22

    Example:
        >>> rank(np.array([[1.0, 2.0], [2.0, 4.0]]), 1009)
        1
    """
    if min(matrix.shape) == 0:
        return 0
    if min(matrix.shape) <= _SMALL:
        return int(_as_flint(matrix, modulus).rank())
    return factor(matrix, modulus).rank


def solve(factors: Factors, right: Array) -> Array:
    """X with A[:, columns] X = B modulo p, for A of full row rank.

    Args:
        factors: of A, with its p
        right: B (T, k), balanced residues

    Returns:
        X (T, k), balanced residues

    Raises:
        ParameterError: if the rank is less than T

    Example:
        >>> solve(factor(np.array([[2.0, 1.0], [1.0, 1.0]]), 1009), np.array([[5.0], [3.0]]))
        array([[2.],
               [1.]])
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
    _solve_unit_lower(factors.lower, result, modulus)
    # Reversing the order of rows and columns turns an upper triangle into a lower one.
    diagonal: Array = np.diagonal(factors.upper).copy()
    scale = inverse(diagonal, modulus)[:, np.newaxis]
    unit = reduce(factors.upper * scale, modulus)
    result = reduce(result * scale, modulus)[::-1].copy()
    _solve_unit_lower(np.ascontiguousarray(unit[::-1, ::-1]), result, modulus)
    return result[::-1].copy()


def dependencies(factors: Factors, mixtures: Array) -> Array:
    """What combinations of the rows beside the first `rank` ones are, in terms of these.

    Args:
        factors: of A, with its p
        mixtures: W (k, T - rank), balanced residues

    Returns:
        X (k, rank) with W A[rows[rank:]] = X A[rows[:rank]], balanced residues

    Example:
        >>> factors = factor(np.array([[1.0, 2.0], [3.0, 6.0]]), 1009)
        >>> dependencies(factors, np.array([[1.0]]))
        array([[3.]])
    """
    rank, modulus = factors.rank, factors.modulus
    right = product(mixtures, factors.lower[rank:], modulus)
    # X L = R: with rows and columns reversed, the transpose of L is a lower triangle.
    reversed_rows = np.ascontiguousarray(right.T[::-1])
    triangle = np.ascontiguousarray(factors.lower[:rank].T[::-1, ::-1])
    _solve_unit_lower(triangle, reversed_rows, modulus)
    return np.ascontiguousarray(reversed_rows[::-1].T)


def full_row_rank(batch: Array, modulus: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which matrices of a batch (B, k, d) are proved to have rank k modulo p: (B,).

    True is a proof. False is not: the matrices are multiplied by one random d x k matrix, which
    loses rank with probability about k/p.

    Args:
        batch: balanced residues
        modulus: p, a prime of at most 2^22
        rng: draws the random matrix
    """
    count, size, width = batch.shape
    mixing = _balanced(rng.integers(modulus, size=(width, size)), modulus)
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


def null_vectors(matrix: Array, modulus: int) -> Array:
    """A basis of the vectors x with A x = 0 modulo p, as columns: (d, d - rank).

    Args:
        matrix: A (k, d), balanced residues
        modulus: p, a prime of at most 2^22
    """
    basis, count = _as_flint(matrix, modulus).nullspace()
    dense = np.array([[int(x) for x in row] for row in basis.tolist()], dtype=np.int64)
    return _balanced(dense.reshape(matrix.shape[1], -1)[:, :count], modulus)


def _as_flint(matrix: Array, modulus: int) -> flint.nmod_mat:
    rows, columns = matrix.shape
    entries = (matrix.astype(np.int64) % modulus).ravel().tolist()
    return flint.nmod_mat(rows, columns, entries, modulus)


def _eliminate(
    work: Array, rows: Integers, top: int, first: int, last: int, modulus: int
) -> list[int]:
    """Eliminate columns first, ..., last - 1 below row `top`; return those which hold a pivot.

    Afterwards pivot number i (counted from `top`) stands in row i of its column; the multipliers
    stand below it. Rows are exchanged in all of `work`, and in `rows`.
    """
    if top == len(work):
        return []
    if last - first <= _NARROW:
        return _eliminate_narrow(work, rows, top, first, last, modulus)
    middle = (first + last) // 2
    left = _eliminate(work, rows, top, first, middle, modulus)
    if left:
        bottom = top + len(left)
        contiguous = left[-1] - left[0] == len(left) - 1
        chosen = slice(left[0], left[-1] + 1) if contiguous else np.array(left)
        upper = np.ascontiguousarray(work[top:bottom, middle:last])
        _solve_unit_lower(work[top:bottom, chosen], upper, modulus)
        work[top:bottom, middle:last] = upper
        rest = np.ascontiguousarray(work[bottom:, middle:last])
        subtract_product(rest, work[bottom:, chosen], upper, modulus)
        work[bottom:, middle:last] = rest
    return left + _eliminate(work, rows, top + len(left), middle, last, modulus)


def _eliminate_narrow(
    work: Array, rows: Integers, top: int, first: int, last: int, modulus: int
) -> list[int]:
    pivots = []
    panel = work[top:, first:last].copy()
    exchanges = []
    row = 0
    for column in range(last - first):
        if row == len(panel):
            break
        below = panel[row:, column]
        found = row + int((below != 0).argmax())
        if panel[found, column] == 0:
            continue
        if found != row:
            panel[[row, found]] = panel[[found, row]]
            exchanges.append((top + row, top + found))
        scale = pow(int(panel[row, column]), -1, modulus)
        multipliers = reduce(panel[row + 1 :, column] * float(scale), modulus)
        panel[row + 1 :, column] = multipliers
        if column + 1 < last - first:
            rest = (
                panel[row + 1 :, column + 1 :]
                - multipliers[:, np.newaxis] * panel[row, column + 1 :]
            )
            panel[row + 1 :, column + 1 :] = reduce(rest, modulus)
        pivots.append(first + column)
        row += 1
    for one, other in exchanges:
        work[[one, other]] = work[[other, one]]
        rows[[one, other]] = rows[[other, one]]
    work[top:, first:last] = panel
    return pivots


def _solve_unit_lower(lower: Array, right: Array, modulus: int) -> None:
    """Solve L X = B modulo p in the array B, reading only what is below the diagonal of L."""
    size = len(right)
    if size <= 2 * _NARROW:
        for i in range(1, size):
            right[i] -= lower[i, :i] @ right[:i]
            reduce(right[i], modulus)
        return
    half = size // 2
    _solve_unit_lower(lower[:half, :half], right[:half], modulus)
    subtract_product(right[half:], lower[half:size, :half], right[:half], modulus)
    _solve_unit_lower(lower[half:size, half:size], right[half:], modulus)
