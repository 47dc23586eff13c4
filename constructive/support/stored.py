"""Arrays in files: rows of .npy when they are needed, .safetensors, and their SHA-256.

Blocks are mapped, as that copies nothing. A mapping lives as long as the block, so that a process
does not count more pages of the file as its memory than it works on. Rows here and there are read
one by one, as a mapping would bring in the pages around each of them.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as deserialize
from safetensors.numpy import save

from constructive.support.arrays import Array, row_chunks
from constructive.support.errors import FormatError
from constructive.support.files import reading, regular_file

BLOCK_BYTES = 16 << 20  # Size of the blocks in which a whole array is read

# What tells whether a file is still the one that was opened.
_KEPT = "device", "inode", "size", "time of the last change"

_WRITE_ANEW = "write it anew with numpy.save, or Dataset.save_folder"


@dataclass(frozen=True)
class StoredArray:
    """An array of float32 or float64 in a .npy file.

    Whenever it is read, the file has to be the one that was opened: its inode, size and time of
    change are compared. This does not see a program that changes bytes and sets that time back, nor
    one that writes through a mapping of the file, which need not change its time at once. A file
    that is cut off while its rows are in use ends the process, as it does for every mapping.
    """

    path: Path  # the file
    dtype: np.dtype[Any]  # as it is stored
    shape: tuple[int, ...]  # (T, ...), of one axis at least
    start: int  # bytes before the first entry
    identity: tuple[int, ...]  # device, inode, size and time of the last change

    @classmethod
    def at(cls, path: str | Path) -> "StoredArray":
        """Read the header of a file, and compare its size with that."""
        path = Path(path).absolute()

        def refuse(problem: str, witness: object, suggestion: str = _WRITE_ANEW) -> FormatError:
            return FormatError(f"{path} {problem}", witness=witness, suggestion=suggestion)

        with regular_file(path).open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                if version != (1, 0):
                    raise ValueError(f"its header is of version {version}, not (1, 0)")
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            except Exception as error:  # readers of npy raise nearly everything
                raise refuse(f"is not a .npy file: {error}", str(path)) from error
            start, identity = file.tell(), _identity(os.fstat(file.fileno()))
        if fortran and len(shape) > 1:
            how = "numpy.save(path, numpy.ascontiguousarray(array))"
            raise refuse("is stored by columns, not by rows", "fortran_order", how)
        if dtype.str not in ("<f4", "<f8"):
            problem = f"has dtype {dtype}; contexts on disk have to be float32 or float64"
            raise refuse(problem, str(dtype), "numpy.save(path, array.astype(numpy.float32))")
        size, whole = identity[2], start + math.prod(shape) * dtype.itemsize
        if size != whole:
            cut = "is cut off" if size < whole else "has more bytes than its header says"
            raise refuse(f"{cut}: {size} bytes, and {whole} by its header", (size, whole))
        return cls(path, dtype, shape, start, identity)

    def mapped(self) -> npt.NDArray[Any]:
        """Map the whole array, read-only: (T, ...). Memory is taken by the rows that are read."""
        with self._opened() as file:
            # A plain array, as what is computed from a mapped one should be in memory.
            return np.asarray(np.memmap(file, self.dtype, "r", self.start, self.shape))

    def rows(self, index: slice | npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Read some rows, (k, ...), by a slice, integers from -T to T - 1, or T Booleans.

        Raises FormatError as `mapped` does, and IndexError for rows that are not there.
        """
        if isinstance(index, slice) or not _one_by_one(index, self.shape[0]):
            return self.mapped()[index]
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        rooms = out.reshape(len(index), -1).view(np.uint8)
        places = self.start + rooms.shape[1] * index.astype(np.int64)
        with self._opened() as file:
            for room, place in zip(rooms, places.tolist(), strict=True):
                if os.preadv(file.fileno(), [room.data], place) < len(room):
                    raise self.changed("it ends too early")
        return out

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Walk through all rows, some at a time: yield which rows, and these."""
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        for rows in row_chunks(self.shape[0], row_bytes, block_bytes):
            yield rows, self.rows(rows)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, if it is still the same; opened anew, as threads share no place in it."""
        try:
            file = self.path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise self.changed("it is gone") from error
        with file:
            found = _identity(os.fstat(file.fileno()))
            for name, old, new in zip(_KEPT, self.identity, found, strict=True):
                if old != new:
                    raise self.changed(f"its {name}")
            yield file

    def changed(self, what: str) -> FormatError:
        """Return the error for a file that is not as it was; `what` of it has changed."""
        return FormatError(
            f"{self.path} has changed since it was opened: {what}",
            witness=str(self.path),
            suggestion="open it again when no other program writes to it",
        )


