"""Arrays in .npy files, of which rows are read when they are asked for.

Rows are read, and not mapped: so no page of the file counts as memory of the process, and a file
which is cut off meanwhile is an error, where a mapped one would be the end of the process.
"""

import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from constructive.support.errors import FormatError

BLOCK_BYTES = 16 << 20
"""Size of the blocks in which a whole array is read."""

_KEPT = "device", "inode", "size", "time of the last change"
"""What tells whether a file is still the one which was opened."""

_WRITE_ANEW = "write it anew with numpy.save, or Dataset.save_folder"


@dataclass(frozen=True)
class StoredArray:
    """An array of float32 or float64 in a .npy file, which is read by rows.

    Whenever rows are read, the file has to be the one which was opened: its inode, size and time
    of change are compared before and after. Who changes bytes and sets that time back is not seen,
    nor who writes through a mapping of the file, which need not change its time at once.

    Attributes:
        path: the file
        dtype: as it is stored
        shape: (T, ...), of one axis at least
        start: bytes before the first entry
        identity: device, inode, size and time of the last change; None for what is not compared
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    identity: tuple[int | None, ...]

    @classmethod
    def at(cls, path: str | Path) -> "StoredArray":
        """Read the header of a file, and compare its size with that.

        Args:
            path: a .npy file with a header of version 1.0, in C order

        Raises:
            FormatError: for what is no such file, or longer or shorter than its header says
            OSError: if it cannot be read

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "contexts.npy"
            >>> np.save(path, np.arange(6.0).reshape(3, 2))
            >>> stored = StoredArray.at(path)
            >>> stored.shape, stored.rows(np.array([2, 0])).tolist()
            ((3, 2), [[4.0, 5.0], [0.0, 1.0]])
        """
        path = Path(path).resolve()
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait
            raise FormatError(
                f"{path} is no regular file", witness=str(path), suggestion=_WRITE_ANEW
            )
        with path.open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                if version != (1, 0):
                    raise ValueError(f"its header is of version {version}, not (1, 0)")
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            except Exception as error:  # readers of npy raise nearly everything
                raise FormatError(
                    f"{path} is no .npy file: {error}", witness=str(path), suggestion=_WRITE_ANEW
                ) from error
            start, found = file.tell(), _identity(file)
        if fortran and len(shape) > 1:
            raise FormatError(
                f"{path} is stored by columns, so no row of it lies in one piece",
                witness="fortran_order",
                suggestion="numpy.save(path, numpy.ascontiguousarray(array))",
            )
        if dtype.str not in ("<f4", "<f8"):
            raise FormatError(
                f"{path} has dtype {dtype}; what is read from disk has to be float32 or float64",
                witness=str(dtype),
                suggestion="numpy.save(path, array.astype(numpy.float32))",
            )
        stored = cls(path, dtype, shape, start, found)
        size, whole = os.fspath(path), start + stored.nbytes
        if found[2] != whole:
            cut = "is cut off" if found[2] < whole else "has more bytes than its header says"
            raise FormatError(
                f"{size} {cut}: {found[2]} bytes, and {whole} by its header",
                witness=(found[2], whole),
                suggestion=_WRITE_ANEW,
            )
        return stored

    @property
    def elsewhere(self) -> "StoredArray":
        """The same for other machines, where a file has another device, and maybe inode."""
        return replace(self, identity=(None, None, *self.identity[2:]))

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def _row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def rows(self, index: slice | npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Some rows, read now: (k, ...).

        Args:
            index: a slice, integers from -T to T - 1, or T Booleans

        Raises:
            FormatError: if the file is not the one which was opened, or is gone
            IndexError: for rows which are not there
            OSError: if it cannot be read
        """
        starts, counts = _runs(index, self.shape[0])
        out = np.empty((int(counts.sum()), *self.shape[1:]), self.dtype)
        room, size, filled = out.reshape(-1).view(np.uint8).data, self._row_bytes, 0
        with self._opened() as file:
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
                file.seek(self.start + start * size)
                filled = self._fill(file, room, filled, filled + count * size)
        return out

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Walk through all rows, some at a time.

        Args:
            block_bytes: the size of the rows of one step, or of a single row if that is more

        Yields:
            which rows, and these

        Raises:
            FormatError: as `rows` does
        """
        total, step = self.shape[0], max(1, block_bytes // max(self._row_bytes, 1))
        for start in range(0, total, step):
            rows = slice(start, min(start + step, total))
            yield rows, self.rows(rows)

    def _fill(self, file: BinaryIO, room: memoryview, filled: int, stop: int) -> int:
        """Read on until the room is filled up to there; the system may give less at a time."""
        while filled < stop:
            count = file.readinto(room[filled:stop])  # type: ignore[attr-defined] # of raw files
            if not count:
                raise self.changed("it ends too early")
            filled += count
        return filled

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, which is the same before and after.

        It is opened each time, so that threads and processes do not share a place in it.
        """
        try:
            file = self.path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise self.changed("it is gone") from error
        with file:
            self._require_same(file)
            yield file
            self._require_same(file)

    def _require_same(self, file: BinaryIO) -> None:
        found = _identity(file)
        for name, old, new in zip(_KEPT, self.identity, found, strict=True):
            if old not in (None, new):
                raise self.changed(f"its {name}")

    def changed(self, what: str) -> FormatError:
        """The error for a file which is not as it was.

        Args:
            what: what of it has changed
        """
        return FormatError(
            f"{self.path} has changed since it was opened: {what}",
            witness=str(self.path),
            suggestion="open it again when nobody writes to it any more",
        )


def _identity(file: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _runs(
    index: slice | npt.NDArray[Any], total: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows as runs which lie one after the other in a file: the first of each, and how many.

    >>> _runs(np.array([3, 4, 5, 1]), 6)
    (array([3, 1]), array([3, 1]))
    """
    if isinstance(index, slice):
        first, stop, step = index.indices(total)
        if step == 1:
            return np.array([first]), np.array([max(stop - first, 0)])
        index = np.arange(first, stop, step)
    rows = np.asarray(index)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)
    if len(rows) and not -total <= rows.min() <= rows.max() < total:
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {total}")
    rows = np.where(rows < 0, rows + total, rows)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    starts = np.concatenate([[0], breaks]) if len(rows) else breaks
    return rows[starts], np.diff(starts, append=len(rows))
