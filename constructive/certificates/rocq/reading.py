"""Reading the files for Rocq back: what their integers say, and that nothing else is in them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from constructive.certificates.rocq.definitions import (
    MAIN,
    MANTISSA,
    SCALARS,
    SCOPES,
    SIGNED,
    Instance,
    Stored,
    Theory,
    opening,
    write,
)
from constructive.support.arrays import Array
from constructive.support.errors import FormatError

_NUMBER = re.compile(r"(Plus|Minus) (\d+) (\d+)")
_LITERAL = re.compile(r"(\d+)(?:%N|%uint63)|\((- )?(\d+)%:Z\)%R")
_ENTRY = {
    "masks": r"true|false",
    "inverses": r"\d+",
    "numbers": r"\d+",
    **dict.fromkeys(SIGNED, r"Z0|Z(?:pos|neg) 0x[0-9a-f]+"),
}
_MOST_SHIFT = 1 << 12


def read(theory: Theory, files: Mapping[str, str]) -> Instance:
    """Return what files, by their names, are about, if `write` could have written them.

    Raises FormatError for any other text, and for numbers that are not float64.

    Example:
        >>> theory = Theory("some_theory", "some_theory", {"n": "nat"}, "Check n.")
        >>> files = write(Instance(theory, {"n": 2}))
        >>> read(theory, files).values
        {'n': 2}
        >>> read(theory, {"stored": files["stored"].replace("Check", "Print")})
        Traceback (most recent call last):
            ...
        constructive.FormatError: this is not a file for Rocq: its beginning or its end
          witness: its beginning or its end
          try: files as `write` writes them
    """
    numbers = [name for name in files if name != MAIN]
    main, start = files.get(MAIN, ""), opening(theory, numbers)
    if not (main.startswith(start) and main.endswith(theory.tail)):
        raise _wrong("its beginning or its end")
    if not all(files[name].startswith(theory.head) for name in numbers):
        raise _wrong("the beginning of a file of numbers")
    lines = iter(main[len(start) : len(main) - len(theory.tail)].splitlines())
    pieces = (line for name in numbers for line in files[name][len(theory.head) :].splitlines())
    values: dict[str, Any] = {}
    exponents: dict[str, int] = {}
    try:
        for name, kind in theory.definitions.items():
            text = _value(lines, name, kind)
            if kind in SCALARS:
                (exponents if kind == "exponent" else values)[name] = _integer(name, text)
                continue
            found = _list(name, kind, text, pieces)
            if kind in _ENTRY:
                values[name] = found
            else:
                exponent = exponents[f"{theory.shares.get(name, name)}_exponent"]
                values[name] = _floats(name, found, exponent)
        instance = Instance(theory, values)
        same = write(instance) == files
    except FormatError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError, KeyError) as error:
        raise _wrong(f"its numbers ({error!s:.100})") from error
    if not same:  # other lines, or numbers which are written in another way
        raise _wrong("other lines, or how its numbers are written")
    return instance


def require_same(instance: Instance, stored: Stored) -> int:
    """Return how many numbers of files and of arrays are the same; all of them have to be.

    Raises FormatError with the first number that is another one.

    Example:
        >>> theory = Theory("some_theory", "some_theory", {}, "")
        >>> found = Instance(theory, {"n": 1, "x": np.array([[1.0]])})
        >>> require_same(found, Stored({"x": np.array([[1.0]])}, {"n": 1}))
        1
        >>> require_same(found, Stored({"x": np.array([[0.1]])}, {"n": 1}))
        Traceback (most recent call last):
            ...
        constructive.FormatError: x[0, 0] is 1.0 in the files for Rocq, and 0.1 is stored
          witness: (0, 0)
          try: write the files anew
    """
    for name, size in stored.sizes.items():
        if instance.values[name] != size:
            raise _other(f"{name} is {instance.values[name]}", str(size), instance.values[name])
    for name, array in stored.arrays.items():
        found = np.asarray(instance.values[name])
        if found.shape != array.shape:
            raise _other(f"the shape of {name} is {found.shape}", str(array.shape), found.shape)
        wrong = np.argwhere(found != array)
        if len(wrong):
            place = tuple(wrong[0].tolist())
            raise _other(f"{name}{list(place)} is {found[place]}", str(array[place]), place)
    return sum(array.size for array in stored.arrays.values())


def _value(lines: Iterator[str], name: str, kind: str) -> str:
    line, start = next(lines, ""), f"Definition {name} : {kind} := "
    if not (line.startswith(start) and line.endswith(".")):
        raise _wrong(f"the definition of {name}")
    return line[len(start) : -1]


def _integer(name: str, value: str) -> int:
    match = _LITERAL.fullmatch(value)
    if match is None:
        raise _wrong(f"the value of {name}")
    return int(match[1] or match[3]) * (-1 if match[2] else 1)


def _list(name: str, kind: str, value: str, pieces: Iterator[str]) -> list[Any]:
    """A list, or the lists of its pieces, which are the next ones of the other files."""
    parts = value.split(" ++ ")
    if parts[0] != f"{name}_0":
        return _parsed(name, kind, value)
    return [x for part in parts for x in _parsed(part, kind, _value(pieces, part, kind))]


def _parsed(name: str, kind: str, value: str) -> list[Any]:
    """Lists in lists; a float is a pair in them."""
    value = value.removesuffix(SCOPES[kind])
    if re.sub(_ENTRY.get(kind, _NUMBER), "", value).strip("[:];"):
        raise _wrong(f"the value of {name}")
    if kind in SIGNED:
        value = re.sub(_ENTRY[kind], lambda x: f'"{x[0]}"', value)
    elif kind not in _ENTRY:
        value = _NUMBER.sub(lambda x: f"[{'-' if x[1] == 'Minus' else ''}{x[2]},{x[3]}]", value)
    found: list[Any] = json.loads(value.replace("[::", "[").replace(";", ","))
    return [_signed(row) for row in found] if kind in SIGNED else found


def _signed(text: Any) -> Any:  # noqa: ANN401 - lists in lists
    """Integers as Rocq builds them: Z0, Zpos 0x1f, Zneg 0x1f."""
    if isinstance(text, list):
        return [_signed(part) for part in text]
    kind, _, size = text.partition(" ")
    return {"Z0": 0, "Zpos": 1, "Zneg": -1}[kind] * int(size or "0", 16)


def _floats(name: str, pairs: list[Any], exponent: int) -> Array:
    """The floats of an array: each integer times its power of two, exactly."""
    integers = np.array(pairs, dtype=np.int64)
    if not integers.size:
        return np.zeros((0, 0))
    mantissas, shifts = integers[..., 0], integers[..., 1]
    if (np.abs(mantissas) > 1 << MANTISSA).any() or (shifts > _MOST_SHIFT).any():
        raise _wrong(f"a number of {name}, which is not a float64")
    return np.ldexp(mantissas.astype(np.float64), shifts + exponent)


def _wrong(what: str) -> FormatError:
    return FormatError(
        f"this is not a file for Rocq: {what}",
        witness=what,
        suggestion="files as `write` writes them",
    )


def _other(found: str, stored: str, witness: object) -> FormatError:
    return FormatError(
        f"{found} in the files for Rocq, and {stored} is stored",
        witness=witness,
        suggestion="write the files anew",
    )
