"""Write a file whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; it takes the name on success, and goes on any error.

    A reader sees the old file or the new one, never half of one, also after an interrupt.
    Raises OSError where the folder cannot be written.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "weights.bin"
    >>> with replacing(target) as file:
    ...     _ = file.write(b"all of it")
    >>> target.read_bytes()
    b'all of it'
    """
    path = Path(path)
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
