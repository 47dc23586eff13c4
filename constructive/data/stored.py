"""Data sets in a folder of .npy files, whose contexts stay on disk.

    folder/contexts.npy   (T, n, d), float32 or float64, in C order
    folder/queries.npy    (T, d)
    folder/targets.npy    (T,) or (T, d_out)
    folder/classes.npy    (d_out,), names of the entries of targets, where they have some

Other files in the folder do no harm. A shared context (n, d) is small, and is loaded.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset, owning
from constructive.data.labels import Label, require_classes, same_classes
from constructive.data.shapes import ARRAYS, check_shapes
from constructive.support.arrays import Array, finite_array, frozen
from constructive.support.errors import DataError, FormatError
from constructive.support.fingerprint import Fingerprint
from constructive.support.folders import replacing_folder
from constructive.support.stored import StoredArray

FILES = tuple(f"{name}.npy" for name in ARRAYS)
"""The files which every folder has."""
_CLASSES = "classes.npy"
NAMES = (*FILES, _CLASSES)
"""And one which some have."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class StoredDataset(Dataset):
    """A data set whose contexts are read from disk whenever they are asked for; `Dataset.open`.

    Queries and targets are in memory. `contexts_of`, `context_chunks`, `stored_rows` and `blocks`
    read rows. `contexts` is there for what needs all of them at once: it reads them all, and keeps
    them.

    Args:
        small: queries, targets and names of classes, which are in memory

    Attributes:
        queries: (T, d)
        targets: (T,) or (T, d_out)
        folder: where the files are
        on_disk: the contexts
        largest: the largest `|x|` of an entry x of the contexts
        sha256: of all arrays, as certificates have it
    """

    folder: Path = field(kw_only=True)
    on_disk: StoredArray = field(kw_only=True)
    largest: float = field(kw_only=True)
    sha256: bytes = field(kw_only=True)

    def __init__(
        self,
        small: tuple[Array, Array, tuple[Label, ...]],
        folder: Path,
        on_disk: StoredArray,
        largest: float,
        sha256: bytes,
    ) -> None:
        queries, targets, classes = small
        object.__setattr__(self, "queries", frozen(queries))
        object.__setattr__(self, "targets", frozen(targets))
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "on_disk", on_disk)
        object.__setattr__(self, "largest", largest)
        object.__setattr__(self, "sha256", sha256)

    def __eq__(self, other: object) -> bool:
        """Whether classes and all numbers are the same, bit by bit: their SHA-256 tells."""
        if not isinstance(other, Dataset):
            return NotImplemented
        same = same_classes(self.classes, other.classes)
        return same and self.fingerprint() == other.fingerprint()

    __hash__ = Dataset.__hash__

    @cached_property  # type: ignore[misc] # nobody sets attributes of a frozen class
    def contexts(self) -> Array:  # type: ignore[override] # as above
        """All contexts, in memory from now on: (T, n, d)."""
        return frozen(self.on_disk.rows(slice(None)))

    @property
    def context_shape(self) -> tuple[int, ...]:
        """(T, n, d)."""
        return self.on_disk.shape

    @property
    def context_dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.on_disk.dtype

    @property
    def largest_token_entry(self) -> float:
        """What was found when the folder was opened."""
        return self.largest

    def stored_rows(self, rows: slice | npt.NDArray[Any]) -> Array:
        """Contexts of some examples as they are stored: (rows, n, d), read now.

        Args:
            rows: which examples

        Raises:
            FormatError: if the file has changed since it was opened
        """
        return self.on_disk.rows(rows)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Walk through the examples, a few at a time.

        Yields:
            which examples, and their contexts as they are stored
        """
        return self.on_disk.blocks()

    def fingerprint(self) -> bytes:
        """What was found when the folder was opened."""
        return self.sha256

    def require_unchanged(self) -> None:
        """Read all contexts again, and compare their hash.

        Programs which write through a mapping of the file need not change its time.

        Raises:
            FormatError: if the file has changed since it was opened
        """
        if _hashed(self.on_disk, self.queries, self.targets)[0] != self.sha256:
            raise self.on_disk.changed("its bytes")

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process reads the same file; nothing is hashed again."""
        small = self.queries, self.targets, self.classes
        return StoredDataset, (small, self.folder, self.on_disk, self.largest, self.sha256)


