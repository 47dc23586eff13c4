"""Reading the file for Rocq back: what its integers say, and that nothing else is in it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from constructive.certificates.rocq.instance import (
    ARRAYS,
    COPIES,
    DEFINITIONS,
    HEAD,
    MANTISSA,
    SHARED,
    TAIL,
    Instance,
    write,
)
from constructive.support.arrays import Array
from constructive.support.errors import FormatError

_NUMBER = re.compile(r"(Plus|Minus) (\d+) (\d+)")
_LITERAL = re.compile(r"(\d+)(?:%N|%uint63)|\((- )?(\d+)%:Z\)%R")
_MOST_SHIFT = 1 << 12


def read(text: str) -> Instance:
    """What the text of a file is about, if `write` could have written it.

    Args:
        text: of the file

    Raises:
        FormatError: for any other text, and for numbers which are no float64

    Example:
        >>> ones = np.ones((1, 1, 1))
        >>> tiny = Instance(ones, ones[0], ones, ones, 7, 3, np.array([0]), np.array([[1]]))
        >>> read(write(tiny)).contexts.tolist()
        [[[1.0]]]
        >>> read(write(tiny).replace("= T", "= 0"))
        Traceback (most recent call last):
            ...
        constructive.FormatError: this is no file for Rocq: its beginning or its end
          witness: its beginning or its end
          try: a file as `write` writes it
    """
    if not (text.startswith(HEAD) and text.endswith(TAIL)):
        raise _wrong("its beginning or its end")
    lines = iter(text[len(HEAD) : -len(TAIL)].splitlines())
    values = {name: _value(lines, name, kind) for name, kind in DEFINITIONS.items()}
    plain = {
        name: _integer(name, values[name])
        for name, kind in DEFINITIONS.items()
        if kind in {"int63", "nat", "exponent"}
    }
    try:
        arrays = {name: _floats(name, values[name], plain[f"{name}_exponent"]) for name in ARRAYS}
        masks = np.array(_parsed("columns", values["columns"], "true|false"), dtype=bool)
        rows = _parsed("inverse", values["inverse"].removesuffix("%uint63"), r"\d+")
        inverse = np.array([[x for part in row for x in part] for row in rows], dtype=np.int64)
        instance = Instance(
            **arrays,
            prime=plain["modulus"],
            value=plain["point"],
            columns=np.flatnonzero(masks),
            inverse=inverse.T,
        )
        same = write(instance) == text
    except FormatError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise _wrong(f"its numbers ({error:.100})") from error
    if not same:  # sizes, or numbers which are written in another way
        raise _wrong("its sizes, or how its numbers are written")
    return instance


def require_same(instance: Instance, stored: Mapping[str, Array]) -> int:
    """How many numbers of a file and of the arrays are the same; all of them have to be.

    Args:
        instance: what was read back
        stored: the arrays, by the names of `Instance.arrays`

    Raises:
        FormatError: with the first number which is another one

    Example:
        >>> ones = np.ones((1, 1, 1))
        >>> tiny = Instance(ones, ones[0], ones, ones, 7, 3, np.array([0]), np.array([[1]]))
        >>> require_same(tiny, tiny.arrays)
        4
        >>> require_same(tiny, {**tiny.arrays, "queries": np.array([[0.1]])})
        Traceback (most recent call last):
            ...
        constructive.FormatError: queries[0, 0] is 1.0 in the file for Rocq, and 0.1 is stored
          witness: (0, 0)
          try: write the file anew
    """
    for name, array in stored.items():
        found = instance.arrays[name]
        if found.shape != array.shape:
            raise FormatError(
                f"{name} have shape {found.shape} in the file for Rocq, and {array.shape} stored",
                witness=found.shape,
                suggestion="write the file anew",
            )
        wrong = np.argwhere(found != array)
        if len(wrong):
            place = tuple(wrong[0].tolist())
            raise FormatError(
                f"{name}{list(place)} is {found[place]} in the file for Rocq, and {array[place]} "
                "is stored",
                witness=place,
                suggestion="write the file anew",
            )
    return sum(array.size for array in stored.values())


def _value(lines: Iterator[str], name: str, kind: str) -> str:
    line = next(lines, "")
    if name == "contexts" and line.startswith(f"Definition {SHARED} "):
        if next(lines, "") != COPIES:
            raise _wrong("the copies of the shared context")
        name, kind = SHARED, "array"
    start = f"Definition {name} : {kind} := "
    if not (line.startswith(start) and line.endswith(".")):
        raise _wrong(f"the definition of {name}")
    return line[len(start) : -1]


def _integer(name: str, value: str) -> int:
    match = _LITERAL.fullmatch(value)
    if match is None:
        raise _wrong(f"the value of {name}")
    return int(match[1] or match[3]) * (-1 if match[2] else 1)


def _parsed(name: str, value: str, entry: str) -> Any:  # noqa: ANN401 - lists in lists
    if re.sub(entry, "", value).strip("[:];"):
        raise _wrong(f"the value of {name}")
    return json.loads(value.replace("[::", "[").replace(";", ","))


def _floats(name: str, value: str, exponent: int) -> Array:
    """The floats of an array: each integer times its power of two, exactly."""
    value = value.removesuffix("%uint63")
    if _NUMBER.sub("", value).strip("[:];"):
        raise _wrong(f"the value of {name}")
    pairs = _NUMBER.sub(lambda x: f"[{'-' if x[1] == 'Minus' else ''}{x[2]},{x[3]}]", value)
    integers = np.array(_parsed(name, pairs, r"[-\d,]+"), dtype=np.int64)
    mantissas, shifts = integers[..., 0], integers[..., 1]
    if (np.abs(mantissas) > 1 << MANTISSA).any() or (shifts > _MOST_SHIFT).any():
        raise _wrong(f"a number of {name}, which is no float64")
    return np.ldexp(mantissas.astype(np.float64), shifts + exponent)


def _wrong(what: str) -> FormatError:
    return FormatError(
        f"this is no file for Rocq: {what}", witness=what, suggestion="a file as `write` writes it"
    )
