"""Read files, and say in three parts what is wrong with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from constructive.support.arguments import as_path
from constructive.support.errors import FormatError

# What a reader raises for content that is spoilt.
_SPOILT = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError,
    ZeroDivisionError,
)  # fmt: skip


def read_file(path: str | Path) -> bytes:
    """Read all bytes of a file. Raises FormatError for a folder, and OSError as Python does."""
    try:
        return as_path(path).read_bytes()
    except IsADirectoryError as error:
        raise FormatError(
            f"{path} is a folder, not a file", witness=str(path), suggestion="the path of a file"
        ) from error


@contextmanager
def reading(path: str | Path, what: str, written_by: str) -> Iterator[bytes]:
    """Read a file; what its content then makes a reader raise becomes a FormatError.

    Example:
        >>> with reading(__file__, "a number", "print") as content:
        ...     number = int(content)
        Traceback (most recent call last):
            ...
        constructive.FormatError: ...reading.py is not a number: invalid literal ...
    """
    content = read_file(path)
    try:
        yield content
    except _SPOILT as error:
        raise FormatError(
            f"{path} is not {what}: {error}",
            witness=str(path),
            suggestion=f"a file written by {written_by}",
        ) from error
