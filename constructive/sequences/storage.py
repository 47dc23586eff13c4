"""Exact numbers, symbols and classes as JSON values.

Numbers are text in base 16, "-1f" or "3/2", since integers get long; symbols and classes are pairs
of a kind and a value, so that 1, "1" and b"1" stay different. One value has one text, which
the reader insists on: so equal values are equal JSON, and a hash of it says what a file holds.
"""

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

from constructive.support.errors import ParameterError, with_article
from constructive.support.files import Json

Number = int | Fraction


def written(number: Number) -> str:
    """Return a number in base 16."""
    if number.denominator == 1:
        return format(int(number), "x")
    return f"{number.numerator:x}/{number.denominator:x}"


def number(text: str) -> Number:
    """Return the number that `written` wrote."""
    numerator, _, denominator = text.partition("/")
    found: Number = int(numerator, 16)
    if denominator:
        found = Fraction(int(numerator, 16), int(denominator, 16))
    if written(found) != text:
        raise ValueError(f"{text[:40]!r} is not a number as it is written here")
    return found


def encoded(value: Hashable) -> Json:
    """Return a symbol or class as a kind and a value."""
    kind = "None" if value is None else type(value).__name__
    write = _ENCODERS.get(kind)
    if write is None or (value is not None and type(value) is not _TYPES[kind]):
        raise ParameterError(
            f"a file does not hold {value!r}, which is {with_article(type(value).__name__)}",
            witness=repr(value),
            suggestion="tokens and labels of " + ", ".join(_ENCODERS),
        )
    return [kind, write(value)]


def decoded(content: Json) -> Hashable:
    """Return the value that `encoded` encoded."""
    kind, text = content
    value = _DECODERS[kind](text)
    if encoded(value) != content:
        raise ValueError(f"{str(content)[:60]} is not a value as it is written here")
    return value


_TYPES: dict[str, type] = {
    "str": str, "bytes": bytes, "bool": bool, "int": int, "float": float,
    "Fraction": Fraction, "tuple": tuple,
}  # fmt: skip
_ENCODERS: dict[str, Callable[[Any], Json]] = {
    "str": str,
    "bytes": bytes.hex,
    "bool": int,
    "int": written,
    "float": float.hex,
    "Fraction": lambda x: f"{x.numerator:x}/{x.denominator:x}",
    "None": lambda _: "",
    "tuple": lambda x: list(map(encoded, x)),
}
_DECODERS: dict[str, Callable[[Any], Hashable]] = {
    "str": str,
    "bytes": bytes.fromhex,
    "bool": bool,
    "int": number,
    "float": float.fromhex,
    "Fraction": lambda x: Fraction(*(int(part, 16) for part in x.split("/"))),
    "None": lambda _: None,
    "tuple": lambda x: tuple(map(decoded, x)),
}
