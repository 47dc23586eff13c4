"""What a certificate says that it is about: the arrays, their hashes, and the programs."""

import platform
from typing import Any

import flint
import numpy as np

from constructive import __version__
from constructive.data.dataset import Dataset
from constructive.support.arrays import Array
from constructive.support.fingerprint import fingerprint


def described(arrays: dict[str, Array]) -> dict[str, Any]:
    """Dtype and shape of each array, and the SHA-256 of all."""
    about = {name: _kind(array.dtype, array.shape) for name, array in arrays.items()}
    return about | {"sha256": fingerprint(arrays).hex()}


def described_data(dataset: Dataset) -> dict[str, Any]:
    """The same of a data set, whose contexts may be on disk."""
    return {
        "contexts": _kind(dataset.context_dtype, dataset.context_shape),
        "queries": _kind(dataset.queries.dtype, dataset.queries.shape),
        "targets": _kind(dataset.targets.dtype, dataset.targets.shape),
        "sha256": dataset.fingerprint().hex(),
    }


def _kind(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - as JSON has it
    return {"dtype": str(dtype), "shape": list(shape)}


def made_by() -> dict[str, str]:
    """Names and versions of the programs which make a certificate."""
    return {
        "constructive": __version__,
        "python-flint": flint.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
