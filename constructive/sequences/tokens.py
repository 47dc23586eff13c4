"""Tokens and labels as users have them: numbered, and numbers among them exact."""

from collections.abc import Hashable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Integers
from constructive.support.errors import DataError, shown


def rectangular(sequences: Sequence[Any]) -> list[list[Any]]:
    """Return sequences as lists of one length. Raises DataError where they are not."""
    try:
        listed = [list(sequence) for sequence in sequences]
    except TypeError as error:
        raise DataError(
            f"a sequence is none: {error}", suggestion="lists of tokens, of one length"
        ) from error
    lengths = {len(sequence) for sequence in listed}
    if len(lengths) != 1 or 0 in lengths:
        lengths_seen = sorted(lengths)
        raise DataError(
            f"sequences have lengths {lengths_seen}; attention sees proportions only"
            if listed
            else "there are no sequences",
            witness=lengths_seen,
            suggestion="sequences of one length; pad them with a token of its own",
        )
    return listed


def codes(count: int) -> npt.NDArray[Any]:
    """Return the integers 0, 1, 2, ... as vectors of one entry, which stand for symbols: (V, 1)."""
    integers: npt.NDArray[Any] = np.arange(count).astype(object)[:, np.newaxis]
    return integers


def numbered(listed: list[list[Any]]) -> tuple[tuple[Hashable, ...], Integers]:
    """Return the different tokens, and the index of each (N, n).

    Example:
        >>> numbered([["a", "b"], ["b", "b"]])
        (('a', 'b'), array([[0, 1],
               [1, 1]]))
    """
    places: dict[Hashable, int] = {}
    try:
        rows = [
            [places.setdefault(_hashable(token), len(places)) for token in row] for row in listed
        ]
    except TypeError as error:
        raise DataError(
            f"a token cannot be told from others: {error}",
            suggestion="numbers, vectors of numbers, or hashable symbols",
        ) from error
    return tuple(places), np.array(rows, dtype=np.int64)


def exact_vectors(tokens: tuple[Hashable, ...]) -> npt.NDArray[Any] | None:
    """Return tokens as integers and Fractions (V, d), or None if some are not numbers.

    Example:
        >>> exact_vectors((0.5, 2))
        array([[Fraction(1, 2)],
               [2]], dtype=object)
    """
    vectors = [token if isinstance(token, tuple) else (token,) for token in tokens]
    if any(not isinstance(x, Real) for vector in vectors for x in vector):
        return None
    widths = sorted({len(vector) for vector in vectors})
    if len(widths) != 1 or 0 in widths:
        raise DataError(
            f"tokens have {widths} entries", witness=widths, suggestion="vectors of one length"
        )
    try:
        exact = [[_shortest(Fraction(x)) for x in vector] for vector in vectors]
    except (ValueError, OverflowError, TypeError) as error:
        raise DataError(
            f"a token is not a finite number: {error}",
            suggestion="finite integers, Fractions or floats of 64 bits at most",
        ) from error
    array = np.empty((len(exact), widths[0]), dtype=object)
    array[:] = exact
    return array


def known_vectors(
    tokens: tuple[Hashable, ...], symbols: tuple[Hashable, ...] | None, width: int
) -> npt.NDArray[Any]:
    """Return different tokens as a network reads them (V, d), or places of symbols (V, 1)."""
    if symbols is not None:
        known = {symbol: place for place, symbol in enumerate(symbols)}
        unknown = [token for token in tokens if token not in known]
        if unknown:
            raise DataError(
                f"unknown token {shown(unknown[0])}",
                witness=shown(unknown[0]),
                suggestion=f"one of the {len(known)} symbols that were memorized",
            )
        return np.array([[known[token]] for token in tokens], dtype=object)
    vectors = exact_vectors(tokens)
    if vectors is None or vectors.shape[1] != width:
        raise other_tokens(tokens[0], width)
    return vectors


def other_tokens(token: object, width: int) -> DataError:
    """Return the error for a token that is not a vector of so many numbers."""
    return DataError(
        f"the tokens are not vectors of {width} numbers, as those that were memorized",
        witness=shown(token),
        suggestion="tokens of the same kind",
    )


def _shortest(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _hashable(token: Any) -> Hashable:  # noqa: ANN401 - whatever users have
    if isinstance(token, np.ndarray):
        token = token.tolist()
    if isinstance(token, (list, tuple)):
        entries = tuple(map(_hashable, token))
        single = len(entries) == 1 and isinstance(entries[0], Real)
        # A vector of one number is that number.
        first: Hashable = entries[0] if single else entries
        return first
    value: Hashable = builtin(token)
    return value


def builtin(value: Any) -> Any:  # noqa: ANN401
    """Return numbers and strings of numpy as those of Python; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(builtin, value))
    kinds = np.number, np.bool_, np.str_, np.bytes_
    return value.item() if isinstance(value, kinds) else value


def flat_labels(labels: Any, shape: tuple[int, ...], *, each_token: bool) -> list[Any]:  # noqa: ANN401
    """Return the labels of sequences, or of all their tokens, one after the other.

    `shape` is that of the sequences (N, n). Raises DataError for labels that are not as many.
    """
    count, size = shape
    flat = _listed(labels)
    if each_token:
        rows = [_listed(row) for row in flat]
        wrong = [i for i, row in enumerate(rows) if len(row) != size]
        if wrong or len(rows) != count:
            raise DataError(
                f"labels do not fit {count} sequences of {size} tokens",
                witness=wrong[:1] or len(rows),
                suggestion="one label for each token",
            )
        flat = [label for row in rows for label in row]
    elif len(flat) != count:
        raise DataError(
            f"{count} sequences have {len(flat)} labels",
            witness=len(flat),
            suggestion="one label for each sequence",
        )
    return [builtin(label) for label in flat]


def _listed(labels: Any) -> list[Any]:  # noqa: ANN401
    """Return labels as a list; none of what is not a list."""
    try:
        return list(labels)
    except TypeError:
        return []


def require_equal_to_themselves(kind: str, values: tuple[Hashable, ...]) -> None:
    """Raise DataError for tokens or labels that hold a NaN, which is not equal to itself."""
    for value in values:
        if _unequal(value):
            raise DataError(
                f"a {kind} is {value}, which is not equal to itself; no finite number",
                witness=str(value),
                suggestion="a symbol such as None for what is missing",
            )


def _unequal(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, tuple):
        return any(map(_unequal, value))
    return bool(value != value)  # noqa: PLR0124 - NaN
