"""Write a file whole or not at all, and destroy nothing else on the way.

A regular file gives its name to a new one, which was written beside it; of a link that is the file
which it points to. Pipes and character devices are written to. Anything else is refused.
"""

import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from constructive.support.errors import OutputError

STANDARD_OUTPUT = Path("/dev/stdout")
"""For whoever takes a path."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}
_STREAMS = (stat.S_IFIFO, stat.S_IFCHR)
_ANYBODY = 0o222
"""The permissions to write: of the owner, the group, and others."""


@dataclass(frozen=True)
class Target:
    """What a path stands for as an output.

    Attributes:
        path: as it was given
        name: the same behind all links
        status: what is there, or None
    """

    path: Path
    name: Path
    status: os.stat_result | None

    @property
    def is_standard_output(self) -> bool:
        """Whether it is what this process prints to, by whatever name."""
        if self.status is None or sys.__stdout__ is None:  # closed, its number given to another
            return False
        try:
            return os.path.samestat(self.status, os.fstat(1))
        except OSError:
            return False

    @property
    def is_stream(self) -> bool:
        """Whether bytes are sent to it, and nothing is replaced."""
        kind = None if self.status is None else stat.S_IFMT(self.status.st_mode)
        return kind in _STREAMS or self.is_standard_output

    @property
    def is_old_file(self) -> bool:
        """Whether it is a file already, which would be replaced."""
        return self.status is not None and not self.is_stream

    def refused(self, reason: str, suggestion: str = "another path") -> OutputError:
        """The error which says why nothing can be written there."""
        return OutputError(
            f"cannot write {self.path}: {reason}", witness=str(self.name), suggestion=suggestion
        )


def require_writable(path: str | Path) -> Target:
    """Check that a file of this name can be written; worth a call before long work.

    Raises:
        OutputError: if its folder does not exist or is not writable, for a file which is
            write-protected (for root, too), and for a folder, a block device, a socket or a loop
            of links

    Example:
        >>> require_writable("/no such folder/weights.bin")
        Traceback (most recent call last):
            ...
        constructive.OutputError: cannot write /no such folder/weights.bin: no such folder
          witness: /no such folder
          try: create the folder first, or another path
    """
    path = Path(path)
    target = Target(path, Path(os.path.realpath(path)), None)
    try:
        target = Target(path, target.name, path.stat())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a loop of links, or a folder which may not be entered
        raise target.refused(f"{error.strerror}") from error
    if target.is_standard_output:
        return target
    _require_kind(target, stat.S_IFREG, *_STREAMS)
    if target.is_stream:
        return target
    folder = Target(path, target.name.parent, None)
    if not folder.name.is_dir():
        raise folder.refused("no such folder", "create the folder first, or another path")
    if not os.access(folder.name, os.W_OK | os.X_OK):
        raise folder.refused("the folder is read-only")
    return target


def _require_kind(target: Target, *allowed: int) -> None:
    """Raise OutputError for what is there if it is of another kind, or protected."""
    if target.status is None:
        return
    mode = target.status.st_mode
    if stat.S_IFMT(mode) not in allowed:
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise target.refused(f"it is {kind}", "the path of a file")
    # Root may write what nobody may write; but somebody has protected it on purpose.
    where = target.path if target.is_stream else target.name  # a nameless pipe has but its path
    if not mode & _ANYBODY or not os.access(where, os.W_OK):
        raise target.refused("it is write-protected", f"chmod u+w {target.name}, or another path")


def same_file(first: Path, second: Path) -> bool:
    """Whether two paths are of one file, by a link also; devices keep nothing, and are no files.

    Example:
        >>> same_file(Path("weights.bin"), Path("folder/../weights.bin"))
        True
    """
    try:
        found = first.stat(), second.stat()
    except OSError:  # one of them is not there yet
        return os.path.realpath(first) == os.path.realpath(second)
    return os.path.samestat(*found) and not stat.S_ISCHR(found[0].st_mode)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file; on success it becomes the file at `path`, and goes on any error.

    A reader sees the old file or the new one, never half of one, also after an interrupt. The new
    file has the permissions of the old one. A pipe or a device gets all bytes at the end.

    Raises:
        OutputError: as `require_writable` does, and where the disk refuses
        BrokenPipeError: if nobody reads a pipe

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "weights.bin"
        >>> with replacing(target) as file:
        ...     _ = file.write(b"all of it")
        >>> target.read_bytes()
        b'all of it'
    """
    target = require_writable(path)
    write = _sent if target.is_stream else _beside
    try:
        with write(target) as file:
            yield file
    except (OutputError, BrokenPipeError):
        raise
    except OSError as error:
        raise target.refused(error.strerror or str(error), way_out(error)) from error


def way_out(error: OSError, otherwise: str = "another path") -> str:
    """What to try where the system refuses: room for a full disk, and else what is said.

    Example:
        >>> way_out(OSError(errno.ENOSPC, "No space left on device"))
        'free some space there, or a path on another disk'
    """
    full = error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
    return "free some space there, or a path on another disk" if full else otherwise


@contextmanager
def _beside(target: Target) -> Iterator[BinaryIO]:
    """A file in the same folder, which takes the name of the target."""
    temporary = target.name.with_name(f".constructive-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            if target.status is not None:
                _keep_permissions(file.fileno(), target.status)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _require_kind(_now(target), stat.S_IFREG)
        temporary.replace(target.name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _now(target: Target) -> Target:
    """What is there by now, without following links: the name had none when it was looked up."""
    status = None
    with suppress(FileNotFoundError):
        status = target.name.lstat()
    return Target(target.path, target.name, status)


def _keep_permissions(descriptor: int, old: os.stat_result) -> None:
    """Those of the old file, as far as one may give files away; before anything is written."""
    if not hasattr(os, "fchown"):  # on Windows
        return
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with suppress(PermissionError):
            os.fchown(descriptor, owner, group)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


@contextmanager
def _sent(target: Target) -> Iterator[BinaryIO]:
    """A file nobody sees, whose bytes go to a pipe or a device; only then is that opened."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with os.fdopen(_opened(target), "wb") as stream:
            shutil.copyfileobj(file, stream)


def _opened(target: Target) -> int:
    """A descriptor of a pipe or a device, or of standard output as it stands."""
    if target.is_standard_output:
        if sys.stdout is not None:
            sys.stdout.flush()
        return os.dup(1)
    descriptor = os.open(target.path, os.O_WRONLY)  # this creates nothing and cuts nothing off
    found = Target(target.path, target.name, os.fstat(descriptor))
    if not found.is_stream:
        os.close(descriptor)
        raise found.refused("it has become a file meanwhile")
    return descriptor
