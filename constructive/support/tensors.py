"""Arrays in .safetensors files, and the SHA-256 of arrays."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as deserialize
from safetensors.numpy import save

from constructive.support.arrays import AnyArray, Array
from constructive.support.files import reading

# The SHA-256 of arrays, as certificates have it.


class Fingerprint:
    """SHA-256 of arrays: of each its name, dtype and shape as a line, and its bytes, in C order."""

    def __init__(self) -> None:
        self._hashed = hashlib.sha256()

    def begin(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Begin with an array, whose blocks come next."""
        self._hashed.update(f"{name} {dtype.newbyteorder('<').str} {list(shape)}\n".encode())

    def block(self, array: AnyArray) -> None:
        """Add entries, of the dtype that was named."""
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._hashed.update(little.data)

    def add(self, name: str, array: AnyArray) -> None:
        """Add a whole array."""
        self.begin(name, array.dtype, array.shape)
        self.block(array)

    def digest(self) -> bytes:
        """Return the hash of what was added so far."""
        return self._hashed.digest()


def fingerprint(arrays: Mapping[str, AnyArray]) -> bytes:
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
            raise ValueError("it is a zip archive, as datasets are")
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
