"""Arrays as the bytes of a .safetensors file: the same arrays and metadata give the same bytes.

The library writes metadata in an order which changes from run to run, so its header is written anew
with sorted keys. Offsets count from the end of the header, and stay as they are.
"""

import json
from collections.abc import Mapping

import numpy as np
from safetensors.numpy import save

from constructive.support.arrays import Array

_LENGTH = 8
"""Bytes which say how long the header is; and what its end is a multiple of."""


def serialized(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The content of a .safetensors file.

    Args:
        tensors: arrays by name
        metadata: texts by name

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
