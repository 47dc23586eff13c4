"""The weights of a decoder in few bits; `checker/packed.py` makes the same weights of them."""

import hashlib
import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.checker.packed import places as order_of
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


# What stores a column of numbers: rules, and the bits that they take.
#
# A rule says in a few integers, its parameters, how a column is made, and which bits it takes from
# the file. Formulas take none, other rules store each entry. A rule is a function, which returns
# None for a column that it does not give, and a line of `_candidates`; `checker/packed.py` makes
# the column again.


BitArray = npt.NDArray[np.uint8]

LARGEST = 1 << 24  # Integers that float32 holds have at most this size


class Stored(NamedTuple):
    """What is stored of a column: parameters of its rule, and bits."""

    parameters: tuple[int, ...]
    bits: BitArray = np.zeros(0, np.uint8)  # none of a formula


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


def constant(values: Array) -> Stored | None:
    """One integer, but for at most one entry, of which the row and the integer follow."""
    numbers = integers_of(values)
    if numbers is None:
        return None
    most = int(numbers[len(numbers) // 2])
    others = np.flatnonzero(numbers != most)
    if len(others) > 1:
        return None
    parts = [(int(row), int(numbers[row])) for row in others]
    return Stored((most, *(number for part in parts for number in part)))


def parities(values: Array, numbers: Integers) -> Stored | None:
    """Parities of a number of each row and a mask: a, or -a where an odd number of digits agree.

    A mask with one binary digit gives this digit of the number. It is read at the numbers that are
    powers of two, and all others are compared.
    """
    if len(numbers) < len(values):
        return None
    numbers = numbers[: len(values)]
    row_of = {number: row for row, number in enumerate(numbers.tolist())}
    places = [1 << place for place in range(int(numbers.max()).bit_length())]
    if 0 not in row_of or any(place not in row_of for place in places):
        return None
    scale = float(values[row_of[0]])
    mask = sum(place for place in places if values[row_of[place]] != scale)
    if not scale or not scale.is_integer() or abs(scale) > LARGEST:
        return None
    same = (scale * parity(numbers & mask) == values).all()
    return Stored((mask, int(scale))) if same else None


def parabola(values: Array, order: Integers) -> Stored | None:
    """The entries -c^2 S for places c on a line that the order gives: c = first - order."""
    numbers = integers_of(values)
    if numbers is None or len(order) != len(numbers) or len(numbers) < 3:
        return None
    in_order = np.empty_like(numbers)
    in_order[order] = numbers
    second = int(in_order[2] - 2 * in_order[1] + in_order[0])
    slope = int(in_order[1] - in_order[0])  # -S (c - 1)^2 + S c^2 = S (2 c - 1)
    spacing, odd = divmod(-second, 2)
    if odd or not spacing or (slope // spacing + 1) % 2:
        return None
    first = (slope // spacing + 1) // 2
    places = float(first) - order.astype(np.float64)
    same = (values == 0.0 - places * places * float(spacing)).all()
    return Stored((first, spacing)) if same else None


def drawn(values: Array, signs: Array) -> Stored | None:
    """Signs that a seed gives, times an integer."""
    size = int(abs(values[0]))
    same = 0 < size <= LARGEST and (signs * size == values).all()
    return Stored((size,)) if same else None


# Rules that store a number for each entry: a class, a short integer, or 32 bits.


_FEW_BITS = 26  # Fields of integers have fewer


def places(values: Array) -> Stored | None:
    """Equidistant numbers for places in an order, which classes give: the largest class first.

    In a class rows keep their order. So few bits tell the places, where there are few classes.
    """
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


def fields(values: Array) -> Stored | None:
    """Integers low + step n, the numbers n in fields of some bits: two integers take one bit."""
    numbers = integers_of(values)
    if numbers is None:
        return None
    low = int(numbers.min())
    step = int(np.gcd.reduce(numbers - low)) or 1
    found = (numbers - low) // step
    width = int(found.max()).bit_length()
    return Stored((low, step, width), _bits_of(found, width))


def coded(values: Array) -> Stored | None:
    """Integers by Rice's code: a sign, the low bits, and what is above them in unary."""
    numbers = integers_of(values)
    if numbers is None:
        return None
    width, bits = _coded(np.abs(numbers))
    return Stored((width,), np.concatenate([(numbers < 0).astype(np.uint8), bits]))


def floats(values: Array) -> Stored:
    """Numbers of float32 as they are."""
    content = np.ascontiguousarray(values, "<f4").view(np.uint8)
    return Stored((), np.unpackbits(content, bitorder="little"))


def _coded(sizes: Integers) -> tuple[int, BitArray]:
    """Write integers of at least 0 by Rice's code, in the fewest bits, and how many are low."""
    taken = [int((sizes >> width).sum()) + len(sizes) * (width + 1) for width in range(_FEW_BITS)]
    width = int(np.argmin(taken))
    above = sizes >> width
    unary = np.zeros(int(above.sum()) + len(above), np.uint8)
    unary[np.cumsum(above + 1) - 1] = 1
    return width, np.concatenate([_bits_of(sizes & (1 << width) - 1, width), unary])


def _bits_of(numbers: Integers, width: int) -> BitArray:
    """Binary digits of integers, the lowest first, number after number."""
    digits = (numbers[:, np.newaxis] >> np.arange(width) & 1).astype(np.uint8)
    return digits.reshape(-1)


# All weights.


_ENTRIES = "places", "fields", "integers", "floats"  # Rules that store each entry
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
    order, count = np.zeros(0, np.int64), 0
    matrices = _matrices({name: array.shape for name, array in tensors.items()})
    for name in NAMES:
        array = tensors[name]
        columns = array.reshape(matrices[name])
        signs, listed = drawn_signs(name, seed, columns.shape), []
        for index, values in enumerate(columns.T):
            found = _candidates(values, signs[:, index], order)
            key, best = min(found, key=_size)
            listed.append((key, *best.parameters))
            bits.append(best.bits)
            count += len(values) * (key in _ENTRIES)
            if not len(order):  # the first column of the unembedding gives it to all others
                order = order_of(values)
        runs = [[len(list(same)), *rule] for rule, same in groupby(listed)]
        count += sum(len(run) - 2 for run in runs)
        rules[name] = {"shape": list(array.shape), "columns": runs}
    return Packed(rules, np.concatenate(bits), count)


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


def _candidates(values: Array, signs: Array, order: Integers) -> list[tuple[str, Stored]]:
    """Return the rules that give a column bit for bit, formulas first, and what they store.

    signs: what the seed gives for the column
    order: the place of each token in the order that the unembedding gives, the first one for the
        largest entry of its first column; empty where that is not known
    """
    found: dict[str, Stored | None] = {}
    if not (np.signbit(values) & (values == 0)).any():  # only floats know minus zero
        found = {
            "constant": constant(values),
            "parity": parities(values, np.arange(len(values))),
            "order": parities(values, order),
            "parabola": parabola(values, order),
            "drawn": drawn(values, signs),
            "places": places(values),
            "fields": fields(values),
            "integers": coded(values),
        }
    found["floats"] = floats(values)
    return [(name, stored) for name, stored in found.items() if stored is not None]


def _size(stored: tuple[str, Stored]) -> int:
    """The bits that a column takes."""
    return len(stored[1].bits) + _PARAMETER_BITS * len(stored[1].parameters)
