"""What stores a column of numbers: rules, and the bits that they read.

A rule says in a few integers, its parameters, how a column is made, and which bits it takes from
the file. `formulas` take none, `numbers` store each entry. A new rule is a class, and a line in
`registry`. The checker reads them by itself (`certificates/checker/packed.py`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.layers.packed.drawn import drawn_signs
from constructive.support.arrays import Array, Integers

BitArray = npt.NDArray[np.uint8]

LARGEST = 1 << 24  # Integers that float32 holds have at most this size


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix whose columns are stored."""

    name: str  # of the tensor
    shape: tuple[int, int]  # rows and columns
    seed: int  # of drawn signs
    # the place of each token in the order that the unembedding gives, the first one for the largest
    # entry of its first column; None where that is not known
    order: Integers | None = None

    @cached_property
    def signs(self) -> Array:
        """The signs that its name and the seed give."""
        return drawn_signs(self.name, self.seed, self.shape)


class Stored(NamedTuple):
    """What is stored of a column: parameters of its rule, and bits."""

    parameters: tuple[int, ...]
    bits: BitArray


class Bits:
    """Bits of a file, read from the first to the last."""

    def __init__(self, bits: BitArray) -> None:
        self._bits, self._at = bits, 0

    def take(self, count: int) -> BitArray:
        """Read the next ones; raises ValueError where there are fewer."""
        if count < 0 or self._at + count > len(self._bits):
            raise ValueError("its bits are cut off")
        taken = self._bits[self._at : self._at + count]
        self._at += count
        return taken

    def runs(self, count: int) -> Integers:
        """Read unary numbers: so many zeros before each of the next ones; raises as `take`."""
        ones = np.flatnonzero(self._bits[self._at :])[:count]
        if len(ones) < count:
            raise ValueError("its bits are cut off")
        self._at += int(ones[-1]) + 1 if count else 0
        return np.diff(ones, prepend=-1) - 1

    @property
    def left(self) -> int:
        """How many were not read."""
        return len(self._bits) - self._at


class Rule(ABC):
    """One way to store a column."""

    name: str  # in files
    # entries of a column that are stored, per row: 0 for a formula, else 1
    numbers: ClassVar[int] = 0

    def counted(self, rows: int) -> int:
        """Count the entries of a column of so many rows that are stored."""
        return self.numbers * rows

    @abstractmethod
    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Return what stores a column (n,) of a matrix; None where this rule does not give it."""

    @abstractmethod
    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        """Return the column, float64 (n,), from parameters and the bits of the file."""


NO_BITS = np.zeros(0, np.uint8)  # Of a formula


def integers_of(values: Array) -> Integers | None:
    """Return the integers that these (n,) are; None where some are not, or are too large.

    Example:
        >>> integers_of(np.array([1.0, -3.0])).tolist(), integers_of(np.array([0.5]))
        ([1, -3], None)
    """
    if not (np.abs(values) <= LARGEST).all():
        return None
    numbers = values.astype(np.int64)
    return numbers if (numbers == values).all() else None


def parity(numbers: Integers) -> Integers:
    """Return -1 for numbers below 2^32 with an odd number of binary digits 1, else 1.

    Example:
        >>> parity(np.array([0, 1, 2, 3])).tolist()
        [1, -1, -1, 1]
    """
    folded = numbers.copy()
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return 1 - 2 * (folded & 1)
