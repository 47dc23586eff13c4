"""The weights of a decoder in few bits, and the same weights again, bit for bit."""

import dataclasses
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Array, Integers
from constructive.support.errors import is_integer, shown

# Signs that a seed gives, the same ones on every machine and in every program.


def drawn_signs(name: str, seed: int, shape: tuple[int, ...]) -> Array:
    """Return signs 1 and -1 that follow from a name and a seed, as float32.

    The n-th entry, in C order, is -1 where the n-th bit of SHAKE-256 of
    "constructive signs 1 NAME SEED" is set, the lowest bit of each byte first.
    """
    count = int(np.prod(shape))
    stream = hashlib.shake_256(f"constructive signs 1 {name} {seed}".encode())
    content = np.frombuffer(stream.digest(-(-count // 8)), dtype=np.uint8)
    bits = np.unpackbits(content, count=count, bitorder="little")
    signs: Array = (1.0 - 2.0 * bits).astype(np.float32).reshape(shape)
    return signs


# What stores a column of numbers: rules, and the bits that they read.
#
# A rule says in a few integers, its parameters, how a column is made, and which bits it takes from
# the file. Formulas take none, other rules store each entry. A new rule is a class, and a line in
# `RULES`. The checker reads them by itself (`checker/packed.py`).


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

    @abstractmethod
    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Return what stores a column (n,) of a matrix; None where this rule does not give it."""

    @abstractmethod
    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        """Return the column, float64 (n,), from parameters and the bits of the file."""


NO_BITS = np.zeros(0, np.uint8)  # Of a formula


def integers_of(values: Array) -> Integers | None:
    """Return the integers that these (n,) are; None where some are not, or are too large."""
    if not (np.abs(values) <= LARGEST).all():
        return None
    numbers = values.astype(np.int64)
    return numbers if (numbers == values).all() else None


def parity(numbers: Integers) -> Integers:
    """Return -1 for numbers below 2^32 with an odd number of binary digits 1, else 1."""
    folded = numbers.copy()
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return 1 - 2 * (folded & 1)


# Rules that take no bits: constants, parities, squares, and signs that a seed gives.


_LARGEST_MASK = 1 << 31


class Constant(Rule):
    """All entries are one integer, but for at most one of them."""

    name = "constant"

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Store the integer, and which row has another one."""
        numbers = integers_of(values)
        if numbers is None:
            return None
        most = int(numbers[len(numbers) // 2])
        others = np.flatnonzero(numbers != most)
        if len(others) > 1:
            return None
        parts = [(int(row), int(numbers[row])) for row in others]
        return Stored((most, *(number for part in parts for number in part)), NO_BITS)

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
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

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Read the mask at the numbers that are powers of two, and compare all others."""
        numbers = self._numbers(matrix)
        if numbers is None:
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

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
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

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
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

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
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
        size = int(abs(values[0]))
        same = 0 < size <= LARGEST and (matrix.signs[:, index] * size == values).all()
        return Stored((size,), NO_BITS) if same else None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        (size,) = parameters
        return matrix.signs[:, index].astype(np.float64) * size + 0.0  # there is one zero


# Rules that store a number for each entry: a class, a short integer, or 32 bits.


_FEW_BITS = 26  # Fields of integers have fewer


class Places(Rule):
    """Equidistant numbers for places in an order, which classes give: the largest class first.

    In a class rows keep their order. So few bits tell the places, where there are few classes.
    """

    name = "places"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
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

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        first, step, width = parameters
        classes = _decoded(bits, matrix.shape[0], width)
        column = np.empty(matrix.shape[0])
        column[np.argsort(-classes, kind="stable")] = np.arange(matrix.shape[0])
        return float(first) + float(step) * column


class Fields(Rule):
    """Integers low + step n, the numbers n in fields of some bits: two integers take one bit."""

    name = "fields"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        numbers = integers_of(values)
        if numbers is None:
            return None
        low = int(numbers.min())
        step = int(np.gcd.reduce(numbers - low)) or 1
        fields = (numbers - low) // step
        width = int(fields.max()).bit_length()
        return Stored((low, step, width), _bits_of(fields, width))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        low, step, width = parameters
        return float(low) + float(step) * _fields(bits, matrix.shape[0], width)


class Coded(Rule):
    """Integers by Rice's code: a sign, the low bits, and what is above them in unary."""

    name = "integers"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        numbers = integers_of(values)
        if numbers is None:
            return None
        width, coded = _coded(np.abs(numbers))
        return Stored((width,), np.concatenate([(numbers < 0).astype(np.uint8), coded]))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        (width,) = parameters
        signs = bits.take(matrix.shape[0])
        sizes = _decoded(bits, matrix.shape[0], width)
        return np.where(signs, 0.0 - sizes, sizes)


class AnyFloats(Rule):
    """Numbers of float32 as they are."""

    name = "floats"
    numbers = 1

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        content = np.ascontiguousarray(values, "<f4").view(np.uint8)
        return Stored((), np.unpackbits(content, bitorder="little"))

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
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


# The rules that store columns. A new one is a class, and a line here.


FLOATS = AnyFloats()
# All rules by name, formulas first: of two that take as many bits, the first one is taken.
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

# In the order in which they are read: the unembedding gives the order of tokens.
NAMES = ("unembedding", "embedding", "positions", "W_Q", "W_K", "U")
MOST_COLUMNS = 4096  # Of a matrix; with more of them weights are not packed

# That a parameter of a rule counts for, and that it has at most, with its sign.
_PARAMETER_BITS = 32


class Packed(NamedTuple):
    """Weights in few bits."""

    # by tensor, its shape and runs of columns: how many, the rule and its parameters
    rules: dict[str, Any]
    bits: BitArray  # of all columns, one after the other
    num_stored: int  # how many numbers are stored, parameters of rules among them

    @property
    def num_bits(self) -> int:
        """The bits of all numbers that are stored; a parameter of a rule counts 32."""
        runs = (run for about in self.rules.values() for run in about["columns"])
        return len(self.bits) + _PARAMETER_BITS * sum(len(run) - 2 for run in runs)


def packable(tensors: Mapping[str, Array]) -> bool:
    """Whether weights are packed: integers, in matrices of not too many columns."""
    try:
        matrices = _matrices({name: array.shape for name, array in tensors.items()})
    except ValueError:  # the weights are not those of a decoder
        return False
    return all(
        matrices[name][1] <= MOST_COLUMNS and bool((np.rint(array) == array).all())
        for name, array in tensors.items()
    )


def pack(tensors: Mapping[str, Array], seed: int) -> Packed:
    """Store each column of each tensor by the rule that takes the fewest bits."""
    rules: dict[str, Any] = {}
    bits: list[BitArray] = []
    order, count = None, 0
    matrices = _matrices({name: array.shape for name, array in tensors.items()})
    for name in NAMES:
        array = tensors[name]
        columns = array.reshape(matrices[name])
        matrix, listed = Matrix(name, columns.shape, seed, order), []
        for index, values in enumerate(columns.T):
            key, best = min(_candidates(values, index, matrix), key=_size)
            listed.append((key, *best.parameters))
            bits.append(best.bits)
            count += RULES[key].numbers * len(values)
            if order is None:  # the first column of the unembedding gives it to all others
                order = order_of(values)
                matrix = dataclasses.replace(matrix, order=order)
        runs = [[len(list(same)), *rule] for rule, same in groupby(listed)]
        count += sum(len(run) - 2 for run in runs)
        rules[name] = {"shape": list(array.shape), "columns": runs}
    return Packed(rules, np.concatenate(bits), count)


def unpack(rules: Mapping[str, Any], bits: BitArray, seed: int) -> dict[str, Array]:
    """Read weights that `pack` stored, float32 arrays by name.

    The bits may be filled up with zeros to whole bytes. What a file says is compared with what it
    may be before an array of that size is made. Raises ValueError for rules and bits that do not
    fit together, and TypeError, KeyError and IndexError for what are not rules.
    """
    if set(rules) != set(NAMES):
        raise ValueError(f"its tensors are {shown(sorted(rules))}")
    shapes = {name: tuple(rules[name]["shape"]) for name in NAMES}
    given, order, tensors = Bits(bits), None, {}
    for name, (rows, count) in _matrices(shapes).items():
        listed = _listed(rules[name]["columns"], name, count)
        matrix, columns = Matrix(name, (rows, count), seed, order), np.empty((rows, count), "<f4")
        for index, (key, parameters) in enumerate(listed):
            rule = RULES[key]
            column = rule.read(parameters, given, index, matrix)
            if rule is not FLOATS and not (np.abs(column) <= LARGEST).all():
                raise ValueError(f"{name} has integers beyond 2^24, which float32 rounds")
            columns[:, index] = column
            if order is None:
                order = order_of(column)
                matrix = dataclasses.replace(matrix, order=order)
        tensors[name] = columns.reshape(shapes[name])
    if given.left >= 8 or given.take(given.left).any():
        raise ValueError("it has more bits than its columns")
    return tensors


def _listed(runs: list[Any], name: str, count: int) -> list[tuple[str, tuple[int, ...]]]:
    """List the rule and the parameters of each column of a tensor."""
    times = [run[0] for run in runs]
    if count > MOST_COLUMNS:
        raise ValueError(f"{name} has {shown(count)} columns, more than {MOST_COLUMNS}")
    if not all(is_integer(n) and n > 0 for n in times) or sum(times) != count:
        raise ValueError(f"its rules for {name} are not those of {count} columns")
    unknown = [run[1] for run in runs if run[1] not in RULES]
    if unknown:
        raise ValueError(f"{shown(unknown[0])} is not a rule of columns")
    parameters = [n for run in runs for n in run[2:]]
    if not all(is_integer(n) and abs(n) < 1 << _PARAMETER_BITS - 1 for n in parameters):
        raise ValueError(f"the rules for {name} have other parameters than integers of 32 bits")
    return [(run[1], tuple(run[2:])) for run in runs for _ in range(run[0])]


def order_of(values: Array) -> Integers:
    """Return the place of each value in the descending order, the first of equal ones first."""
    order = np.empty(len(values), np.int64)
    order[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return order


def _matrices(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, int]]:
    """Return rows and columns: a row for each token, position or head; U also has one for x.

    Raises ValueError for other shapes.
    """
    found = {}
    for name in NAMES:
        shape = shapes[name]
        whole = all(is_integer(size) and size > 0 for size in shape)
        if not whole or len(shape) != (3 if name in {"W_Q", "W_K"} else 2):
            raise ValueError(f"the shape of {name} is {shown(shape)}")
        rows = shapes["W_Q"][0] + 1 if name == "U" else shape[0]
        if shape[0] % rows:
            raise ValueError(f"the shape of {name} is {shown(shape)}")
        found[name] = rows, math.prod(shape) // rows
    return found


def _candidates(values: Array, index: int, matrix: Matrix) -> Iterator[tuple[str, Stored]]:
    """Yield the rules that give a column bit for bit; only one of them knows minus zero."""
    for key, rule in RULES.items():
        if rule is FLOATS or not (np.signbit(values) & (values == 0)).any():
            stored = rule.store(values, index, matrix)
            if stored is not None:
                yield key, stored


def _size(stored: tuple[str, Stored]) -> int:
    """The bits that a column takes."""
    return len(stored[1].bits) + _PARAMETER_BITS * len(stored[1].parameters)
