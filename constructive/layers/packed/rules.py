"""Rules that store a column of numbers: by a formula, as signs, as short integers, or as they are.

A rule says in a few integers, its parameters, how a column is made, and which bits it takes from
the file. A new one is a class, and a line in `RULES`. The checker reads them by itself
(`certificates/checker/packed.py`).
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

LARGEST = 1 << 24
"""Integers that float32 holds have at most this size."""

_LARGEST_MASK = 1 << 31
_FEW_BITS = 26
"""Fields of integers have fewer."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix whose columns are stored.

    Attributes:
        name: of the tensor
        shape: rows and columns
        seed: of drawn signs
        order: the place of each token in the order that the unembedding gives, the first one for
            the largest entry of its first column; None where that is not known
    """

    name: str
    shape: tuple[int, int]
    seed: int
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
        """Read the next ones.

        Args:
            count: how many

        Raises:
            ValueError: where there are fewer
        """
        if count < 0 or self._at + count > len(self._bits):
            raise ValueError("its bits are cut off")
        taken = self._bits[self._at : self._at + count]
        self._at += count
        return taken

    def runs(self, count: int) -> Integers:
        """Read unary numbers: so many zeros before each of the next ones.

        Args:
            count: how many numbers

        Raises:
            ValueError: where there are fewer
        """
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
    """One way to store a column.

    Attributes:
        name: in files
        numbers: entries of a column that are stored, per row: 0 for a formula, else 1
    """

    name: ClassVar[str]
    numbers: ClassVar[int] = 0

    @abstractmethod
    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Return what stores a column; None where this rule does not give it.

        Args:
            values: float32 (n,)
            index: which column of the matrix
            matrix: that it is in
        """

    @abstractmethod
    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        """Return the column, float64 (n,).

        Args:
            parameters: of the rule
            bits: of the file
            index: which column of the matrix
            matrix: that it is in
        """


_NO_BITS = np.zeros(0, np.uint8)


class Constant(Rule):
    """All entries are one integer, but for at most one of them."""

    name = "constant"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Store the integer, and which row has another one."""
        numbers = _integers(values)
        if numbers is None:
            return None
        most = int(numbers[len(numbers) // 2]) if len(numbers) else 0
        others = np.flatnonzero(numbers != most)
        if len(others) > 1:
            return None
        parts = [(int(row), int(numbers[row])) for row in others]
        return Stored((most, *(number for part in parts for number in part)), _NO_BITS)

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Fill the column."""
        value, *other = parameters
        column = np.full(matrix.shape[0], float(value))
        if other:
            row, number = other
            column[row] = number
        return column


class Parity(Rule):
    """Parities of the number of a row and a mask: a, or -a where an odd number of digits agree.

    A mask with one binary digit gives this digit of the number.
    """

    name = "parity"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Read the mask at the numbers that are powers of two, and compare all others."""
        numbers = self._numbers(matrix)
        if numbers is None or not len(values):
            return None
        row_of = {number: row for row, number in enumerate(numbers.tolist())}
        places = [1 << place for place in range(int(numbers.max()).bit_length())]
        if 0 not in row_of or any(place not in row_of for place in places):
            return None
        scale = float(values[row_of[0]])
        mask = sum(place for place in places if values[row_of[place]] != scale)
        if not scale or not scale.is_integer() or abs(scale) > LARGEST:
            return None
        same = (scale * parity(numbers & mask) == values).all()
        return Stored((mask, int(scale)), _NO_BITS) if same else None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Compute the parities."""
        mask, scale = parameters
        numbers = self._numbers(matrix)
        if numbers is None or not 0 <= mask < _LARGEST_MASK:
            raise ValueError("its parities are of no numbers")
        return (scale * parity(numbers & mask)).astype(np.float64)

    def _numbers(self, matrix: Matrix) -> Integers | None:
        return np.arange(matrix.shape[0])


class OrderParity(Parity):
    """The same of the place of a token in the order that the unembedding gives."""

    name = "order"

    def _numbers(self, matrix: Matrix) -> Integers | None:
        order = matrix.order
        return None if order is None or len(order) < matrix.shape[0] else order[: matrix.shape[0]]


class Places(Rule):
    """Equidistant numbers for places in an order, which classes give: the largest class first.

    In a class rows keep their order. So few bits tell the places, where there are few classes.
    """

    name = "places"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Find the fewest classes."""
        numbers = _integers(values)
        if numbers is None or len(numbers) < 2 or len(np.unique(numbers)) < len(numbers):
            return None
        rows = np.argsort(-numbers, kind="stable")
        steps = np.diff(numbers[rows])
        if (steps != steps[0]).any():
            return None
        classes = np.empty(len(rows), np.int64)
        begins = np.append(0, np.cumsum(np.diff(rows) < 0))
        classes[rows] = begins[-1] - begins
        width, coded = _coded(classes)
        return Stored((int(numbers[rows[0]]), int(steps[0]), width), coded)

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Sort the classes."""
        first, step, width = parameters
        classes = _decoded(bits, matrix.shape[0], width)
        column = np.empty(matrix.shape[0])
        column[np.argsort(-classes, kind="stable")] = np.arange(matrix.shape[0])
        return float(first) + float(step) * column


