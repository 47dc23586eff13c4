"""Tokens of texts: words, bytes, or the ids of any tokenizer."""

from collections.abc import Sequence
from typing import Literal, get_args

from constructive.support.arguments import is_integer
from constructive.support.errors import ParameterError, shown

Unit = Literal["words", "bytes", "ids"]
Token = str | int
Joined = str | bytes | tuple[int, ...]


def require_vocabulary(vocabulary: tuple[Token, ...], unit: str) -> None:
    """Raise ParameterError for an unknown unit, or tokens that are not all different ones of it.

    Args:
        vocabulary: strings for "words", integers from 0 to 255 for "bytes", any for "ids"
        unit: what a token is
    """
    if unit not in get_args(Unit):
        raise ParameterError(
            f"unknown unit={shown(unit)}",
            witness=shown(unit),
            suggestion=" or ".join(map(repr, get_args(Unit))),
        )
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


def joined(tokens: Sequence[Token], unit: str) -> Joined:
    """Return tokens one after the other: a string of words, bytes, or a tuple of token ids.

    Args:
        tokens: of one unit
        unit: "words", "bytes" or "ids"

    Example:
        >>> joined(("the", " ", "cat"), "words"), joined((97, 98), "bytes")
        ('the cat', b'ab')
    """
    if unit == "words":
        return "".join(map(str, tokens))
    numbers = tuple(int(token) for token in tokens)
    return bytes(numbers) if unit == "bytes" else numbers


def no_text(found: object, wanted: str) -> ParameterError:
    """Return the error for what is not a text.

    Args:
        found: what was given
        wanted: what it should be
    """
    return ParameterError(
        f"{shown(found)} is not {wanted}",
        witness=type(found).__name__,
        suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
    )
