"""Arrays which processes read themselves, from a folder that all of them see.

Work is sent to other processes by pickle. What all its pieces have in common is sent once: as the
path of a folder, which each process opens when its first piece needs it, and keeps open.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.support.errors import OutputError, ParameterError

Arrays = Mapping[str, npt.NDArray[Any]]
Place = Arrays | str
"""The arrays themselves, or a folder with a file of each."""


@contextmanager
def shared(arrays: Arrays, folder: Path | None = None) -> Iterator[str]:
    """Write arrays to a folder of their own, and remove it in the end.

    Args:
        arrays: by name
        folder: where that folder is made; by default where temporary files are

    Raises:
        OutputError: where it cannot be written

    Example:
        >>> with shared({"order": np.arange(3)}) as place:
        ...     arrays_at(place)["order"].tolist()
        [0, 1, 2]
    """
    try:
        place = Path(tempfile.mkdtemp(prefix="constructive-", dir=folder))
    except OSError as error:
        raise OutputError(
            f"cannot make a folder in {folder}: {error.strerror}",
            witness=str(folder),
            suggestion="checkpoint= another folder",
        ) from error
    try:
        for name, array in arrays.items():
            np.save(place / f"{name}.npy", array)
        yield str(place)
    except OSError as error:
        if error.filename is None or Path(error.filename).parent != place:
            raise
        raise OutputError(
            f"cannot write {error.filename}: {error.strerror}",
            witness=error.filename,
            suggestion="checkpoint= a folder with room for the data",
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def arrays_at(place: Place) -> Arrays:
    """The arrays themselves, in whatever process.

    Args:
        place: what `shared` gave, or the arrays

    Raises:
        ParameterError: where this process cannot read that folder
    """
    return _opened(place) if isinstance(place, str) else place


@lru_cache(maxsize=2)
def _opened(place: str) -> Arrays:
    try:
        return {file.stem: _mapped(file) for file in Path(place).iterdir()}
    except OSError as error:
        raise _unseen(place, error) from error


def require_seen(path: str | Path) -> None:
    """Check that this process can read a file, which may be one on another machine.

    Args:
        path: the file

    Raises:
        ParameterError: where it cannot
    """
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise _unseen(str(path), error) from error


def _mapped(path: Path) -> npt.NDArray[Any]:
    # A plain array, as what is computed from a mapped one should be in memory.
    return np.asarray(np.load(path, mmap_mode="r" if path.stat().st_size else None))


def _unseen(path: str, error: OSError) -> ParameterError:
    return ParameterError(
        f"a worker cannot read {path}: {error.strerror}",
        witness=path,
        suggestion="data and checkpoint= in folders which all machines of the executor see",
    )
