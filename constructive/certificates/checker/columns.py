"""Long numbers of many examples: Python's integers and Fractions, counted before they are computed.

Numbers are in arrays of objects, one array for each unit. They can be long, and a short file can
make them very long: so what a row of a layer will take is counted before it is computed (`Work`).
"""

import re
from fractions import Fraction
from math import lcm

import numpy as np

from files import require
from steps import silent

NUMBER = re.compile(r"(0|-?[1-9a-f][0-9a-f]*)(?:/([1-9a-f][0-9a-f]*))?", re.ASCII)
CHUNK = 1 << 10  # examples which are evaluated at a time
LONGEST = 1 << 14  # bits of a denominator; those of tokens cancel in the first layer


def number(text):
    """An integer or Fraction of text in base 16, which is written in one way only."""
    found = NUMBER.fullmatch(text)
    require(found, f"{text[:40]!r} is not a number")
    if not found[2]:
        return int(found[1], 16)
    require(4 * len(found[2]) <= LONGEST, f"the denominator of {text[:40]!r} is too long")
    numerator, denominator = int(found[1], 16), int(found[2], 16)
    fraction = Fraction(numerator, denominator)
    require(1 < denominator == fraction.denominator, f"{text[:40]!r} is not in lowest terms")
    return fraction


def whole(x):
    if type(x) is Fraction:
        require(x.denominator.bit_length() < LONGEST, "a denominator is too long to go on")
        return x.numerator if x.denominator == 1 else x
    return x


class Work:
    """What evaluation has cost and may cost: nanoseconds or so in all, and bytes at a time."""

    def __init__(self, allowed, most, tell=silent):
        self.spent, self.allowed, self.most, self.tell = 0, allowed, most, tell

    def take(self, count, factors, integers, start=0):
        """Count so many sums of products of numbers of these lengths in bits, to one of `start`."""
        each, total = 0.0, start
        for a, b in factors:
            total = max(total, a + b) + 1 if integers else total + a + b
            each += 60 + 0.15 * (a + b + total) + 1.2e-3 * (a + 30) * (b + 30)
            if not integers:  # common denominators, and lowest terms
                each += 3000 + 0.015 * (a + b + LONGEST / 16) ** 2 + 5e-3 * total * (a + b)
        self.spent += count * each + 1000 * len(factors)
        require(self.spent <= self.allowed, "long numbers would take more than a minute")

    def hold(self, size):
        if size > self.most:
            raise MemoryError("these numbers are too many, or too long, for --max-memory")


def length(x):
    """Bits of a number, of its numerator and denominator together."""
    return x.numerator.bit_length() + x.denominator.bit_length() - 1


class Column:
    """A quantity for several examples: numbers, how long they are, and whether all are integers."""

    def __init__(self, entries, integers=False):
        self.entries = entries
        self.integers = integers or Fraction not in set(map(type, entries))
        if self.integers:
            self.bits = max(int(entries.max()).bit_length(), int(entries.min()).bit_length())
        else:
            self.bits = max(map(length, entries))
        self.size = len(entries) * (self.bits // 8 + 48)

    def relu(self):
        """max(x, 0), which is no longer."""
        self.entries = np.maximum(self.entries, 0)
        return self


def affine(rows, x, count, work):
    """For each row the sum of values times the columns it names, and the bias."""
    found, held = [], sum(column.size for column in x)
    for names, values, bias in rows:
        parts = [x[name] for name in names]
        lengths = [(length(value), part.bits) for value, part in zip(values, parts, strict=True)]
        whole_numbers = all(type(v) is int for v in (*values, bias))
        whole_numbers = whole_numbers and all(part.integers for part in parts)
        work.take(count, lengths, whole_numbers, length(bias))
        longest = max(map(sum, lengths), default=0) + length(bias) + len(lengths)
        longest += 0 if whole_numbers else sum(map(sum, lengths))
        work.hold(held + 3 * count * (longest // 8 + 48))
        total = np.full(count, bias, dtype=object)
        for value, part in zip(values, parts, strict=True):
            total = total + value * part.entries
        total = total if whole_numbers else np.frompyfunc(whole, 1, 1)(total)
        found.append(Column(total, whole_numbers))
        held += found[-1].size
    return found


def common(numbers, why, work):
    """The least common denominator, which may not be too long."""
    unit = 1
    work.take(len(numbers), [(LONGEST, 0)], integers=True)
    for x in numbers:
        unit = lcm(unit, x.denominator)
        require(unit.bit_length() < LONGEST, why)
    return unit


def in_parts(function, total):
    """Ranges of examples and what a function gives for them, as many as fit at a time."""
    pending = [range(k, min(k + CHUNK, total)) for k in range(0, total, CHUNK)][::-1]
    while pending:
        part = pending.pop()
        try:
            result = function(part)
        except MemoryError:
            require(len(part) > 1, "one example takes more than --max-memory")
            half = len(part) // 2
            pending += [part[half:], part[:half]]
        else:
            yield part, result
