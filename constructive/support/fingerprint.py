"""The SHA-256 of named arrays, as certificates have it, also of arrays that come in blocks."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


class Fingerprint:
    """SHA-256 of arrays: for each its name, dtype and shape as a line, then its bytes, in C order.

    Example:
        >>> whole, blocks = Fingerprint(), Fingerprint()
        >>> whole.add("targets", np.array([1.0, 2.0]))
        >>> blocks.begin("targets", np.dtype("f8"), (2,))
        >>> for block in ([1.0], [2.0]):
        ...     blocks.block(np.array(block))
        >>> whole.digest() == blocks.digest()
        True
    """

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
    """Return the `Fingerprint` of whole arrays, by their names in files.

    Example:
        >>> fingerprint({"targets": np.array([1.0])}).hex()[:16]
        'fd807a0555012eb8'
    """
    hashed = Fingerprint()
    for name, array in arrays.items():
        hashed.add(name, array)
    return hashed.digest()
