"""Arrays in .safetensors files, with a description as JSON in the metadata.

The same arrays and metadata give the same bytes: the library writes metadata in an order which
changes from run to run, so its header is written anew with sorted keys. Offsets count from the end
of the header, and stay as they are.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as deserialize
from safetensors.numpy import save

from constructive.support.arrays import Array
from constructive.support.reading import reading

Made = TypeVar("Made")

_LENGTH = 8  # Bytes that say how long the header is; and what its end is a multiple of


def serialized(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a .safetensors file.

    Example:
        >>> content = serialized({"weights": np.zeros(1)}, {"b": "2", "a": "1"})
        >>> content[8:44]
        b'{"__metadata__": {"a": "1", "b": "2"'
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = save(arrays, metadata=dict(metadata))
    stop = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header = json.dumps(json.loads(content[_LENGTH:stop]), sort_keys=True, ensure_ascii=False)
    encoded = header.encode()
    encoded += b" " * (-len(encoded) % _LENGTH)
    return len(encoded).to_bytes(_LENGTH, "little") + encoded + content[stop:]


class Form(NamedTuple):
    """What a kind of file is."""

    name: str  # its format, as the metadata have it
    key: str  # of the description in the metadata
    what: str  # what is in it, in words
    written_by: str  # who writes such files


def require_only(found: Mapping[str, Array], known: Mapping[str, Array]) -> None:
    """Raise ValueError for tensors that a reader leaves out: weights of another kind of layer.

    Example:
        >>> require_only({"W_Q": np.eye(2), "slopes": np.ones(3)}, {"W_Q": np.eye(2)})
        Traceback (most recent call last):
            ...
        ValueError: it has tensors that are not known: slopes
    """
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ValueError(f"it has tensors that are not known: {', '.join(unknown)}")


def load(
    path: str | Path,
    form: Form,
    make: Callable[[dict[str, Array], Any], Made],
    others: Mapping[str, Callable[[dict[str, Array], Any], Made]] | None = None,
) -> Made:
    """Return what `make` makes of the arrays and the description in a file."""
    with reading(path, form.what, form.written_by) as content:
        if content.startswith(b"PK"):
            raise ValueError("it is a zip archive, as data sets are")
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
