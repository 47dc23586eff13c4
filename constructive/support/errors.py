"""Errors in three parts: what failed with its value, a witness, and what to try."""

from typing import Any

_LONGEST = 200  # Bits of an integer, or characters, which a message shows whole


class ConstructiveError(Exception):
    """Base of all errors raised on purpose by this package.

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
    """Return a value as a message shows it; long ones are cut.

    Example:
        >>> shown("cat"), shown(10**5000)
        ("'cat'", 'an integer of 16610 bits')
    """
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
