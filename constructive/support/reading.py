"""Read files, and say in three parts what is wrong with them."""

import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from constructive.support.arguments import as_path
from constructive.support.errors import FormatError
from constructive.support.files import KINDS

# What a reader raises for content that is spoilt.
_SPOILT = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError,
    ZeroDivisionError,
)  # fmt: skip


def regular_file(path: str | Path, suggestion: str = "the path of a file") -> Path:
    """Return the path of a regular file, also behind links; all readers of files call this.

    Raises FormatError for a folder, and for pipes and devices, whose bytes may never end; and
    OSError for a file that is not there.
    """
    found = as_path(path)
    kind = stat.S_IFMT(found.stat().st_mode)
    if kind != stat.S_IFREG:
        what = KINDS.get(kind, "something else")
        problem = f"{path} is {what}, not a regular file"
        raise FormatError(problem, witness=str(path), suggestion=suggestion)
    return found


def read_file(path: str | Path) -> bytes:
    """Read all bytes of a file. Raises as `regular_file` does, and OSError as Python does."""
    return regular_file(path).read_bytes()


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


GZIP = 16 + zlib.MAX_WBITS  # What zlib calls the header of gzip


def unpacked(content: bytes, most: int, header: int = zlib.MAX_WBITS) -> bytes:
    """Return what zlib or gzip packed; raise ValueError for what is damaged, or more than `most`.

    Example:
        >>> unpacked(zlib.compress(bytes(1 << 20)), 1 << 10)
        Traceback (most recent call last):
            ...
        ValueError: what it packs is cut off, more than 1024 bytes, or followed by something else
    """
    reader = zlib.decompressobj(header)
    try:
        made = reader.decompress(content, most + 1)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if not reader.eof or reader.unused_data or len(made) > most:
        raise ValueError(
            f"what it packs is cut off, more than {most} bytes, or followed by something else"
        )
    return made