def open_folder(path: str | Path) -> Dataset:
    """A data set of such a folder; contexts are read once, to hash them, and see they are finite.

    Args:
        path: the folder

    Raises:
        FormatError: for a folder which is none of a data set, and for files which are cut off
        DataError: for arrays which are no data set
        OSError: where they cannot be read
    """
    folder = Path(path).resolve()
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        raise FormatError(
            f"{path} is no folder of a data set: it has no {' and no '.join(missing)}",
            witness=str(path),
            suggestion=f"the files {', '.join(FILES)}, by numpy.save or Dataset.save_folder",
        )
    on_disk = StoredArray.at(folder / FILES[0])
    queries, targets = (_loaded(name, folder / f"{name}.npy") for name in ARRAYS[1:])
    check_shapes(on_disk.shape, queries.shape, targets.shape)
    classes: tuple[Label, ...] = ()
    if (folder / _CLASSES).exists():
        columns = targets.shape[1] if targets.ndim == 2 else 1
        classes = require_classes(_read(folder / _CLASSES), columns)
    if len(on_disk.shape) == 2:
        return owning(on_disk.rows(slice(None)), queries, targets, classes)
    sha256, largest = _hashed(on_disk, queries, targets)
    return StoredDataset((queries, targets, classes), folder, on_disk, largest, sha256)


def write_folder(
    path: str | Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Iterable[Array],
    others: Callable[[], tuple[Array, Array]],
    *,
    classes: tuple[Label, ...] = (),
) -> None:
    """Write the folder of a data set, whole or not at all, from contexts which come in blocks.

    Args:
        path: the folder; an old one is replaced if it holds nothing else
        shape: of the contexts
        dtype: of the contexts
        blocks: rows of the contexts, one after the other
        others: queries and targets; it is called after the last block
        classes: names of the entries of targets; by default none

    Raises:
        OutputError: where it cannot be written, as `replacing_folder` says
    """
    with replacing_folder(path, NAMES) as folder:
        with (folder / FILES[0]).open("xb") as file:
            header = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype.newbyteorder("<")).data)
        for name, array in zip(FILES[1:], others(), strict=True):
            np.save(folder / name, array)
        if classes:
            np.save(folder / _CLASSES, np.array(classes))


def _loaded(name: str, path: Path) -> Array:
    """Numbers of a small array, in memory. Raises FormatError and DataError."""
    return finite_array(name, _read(path), copy=False)


def _read(path: Path) -> npt.NDArray[Any]:
    """A small array, in memory. Raises FormatError."""
    if not path.is_file():  # opening a pipe would wait
        raise FormatError(f"{path} is no file", witness=str(path), suggestion="numpy.save")
    try:
        with path.open("rb") as file:
            array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # readers of npy raise nearly everything
        message = f"{path} is no .npy file of numbers: {error}"
        raise FormatError(message, witness=str(path), suggestion="numpy.save") from error
    return array


def _hashed(on_disk: StoredArray, queries: Array, targets: Array) -> tuple[bytes, float]:
    """The SHA-256 of all arrays, and the largest size of an entry of contexts; reads them once.

    Raises DataError for one which is not finite.
    """
    hashed, largest = Fingerprint(), 0.0
    hashed.begin(ARRAYS[0], on_disk.dtype, on_disk.shape)
    for rows, block in on_disk.blocks():
        largest = max(largest, _largest(rows.start, block))
        hashed.block(block)
    for name, array in zip(ARRAYS[1:], (queries, targets), strict=True):
        hashed.add(name, array)
    return hashed.digest(), largest


def _largest(first: int, block: Array) -> float:
    """The largest size of an entry. Raises DataError for one which is not finite."""
    largest = max(float(block.max()), -float(block.min()))  # a NaN is both
    if not math.isfinite(largest):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(block))[0])
        value, index = block[index], (first + index[0], *index[1:])
        message = f"contexts{list(index)} is {value}"
        raise DataError(message, witness=index, suggestion="finite numbers only")
    return largest
