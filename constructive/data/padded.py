"""Contexts of different lengths, in one array with the number of tokens of each.

A shorter context is filled up with copies of its own first token. So spans, units and largest
entries of the array are those of the tokens themselves, and only attention has to know the lengths:
it gives the copies no weight (`layers.attention.OfLengths`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from constructive.support.arrays import (
    AnyArray,
    Array,
    Booleans,
    Integers,
    finite_array,
    frozen,
    readable_array,
)
from constructive.support.errors import DataError

_SHAPES = "matrices (n, d), one for each example, with n >= 1 tokens of one width d"
_MASK = "a mask (T, n) of 1 for tokens and 0 for padding, for contexts (T, n, d)"


@dataclass(frozen=True, eq=False)
class Padded:
    """T contexts of different lengths. `contexts[i]` has the tokens of example i: (n_i, d).

    What takes contexts of one length only refuses it with a `DataError`.

    Attributes:
        tokens: (T, n, d), where n is the longest length; shorter contexts repeat their first token
        lengths: n_i, (T,)

    Raises:
        DataError: for lengths that are not from 1 to n for each example, or all less than n

    Example:
        >>> contexts = Padded(np.array([[[1.0], [2.0]], [[3.0], [0.0]]]), np.array([2, 1]))
        >>> contexts[1], contexts.tokens[1].tolist(), contexts.shape
        (array([[3.]]), [[3.0], [3.0]], (2, 2, 1))
    """

    tokens: Array
    lengths: Integers

    def __post_init__(self) -> None:
        tokens = finite_array("contexts", self.tokens, copy=False)
        lengths = _checked_lengths(self.lengths, tokens.shape)
        beyond = np.arange(tokens.shape[1]) >= lengths[:, np.newaxis]
        filled = np.where(beyond[..., np.newaxis], tokens[:, :1], tokens)
        object.__setattr__(self, "tokens", frozen(filled))
        object.__setattr__(self, "lengths", frozen(lengths))

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, n, d) for the longest context."""
        return self.tokens.shape

    @property
    def ndim(self) -> int:
        """The number of axes, 3."""
        return self.tokens.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.tokens.dtype

    @property
    def mask(self) -> Booleans:
        """Which entries of `tokens` count, the others only fill up: (T, n)."""
        mask: Booleans = np.arange(self.shape[1]) < self.lengths[:, np.newaxis]
        return mask

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - one context, or some
        """Return the tokens of one context for an integer, else some of the contexts."""
        if isinstance(index, int | np.integer):
            return self.tokens[index, : self.lengths[index]]
        if isinstance(index, slice | list) or getattr(index, "ndim", 0) == 1:
            lengths = self.lengths[index]
            return _shortest(self.tokens[index], lengths)
        return self._refuse()

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what arrays have: called for names that are not defined above."""
        if name.startswith("_"):  # numpy, copy and pickle ask for these
            raise AttributeError(name)
        self._refuse()

    def _refuse(self) -> NoReturn:
        least, most = int(self.lengths.min()), int(self.lengths.max())
        raise DataError(
            f"contexts have from {least} to {most} tokens, and this takes contexts of one length",
            witness=(least, most),
            suggestion="dataset.take(...) of examples of one length, or what takes lengths: "
            "build_memorizer, predict, certify and check",
        )

    def __repr__(self) -> str:
        total, size, width = self.shape
        return f"Padded(T={total}, n={self.lengths.min()} to {size}, d={width}, {self.dtype})"


Contexts = Array | Padded  # (T, n, d), one shared (n, d), or contexts of different lengths


def padded(contexts: object, mask: object) -> Contexts:
    """Read contexts with a mask of the tokens that count, as `attention_mask` of Hugging Face is.

    Tokens that do not count are dropped, wherever they are; the order of tokens does not matter to
    attention.

    Args:
        contexts: (T, n, d)
        mask: (T, n), 1 or True for tokens that count, 0 or False for padding

    Raises:
        DataError: for shapes that do not fit, a mask of other numbers, and a context without tokens
            (the witness is the example)

    Example:
        >>> contexts = padded([[[0.0], [2.0]], [[3.0], [4.0]]], mask=[[0, 1], [1, 1]])
        >>> [context.tolist() for context in contexts]
        [[[2.0]], [[3.0], [4.0]]]
    """
    tokens = finite_array("contexts", contexts, copy=False)
    counts = readable_array("the mask", mask, _MASK)
    if tokens.ndim != 3 or counts.shape != tokens.shape[:2] or not counts.size:
        raise DataError(
            f"a mask {counts.shape} does not fit contexts {tokens.shape}",
            witness=(counts.shape, tokens.shape),
            suggestion=_MASK,
        )
    if not ((counts == 0) | (counts == 1)).all():
        raise DataError("the mask has other entries than 0 and 1", suggestion=_MASK)
    order = np.argsort(counts == 0, axis=1, kind="stable")  # what counts comes first
    lengths = (counts != 0).sum(axis=1)
    return _shortest(np.take_along_axis(tokens, order[..., np.newaxis], axis=1), lengths)


def as_padded(values: object) -> object:
    """Return a list or column of matrices (n_i, d) as `Padded`, if n_i differ; else `values`.

    Raises DataError for a list of different lengths whose members are not matrices of one width.
    """
    given: Any = values
    if isinstance(given, Padded) and given.lengths.min() == given.shape[1]:
        return given.tokens
    if getattr(given, "ndim", 0) == 1 and str(given.dtype) == "object":  # a column of a table
        values = list(given)
    if not isinstance(values, list | tuple) or not _different_lengths(values):
        return given
    parts = [_matrix(index, value) for index, value in enumerate(values)]
    widths = np.array([part.shape[1] for part in parts])
    other = np.flatnonzero(widths != widths[0])
    if len(other):
        index = int(other[0])
        raise DataError(
            f"contexts[{index}] has tokens of {widths[index]} entries, and contexts[0] of "
            f"{widths[0]}",
            witness=index,
            suggestion=_SHAPES,
        )
    counts = np.array([len(part) for part in parts])
    kind = np.result_type(*{part.dtype for part in parts})
    tokens = np.zeros((len(parts), counts.max(), widths[0]), kind)
    for row, part in zip(tokens, parts, strict=True):
        row[: len(part)] = part
    return Padded(tokens, counts)


def _different_lengths(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether members have lengths, and not all the same."""
    try:
        return len({len(value) for value in values}) > 1
    except TypeError:  # numbers, which have none
        return False


