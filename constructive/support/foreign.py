"""Errors of Python and numpy that data can cause, said in three parts."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from numpy.linalg import LinAlgError

from constructive.support.errors import ConstructiveError, OutOfMemoryError, PrecisionError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def as_ours(error: MemoryError | LinAlgError) -> ConstructiveError:
    """Return the error that says in three parts what Python and numpy say in one.

    Example:
        >>> print(as_ours(LinAlgError("SVD did not converge")))
        an algorithm of linear algebra failed on these numbers
          witness: SVD did not converge
          try: entries of data and weights that are closer to 1
    """
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
    """Let a function raise `OutOfMemoryError` and `PrecisionError` for what numpy raises.

    Example:
        >>> import numpy as np
        >>> in_three_parts(np.linalg.inv)([[0.0]])
        Traceback (most recent call last):
            ...
        constructive.PrecisionError: an algorithm of linear algebra failed on these numbers
          witness: Singular matrix
          try: entries of data and weights that are closer to 1
    """

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except (MemoryError, LinAlgError) as error:
            raise as_ours(error) from error

    return called
