"""Argument checks shared by all public functions."""

import math
import operator
import os
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path

from constructive.support.errors import ParameterError, shown

_LARGEST = (1 << 63) - 1  # The largest size of an array


def require_positive(**counts: int) -> None:
    """Raise ParameterError, with its name, for what is not a positive integer."""
    for name, value in counts.items():
        if not is_integer(value) or value < 1:
            message = f"{name}={value!r} is not a positive integer"
            raise ParameterError(message, witness=value, suggestion=f"{name} >= 1")


def require_size(**sizes: int) -> None:
    """Raise ParameterError, with its name, for what cannot be the size of an array."""
    require_positive(**sizes)
    for name, value in sizes.items():
        if value > _LARGEST:
            raise ParameterError(
                f"{name}={shown(value)} is larger than any array",
                witness=shown(value),
                suggestion=f"{name} <= {_LARGEST}",
            )


def require_not_negative(**amounts: float) -> None:
    """Raise ParameterError, with its name, for what is not a number of 0 or more."""
    for name, value in amounts.items():
        if not (isinstance(value, Real) and value >= 0):
            message = f"{name}={value!r} is not a number of 0 or more"
            raise ParameterError(message, witness=value, suggestion=f"{name} >= 0")
        try:
            float(value)
        except OverflowError as error:
            message = f"{name}={shown(value)} is larger than any float"
            raise ParameterError(
                message, witness=shown(value), suggestion=f"{name} <= 1e308"
            ) from error


def require_pair(name: str, value: object, suggestion: str) -> None:
    """Raise ParameterError, with its name, for what is not a tuple or list of two."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ParameterError(
            f"{name}={value!r} is not a pair", witness=value, suggestion=suggestion
        )


def require_known(name: str, value: object, known: Iterable[str]) -> None:
    """Raise ParameterError, with its name, for what is none of the strings that are known.

    The nearest ones are named first.
    """
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        from difflib import get_close_matches  # noqa: PLC0415 - slow to import

        few = len(names) < 3
        listed = (" or " if few else ", ").join(map(repr, names))
        nearest = [] if few else get_close_matches(str(value), names)
        first = f"{' or '.join(map(repr, nearest))}; " if nearest else ""
        raise ParameterError(
            f"unknown {name}={shown(value)}",
            witness=shown(value),
            suggestion=listed if few else f"{first}one of {listed}",
        )


def refuse(asked: Mapping[str, object], kind: str, others: Iterable[str] = ()) -> ParameterError:
    """Return the error about what is asked of a kind that does not take it.

    asked: what that is, in words such as "window=", and its values
    kind: as users write it, such as "parameters='few'";  others: the same of kinds that do take it
    """
    words, values = " and ".join(asked), tuple(asked.values())
    return ParameterError(
        f"{kind} does not take {words}",
        witness=values[0] if len(values) == 1 else values,
        suggestion=" or ".join([*others, f"no {words}"]),
    )


def require_seed(seed: object) -> None:
    """Raise ParameterError for what is not a non-negative integer."""
    if not is_integer(seed) or operator.index(seed) < 0:  # type: ignore[arg-type] # just asked
        raise ParameterError(
            f"seed={seed!r} is not a non-negative integer", witness=seed, suggestion="seed=0"
        )


def is_integer(value: object) -> bool:
    """Return whether it is an integer, of Python or numpy, and no Boolean."""
    try:
        operator.index(value)  # type: ignore[arg-type] # that is the question
    except TypeError:
        return False
    return not isinstance(value, bool)


def as_path(path: object) -> Path:
    """Return a string, or an object of a library that stands for a path, as a `Path`.

    Raises ParameterError for anything else, and for a name that no file can have.
    """
    if isinstance(path, str | os.PathLike):
        name = os.fspath(path)
        if isinstance(name, str) and "\0" not in name:
            return Path(name)
    raise ParameterError(
        f"{shown(path)} is not the path of a file",
        witness=type(path).__name__,
        suggestion='a string such as "data.npz", or a pathlib.Path',
    )


def physical_memory() -> float:
    """Return the bytes of memory of this machine; infinity where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def require_memory(what: str, num_bytes: int, suggestion: str) -> None:
    """Raise ParameterError for arrays that are larger than the memory of this machine."""
    if num_bytes > physical_memory():
        size = f"{num_bytes // 10**9:,} GB" if num_bytes < 10**30 else "more than 10^21 GB"
        raise ParameterError(
            f"{what} of {size} do not fit into memory",
            witness=num_bytes if num_bytes < 10**30 else size,
            suggestion=suggestion,
        )
