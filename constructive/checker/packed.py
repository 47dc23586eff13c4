"""Packed weights of decoders: each column of a matrix by a rule.

A rule has a name and a few integers. Signs that a seed gives are bits of SHAKE-256. `order` is the
place of a token among all, the largest entry of the unembedding's first column first.
"""

import hashlib
import math
import zlib

import numpy as np

from .files import parsed, require

NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
WIDEST = 26  # bits of a field
MOST = 4096  # columns of a matrix
EXACT = 1 << 24  # integers that float32 holds exactly
AT_ONCE = 1 << 16  # bits in which ends of unary numbers are looked for together
UNPACKED = 10  # bytes that a byte of bits takes


class Bits:
    """Bits in their order."""

    def __init__(self, content):
        self.left = np.unpackbits(content, bitorder="little")

    def take(self, count):
        require(0 <= count <= len(self.left), "bits of weights are cut off")
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def fields(self, count, width):
        require(0 <= width < WIDEST, "integers of weights have too many bits")
        digits, found = self.take(count * width).reshape(count, width), np.zeros(count, np.int64)
        for place in range(width):
            found += digits[:, place].astype(np.int64) << place
        return found

    def unary(self, count):
        ones, seen = np.empty(0, np.int64), 0
        while len(ones) < count and seen < len(self.left):
            more = np.flatnonzero(self.left[seen : seen + AT_ONCE]) + seen
            ones, seen = np.concatenate([ones, more]), seen + AT_ONCE
        ones = ones[:count]
        require(len(ones) == count, "bits of weights are cut off")
        self.take(int(ones[-1]) + 1)
        return np.diff(ones, prepend=-1) - 1

    def coded(self, count, width):
        """Rice's code: the low bits of all, then what is above them in unary."""
        low = self.fields(count, width)
        return low + self.unary(count).astype(np.float64) * 2.0**width


class Columns:
    """What rules know of the matrix that they make."""

    def __init__(self, bits, name, shape, seed, order):
        self.bits, self.order, (self.rows, self.count) = bits, order, shape
        self.name, self.seed, self.drawn = name, seed, None

    def signs(self, index):
        """A column of the signs that the seed gives."""
        if self.drawn is None:
            named = f"constructive signs 1 {self.name} {self.seed}".encode()
            size = self.rows * self.count
            stream = hashlib.shake_256(named).digest((size + 7) // 8)
            bits = np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little")[:size]
            self.drawn = 1 - 2 * bits.astype(np.int64).reshape(self.rows, self.count)
        return self.drawn[:, index]


def constant(columns, index, value, row=0, other=None):
    del index
    made = np.full(columns.rows, value)
    require(0 <= row < columns.rows, "a constant has another row")
    made[row] = value if other is None else other
    return made


def of_rows(columns, index, mask, scale):
    del index
    return parities(np.arange(columns.rows), mask, scale)


def of_order(columns, index, mask, scale):
    del index
    known = columns.order is not None and len(columns.order) >= columns.rows
    require(known, "there is no order of tokens")
    return parities(columns.order[: columns.rows], mask, scale)


def parities(numbers, mask, scale):
    """The scale, or minus it where an odd number of binary digits are in number and mask."""
    require(mask >= 0, "there is no such mask")
    common, odd = numbers & mask, np.zeros(len(numbers), np.int64)
    while common.any():
        odd, common = odd ^ (common & 1), common >> 1
    return np.where(odd, -scale, scale)


def by_classes(columns, index, first, step, width):
    del index
    classes = columns.bits.coded(columns.rows, width)
    made = np.empty(columns.rows)
    made[np.argsort(-classes, kind="stable")] = np.arange(columns.rows)
    return first + step * made


def parabola(columns, index, first, spacing):
    del index
    known = columns.order is not None and len(columns.order) == columns.rows
    require(known, "there is no order of tokens")
    places = float(first) - columns.order
    return 0.0 - places * places * float(spacing)  # there is one zero


def drawn(columns, index, size):
    return columns.signs(index) * size


def fields(columns, index, low, step, width):
    del index
    return low + step * columns.bits.fields(columns.rows, width)


def integers(columns, index, width):
    del index
    negative = columns.bits.take(columns.rows).astype(bool)
    sizes = columns.bits.coded(columns.rows, width)
    return np.where(negative, -sizes, sizes) + 0.0  # there is one zero


def floats(columns, index):
    del index
    bits = columns.bits.take(32 * columns.rows)
    return np.packbits(bits, bitorder="little").view("<f4")


RULES = {
    "constant": (constant, (1, 3)),
    "parity": (of_rows, (2,)),
    "order": (of_order, (2,)),
    "parabola": (parabola, (2,)),
    "drawn": (drawn, (1,)),
    "places": (by_classes, (3,)),
    "fields": (fields, (3,)),
    "integers": (integers, (1,)),
    "floats": (floats, (0,)),
}


def described(content, most):
    """What a packed file says, as JSON, which may not become too large."""
    reader = zlib.decompressobj()
    text = reader.decompress(content, int(most) // 64)
    require(reader.eof and not reader.unused_data, "what the weights say is cut off or too large")
    return parsed(text)


def shapes_of(rules):
    """Type and shape of each tensor, as they will be."""
    require(type(rules) is dict and set(rules) == set(NAMES), f"the weights are not {NAMES}")
    found = {}
    for name in NAMES:
        shape = tuple(rules[name]["shape"])
        whole = all(type(size) is int and size > 0 for size in shape)
        require(whole and len(shape) == 2 + (name in {"W_Q", "W_K"}), f"{name} has no shape")
        found[name] = np.dtype("<f4"), shape, 0
    return found


def read_packed(rules, content, seed):
    """All tensors, when their shapes are known to fit together and into memory."""
    require(type(seed) is int, "the seed is none")
    bits, order, made = Bits(content), None, {}
    heads = rules["W_Q"]["shape"][0]
    for name in (NAMES[-1], *NAMES[:-1]):
        shape = rules[name]["shape"]
        rows = heads + 1 if name == "U" else shape[0]
        require(math.prod(shape) % rows == 0, f"{name} has no columns")
        count = math.prod(shape) // rows
        runs = rules[name]["columns"]
        require(count <= MOST and all(type(run[0]) is int for run in runs), f"{name} is too wide")
        require(sum(run[0] for run in runs) == count, f"{name} has other columns")
        require(all(run[0] > 0 for run in runs), f"{name} has other columns")
        columns, array = Columns(bits, name, (rows, count), seed, order), np.empty((rows, count))
        index = 0
        for times, rule, *parameters in runs:
            require(rule in RULES, f"{rule!r} is not a rule of columns")
            make, takes = RULES[rule]
            whole = all(type(value) is int and abs(value) < 1 << 31 for value in parameters)
            require(whole and len(parameters) in takes, f"a rule of {name} is none")
            for _ in range(times):
                column = make(columns, index, *parameters)
                exact = rule == "floats" or (np.abs(column) <= EXACT).all()
                require(exact, f"{name} has integers beyond 2^24")
                array[:, index] = column
                index += 1
                if name == "unembedding" and index == 1:
                    order = columns.order = places(array[:, 0])
        tensor = array.astype(np.float32)
        require(np.isfinite(tensor).all(), f"{name} is not finite")
        made[name] = tensor.reshape(shape)
    require(len(bits.left) < 8 and not bits.left.any(), "the weights have more bits")
    return {name: made[name] for name in NAMES}


def places(values):
    """The place of each value in the descending order, the first of equal ones first."""
    found = np.empty(len(values), np.int64)
    found[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return found
