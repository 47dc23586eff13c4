"""Errors in three parts (what failed, a witness, what to try), and checks that raise them."""

import importlib
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.linalg import LinAlgError

_LONGEST = 200  # Bits of an integer, or characters, which a message shows whole
_LARGEST = (1 << 63) - 1  # The largest size of an array


class ConstructiveError(Exception):
    """Base of all errors raised on purpose by this package.

    Attributes:
        problem: what failed, with the value that failed
        witness: the smallest evidence (indices of examples, a shape, a name), or None
        suggestion: what to try

    Example:
        >>> raise CapacityError("9 examples do not fit", witness=9, suggestion="use 3 heads")
        Traceback (most recent call last):
            ...
        constructive.CapacityError: 9 examples do not fit
          witness: 9
          try: use 3 heads
    """

    __module__ = "constructive"  # where all of these are imported from

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:
            cls.__module__ = ConstructiveError.__module__

    def __init__(self, problem: str, *, witness: Any = None, suggestion: str) -> None:  # noqa: ANN401
        lines = [problem]
        if witness is not None:
            lines.append(f"  witness: {witness}")
        lines.append(f"  try: {suggestion}")
        super().__init__("\n".join(lines))
        self.problem = problem
        self.witness = witness
        self.suggestion = suggestion

    def __reduce__(self) -> tuple[Any, ...]:
        """Processes send errors to each other."""
        return _remade, (type(self), self.problem, self.witness, self.suggestion)


def _remade(
    kind: type[ConstructiveError], problem: str, witness: object, suggestion: str
) -> ConstructiveError:
    return kind(problem, witness=witness, suggestion=suggestion)


def with_article(name: str) -> str:
    """Return the name of a type with its article: "an AttentionLayer", "an ndarray", "a str"."""
    return f"{'an' if name[0] in 'AEIOaeio' or name == 'ndarray' else 'a'} {name}"


def shown(value: object) -> str:
    """Return a value as a message shows it; long ones are cut."""
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # of long integers in something else
        return f"{with_article(type(value).__name__)}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


class DataError(ConstructiveError, ValueError):
    """The data are not a dataset: a wrong shape or dtype, a NaN, contradictory targets."""


class ParameterError(ConstructiveError, ValueError):
    """An argument has a value that makes no sense, whatever the data are."""


class CapacityError(ConstructiveError, ValueError):
    """More examples than the theorem promises for these heads."""


class AssumptionError(ConstructiveError, ValueError):
    """The data violate an assumption of the theorem; `witness` names examples that do."""


class PrecisionError(ConstructiveError, ArithmeticError):
    """The weights exist, but not at this precision: the error is too large."""


class FormatError(ConstructiveError, ValueError):
    """A file is not what its reader expects."""


class OutputError(ConstructiveError, OSError):
    """A file cannot be written where it was asked for."""


class OutOfMemoryError(ConstructiveError, MemoryError):
    """Arrays do not fit into the memory that is free."""


class MissingExtraError(ConstructiveError, ImportError):
    """A feature needs an optional dependency that is not installed."""


# Checks of arguments.


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


# Optional dependencies.


def require(module: str, *, extra: str, purpose: str) -> Any:  # noqa: ANN401
    """Import an optional module."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"{purpose} needs {package}, which is not installed"
        raise MissingExtraError(message, witness=package, suggestion=hint(extra)) from error


def require_packages(packages: Mapping[str, str], *, purpose: str) -> None:
    """Import modules that none of our extras brings; what to install for each is its value."""
    for module, package in packages.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            absent = getattr(error, "name", None) == module.partition(".")[0]
            reason = "is not installed" if absent else f"cannot be imported: {error}"
            message = f"{purpose} needs {package}, which {reason}"
            how = f"pip install {package}" if absent else f"another version of {package}"
            raise MissingExtraError(message, witness=package, suggestion=how) from error


def hint(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install ".[{extra}]" in a checkout of constructive'


# Errors of Python and numpy that data can cause.


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def as_ours(error: MemoryError | LinAlgError) -> ConstructiveError:
    """Return the error that says in three parts what Python and numpy say in one."""
    if isinstance(error, ConstructiveError):
        return error
    witness = str(error) or None  # numpy names the array that did not fit
    if isinstance(error, MemoryError):
        return OutOfMemoryError(
            "this needs more memory than is free",
            witness=witness,
            suggestion="fewer or smaller examples, or data in a folder, whose contexts stay on "
            "disk",
        )
    return PrecisionError(
        "an algorithm of linear algebra failed on these numbers",
        witness=witness,
        suggestion="entries of data and weights that are closer to 1",
    )


def in_three_parts(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a function raise `OutOfMemoryError` and `PrecisionError` for what numpy raises."""

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            # Weights of attention vanish, also where the caller wants to hear of that.
            with np.errstate(under="ignore"):
                return function(*args, **kwargs)
        except (MemoryError, LinAlgError) as error:
            raise as_ours(error) from error

    return called
