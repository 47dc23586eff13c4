"""Matrices of floats over the rational numbers: ranks, and dependencies with their coefficients.

Floats are dyadic rationals, so a matrix of them has one true rank, whatever a tolerance says. Most
matrices are decided modulo a prime: rows that are independent there are independent over the
rational numbers, since a minor that is not 0 modulo p is not 0. For the others python-flint
eliminates integers. Rows far from dependent are proved independent in float64, at the end of
this file.

Example:
    >>> nearly = np.array([[1.0, 0.0], [1.0, 1e-17]])
    >>> int(np.linalg.matrix_rank(nearly)), rank(nearly)
    (1, 2)
"""

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

import flint
import numpy as np
import numpy.typing as npt

from constructive.checker.bounds import UNIT
from constructive.exact import modular
from constructive.support.arrays import Array, Booleans, Integers, checked_array
from constructive.support.errors import DataError

_ATTEMPTS = 4  # Random mixtures that are tried on a matrix before python-flint decides
BATCHED = 48  # Rows of a matrix up to which a batch is eliminated at once
_SHOWN = 8  # Terms of a dependency that are printed
_DIGITS = 24  # Of a fraction that is printed in full


@dataclass(frozen=True)
class Dependency:
    """Dependent rows of a matrix of which no part is dependent, with exact coefficients.

    Attributes:
        rows: k indices, ascending
        coefficients: k nonzero Fractions c_i with sum_i c_i row_i = 0

    Example:
        >>> print(Dependency((4, 7), (Fraction(1), Fraction(-1, 2))))
        [4] - 1/2 [7] = 0
    """

    rows: tuple[int, ...]
    coefficients: tuple[Fraction, ...]

    def holds(self, matrix: Array) -> bool:
        """Return whether the combination of the rows of a matrix is zero, in exact arithmetic.

        Args:
            matrix: (N, d), with all rows that the indices count

        Raises:
            DataError: for entries that are not finite numbers of 64 bits at most

        Example:
            >>> Dependency((0, 1), (Fraction(2), Fraction(-1))).holds(np.array([[0.1], [0.2]]))
            True
        """
        chosen = checked_array("entries", matrix)[list(self.rows)].astype(np.float64, copy=False)
        return all(
            sum(c * Fraction(x) for c, x in zip(self.coefficients, column, strict=True)) == 0
            for column in chosen.T.tolist()
        )

    def __str__(self) -> str:
        words = ""
        for row, c in zip(self.rows[:_SHOWN], self.coefficients, strict=False):
            words += (" - " if c < 0 else " + ") if words else ("-" if c < 0 else "")
            words += f"[{row}]" if abs(c) == 1 else f"{_short(abs(c))} [{row}]"
        more = f" + ... ({len(self.rows)} terms)" if len(self.rows) > _SHOWN else ""
        return f"{words}{more} = 0"


@dataclass(frozen=True, eq=False)
class Decided:
    """What is known of each matrix of a batch: neither of the two is "not decided"."""

    independent: Booleans  # whose rows are proved to be independent (B,)
    dependent: Booleans  # whose rows are proved to be dependent (B,)


def integers(matrix: Array) -> tuple[flint.fmpz_mat, list[int]]:
    """Return integers M and exponents e with row i of the matrix equal to 2^(e_i) M_i.

    Rows are scaled one by one, so that rows of very different sizes cost nothing.
    """
    matrix = checked_array("entries", matrix)
    rows, columns = matrix.shape
    source = matrix.astype(np.float64, copy=False)
    mantissas, powers = np.frexp(source)
    units = powers.astype(np.int64) - 53
    lowest = units.min(axis=1, where=source != 0, initial=np.iinfo(np.int64).max, keepdims=True)
    lowest[~source.any(axis=1)] = 0
    whole = np.ldexp(mantissas, 53).astype(np.int64).ravel().tolist()
    shifts = (units - lowest).ravel().tolist()
    entries = [x << shift if x else 0 for x, shift in zip(whole, shifts, strict=True)]
    return flint.fmpz_mat(rows, columns, entries), lowest.ravel().tolist()


def rank(matrix: npt.ArrayLike) -> int:
    """Return the exact rank of a matrix of floats, over the rational numbers.

    Args:
        matrix: (N, d), also of integers, or what numpy reads as such

    Raises:
        DataError: for another shape, and for entries that are not finite numbers of 64 bits at most

    Example:
        >>> rank(np.array([[0.1, 0.3], [0.3, 0.9]]))  # in binary, 0.3 is not three times 0.1
        2
    """
    given = checked_array("matrix", matrix)
    if given.ndim != 2:
        raise DataError(
            f"an array {given.shape} is not a matrix", witness=given.shape, suggestion="axes (N, d)"
        )
    return int(integers(given)[0].rank())


