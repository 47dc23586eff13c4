"""What arguments have to be, whoever takes them."""

import operator

from constructive.support.errors import ParameterError


def require_positive(**counts: int) -> None:
    """Raise ParameterError, with its name, for what is not a positive integer."""
    for name, value in counts.items():
        if not _is_integer(value) or value < 1:
            message = f"{name}={value!r} is not a positive integer"
            raise ParameterError(message, witness=value, suggestion=f"{name} >= 1")


def require_seed(seed: object) -> None:
    """Raise ParameterError for what is not a non-negative integer."""
    if not _is_integer(seed) or operator.index(seed) < 0:  # type: ignore[arg-type] # just asked
        raise ParameterError(
            f"seed={seed!r} is not a non-negative integer", witness=seed, suggestion="seed=0"
        )


def _is_integer(value: object) -> bool:
    """Whether it is an integer, of Python or numpy, and no Boolean."""
    try:
        operator.index(value)  # type: ignore[arg-type] # that is the question
    except TypeError:
        return False
    return not isinstance(value, bool)