class Parabola(Rule):
    """The entries -c^2 S for places c on a line that the order gives: c = first - order."""

    name = "parabola"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Fit the two numbers at the ends of the order."""
        numbers = _integers(values)
        if numbers is None or matrix.order is None or len(matrix.order) != len(numbers):
            return None
        in_order = np.empty_like(numbers)
        in_order[matrix.order] = numbers
        if len(in_order) < 3:
            return None
        second = int(in_order[2] - 2 * in_order[1] + in_order[0])
        slope = int(in_order[1] - in_order[0])  # -S (c - 1)^2 + S c^2 = S (2 c - 1)
        spacing, odd = divmod(-second, 2)
        if odd or not spacing or (slope // spacing + 1) % 2:
            return None
        parameters = (slope // spacing + 1) // 2, spacing
        given = self._values(parameters, matrix)
        return Stored(parameters, _NO_BITS) if (given == values).all() else None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Compute the squares."""
        if matrix.order is None:
            raise ValueError("its squares are of no numbers")
        return self._values(parameters, matrix)

    @staticmethod
    def _values(parameters: tuple[int, ...], matrix: Matrix) -> Array:
        first, spacing = parameters
        places = float(first) - np.asarray(matrix.order, dtype=np.float64)
        squares: Array = 0.0 - places * places * float(spacing)  # there is one zero
        return squares


class DrawnSigns(Rule):
    """Signs that a seed gives, times an integer."""

    name = "drawn"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Compare with the signs of the seed."""
        size = int(abs(values[0])) if len(values) else 0
        same = size and (matrix.signs[:, index] * size == values).all()
        return Stored((size,), _NO_BITS) if same else None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Draw the signs again."""
        (size,) = parameters
        return matrix.signs[:, index].astype(np.float64) * size


class Fields(Rule):
    """Integers low + step n, the numbers n in fields of some bits: two integers take one bit."""

    name = "fields"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Store the least and the width of the fields."""
        numbers = _integers(values)
        if numbers is None:
            return None
        low = int(numbers.min())
        step = int(np.gcd.reduce(numbers - low)) or 1
        fields = (numbers - low) // step
        width = int(fields.max()).bit_length()
        return Stored((low, step, width), _bits_of(fields, width))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Read the fields."""
        low, step, width = parameters
        return float(low) + float(step) * _fields(bits, matrix.shape[0], width)


class Coded(Rule):
    """Integers by Rice's code: a sign, the low bits, and what is above them in unary."""

    name = "integers"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Choose how many low bits there are."""
        numbers = _integers(values)
        if numbers is None:
            return None
        width, coded = _coded(np.abs(numbers))
        return Stored((width,), np.concatenate([(numbers < 0).astype(np.uint8), coded]))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Read signs, and sizes."""
        (width,) = parameters
        signs = bits.take(matrix.shape[0])
        sizes = _decoded(bits, matrix.shape[0], width)
        return np.where(signs, 0.0 - sizes, sizes)


class Floats(Rule):
    """Numbers of float32 as they are."""

    name = "floats"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Store 32 bits of each."""
        content = np.ascontiguousarray(values, "<f4").view(np.uint8)
        return Stored((), np.unpackbits(content, bitorder="little"))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Read 32 bits of each."""
        content = np.packbits(bits.take(32 * matrix.shape[0]), bitorder="little")
        column: Array = content.view("<f4").astype(np.float64)
        return column


FLOATS = Floats()
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Constant(),
        Parity(),
        OrderParity(),
        Parabola(),
        DrawnSigns(),
        Places(),
        Fields(),
        Coded(),
        FLOATS,
    )
}
"""All rules by name, formulas first: of two that take as many bits, the first one is taken."""


def _integers(values: Array) -> Integers | None:
    """Return the integers that these are; None where some are not, or are too large."""
    if not (np.abs(values) <= LARGEST).all():
        return None
    numbers = values.astype(np.int64)
    return numbers if (numbers == values).all() else None


def _bits_of(numbers: Integers, width: int) -> BitArray:
    """Binary digits of integers, the lowest first, number after number."""
    digits = (numbers[:, np.newaxis] >> np.arange(width) & 1).astype(np.uint8)
    return digits.reshape(-1)


def parity(numbers: Integers) -> Integers:
    """Return -1 for numbers with an odd number of binary digits 1, else 1.

    Args:
        numbers: not negative, below 2^32

    Example:
        >>> parity(np.array([0, 1, 2, 3])).tolist()
        [1, -1, -1, 1]
    """
    folded = numbers.copy()
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return 1 - 2 * (folded & 1)


def _coded(sizes: Integers) -> tuple[int, BitArray]:
    """Write integers of at least 0 by Rice's code, in the fewest bits, and how many are low."""
    taken = [int((sizes >> width).sum()) + len(sizes) * (width + 1) for width in range(_FEW_BITS)]
    width = int(np.argmin(taken))
    above = sizes >> width
    unary = np.zeros(int(above.sum()) + len(above), np.uint8)
    unary[np.cumsum(above + 1) - 1] = 1
    return width, np.concatenate([_bits_of(sizes & (1 << width) - 1, width), unary])


def _decoded(bits: Bits, count: int, width: int) -> Array:
    """Read integers by Rice's code."""
    low = _fields(bits, count, width)
    return low + np.ldexp(bits.runs(count).astype(np.float64), width)


def _fields(bits: Bits, count: int, width: int) -> Array:
    """Read integers of so many binary digits."""
    if not 0 <= width < _FEW_BITS:
        raise ValueError("its integers have too many bits")
    digits = bits.take(count * width).reshape(count, width)
    numbers: Array = digits.astype(np.float64) @ np.exp2(np.arange(width))
    return numbers