def _one_by_one(index: npt.NDArray[Any], total: int) -> bool:
    """Return whether rows can be read by their places in the file; numpy does the rest."""
    integers = index.dtype.kind in "iu" and index.ndim == 1 and index.size > 0
    inside = integers and int(index.min()) >= 0 and int(index.max()) < total
    return inside and hasattr(os, "preadv")  # which Windows does not have


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# The SHA-256 of arrays, as certificates have it.


class Fingerprint:
    """SHA-256 of arrays: of each its name, dtype and shape as a line, and its bytes, in C order."""

    def __init__(self) -> None:
        self._hashed = hashlib.sha256()

    def begin(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Begin with an array, whose blocks come next."""
        self._hashed.update(f"{name} {dtype.newbyteorder('<').str} {list(shape)}\n".encode())

    def block(self, array: npt.NDArray[Any]) -> None:
        """Add entries, of the dtype that was named."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._hashed.update(little.data)

    def add(self, name: str, array: npt.NDArray[Any]) -> None:
        """Add a whole array."""
        self.begin(name, array.dtype, array.shape)
        self.block(array)

    def digest(self) -> bytes:
        """Return the hash of what was added so far."""
        return self._hashed.digest()


def fingerprint(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the `Fingerprint` of whole arrays, by their names in files."""
    hashed = Fingerprint()
    for name, array in arrays.items():
        hashed.add(name, array)
    return hashed.digest()


# Arrays in .safetensors files.


Made = TypeVar("Made")

_LENGTH = 8  # Bytes that say how long the header is; and what its end is a multiple of


def serialized(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a .safetensors file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = save(arrays, metadata=dict(metadata))
    stop = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header = json.dumps(json.loads(content[_LENGTH:stop]), sort_keys=True, ensure_ascii=False)
    encoded = header.encode()
    encoded += b" " * (-len(encoded) % _LENGTH)
    return len(encoded).to_bytes(_LENGTH, "little") + encoded + content[stop:]


class FileForm(NamedTuple):
    """What a kind of file is."""

    name: str  # its format, as the metadata have it
    key: str  # of the description in the metadata
    what: str  # what is in it, in words
    written_by: str  # who writes such files


def require_only(found: Mapping[str, Array], known: Mapping[str, Array]) -> None:
    """Raise ValueError for tensors that a reader leaves out: weights of another kind of layer."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ValueError(f"it has tensors that are not known: {', '.join(unknown)}")


def load_tensors(
    path: str | Path,
    form: FileForm,
    make: Callable[[dict[str, Array], Any], Made],
    others: Mapping[str, Callable[[dict[str, Array], Any], Made]] | None = None,
) -> Made:
    """Return what `make` makes of the arrays and the description in a file."""
    with reading(path, form.what, form.written_by) as content:
        if content.startswith(b"PK"):
            raise ValueError("it is a zip archive, as data sets are")
        try:
            tensors = deserialize(content)
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        stop = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        metadata = json.loads(content[_LENGTH:stop]).get("__metadata__") or {}
        found = metadata.get("format")
        makers = {form.name: make, **(others or {})}
        if found not in makers:
            raise ValueError(f"its format is {found!r}, not {form.name!r}")
        said = metadata[form.key] if found == form.name else metadata.get(form.key, "null")
        return makers[found](tensors, json.loads(said))
