"""What a certificate says that it is about: the arrays, their hashes, and the programs."""

import platform
from typing import Any

import flint
import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import LENGTHS
from constructive.support.arrays import Array
from constructive.support.fingerprint import fingerprint
from constructive.support.version import __version__


def describe_arrays(arrays: dict[str, Array]) -> dict[str, Any]:
    """Return dtype and shape of each array, by its name in files, and the SHA-256 of all."""
    about = {name: _type(array.dtype, array.shape) for name, array in arrays.items()}
    return about | {"sha256": fingerprint(arrays).hex()}


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return the same of a dataset, whose contexts may be on disk."""
    about = {
        "contexts": _type(dataset.context_dtype, dataset.context_shape),
        "queries": _type(dataset.queries.dtype, dataset.queries.shape),
        "targets": _type(dataset.targets.dtype, dataset.targets.shape),
    }
    if dataset.lengths is not None:
        about[LENGTHS] = _type(np.dtype(np.float64), dataset.lengths.shape)
    return about | {"sha256": dataset.fingerprint().hex()}


def made_by() -> dict[str, str]:
    """Return names and versions of the programs that make a certificate."""
    return {
        "constructive": __version__,
        "python-flint": flint.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dtype": str(dtype), "shape": list(shape)}
