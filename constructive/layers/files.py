"""The file of a memorizer: tensors of a layer, and its record as JSON in the metadata."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from constructive.layers.attention import AttentionLayer
from constructive.layers.extended import ExtendedLayer
from constructive.layers.layer import Layer
from constructive.layers.record import BuildRecord, TrainedRecord, read_record
from constructive.layers.shapes import head_weights
from constructive.support import tensors
from constructive.support.arrays import Array
from constructive.support.files import replacing

FORM = tensors.Form(
    "constructive memorizer 1", "record", "a memorizer", "Memorizer.save or `constructive build`"
)

Made = TypeVar("Made")


def save(path: str | Path, layer: Layer, record: BuildRecord | TrainedRecord) -> None:
    """Write it, whole or not at all. Raises ParameterError for weights that are not floats."""
    written = json.dumps(dataclasses.asdict(record))
    content = tensors.serialized(layer.tensors, {"format": FORM.name, FORM.key: written})
    with replacing(path) as file:
        file.write(content)


def load(path: str | Path, make: Callable[[Layer, BuildRecord | TrainedRecord], Made]) -> Made:
    """Return what `make` makes of the layer and the record in a file."""

    def made(arrays: dict[str, Array], fields: dict[str, Any]) -> Made:
        record = read_record(fields)
        layer = _layer(arrays, record.precision)
        tensors.require_only(arrays, layer.tensors)
        if isinstance(record, BuildRecord) and len(record.heads) != layer.num_heads:
            raise ValueError(f"{layer.num_heads} heads have {len(record.heads)} records")
        return make(layer, record)

    return tensors.load(path, FORM, made)


def _layer(arrays: dict[str, Array], precision: int) -> Layer:
    after = (arrays[name] for name in ("W_V", "W_O", "W_D"))
    layer = AttentionLayer(*head_weights(arrays), *after)
    if "W_V_corrections" in arrays:
        return ExtendedLayer(layer, arrays["W_V_corrections"], precision)
    return layer
