"""What a certificate says that it is about: the arrays, their hashes, and the programs."""

import hashlib
import platform
from importlib.metadata import version
from typing import Any

import flint
import numpy as np

from constructive.data.dataset import Dataset
from constructive.support.arrays import Array


def fingerprint(arrays: dict[str, Array]) -> bytes:
    """SHA-256 of arrays: for each its name, dtype and shape as a line, then its bytes, in C order.

    Args:
        arrays: by their names in files

    Example:
        >>> fingerprint({"targets": np.array([1.0])}).hex()[:16]
        'fd807a0555012eb8'
    """
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        hashed.update(f"{name} {little.dtype.str} {list(little.shape)}\n".encode())
        hashed.update(little.data)
    return hashed.digest()


def described(arrays: dict[str, Array]) -> dict[str, Any]:
    """Dtype and shape of each array, and the SHA-256 of all."""
    about: dict[str, Any] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    return about | {"sha256": fingerprint(arrays).hex()}


def data_arrays(dataset: Dataset) -> dict[str, Array]:
    """The arrays of a data set by their names in files."""
    return {
        "contexts": dataset.contexts,
        "queries": dataset.queries,
        "targets": dataset.targets,
    }


def made_by() -> dict[str, str]:
    """Names and versions of the programs which make a certificate."""
    return {
        "constructive": version("constructive"),
        "python-flint": flint.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
