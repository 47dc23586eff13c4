"""Errors in three parts: what failed with its value, a witness, and what to try."""

import importlib
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.linalg import LinAlgError

_LONGEST = 200  # Bits of an integer, or characters, which a message shows whole


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


def shown(value: object) -> str:
    """Return a value as a message shows it; long ones are cut."""
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # of long integers in something else
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


class DataError(ConstructiveError, ValueError):
    """The data are not a data set: a wrong shape or dtype, a NaN, contradictory targets."""


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
