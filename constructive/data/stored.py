"""Datasets in files: a folder of .npy files, whose contexts stay on disk, or an .npz file.

    folder/contexts.npy   (T, n, d), float32 or float64, in C order
    folder/queries.npy    (T, d)
    folder/targets.npy    (T,) or (T, d_out)
    folder/classes.npy    (d_out,), names of the entries of targets, where they have some

Other files in the folder do no harm. A shared context (n, d) is small, and is loaded.

Blocks are mapped, as that copies nothing. A mapping lives as long as the block, so that a process
does not count more pages of the file as its memory than it works on. Rows here and there are read
one by one, as a mapping would bring in the pages around each of them.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from constructive.data.labels import Label
from constructive.data.shapes import ARRAYS, LENGTHS
from constructive.support.arrays import AnyArray, Array, first_place, row_chunks
from constructive.support.errors import DataError, FormatError, as_path, physical_memory
from constructive.support.files import regular_file, replacing_folder
from constructive.support.tensors import Fingerprint

FILES = tuple(f"{name}.npy" for name in ARRAYS)  # The files that every folder has
_CLASSES = "classes.npy"
NAMES = (*FILES, _CLASSES)  # These, and one that some folders have


BLOCK_BYTES = 16 << 20  # Size of the blocks in which a whole array is read

# What tells whether a file is still the one that was opened.
_KEPT = "device", "inode", "size", "time of the last change"

_WRITE_ANEW = "write it anew with numpy.save, or Dataset.save_folder"


@dataclass(frozen=True)
class StoredContexts:
    """Contexts in a .npy file, in float32 or float64.

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
    # Known once all contexts have been read (`scanned`).
    largest: float = 0.0  # |x| of an entry x
    sha256: bytes = b""  # of contexts, queries and targets, as certificates have it

    @classmethod
    def at(cls, path: str | Path) -> "StoredContexts":
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

    def mapped(self) -> AnyArray:
        """Map the whole array, read-only: (T, ...). Memory is taken by the rows that are read."""
        with self._opened() as file:
            # A plain array, as what is computed from a mapped one should be in memory.
            return np.asarray(np.memmap(file, self.dtype, "r", self.start, self.shape))

    def rows(self, index: slice | AnyArray) -> AnyArray:
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

    def __getitem__(self, index: slice | AnyArray) -> AnyArray:
        return self.rows(index)

    def max(self) -> float:
        """Return an upper bound of all entries, once they are known."""
        return self.largest

    def min(self) -> float:
        """Return a lower bound of them."""
        return -self.largest

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Walk through all rows, some at a time: yield which rows, and these."""
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        for rows in row_chunks(self.shape[0], row_bytes, block_bytes):
            yield rows, self.rows(rows)

    def scanned(self, queries: Array, targets: Array) -> "StoredContexts":
        """Read all contexts, a block at a time, to hash them and to see that they are finite."""
        hashed, largest = Fingerprint(), 0.0
        hashed.begin(ARRAYS[0], self.dtype, self.shape)
        for rows, block in self.blocks():
            largest = max(largest, _largest(rows.start, block))
            hashed.block(block)
        for name, array in zip(ARRAYS[1:], (queries, targets), strict=True):
            hashed.add(name, array)
        return replace(self, largest=largest, sha256=hashed.digest())

    def require_unchanged(self, queries: Array, targets: Array) -> None:
        """Read all contexts again, and compare the hash."""
        try:
            same = self.scanned(queries, targets).sha256 == self.sha256
        except DataError:
            same = False
        if not same:
            raise self.changed("its bytes")

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


def _one_by_one(index: AnyArray, total: int) -> bool:
    """Return whether rows can be read by their places in the file; numpy does the rest."""
    integers = index.dtype.kind in "iu" and index.ndim == 1 and index.size > 0
    inside = integers and int(index.min()) >= 0 and int(index.max()) < total
    return inside and hasattr(os, "preadv")  # which Windows does not have


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_folder(path: str | Path) -> dict[str, Any]:
    """Read the arrays of a folder by their names. Contexts stay on disk, but for a shared one."""
    folder = as_path(path).resolve()
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        raise FormatError(
            f"{path} is not a folder of a dataset: it has no {' and no '.join(missing)}",
            witness=str(path),
            suggestion=f"the files {', '.join(FILES)}, by numpy.save or Dataset.save_folder",
        )
    if (folder / f"{LENGTHS}.npy").exists():
        raise FormatError(
            f"{path} has contexts of different lengths, which folders do not hold",
            witness=f"{LENGTHS}.npy",
            suggestion="an .npz file, by numpy.savez with the same names or Dataset.save",
        )
    contexts = StoredContexts.at(folder / FILES[0])
    others = [name for name in NAMES[1:] if (folder / name).exists()]
    found = {name.removesuffix(".npy"): _loaded(folder / name) for name in others}
    own = len(contexts.shape) > 2
    return {**found, "contexts": contexts if own else contexts.mapped().copy()}


def write_folder(
    path: str | Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Iterable[Array],
    others: Callable[[], tuple[Array, Array]],
    *,
    classes: tuple[Label, ...] = (),
) -> None:
    """Write the folder of a dataset, whole or not at all, from contexts that come in blocks."""
    little = dtype.newbyteorder("<")
    with replacing_folder(path, NAMES) as folder:
        with (folder / FILES[0]).open("xb") as file:
            header = {"descr": little.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block, little).data)
        for name, array in zip(FILES[1:], others(), strict=True):
            np.save(folder / name, array)
        if classes:
            np.save(folder / _CLASSES, np.array(classes))


def _loaded(path: Path) -> AnyArray:
    """Return a small array, in memory. Raises FormatError."""
    regular_file(path)
    try:
        with path.open("rb") as file:
            array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # readers of npy raise nearly everything
        message = f"{path} is not a .npy file of numbers: {error}"
        raise FormatError(message, witness=str(path), suggestion="numpy.save") from error
    return array


def _largest(first: int, block: Array) -> float:
    """Return the largest size of an entry. Raises DataError for one that is not finite."""
    largest = max(float(block.max()), -float(block.min()))  # a NaN is both
    if not math.isfinite(largest):
        index = first_place(~np.isfinite(block))
        value, index = block[index], (first + index[0], *index[1:])
        message = f"contexts{list(index)} is {value}"
        raise DataError(message, witness=index, suggestion="finite numbers only")
    return largest


# Arrays of an .npz file: nothing is unpickled, and what is no such file is named so.


_MORE = frozenset({"classes", LENGTHS})
_WHERE = (
    "Dataset.open, which also takes folders with contexts.npy, queries.npy and targets.npy; or an "
    ".npz file"
)
_HOW = "numpy.savez(path, contexts=..., queries=..., targets=...), or Dataset.save"


def read_archive(path: str | Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the arrays of these names, and `classes` and `lengths` if there are such.

    Raises FormatError for what is not such an archive.
    """
    with regular_file(path, _WHERE).open("rb") as file:
        try:
            return _read_arrays(file, names)
        except MemoryError as error:
            raise FormatError(
                f"the arrays of {path} do not fit into memory",
                witness=str(error),
                suggestion="Dataset.open of a folder, which reads rows when they are needed",
            ) from error
        except Exception as error:  # readers of zip and npy raise nearly everything
            message = f"{path} is not a dataset: {error}"
            raise FormatError(message, witness=str(path), suggestion=_HOW) from error


