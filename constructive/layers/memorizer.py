"""`Memorizer`: a layer with the record of how it was built, its files and its table."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.table import Table
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from constructive.data.dataset import Dataset
from constructive.data.rational import Fractions, RationalDataset
from constructive.layers.attention import AttentionLayer, require_single_target
from constructive.layers.extended import ExtendedLayer
from constructive.layers.rational import RationalLayer
from constructive.layers.record import (
    FLOAT64,
    BuildRecord,
    HeadRecord,
    TrainedRecord,
    read_record,
)
from constructive.support.arrays import Array
from constructive.support.errors import DataError, FormatError, ParameterError
from constructive.support.extras import require
from constructive.support.files import replacing
from constructive.support.tables import Sheet

if TYPE_CHECKING:
    import torch

    from constructive.constructions.construction import Construction

_FORMAT = "constructive memorizer 1"


@dataclass(frozen=True, eq=False)
class Memorizer:
    """A layer whose weights were constructed to reproduce every target of a data set.

    layer:  the weights: `AttentionLayer`, or `ExtendedLayer` where the readout has more bits, or
            `RationalLayer` where all is rational
    record: how they were built, head by head, and the error measured on the data; or where they
            come from (`from_torch`)

    `repr` is one line, `str` a table, and so is the HTML which notebooks show.
    """

    layer: AttentionLayer | ExtendedLayer | RationalLayer
    record: BuildRecord | TrainedRecord

    def __post_init__(self) -> None:
        require_single_target(self.layer.target_dim, scalar_targets=self.record.scalar_targets)

    @property
    def built(self) -> BuildRecord:
        """The record of a memorizer which was built. Raises ParameterError for trained weights."""
        if isinstance(self.record, TrainedRecord):
            raise ParameterError(
                f"weights of a {self.record.source} were not built here, and have no groups",
                witness=self.record.source,
                suggestion="a memorizer from build_memorizer, or memorizer.max_error(dataset)",
            )
        return self.record

    def predict(self, contexts: npt.ArrayLike, queries: npt.ArrayLike) -> Array | Fractions:
        """Evaluate the layer: (T,) if it memorized targets of shape (T,), else (T, d_out).

        Fractions where the layer is rational, else floats.

        contexts: (T, n, d) or one shared (n, d);  queries: (T, d)
        Raises DataError if the shapes do not fit the layer.
        """
        outputs = self.layer(contexts, queries)
        return outputs[:, 0] if self.record.scalar_targets else outputs

    def max_error(self, dataset: Dataset | RationalDataset) -> float:
        """Largest |f(E, e) - y| over the examples and the entries of their targets.

        As float64 evaluates it; an upper bound, from balls, where the readout has more bits; 0.0
        just where f == y, if the layer is rational.

        Raises DataError if the shapes do not fit the layer.
        """
        if isinstance(self.layer, RationalLayer):
            return self.layer.max_error(dataset)
        if isinstance(dataset, RationalDataset):
            raise DataError(
                "the data are rational, the layer is not",
                witness=type(dataset).__name__,
                suggestion="a Dataset, or build_memorizer(..., arithmetic='rational')",
            )
        return self.layer.max_error(dataset)

    def astype(self, dtype: npt.DTypeLike) -> "Memorizer":
        """The same memorizer with rounded weights; measure `max_error` anew.

        Raises ParameterError for weights which are not floats.
        """
        layer = self._plain_layer(f"arrays of {np.dtype(dtype)}")
        return dataclasses.replace(self, layer=layer.astype(dtype))

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, whole or not at all; an old file of that name is replaced.

        Tensors W_Q, W_K, W_V, W_O, W_D as in `AttentionLayer`, and W_V_corrections where the
        readout has more bits (`ExtendedLayer`); the record is JSON in the metadata. Raises
        ParameterError for rational weights, which are not floats (build them anew from the seed),
        and OutputError where the file cannot be written.
        """
        if isinstance(self.layer, RationalLayer):
            raise ParameterError(
                "a .safetensors file holds floats, not Fractions",
                witness=type(self.layer).__name__,
                suggestion="keep the data and the seed, which give the same weights again",
            )
        tensors = {name: np.ascontiguousarray(array) for name, array in self.layer.tensors.items()}
        record = json.dumps(dataclasses.asdict(self.record))
        content = serialize(tensors, metadata={"format": _FORMAT, "record": record})
        with replacing(path) as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | Path) -> "Memorizer":
        """Read a file written by `save`.

        Raises FormatError if it is not one, OSError if it cannot be read.
        """
        path = Path(path)
        content = path.read_bytes()
        try:
            if content.startswith(b"PK"):
                raise ValueError("it is a zip archive, as data sets are")
            tensors = deserialize(content)
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                found = metadata.get("format")
                message = f"its format is {found!r}, not {_FORMAT!r}"
                raise ValueError(message)
            record = read_record(json.loads(metadata["record"]))
            layer = _read_layer(tensors, record.precision)
            if isinstance(record, BuildRecord) and record.construction not in _constructions():
                raise ValueError(f"its construction is {record.construction!r}")
            if isinstance(record, BuildRecord) and len(record.heads) != layer.num_heads:
                message = f"{layer.num_heads} heads have {len(record.heads)} records"
                raise ValueError(message)
            return cls(layer, record)
        except (
            SafetensorError, ValueError, TypeError, KeyError, RecursionError, OverflowError,
        ) as error:  # fmt: skip
            message = f"{path} is not a memorizer: {error}"
            suggestion = "a file written by Memorizer.save or `constructive build`"
            raise FormatError(message, witness=str(path), suggestion=suggestion) from error

    def to_torch(
        self, dtype: "torch.dtype | None" = None, *, multihead: bool = False
    ) -> "torch.nn.Module":
        """The layer as a PyTorch module, with the same weights.

        dtype:     what they are rounded to, such as torch.bfloat16; by default as they are
        multihead: False for `interop.pytorch.AttentionModule`, which holds any layer; True for a
                   `torch.nn.MultiheadAttention` and a `torch.nn.Linear` (`MultiheadModule`), which
                   ask for H d_h = d and d_v = d_h

        `forward(contexts, queries)` gives what `predict` does, as tensors. Rounding to float32 or
        bfloat16 is not for free: measure, as with `astype`.

        Raises MissingExtraError without torch, ParameterError for a readout beyond float64, for
        rational weights, and for shapes which `MultiheadAttention` does not have.
        """
        layer = self._plain_layer("PyTorch modules")
        require("torch", extra="torch", purpose="Memorizer.to_torch")
        from constructive.interop import pytorch  # noqa: PLC0415 - torch is optional

        scalar = self.record.scalar_targets
        pytorch.check_dtype(dtype)
        kind = pytorch.multihead_module if multihead else pytorch.AttentionModule
        return kind(layer, scalar_targets=scalar).to(dtype)

    @classmethod
    def from_torch(cls, module: "torch.nn.Module", dataset: Dataset | None = None) -> "Memorizer":
        """Read the weights of a PyTorch module, trained ones also, as they are in evaluation mode.

        module:  what `to_torch` gives, or any module whose `forward(contexts, queries)` is one
                 `torch.nn.MultiheadAttention` (batch_first) and one `torch.nn.Linear`
        dataset: examples on which it is compared with what was read, beside random ones

        Where it has biases, the layer is one for data with a constant entry, of width d + 1
        (`Dataset.with_constant`; see `interop.pytorch` for why). `MultiheadAttention` divides by
        sqrt(d_h); here W_Q is divided, in float64. Other weights are not rounded.

        Raises MissingExtraError without torch, ParameterError for a module which is or does
        something else, as far as these comparisons in float64 show. They are no proof: a module
        which differs elsewhere is not found out.
        """
        require("torch", extra="torch", purpose="Memorizer.from_torch")
        from constructive.interop import pytorch  # noqa: PLC0415 - torch is optional

        found = pytorch.read(module, dataset)
        source = type(module).__name__
        return cls(found.layer, TrainedRecord(source, found.scalar_targets, found.constant))

    def to_onnx(self, path: str | Path, *, shared_context: bool = False) -> None:
        """Write an ONNX model of the layer, whole or not at all; an old file is replaced.

        Inputs contexts (T, n, d) and queries (T, d), output predictions (T,) or (T, d_out), in the
        dtype of the weights; T and n are free. With shared_context, contexts are (n, d).

        Raises MissingExtraError without onnx, ParameterError for a readout beyond float64 and for
        rational weights, OutputError where the file cannot be written.
        """
        layer = self._plain_layer("ONNX models")
        require("onnx", extra="onnx", purpose="Memorizer.to_onnx")
        from constructive.interop import onnx_graph  # noqa: PLC0415 - onnx is optional

        model = onnx_graph.model(
            layer, scalar_targets=self.record.scalar_targets, shared_context=shared_context
        )
        with replacing(path) as file:
            file.write(model.SerializeToString())

    def _plain_layer(self, purpose: str) -> AttentionLayer:
        if not isinstance(self.layer, AttentionLayer):
            raise ParameterError(
                f"{purpose} hold floats, not the weights of a {type(self.layer).__name__}",
                witness=type(self.layer).__name__,
                suggestion="a memorizer built with precision=53 and arithmetic='float'",
            )
        return self.layer

    def __repr__(self) -> str:
        layer, record = self.layer, self.record
        if isinstance(record, TrainedRecord):
            return f"Memorizer(of a {record.source}, {layer!r})"
        return (
            f"Memorizer({record.construction}, T={record.num_examples} of {record.capacity}, "
            f"H={layer.num_heads}, n={record.context_size}, d={layer.width}, d_h={layer.head_dim}, "
            f"max error {record.max_error:.1e})"
        )

    def __str__(self) -> str:
        return self._sheet().text(100)

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        record, layer = self.record, self.layer
        sizes = f"H = {layer.num_heads}, d = {layer.width}, d_h = {layer.head_dim}"
        table = Table(box=None, pad_edge=False, show_edge=False)
        weights = f"{layer.query_weights.dtype} weights"
        if isinstance(record, TrainedRecord):
            title = f"Memorizer: weights of a {record.source}, {weights}"
            return Sheet(
                title, (("layer", f"{sizes}, {layer.num_parameters:,} parameters"),), table
            )
        sizes = sizes.replace("d =", f"n = {record.context_size}, d =", 1)
        if isinstance(layer, RationalLayer):
            weights = "rational weights (W_K in units of ln 2)"
        elif record.precision > FLOAT64:
            weights += f", readout of {record.precision} bits"
        known = _constructions()[record.construction]
        bound = f"{known.formula} = {record.capacity}"
        error = f"{record.max_error:.1e} on targets of size {record.largest_target:.2g}"
        estimated = np.isfinite(record.condition)
        facts = (
            ("layer", f"{sizes}, {layer.num_parameters:,} parameters"),
            ("examples", f"{record.num_examples}, bound {bound} ({known.theorem})"),
            ("max error", error),
            ("condition", f"{record.condition:.1e} (estimate)" if estimated else "not estimated"),
        )
        for heading in ("head", "examples", "sharpness", "saturated", "rank reached (estimate)"):
            table.add_column(heading, justify="right")
        for index, head in _abridged(record.heads):
            if head is None:
                table.add_row("...", "", "", "", "")
                continue
            others = record.num_examples > head.stop - head.start
            group = f"{head.start}..{head.stop - 1}" if head.stop > head.start else "none"
            table.add_row(
                str(index),
                group,
                f"{head.sharpness:.1e}" if head.sharpness else "-",
                f"{head.saturated_fraction:.1%}" if others else "-",
                f"{head.rank_reached} of {head.stop}",
            )
        return Sheet(f"Memorizer: {record.construction} heads, {weights}", facts, table)


def _constructions() -> "Mapping[str, Construction]":
    """What is known of constructions; they build memorizers, and so come after them."""
    from constructive.constructions.registry import CONSTRUCTIONS  # noqa: PLC0415 - see above

    return CONSTRUCTIONS


def _abridged(records: tuple[HeadRecord, ...]) -> list[tuple[int, HeadRecord | None]]:
    """All heads of a small layer; the first and the last ones of a large layer."""
    rows: list[tuple[int, HeadRecord | None]] = list(enumerate(records))
    return rows if len(rows) <= 12 else [*rows[:8], (8, None), *rows[-3:]]


def _read_layer(tensors: dict[str, Array], precision: int) -> AttentionLayer | ExtendedLayer:
    layer = AttentionLayer(*(tensors[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_D")))
    if "W_V_corrections" in tensors:
        return ExtendedLayer(layer, tensors["W_V_corrections"], precision)
    return layer
