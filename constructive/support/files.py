"""Write a file or a folder whole or not at all, and destroy nothing else on the way.

What is new is written beside its name, and takes the name when it is whole. Of a link that is the
file that it points to. Pipes and character devices get all bytes at the end. Anything else is
refused.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, NamedTuple, Self

from constructive.support.errors import FormatError, OutputError, as_path, shown

STANDARD_OUTPUT = Path("/dev/stdout")  # For every function that takes a path

# What is not a regular file, in words.
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}
_STREAMS = stat.S_IFIFO, stat.S_IFCHR
_ANYBODY = 0o222  # The permissions to write: of the owner, the group, and others


class Target(NamedTuple):
    """What a path stands for as an output."""

    path: Path  # as it was given
    name: Path  # the same behind all links
    status: os.stat_result | None  # what is there, or None

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
        """Return the error that says why nothing can be written there."""
        return _refused(self.path, reason, self.name, suggestion)

    def require_kind(self, *allowed: int) -> None:
        """Raise OutputError for what is there if it is of another kind, or protected."""
        if self.status is None:
            return
        kind = stat.S_IFMT(self.status.st_mode)
        if kind not in allowed:
            raise self.refused(f"it is {KINDS.get(kind, 'not a file')}", "the path of a file")
        where = self.path if self.is_stream else self.name  # a nameless pipe has only its path
        if not self.status.st_mode & _ANYBODY or not os.access(where, os.W_OK):
            raise _protected(self.path, self.name)


def require_writable(path: str | Path) -> Target:
    """Check that a file of this name can be written; worth a call before long work."""
    path = as_path(path)
    name = Path(os.path.realpath(path))
    target = Target(path, name, None)
    with _refusals(path, name), suppress(FileNotFoundError, NotADirectoryError):
        target = Target(path, name, path.stat())
    if target.is_standard_output:
        return target
    target.require_kind(stat.S_IFREG, *_STREAMS)
    if not target.is_stream:
        _require_around(path, name.parent, "the folder is read-only")
    return target


def same_file(first: Path, second: Path) -> bool:
    """Return whether two paths are of one file, also by a link; devices are not files."""
    try:
        one, other = first.stat(), second.stat()
    except OSError:  # one of them is not there yet
        return os.path.realpath(first) == os.path.realpath(second)
    return os.path.samestat(one, other) and not stat.S_ISCHR(one.st_mode)


def way_out(error: OSError, otherwise: str = "another path") -> str:
    """Return what to try where the system refuses: room on a full disk, else what is given."""
    full = error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
    return "free some space there, or a path on another disk" if full else otherwise


# Endings of names that promise something; any others are up to the user.
FORMATS = {
    ".csv": "a table",
    ".json": "a JSON file",
    ".npy": "an array of NumPy",
    ".npz": "an archive of NumPy",
    ".onnx": "an ONNX model",
    ".png": "a picture",
    ".pt": "a file of PyTorch",
    ".pth": "a file of PyTorch",
    ".safetensors": "a file of safetensors",
    ".svg": "a picture",
}


def wrong_ending(path: Path, *endings: str) -> OutputError:
    """Return what to say of a name whose ending is none of those that such a file has."""
    found, made = path.suffix.lower(), dict.fromkeys(FORMATS[ending] for ending in endings)
    named = f"{found} is the ending of {FORMATS.get(found, 'something else')}"
    return OutputError(
        f"cannot write {path}: {named}, and this is {' or '.join(made)}",
        witness=found,
        suggestion=" or ".join(str(path.with_suffix(ending)) for ending in endings),
    )


@contextmanager
def replacing(path: str | Path, ending: str | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file; on success it becomes the file at `path`, and goes on any error.

    OutputError for a name with an ending of another format than that, if it is given.


    A reader sees the old file or the new one, never half of one, also after an interrupt. The new
    file has the permissions of the old one. A pipe or a device gets all bytes at the end.
    """
    given = as_path(path)
    if ending is not None and given.suffix.lower() in FORMATS.keys() - {ending}:
        raise wrong_ending(given, ending)
    target = require_writable(path)
    write = _sent if target.is_stream else _beside
    with _refusals(target.path, target.name), write(target) as file:
        yield file


@contextmanager
def _beside(target: Target) -> Iterator[BinaryIO]:
    """A file in the same folder, which takes the name of the target."""
    temporary = _temporary(target.name)
    try:
        with temporary.open("xb") as file:
            if target.status is not None and hasattr(os, "fchown"):  # not on Windows
                _keep_permissions(file.fileno(), target.status)
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):  # who came meanwhile; the name had no links
            target._replace(status=target.name.lstat()).require_kind(stat.S_IFREG)
        temporary.replace(target.name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _keep_permissions(descriptor: int, old: os.stat_result) -> None:
    """Those of the old file, as far as one may give files away; before anything is written."""
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
        if target.is_standard_output:
            if sys.stdout is not None:
                sys.stdout.flush()
            descriptor = os.dup(1)
        else:
            descriptor = os.open(target.path, os.O_WRONLY)  # creates nothing, cuts nothing off
        with os.fdopen(descriptor, "wb") as stream:
            if not target._replace(status=os.fstat(descriptor)).is_stream:
                raise target.refused("it has become a file meanwhile")
            shutil.copyfileobj(file, stream)


def require_folder(path: str | Path, names: Sequence[str]) -> bool:
    """Check that a folder of this name can be written; return whether one would be replaced."""
    path = as_path(path)
    real = _real(path)
    _require_around(path, real.parent, "the folder around it is read-only")
    mode = None
    with _refusals(path, path), suppress(FileNotFoundError):  # a name may be too long
        mode = real.lstat().st_mode
    if mode is not None and not stat.S_ISDIR(mode):
        raise _refused(path, "it is not a folder", path)
    return mode is not None and bool(_require_known(path, names))


def _require_known(path: Path, names: Sequence[str]) -> list[Path]:
    """Return all that is in a folder; raise OutputError for what is protected or not of `names`."""
    files, folders = {*names}, _folders(names)
    inside: list[Path] = []
    for folder in (path, *(path / name for name in folders)):
        if folder != path and (folder.is_symlink() or not folder.is_dir()):
            continue
        if not folder.stat().st_mode & _ANYBODY or not os.access(folder, os.W_OK | os.X_OK):
            raise _protected(path, folder)
        inside += sorted(folder.iterdir())
    for file in inside:
        name, mode = file.relative_to(path).as_posix(), file.lstat().st_mode
        if not (stat.S_ISDIR(mode) if name in folders else stat.S_ISREG(mode) and name in files):
            raise _refused(path, f"it holds something else, {name}", file)
        if not mode & _ANYBODY:
            raise _protected(path, file, name)
    return inside


def _folders(names: Sequence[str]) -> list[str]:
    """Return the folders within a folder that has files of these names, outer ones first."""
    found = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents}
    return sorted(found - {"."})


