"""Arrays of an .npz file: nothing is unpickled, and what is no such file is named so."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from constructive.data.shapes import LENGTHS
from constructive.support.arguments import as_path
from constructive.support.errors import FormatError

_MORE = frozenset({"classes", LENGTHS})
_HOW = "numpy.savez(path, contexts=..., queries=..., targets=...), or Dataset.save"


def read_archive(path: str | Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the arrays of these names, and `classes` and `lengths` if there are such.

    Raises FormatError for a folder, and for what is not such an archive.
    """
    if as_path(path).is_dir():
        raise FormatError(
            f"{path} is a folder, not an .npz archive",
            witness=str(path),
            suggestion="Dataset.open, which also takes folders with contexts.npy, queries.npy and "
            "targets.npy",
        )
    with as_path(path).open("rb") as file:
        try:
            return _read_arrays(file, names)
        except Exception as error:  # readers of zip and npy raise nearly everything
            message = f"{path} is not a data set: {error}"
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
    arrays = {}
    for name in (*names, *sorted(_MORE & {*archive.files})):
        try:
            arrays[name] = archive[name]
        except ValueError as error:  # numpy advises to load objects, which may run programs
            objects = "allow_pickle" in str(error)
            raise TypeError(f"{name} holds objects" if objects else str(error)) from error
    return arrays
