"""Write a file whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from constructive.errors import OutputError


def require_writable(path: str | Path) -> None:
    """Check that a file of this name can be written; worth a call before long work.

    Raises OutputError if its folder does not exist or is not writable, or if it is a folder itself.

    >>> require_writable("no such folder/weights.bin")
    Traceback (most recent call last):
        ...
    constructive.errors.OutputError: cannot write no such folder/weights.bin: no such folder
      witness: no such folder
      try: create the folder first, or another path
    """
    path = Path(path)
    if path.is_dir():
        raise OutputError(
            f"cannot write {path}: it is a folder",
            witness=str(path),
            suggestion="the name of a file in it",
        )
    folder = path.parent
    if not folder.is_dir():
        raise OutputError(
            f"cannot write {path}: no such folder",
            witness=str(folder),
            suggestion="create the folder first, or another path",
        )
    if not os.access(folder, os.W_OK):
        raise OutputError(
            f"cannot write {path}: the folder is read-only",
            witness=str(folder),
            suggestion="another path",
        )


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; it takes the name on success, and goes on any error.

    A reader sees the old file or the new one, never half of one, also after an interrupt.
    Raises OutputError as `require_writable` does, and OSError where the disk refuses.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "weights.bin"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"all of it")
    >>> target.read_bytes()
    b'all of it'
    """
    path = Path(path)
    require_writable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    file = temporary.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
