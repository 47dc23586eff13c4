"""Write a folder of files whole or not at all, and destroy nothing else on the way.

Files are written into a new folder beside the name, which gets that name at the end. An old folder
is replaced only if it holds nothing but files of the names which are written.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from constructive.support.errors import OutputError

_ANYBODY = 0o222
"""The permissions to write: of the owner, the group, and others."""


def require_folder(path: str | Path, names: Sequence[str]) -> bool:
    """Check that a folder of this name can be written; returns whether one would be replaced.

    Args:
        path: the folder
        names: the files which it will have

    Raises:
        OutputError: for a name which is a file, a link or a device, a folder with other files,
            links or write-protected files in it, and where the folder around it does not exist or
            is not writable

    Example:
        >>> require_folder("/no such folder/data", ["contexts.npy"])
        Traceback (most recent call last):
            ...
        constructive.OutputError: cannot write /no such folder/data: no such folder
          witness: /no such folder
          try: create the folder first, or another path
    """
    path = Path(path)
    real = _real(path)
    around = real.parent
    if not around.is_dir():
        how = "create the folder first, or another path"
        raise _refused(path, "no such folder", around, how)
    if not os.access(around, os.W_OK | os.X_OK):
        raise _refused(path, "the folder around it is read-only", around)
    try:
        found = real.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "it is no folder", path)
    if not found.st_mode & _ANYBODY or not os.access(path, os.W_OK | os.X_OK):
        raise _refused(path, "it is write-protected", path, f"chmod u+w {path}, or another path")
    inside = sorted(path.iterdir())
    for file in inside:
        mode = file.lstat().st_mode
        if file.name not in names or not stat.S_ISREG(mode):
            raise _refused(path, f"it holds something else, {file.name}", file)
        if not mode & _ANYBODY:
            how = f"chmod u+w {file}, or another path"
            raise _refused(path, f"{file.name} is write-protected", file, how)
    return bool(inside)


@contextmanager
def replacing_folder(path: str | Path, names: Sequence[str]) -> Iterator[Path]:
    """A new folder to write files into, which is at `path` on success, and goes on any error.

    A reader sees the old folder, none for an instant, or the new one, and never half of one.

    Args:
        path: the folder
        names: the files which will be written

    Raises:
        OutputError: as `require_folder` does, and where the disk refuses

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "data"
        >>> with replacing_folder(target, ["a.txt"]) as folder:
        ...     _ = (folder / "a.txt").write_text("all of it")
        >>> [file.name for file in target.iterdir()]
        ['a.txt']
    """
    path = Path(path)
    require_folder(path, names)
    real = _real(path)
    new = real.with_name(f".constructive-{secrets.token_hex(8)}.tmp")
    try:
        new.mkdir()
        yield new
        for file in new.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if require_folder(path, names):  # also as somebody may have come meanwhile
            _exchange(new, real)
        else:
            new.rename(real)
    except OutputError:
        raise
    except OSError as error:
        raise _refused(path, error.strerror or str(error), path) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _exchange(new: Path, path: Path) -> None:
    """Give a name to a new folder, and remove the old one of that name; it stays on any error."""
    old = new.with_suffix(".old")
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _real(path: Path) -> Path:
    """The same without links and dots, but for a link at its end."""
    if path.name in {"", ".."}:
        return path.resolve()
    return path.parent.resolve() / path.name


def _refused(
    path: Path, reason: str, witness: Path, suggestion: str = "another path"
) -> OutputError:
    return OutputError(
        f"cannot write {path}: {reason}", witness=str(witness), suggestion=suggestion
    )