@contextmanager
def replacing_folder(path: str | Path, names: Sequence[str]) -> Iterator[Path]:
    """Make a new folder to write files into; on success it is at `path`, and goes on any error.

    An old folder is replaced only if it holds nothing but files of these names. A reader sees the
    old folder, none for an instant, or the new one, and never half of one.
    """
    path = as_path(path)
    real = _real(path)
    require_folder(path, names)
    new = _temporary(real)
    old = new.with_suffix(".old")
    try:
        with _refusals(path, path):
            new.mkdir()
            for folder in _folders(names):
                (new / folder).mkdir()
            yield new
            for name in names:
                if (new / name).is_file():
                    with (new / name).open("rb") as written:
                        os.fsync(written.fileno())
            if require_folder(path, names):  # also as somebody may have come meanwhile
                real.rename(old)
            new.rename(real)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        if old.exists() and not real.exists():
            old.rename(real)
        shutil.rmtree(new, ignore_errors=True)


def _temporary(name: Path) -> Path:
    """Return a new name in the same folder."""
    return name.with_name(f".constructive-{secrets.token_hex(8)}.tmp")


def _real(path: Path) -> Path:
    """Return the same without links and dots, but for a link at its end."""
    return path.resolve() if path.name in {"", ".."} else path.parent.resolve() / path.name


def _require_around(path: Path, folder: Path, reason: str) -> None:
    """Raise OutputError if the folder in which something is written is not there, or read-only."""
    if not folder.is_dir():
        how = "create the folder first, or another path"
        raise _refused(path, "no such folder", folder, how)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(path, reason, folder)


@contextmanager
def _refusals(path: Path, witness: Path) -> Iterator[None]:
    """Say in three parts what the system refuses; that a reader has gone stays BrokenPipeError."""
    try:
        yield
    except (OutputError, BrokenPipeError):
        raise
    except OSError as error:
        raise _refused(path, error.strerror or str(error), witness, way_out(error)) from error


def _protected(path: Path, witness: Path, what: str = "it") -> OutputError:
    """Return the error for what somebody has protected on purpose, though root may write it."""
    how = f"chmod u+w {witness}, or another path"
    return _refused(path, f"{what} is write-protected", witness, how)


def _refused(
    path: Path, reason: str, witness: Path, suggestion: str = "another path"
) -> OutputError:
    return OutputError(
        f"cannot write {path}: {reason}", witness=str(witness), suggestion=suggestion
    )


# Reading.
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
    """Read a file; what its content then makes a reader raise becomes a FormatError."""
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
    """Return what zlib or gzip packed; ValueError for what is damaged, or more than `most`."""
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


# JSON files. One value has one text, so that a hash of it says what a file holds.


Json = Any  # What the json module reads and writes


def digest(content: Json) -> str:
    """Return SHA-256 of JSON, however it is laid out in a file."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class JsonFile(ABC):
    """What is kept in a JSON file, which is read again to the same content."""

    FORMAT: ClassVar[str]  # the text under "format"
    ALSO: ClassVar[str] = ""  # what writes such files beside `save`, in words

    @abstractmethod
    def content(self) -> Json:
        """Return what `save` writes."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: Json) -> Self:
        """Return what has this content; raise ValueError, TypeError or KeyError for others.

        Args:
            content: of a file of this format
        """

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all.

        Args:
            path: the file, .json; an old one of that name is replaced

        Raises:
            ParameterError: for symbols and labels that JSON cannot hold: strings, bytes, numbers,
                None and tuples of these can be held
            OutputError: where the file cannot be written
        """
        text = json.dumps(self.content(), separators=(",", ":"))
        with replacing(path) as file:
            file.write(text.encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save`.

        Args:
            path: the file, .json

        Raises:
            FormatError: if it is not one
            OSError: if it cannot be read
        """
        made_by = f"{cls.__name__}.save"
        with reading(path, f"a file of {made_by}", made_by + cls.ALSO) as text:
            content = json.loads(text, object_pairs_hook=_without_duplicates)
            if content["format"] != cls.FORMAT:
                raise ValueError(f"its format is {shown(content['format'])}, not {cls.FORMAT!r}")
            found = cls.from_content(content)
            if digest(found.content()) != digest(content):
                raise ValueError("it is not written as it should be")
            return found


def _without_duplicates(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object repeats a key")
    return found