# Bytes of ASCII, with which tables and JSON begin.
_TEXT = frozenset(b"\t\r\n") | frozenset(range(0x20, 0x7F))


def _read_arrays(file: BinaryIO, names: Sequence[str]) -> dict[str, Any]:
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x93NUMPY"):
        raise TypeError("it holds a single array, not contexts, queries and targets")
    if not start.startswith(b"PK"):
        text = bool(start) and all(byte in _TEXT for byte in start)
        raise ValueError("it is text, not an .npz archive" if text else "it is not an .npz archive")
    archive = np.load(file, allow_pickle=False)
    missing = [name for name in names if name not in archive]
    if missing:
        raise KeyError(f"no array named {' or '.join(missing)} among {archive.files}")
    wanted = *names, *sorted(_MORE & {*archive.files})
    files = {*wanted, *(f"{name}.npy" for name in wanted)}
    stated = sum(each.file_size for each in archive.zip.filelist if each.filename in files)
    if stated > physical_memory():  # a short file may state it, as zeros are packed 1,000 to 1
        raise MemoryError(f"{stated:,} bytes")
    arrays = {}
    for name in wanted:
        try:
            arrays[name] = archive[name]
        except ValueError as error:  # numpy advises to load objects, which may run programs
            objects = "allow_pickle" in str(error)
            raise TypeError(f"{name} holds objects" if objects else str(error)) from error
    return arrays
