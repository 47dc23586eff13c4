"""Rules that store a number for each entry: a class, a short integer, or 32 bits."""

import numpy as np

from constructive.layers.packed.rules import BitArray, Bits, Matrix, Rule, Stored, integers_of
from constructive.support.arrays import Array, Integers

_FEW_BITS = 26  # Fields of integers have fewer


class Places(Rule):
    """Equidistant numbers for places in an order, which classes give: the largest class first.

    In a class rows keep their order. So few bits tell the places, where there are few classes.
    """

    name = "places"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Find the fewest classes."""
        numbers = integers_of(values)
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


class Fields(Rule):
    """Integers low + step n, the numbers n in fields of some bits: two integers take one bit."""

    name = "fields"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:  # noqa: ARG002
        """Store the least and the width of the fields."""
        numbers = integers_of(values)
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
        numbers = integers_of(values)
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


def _bits_of(numbers: Integers, width: int) -> BitArray:
    """Binary digits of integers, the lowest first, number after number."""
    digits = (numbers[:, np.newaxis] >> np.arange(width) & 1).astype(np.uint8)
    return digits.reshape(-1)


def _fields(bits: Bits, count: int, width: int) -> Array:
    """Read integers of so many binary digits."""
    if not 0 <= width < _FEW_BITS:
        raise ValueError("its integers have too many bits")
    digits = bits.take(count * width).reshape(count, width)
    numbers: Array = digits.astype(np.float64) @ np.exp2(np.arange(width))
    return numbers
