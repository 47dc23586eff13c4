"""Elimination modulo a prime, in the array of the matrix, and what its factors are good for.

Columns are eliminated in panels, each in a float64 array of its own; panels are put together by
recursion, so that what is left of the matrix is updated by products of large blocks. Columns of a
panel that hold no pivot are moved behind those that do. They are zero below the pivots by then
and stay so: pivots are found in the first columns that are independent, whatever is moved.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from constructive.exact.modular.arithmetic import (
    inverse,
    product,
    random_residues,
    reduce,
    subtract_product,
)
from constructive.exact.modular.small import as_flint
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.errors import ParameterError
from constructive.support.progress import report

STEP = "eliminate modulo a prime"  # What is said while a matrix is eliminated

_SMALL = 48  # Matrices of at most this many rows or columns are ranked by python-flint
_NARROW = 8  # This many columns are eliminated one by one
_PANEL = 256  # Columns of a panel, which has an array of its own
_AT_ONCE = 2048  # Columns that are updated at a time
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

    Example:
        >>> factor(np.array([[0.0, 2.0, 3.0], [0.0, 4.0, 6.0]]), 1009).columns
        array([1])
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
    """Return the rank modulo a prime of a matrix of balanced residues.

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
        return int(as_flint(matrix, modulus).rank())
    return factor(matrix, modulus).rank


def solve(factors: Factors, right: Array) -> Array:
    """Return X with A[:, columns] X = B modulo p, for A of full row rank.

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
    _solve_unit_lower(factors.packed, result, modulus)
    diagonal: Array = np.diagonal(factors.packed).astype(np.float64)
    _solve_upper(factors.packed, inverse(diagonal, modulus), result, modulus)
    return result


def dependencies(factors: Factors, mixtures: Array) -> Array:
    """Express combinations of the rows beside the first `rank` ones in terms of these.

    Example:
        >>> factors = factor(np.array([[1.0, 2.0], [3.0, 6.0]]), 1009)
        >>> dependencies(factors, np.array([[1.0]]))
        array([[3.]])
    """
    rank, modulus = factors.rank, factors.modulus
    below = factors.packed[rank:].astype(np.float64, copy=False)
    right = product(mixtures, below, modulus).T.copy()
    # X L = R, where L is unit lower triangular: its transpose is upper triangular.
    _solve_upper(factors.packed[:rank].T, np.ones(rank), right, modulus)
    return right.T.copy()


def null_vectors(matrix: Array, modulus: int) -> Array:
    """Return a basis of the vectors x with A x = 0 modulo p, as columns: (d, d - rank).

    Example:
        >>> null_vectors(np.array([[1.0, 2.0]]), 7)
        array([[-2.],
               [ 1.]])
    """
    factors = factor(matrix, modulus)
    free = np.delete(np.eye(matrix.shape[1]), factors.columns, axis=1)
    return _annihilated(matrix, factors, free)


def null_vector(matrix: Array, modulus: int, rng: np.random.Generator) -> tuple[int, Array]:
    """Return the rank of A modulo p, and a random x with A x = 0: (d,).

    Example:
        >>> null_vector(np.array([[1.0, 0.0]]), 7, np.random.default_rng(0))
        (1, array([ 0., -3.]))
    """
    factors = factor(matrix, modulus)
    free = random_residues(rng, (matrix.shape[1], 1), modulus)
    return factors.rank, _annihilated(matrix, factors, free)[:, 0]


def _annihilated(matrix: Array, factors: Factors, free: Array) -> Array:
    """Return the x with A x = 0 that has the entries of (d, m) but where pivots are; used up."""
    rank, modulus = factors.rank, factors.modulus
    free[factors.columns] = 0.0
    first = Factors(modulus, np.arange(rank), factors.columns, factors.packed[:rank])
    values = product(matrix[factors.rows[:rank]], free, modulus)
    free[factors.columns] = solve(first, np.negative(values, out=values))
    return free


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
            for start in range(middle, last, _AT_ONCE):
                some = slice(start, min(start + _AT_ONCE, last))
                upper = self.work[top:bottom, some].astype(np.float64)
                _solve_unit_lower(self.work[top:bottom, pivots], upper, self.modulus)
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

    width = _PANEL

    def few(self, top: int, first: int, last: int) -> int:
        """Eliminate a panel."""
        panel = self.work[top:, first:last].astype(np.float64)
        rows, columns = (np.arange(length) for length in panel.shape)
        found = _Panel(panel, rows, columns, self.modulus).run(0, 0, len(columns))
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        if len(moved):
            self.work[top + moved] = self.work[top + rows[moved]]
            self.rows[top + moved] = self.rows[top + rows[moved]]
        self.work[top:, first:last] = panel
        if (columns[1:] < columns[:-1]).any():
            above = self.work[:top]
            above[:, first:last] = above[:, first + columns]
            self.columns[first:last] = self.columns[first + columns]
        self.report(last)
        return found


class _Panel(_Elimination):
    """A few columns in float64; `rows` and `columns` say what was moved."""

    width = _NARROW

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


def _solve_upper(upper: Array, inverses: Array, right: Array, modulus: int) -> None:
    """Solve U X = B modulo p in the array B, reading only what is above the diagonal of U.

    inverses: of the diagonal of U
    """
    size = len(right)
    if size <= 2 * _NARROW:
        upper = upper[:size, :size].astype(np.float64, copy=False)
        for i in reversed(range(size)):
            right[i] -= upper[i, i + 1 :] @ right[i + 1 :]
            reduce(right[i], modulus)
            right[i] *= inverses[i]
            reduce(right[i], modulus)
        return
    half = size // 2
    _solve_upper(upper[half:size, half:size], inverses[half:], right[half:], modulus)
    subtract_product(right[:half], upper[:half, half:size], right[half:], modulus)
    _solve_upper(upper[:half, :half], inverses[:half], right[:half], modulus)
