"""The file of a memorizer: tensors of a layer, and its record as JSON in the metadata."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as deserialize

from constructive.layers.attention import AttentionLayer
from constructive.layers.extended import ExtendedLayer
from constructive.layers.layer import Layer
from constructive.layers.record import BuildRecord, TrainedRecord, read_record
from constructive.support.arrays import Array
from constructive.support.errors import FormatError
from constructive.support.files import replacing
from constructive.support.tensors import serialized

FORMAT = "constructive memorizer 1"

Made = TypeVar("Made")


def save(path: str | Path, layer: Layer, record: BuildRecord | TrainedRecord) -> None:
    """Write it, whole or not at all. Raises ParameterError for weights which are no floats."""
    written = json.dumps(dataclasses.asdict(record))
    content = serialized(layer.tensors, {"format": FORMAT, "record": written})
    with replacing(path) as file:
        file.write(content)


def load(path: str | Path, make: Callable[[Layer, BuildRecord | TrainedRecord], Made]) -> Made:
    """What `make` makes of the layer and the record in a file.

    Raises:
        FormatError: if it is not such a file
        OSError: if it cannot be read
    """
    path = Path(path)
    content = path.read_bytes()
    try:
        if content.startswith(b"PK"):
            raise ValueError("it is a zip archive, as data sets are")
        tensors = deserialize(content)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        found = metadata.get("format")
        if found != FORMAT:
            raise ValueError(f"its format is {found!r}, not {FORMAT!r}")
        record = read_record(json.loads(metadata["record"]))
        layer = _layer(tensors, record.precision)
        record.require_heads(layer.num_heads)
        return make(layer, record)
    except (
        SafetensorError, ValueError, TypeError, KeyError, RecursionError, OverflowError,
    ) as error:  # fmt: skip
        raise FormatError(
            f"{path} is not a memorizer: {error}",
            witness=str(path),
            suggestion="a file written by Memorizer.save or `constructive build`",
        ) from error


def _layer(tensors: dict[str, Array], precision: int) -> Layer:
    layer = AttentionLayer(*(tensors[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_D")))
    if "W_V_corrections" in tensors:
        return ExtendedLayer(layer, tensors["W_V_corrections"], precision)
    return layer