def kernel(matrix: Array) -> flint.fmpz_mat:
    """Return a basis of the vectors x with A x = 0, exactly, as integer columns: (d, d - rank).

    A tall matrix is decided by rows that span the others modulo a prime. Whether they do so over
    the rational numbers is checked exactly.

    Args:
        matrix: A (N, d), of floats

    Raises:
        DataError: for entries that are not finite numbers of 64 bits at most

    Example:
        >>> kernel(np.array([[1.0, 2.0], [0.5, 1.0]]))
        [ 2]
        [-1]
    """
    matrix = checked_array("entries", matrix)
    width = matrix.shape[1]
    if len(matrix) > width:
        prime = next(modular.safe_primes())
        residues = modular.residues(matrix, prime)
        factors = modular.factor(residues, prime)
        chosen = factors.rows[: factors.rank]
        found = kernel(matrix[chosen])
        if not found.ncols() or not any(map(any, (integers(matrix)[0] * found).tolist())):
            return found
    return as_columns(null_vectors(integers(matrix)[0]), width)


def null_vectors(matrix: flint.fmpz_mat) -> list[list[int]]:
    """Return a basis of the vectors x with A x = 0, each of integers without a common divisor."""
    basis, nullity = matrix.nullspace()
    columns = [[int(basis[i, j]) for i in range(matrix.ncols())] for j in range(nullity)]
    return [[x // math.gcd(*column) for x in column] for column in columns]


def as_columns(columns: list[list[int]], length: int) -> flint.fmpz_mat:
    """Return vectors of integers, each of the same length, as the columns of a matrix."""
    entries = [x for row in zip(*columns, strict=True) for x in row]
    return flint.fmpz_mat(length, len(columns), entries)


def dependency(matrix: Array, rows: npt.ArrayLike | None = None) -> Dependency | None:
    """Return dependent rows among the given ones, of which no part is dependent; or None.

    Args:
        matrix: (N, d), of floats
        rows: indices into the matrix (k,); by default all

    Raises:
        DataError: for entries that are not finite numbers of 64 bits at most

    Example:
        >>> print(dependency(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, -0.5]])))
        [0] - 1/6 [1] - 1/3 [2] = 0
    """
    index = np.arange(len(matrix)) if rows is None else np.unique(np.asarray(rows, dtype=np.int64))
    while True:
        whole, exponents = integers(matrix[index])
        columns = null_vectors(whole.transpose())
        if not columns:
            return None
        shortest = min(columns, key=lambda column: sum(c != 0 for c in column))
        support = [i for i, c in enumerate(shortest) if c]
        if len(columns) == 1:  # the only dependency, so no part of its support is dependent
            exact = [Fraction(shortest[i]) / Fraction(2) ** exponents[i] for i in support]
            chosen = tuple(int(index[i]) for i in support)
            return Dependency(chosen, tuple(c / exact[0] for c in exact))
        index = index[support] if len(support) < len(index) else index[:-1]


def independent(blocks: Array, rng: np.random.Generator) -> Booleans:
    """Return which matrices of a batch (B, k, d) have independent rows, exactly: (B,)."""
    return decide(blocks, rng).independent


def decide(
    blocks: Array,
    rng: np.random.Generator,
    *,
    scaled: Array | None = None,
    most: int | None = None,
) -> Decided:
    """Decide whether rows of matrices (B, k, d) are independent, by the cheapest proof.

    In this order: a Cholesky factorization (`independent_in_floats`), a reason to be dependent that
    can be seen, elimination modulo a prime, and exact elimination.
    """
    blocks = checked_array("entries", blocks)
    count, size, width = blocks.shape
    if size > width:
        return Decided(np.zeros(count, dtype=bool), np.ones(count, dtype=bool))
    found = independent_in_floats(scaled_rows(blocks) if scaled is None else scaled)
    dependent = np.zeros(count, dtype=bool)
    # Most dependent subsets of real data hold a vector twice, or have few coordinates in use.
    pending = np.flatnonzero(~found)
    dependent[pending] = _repeating(blocks[pending])
    dependent[pending] |= blocks[pending].any(axis=1).sum(axis=1) < size
    pending = pending[~dependent[pending]]
    if len(pending):
        found[pending] = _full_rank(blocks[pending], rng)
    pending = pending[~found[pending]][:most]
    found[pending] = [has_full_rank(block) for block in blocks[pending]]
    dependent[pending] = ~found[pending]
    return Decided(found, dependent)


def _full_rank(blocks: Array, rng: np.random.Generator) -> Booleans:
    """Return which matrices of a batch (B, k, d) are proved to have rank k by a prime: (B,)."""
    size = blocks.shape[1]
    prime = next(modular.safe_primes())
    residues = modular.residues(blocks, prime)
    if size > BATCHED:
        return np.array([modular.rank(matrix, prime) == size for matrix in residues])
    return modular.have_full_row_rank(residues, prime, rng, _ATTEMPTS)


def has_full_rank(matrix: Array) -> bool:
    """Return whether the rows of a matrix of floats (k, d) are independent, exactly.

    Rows that seem dependent may be few, and are decided sooner than all.
    """
    few = seemingly_dependent(matrix)
    if few is not None and rank(matrix[few]) < len(few):
        return False
    return rank(matrix) == len(matrix)


def seemingly_dependent(matrix: Array) -> Integers | None:
    """Return rows of a dependency modulo a prime, no fewer of them being so; None if there is none.

    It proves nothing: rows may be dependent modulo p alone.
    """
    prime = next(modular.safe_primes())
    residues = modular.residues(matrix, prime)
    factors = modular.factor(residues, prime)
    if factors.rank == len(matrix):
        return None
    first = np.eye(1, len(matrix) - factors.rank)
    used = np.flatnonzero(modular.dependencies(factors, first)[0])
    return np.sort(np.append(factors.rows[used], factors.rows[factors.rank]))


def _repeating(blocks: Array) -> Booleans:
    """Return which matrices of a batch (B, k, d) have two equal rows."""
    order = np.argsort(blocks @ np.random.default_rng(0).random(blocks.shape[2]), axis=1)
    ordered = np.take_along_axis(blocks, order[:, :, np.newaxis], axis=1)
    equal = (ordered[:, 1:] == ordered[:, :-1]).all(axis=2)  # neighbours, if rounding is the same
    repeating: Booleans = equal.any(axis=1)
    return repeating


def _short(value: Fraction) -> str:
    """Return a fraction in full if it is short, else rounded and marked so."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if bits <= 4 * _DIGITS and len(text := str(value)) <= _DIGITS:  # Python writes no long integer
        return text
    parts = value.numerator, value.denominator
    dropped = [max(0, part.bit_length() - 64) for part in parts]  # that is quick for any length
    with localcontext(Emax=MAX_EMAX, Emin=MIN_EMIN):
        above, below = (Decimal(part >> by) for part, by in zip(parts, dropped, strict=True))
        return f"~{above / below * Decimal(2) ** (dropped[0] - dropped[1]):.6g}"


# Rows that are independent, proved in float64: a Cholesky factorization of their Gram matrix.
#
# *Lemma.* Let k rows of d finite floats be scaled by powers of two, with `|b_ij| < 1` and an entry
# of 1/2 or more in each row, as `scaled_rows` does. Let G be their Gram matrix as float64 computes
# it, and ::
#
#     c = 1.125 k (k + d + 8) 2^-53 < 1/2,    k + d <= 2^21.
#
# If the Cholesky factorization of G with its diagonal times 1 - c runs to its end, and the
# diagonal of the factor is finite and 2^-100 or more, then the k rows are independent.
#
# *Proof.* Let u = 2^-53. An operation that underflows loses eta = 2^-1022 at most, whether results
# are subnormal or flushed to zero. Let B be the rows times their powers of two and those of the
# columns, without rounding; it has the rank of the rows. `|b - B| <= eta`, as powers of two are
# exact but for underflow, and `1/4 <= |b_i|^2 <= d`.
#
# (1) In whatever order BLAS adds, with or without fused operations (Higham, section 3.5;
# `gamma_d = d u / (1 - d u)`), `|G_ij - b_i . b_j| <= gamma_d |b_i| |b_j| + 2 d eta`; and b_i .
# b_j is within 3 d eta of B_i . B_j. With g_i = G_ii this says that `|b_i|^2 (1 - gamma_d) <= g_i
# + 2 d eta` and g_i > 1/5. So ::
#
#     |G_ij - B_i . B_j| <= e_1 sqrt(g_i g_j),    e_1 = gamma_d / (1 - gamma_d) + 2^-900.
#
# (2) Let M be G with the diagonal `m_i = fl(g_i fl(1 - c)) <= (1 - c + 3u) g_i`, and L its
# computed factor. An entry of L is a sum of at most k products, less one number, which is divided
# by L_jj or multiplied by its reciprocal, or whose root is taken; so (Higham, Lemma 8.4 and
# Theorem 10.3, of any order) `|(L L^T - M)_ij| <= gamma_(k+3) sum_m |L_im L_jm| + 2^-1000`. What
# underflows is in the last term: products and sums lose 2 k eta, a quotient eta, times L_jj <
# 2^12; a reciprocal does not underflow, nor overflow, as L_jj >= 2^-100. By Cauchy and Schwarz the
# sum is `|L_i| |L_j|` at most, where `|L_i|^2 (1 - gamma_(k+3)) <= m_i + 2^-1000` is the case i =
# j; and m_i > 1/11. So ::
#
#     |(L L^T - M)_ij| <= e_2 sqrt(g_i g_j),    e_2 = gamma_(k+3) / (1 - gamma_(k+3)) + 2^-900.
#
# (3) Let x != 0 be real, and `y_i = sqrt(g_i) |x_i|` for all i. Then, by Cauchy and Schwarz, `(sum
# y_i)^2 <= k sum y_i^2`, and ::
#
#     |B^T x|^2 >= x.Mx + sum (g_i - m_i) x_i^2 - e_1 (sum y_i)^2
#              >= |L^T x|^2 + (c - 3u - k (e_1 + e_2)) sum y_i^2 > 0,
#
# since `3u + k (e_1 + e_2) <= k (k + d + 7) u (1 + 2^-20)`, and c, rounded as it is, is more. QED
#
# A failure proves nothing: the condition of the rows may be too large for float64 (some 10^4 at k
# = d = 768), or they may be dependent. Any scale will do, subnormal and huge numbers included.
#
# Source: Demmel, *On floating point errors in Cholesky* (LAPACK Working Note 14, 1989); Rump,
# *Verification of positive definiteness* (BIT 2006), for a shift of the whole diagonal by one
# number.


_ROOM = 1.125  # More than all terms of second order, and roundings of c itself
_LARGEST = 1 << 21  # k + d of a lemma
_LEAST = 2.0**-100  # The least entry of the diagonal of a factor
_FAR = 1 << 12  # More than the exponents of any two floats differ by


def scaled_rows(vectors: Array) -> Array:
    """Scale vectors by powers of two, for each column and each vector, to sizes below one.

    The largest entry of a vector is 1/2 or more, but of a zero vector. What underflows is rounded.
    """
    mantissas, exponents = np.frexp(vectors.astype(np.float64, copy=False))
    exponents[mantissas == 0] = -_FAR
    columns = exponents.max(axis=tuple(range(exponents.ndim - 1)), initial=-_FAR)
    columns[columns == -_FAR] = 0
    exponents -= columns
    rows = exponents.max(axis=-1, keepdims=True, initial=-2 * _FAR)
    exponents -= rows
    result: Array = np.ldexp(mantissas, exponents)
    return result


def independent_in_floats(blocks: Array) -> Booleans:
    """Return which matrices of a batch (B, k, d) are proved to have independent rows: (B,)."""
    count, size, width = blocks.shape
    shift = _ROOM * size * (size + width + 8) * UNIT
    if size > width or size + width > _LARGEST or not shift < 0.5:  # noqa: PLR2004
        return np.zeros(count, dtype=bool)
    grams = blocks @ blocks.swapaxes(1, 2)
    diagonal = np.einsum("bkk->bk", grams)
    proved: Booleans = diagonal.all(axis=1)  # a zero row has no entry of 1/2
    diagonal *= 1.0 - shift
    proved &= _definite(grams)
    return proved


def _definite(grams: Array) -> Booleans:
    """Return which Cholesky factorizations run to their end: (B,)."""
    try:
        factors = np.linalg.cholesky(grams)
    except np.linalg.LinAlgError:  # of one of them at least
        if len(grams) == 1:
            return np.zeros(1, dtype=bool)
        half = len(grams) // 2
        return np.concatenate([_definite(grams[:half]), _definite(grams[half:])])
    diagonal = np.einsum("bkk->bk", factors)
    found: Booleans = np.isfinite(diagonal).all(axis=1)
    found &= (diagonal >= _LEAST).all(axis=1)
    return found
