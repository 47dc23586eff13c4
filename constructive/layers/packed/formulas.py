"""Rules that take no bits: constants, parities, squares, and signs that a seed gives."""

import numpy as np

from constructive.layers.packed.rules import (
    LARGEST,
    NO_BITS,
    Bits,
    Matrix,
    Rule,
    Stored,
    integers_of,
    parity,
)
from constructive.support.arrays import Array, Integers

_LARGEST_MASK = 1 << 31


class Constant(Rule):
    """All entries are one integer, but for at most one of them."""

    name = "constant"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Store the integer, and which row has another one."""
        numbers = integers_of(values)
        if numbers is None:
            return None
        most = int(numbers[len(numbers) // 2]) if len(numbers) else 0
        others = np.flatnonzero(numbers != most)
        if len(others) > 1:
            return None
        parts = [(int(row), int(numbers[row])) for row in others]
        return Stored((most, *(number for part in parts for number in part)), NO_BITS)

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
        return Stored((mask, int(scale)), NO_BITS) if same else None

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


class Parabola(Rule):
    """The entries -c^2 S for places c on a line that the order gives: c = first - order."""

    name = "parabola"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Fit the two numbers at the ends of the order."""
        numbers = integers_of(values)
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
        return Stored(parameters, NO_BITS) if (given == values).all() else None

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
        same = 0 < size <= LARGEST and (matrix.signs[:, index] * size == values).all()
        return Stored((size,), NO_BITS) if same else None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:  # noqa: ARG002
        """Draw the signs again."""
        (size,) = parameters
        return matrix.signs[:, index].astype(np.float64) * size + 0.0  # there is one zero
