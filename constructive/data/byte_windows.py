"""Text as sequences: lines, or windows of bytes, whose tokens are (position, byte).

With positions in the tokens a multiset is a sequence: attention that does not see the order can
still tell "ab" from "ba". Short lines are filled up with the byte -1.
"""

from dataclasses import dataclass

import numpy as np

from constructive.support.arrays import Integers
from constructive.support.errors import DataError

_END = -1
_WIDEST = 1 << 12  # The longest window that is tried


@dataclass(frozen=True, eq=False)
class TextExamples:
    """Sequences of a text, with their labels."""

    tokens: Integers  # (N, n, 2), position and byte
    # of each sequence, the number of the line, from 1, or the next byte
    labels: list[int] | list[bytes]

    def first(self, total: int) -> "TextExamples":
        """Return the first sequences."""
        return TextExamples(self.tokens[:total], self.labels[:total])


def encode(text: bytes, size: int) -> Integers:
    """Return a text as one sequence of tokens (n, 2), filled up with -1.

    Example:
        >>> encode(b"ab", 3).tolist()
        [[0, 97], [1, 98], [2, -1]]
    """
    if len(text) > size:
        raise DataError(
            f"{len(text)} bytes are more than n={size}",
            witness=len(text),
            suggestion=f"at most {size} bytes",
        )
    values = np.full(size, _END, dtype=np.int64)
    values[: len(text)] = np.frombuffer(text, dtype=np.uint8)
    return np.stack([np.arange(size), values], axis=1)


def lines(text: bytes) -> TextExamples:
    r"""Pose the question which line this is: each different line, and its first number from 1.

    Args:
        text: lines with any usual ends; n is the length of the longest

    Raises:
        DataError: for a text without lines

    Example:
        >>> lines(b"a rose\nis\na rose\n").labels
        [1, 2]
    """
    numbers: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        numbers.setdefault(line, number)
    size = max(map(len, numbers), default=0)
    if not size:
        raise DataError("the text has no lines", witness=len(text), suggestion="a longer text")
    tokens = np.stack([encode(line, size) for line in numbers])
    return TextExamples(tokens, list(numbers.values()))


def windows(text: bytes, size: int | None = None) -> TextExamples:
    """Pose the question what comes next: each different window of n bytes, and the next byte.

    Args:
        text: two bytes or more
        size: n; by default the smallest that decides the next byte everywhere

    Raises:
        DataError: for a text that is too short, a size that is not a length of its windows, and
            windows that two bytes follow

    Example:
        >>> found = windows(b"the cat sat on the mat")
        >>> found.tokens.shape[1], b"".join(found.labels)
        (5, b'at sat on the mat')
    """
    if size is None:
        size = _deciding(text)
    elif not 0 < size < len(text):
        raise DataError(
            f"n={size} is not a length of windows of {len(text)} bytes",
            witness=size,
            suggestion=f"n from 1 to {len(text) - 1}",
        )
    known: dict[bytes, bytes] = {}
    for place in range(len(text) - size):
        following = text[place + size : place + size + 1]
        first = known.setdefault(text[place : place + size], following)
        if first != following:
            window = text[place : place + size]
            raise DataError(
                f"{window!r} is followed by {first!r}, and at byte {place + size} by {following!r}",
                witness=place + size,
                suggestion="longer windows, or none given, for the shortest that will do",
            )
    tokens = np.stack([encode(window, size) for window in known])
    return TextExamples(tokens, list(known.values()))


def _deciding(text: bytes) -> int:
    """Return the smallest n such that n bytes decide what follows, everywhere in the text.

    What n bytes decide n + 1 bytes decide as well, so it is found by halving.
    """
    few = 2
    if len(text) < few:
        raise DataError(
            f"a text of {len(text)} bytes has no next byte",
            witness=len(text),
            suggestion="a longer text",
        )
    low, high = 1, min(len(text) - 1, _WIDEST)
    if not _decides(text, high):
        raise DataError(
            f"{high} bytes do not decide the next one everywhere",
            witness=high,
            suggestion="a text that repeats itself less",
        )
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(text, middle) else (middle + 1, high)
    return low


def _decides(text: bytes, size: int) -> bool:
    known: dict[bytes, int] = {}
    places = range(len(text) - size)
    return all(
        known.setdefault(text[i : i + size], text[i + size]) == text[i + size] for i in places
    )