def _matrix(index: int, value: object) -> AnyArray:
    """Return one context (n, d). Raises DataError."""
    part = readable_array(f"contexts[{index}]", value, _SHAPES, index)
    if part.ndim != 2 or not part.size:
        message = f"contexts[{index}] has shape {part.shape}, not (n, d)"
        raise DataError(message, witness=index, suggestion=_SHAPES)
    return part


def _shortest(tokens: Array, lengths: Integers) -> Contexts:
    """Return contexts without what none of them needs: an array if all have one length."""
    short = int(lengths.argmin())
    if lengths[short] == 0:
        message = f"the context of example {short} has no tokens"
        raise DataError(message, witness=short, suggestion="drop the example")
    kept = tokens[:, : int(lengths.max())]
    if lengths[short] == kept.shape[1]:
        return frozen(kept.copy())
    return Padded(kept, lengths)


def _checked_lengths(lengths: object, shape: tuple[int, ...]) -> Integers:
    """Return lengths that fit contexts of that shape. Raises DataError."""
    ways = "lengths (T,): integers from 1 to n, and n for the longest, for contexts (T, n, d)"
    counts = readable_array("lengths", lengths, ways)
    if len(shape) != 3 or counts.shape != shape[:1] or counts.dtype.kind not in "iu":
        raise DataError(
            f"lengths {counts.shape} of {counts.dtype} do not fit contexts {shape}",
            witness=(counts.shape, shape),
            suggestion=ways,
        )
    wrong = np.flatnonzero((counts < 1) | (counts > shape[1]))
    if len(wrong):
        first = int(wrong[0])
        message = f"lengths[{first}] is {counts[first]}, and contexts have n={shape[1]}"
        raise DataError(message, witness=first, suggestion=ways)
    if counts.max() < shape[1]:
        message = f"the longest context has {counts.max()} tokens, and contexts have n={shape[1]}"
        raise DataError(message, suggestion=f"contexts[:, :{counts.max()}]")
    return counts.astype(np.int64)
