"""Exact numbers, symbols and networks as JSON values, and files of them.

Numbers are text in base 16, "-1f" or "3/2", since integers get long; symbols and classes are pairs
of a kind and a value, so that 1, "1" and b"1" stay different. One value has one text, which
the reader insists on: so equal values are equal JSON, and a hash of it says what a file holds.
"""

import hashlib
import json
from collections.abc import Callable, Hashable
from fractions import Fraction
from pathlib import Path
from typing import Any

from constructive.sequences.network import Network, Number, SparseMatrix
from constructive.support.errors import FormatError, ParameterError
from constructive.support.files import replacing

Json = Any
"""What the json module reads and writes."""


def written(number: Number) -> str:
    """A number in base 16.

    Args:
        number: an integer or a Fraction

    Example:
        >>> written(-31), written(Fraction(3, 16))
        ('-1f', '3/10')
    """
    if number.denominator == 1:
        return format(int(number), "x")
    return f"{number.numerator:x}/{number.denominator:x}"


def number(text: str) -> Number:
    """The number which `written` wrote.

    Args:
        text: what it wrote

    Raises:
        ValueError: for any other text

    Example:
        >>> number("3/10"), number("-1f")
        (Fraction(3, 16), -31)
    """
    numerator, _, denominator = text.partition("/")
    found: Number = int(numerator, 16)
    if denominator:
        found = Fraction(int(numerator, 16), int(denominator, 16))
    if written(found) != text:
        raise ValueError(f"{text[:40]!r} is no number as it is written here")
    return found


def encoded(value: Hashable) -> Json:
    """A symbol or class as a kind and a value.

    Args:
        value: a string, bytes, a number, None, or a tuple of these

    Raises:
        ParameterError: for kinds it does not know

    Example:
        >>> encoded(("a", b"b", 0.5, None))
        ['tuple', [['str', 'a'], ['bytes', '62'], ['float', '0x1.0000000000000p-1'], ['None', '']]]
    """
    kind = "None" if value is None else type(value).__name__
    write = _ENCODERS.get(kind)
    if write is None or (value is not None and type(value) is not _TYPES[kind]):
        raise ParameterError(
            f"a file does not hold {value!r}, which is a {type(value).__name__}",
            witness=repr(value),
            suggestion="tokens and labels of " + ", ".join(_ENCODERS),
        )
    return [kind, write(value)]


def decoded(content: Json) -> Hashable:
    """The value which `encoded` encoded.

    Args:
        content: what it returned

    Raises:
        ValueError, TypeError, KeyError: for others

    Example:
        >>> decoded(["tuple", [["str", "a"], ["int", "-1f"]]])
        ('a', -31)
    """
    kind, text = content
    value = _DECODERS[kind](text)
    if encoded(value) != content:
        raise ValueError(f"{str(content)[:60]} is no value as it is written here")
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


def network_content(network: Network) -> Json:
    """A network: for each layer its number of inputs, and rows of columns, values and a bias.

    Args:
        network: plain or residual
    """
    return {
        "residual": network.residual,
        "layers": [
            {
                "inputs": layer.width,
                "rows": [
                    [list(columns), list(map(written, values)), written(bias)]
                    for columns, values, bias in zip(
                        layer.columns, layer.values, layer.biases, strict=True
                    )
                ],
            }
            for layer in network.layers
        ],
    }


def network_from(content: Json) -> Network:
    """The network of `network_content`.

    Args:
        content: what it returned

    Raises:
        ValueError, TypeError, KeyError: for others
    """
    layers = tuple(
        SparseMatrix(
            tuple(tuple(columns) for columns, _, _ in layer["rows"]),
            tuple(tuple(map(number, values)) for _, values, _ in layer["rows"]),
            tuple(number(bias) for _, _, bias in layer["rows"]),
            layer["inputs"],
        )
        for layer in content["layers"]
    )
    found = Network(layers, content["residual"])
    found.require_consistent()
    return found


def digest(content: Json) -> str:
    """SHA-256 of JSON, however it is laid out in a file.

    Args:
        content: what the json module writes

    Example:
        >>> digest({"a": 1})[:16]
        '015abd7f5cc57a2d'
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: str | Path, content: Json) -> None:
    """Write JSON, whole or not at all; an old file of that name is replaced.

    Args:
        path: the file, .json
        content: what the json module writes

    Raises:
        OutputError: where the file cannot be written
    """
    text = json.dumps(content, separators=(",", ":"))
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def _without_duplicates(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object repeats a key")
    return found


def read_json(path: str | Path, read: Callable[[Json], Any], format_name: str, made_by: str) -> Any:  # noqa: ANN401
    """What `read` makes of a file's JSON.

    Args:
        path: the file, .json
        read: makes it of the content, and raises such as ValueError for what is none
        format_name: which the content has under "format"
        made_by: who writes such files, for messages

    Raises:
        FormatError: if it is not of that format
        OSError: if it cannot be read
    """
    content = Path(path).read_bytes()
    try:
        found = json.loads(content, object_pairs_hook=_without_duplicates)
        if found["format"] != format_name:
            raise ValueError(f"its format is {found['format']!r}, not {format_name!r}")
        return read(found)
    except (
        ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError,
        ZeroDivisionError,
    ) as error:  # fmt: skip
        raise FormatError(
            f"{path} is no file of {made_by}: {error}",
            witness=str(path),
            suggestion=f"a file written by {made_by}",
        ) from error
