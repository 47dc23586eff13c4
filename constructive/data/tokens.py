"""Tokens of texts: words, bytes, or the ids of any tokenizer."""

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from constructive.support.arguments import is_integer, require_known
from constructive.support.arrays import Integers
from constructive.support.errors import DataError, ParameterError, shown

Unit = Literal["words", "bytes", "ids"]
Token = str | int
Joined = str | bytes | tuple[int, ...]


def require_vocabulary(vocabulary: tuple[Token, ...], unit: str) -> None:
    """Raise ParameterError for an unknown unit, or tokens that are not all different ones of it.

    They are strings for "words", integers from 0 to 255 for "bytes", any integers for "ids".
    """
    require_known("unit", unit, get_args(Unit))
    met: set[Token] = set()
    for token in vocabulary:
        fits = isinstance(token, str) if unit == "words" else is_integer(token)
        if fits and unit == "bytes":
            fits = token in range(256)
        if not fits or token in met:
            says = "is there twice" if fits else f"is not one of {unit}"
            raise ParameterError(
                f"{shown(token)} in the vocabulary {says}",
                witness=shown(token),
                suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
            )
        met.add(token)


def split(text: Any, unit: str) -> list[Token]:  # noqa: ANN401 - what users give
    """Return the tokens of a text: a string of words, a string or bytes, or integers for "ids".

    Raises ParameterError for anything else.

    Example:
        >>> split("no, no", "words"), split("no", "bytes")
        (['no', ',', ' ', 'no'], [110, 111])
    """
    if unit == "words":
        if not isinstance(text, str):
            raise _no_text(text, "a string")
        return re.findall(r"\w+|\W", text)
    if unit == "bytes":
        content = text.encode() if isinstance(text, str) else text
        if not isinstance(content, bytes):
            raise _no_text(text, "a string or bytes")
        return list(content)
    found: list[Any] = list(text) if np.iterable(text) and not isinstance(text, str) else [None]
    for value in found:
        if not is_integer(value):
            raise _no_text(value, "a token id, an integer")
    return [int(value) for value in found]


def numbers_of(
    tokens: "str | bytes | Sequence[Token]", vocabulary: Sequence[Token], unit: str
) -> Integers:
    """Return the numbers of tokens (N,), which may be a string if they are words or bytes.

    Raises DataError for a token that is not in the vocabulary, for none, and for no sequence.

    Example:
        >>> numbers_of("no, no", ("no", ",", " "), "words").tolist()
        [0, 1, 2, 0]
    """
    listed: list[Any]
    if isinstance(tokens, str) and unit != "ids":
        listed = split(tokens, unit)
    elif isinstance(tokens, Iterable):
        listed = list(tokens)
    else:
        raise DataError(
            f"tokens are a {type(tokens).__name__}, not a sequence",
            witness=type(tokens).__name__,
            suggestion="tokens of the text that it was built for, in a list",
        )
    number = {token: index for index, token in enumerate(vocabulary)}
    unknown = [token for token in listed if not isinstance(token, Hashable) or token not in number]
    if unknown or not listed:
        raise DataError(
            f"the token {shown(unknown[0])} is not one of the {len(vocabulary)} of this decoder"
            if unknown
            else "the prompt is empty",
            witness=shown(unknown[0]) if unknown else None,
            suggestion="the first tokens of the text it was built for, one or more",
        )
    return np.array([number[token] for token in listed], dtype=np.int64)


def joined(tokens: Sequence[Token], unit: str) -> Joined:
    """Return tokens one after the other: a string of words, bytes, or a tuple of token ids.

    Example:
        >>> joined(("the", " ", "cat"), "words"), joined((97, 98), "bytes")
        ('the cat', b'ab')
    """
    if unit == "words":
        return "".join(map(str, tokens))
    numbers = tuple(int(token) for token in tokens)
    return bytes(numbers) if unit == "bytes" else numbers


def _no_text(found: object, wanted: str) -> ParameterError:
    """Return the error for what is not a text."""
    return ParameterError(
        f"{shown(found)} is not {wanted}",
        witness=type(found).__name__,
        suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
    )
