"""`Memorizer`: a layer with the record of how it was built, its files and its table."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from constructive import tables
from constructive.attention import AttentionLayer
from constructive.dataset import Array, Dataset
from constructive.errors import DataError, FormatError, ParameterError
from constructive.exact.extended import ExtendedLayer
from constructive.exact.rational import Fractions, RationalDataset, RationalLayer
from constructive.files import replacing

_FORMAT = "constructive memorizer 1"
FLOAT64 = 53
"""Bits of a float64, and so of a readout which is no sum of several."""


@dataclass(frozen=True)
class HeadRecord:
    """What one head did: its examples start..stop-1, and how it saturates on the others.

    sharpness: c, or 0 where the head has no saturating part
    saturated_fraction: measured share of the other examples with at most 1e-6 attention off the top
    rank_reached: estimated (in floats) rank of Z on the examples of this head and those before it
    """

    start: int
    stop: int
    sharpness: float
    saturated_fraction: float
    rank_reached: int


@dataclass(frozen=True)
class BuildRecord:
    """How a memorizer came to be, and what was measured on its data.

    max_error: as float64 evaluates the layer; an upper bound from balls where precision > 53
        where construction is "paired" or "schur", heads are evaluated on their own examples, and
        elsewhere where they are not saturated (`Memorizer.max_error` evaluates all)
    condition: estimated condition number of Z, or the largest one of the systems that were solved
        instead of it
    precision: bits of the readout
    order:     the examples in the order in which heads take them, or () for the order given
    coupled:   pairs of an example and a head (or pair of heads) beside the groups which are not
               saturated, and were solved for; counted where construction is "paired" or "schur"
    """

    construction: str
    shared_keys: bool
    num_examples: int
    context_size: int
    capacity: int
    seed: int
    saturated_fraction: float
    scalar_targets: bool
    condition: float
    max_error: float
    largest_target: float
    heads: tuple[HeadRecord, ...]
    precision: int = 53
    order: tuple[int, ...] = ()
    coupled: int = 0


@dataclass(frozen=True, eq=False)
class Memorizer:
    """A layer whose weights were constructed to reproduce every target of a data set.

    layer:  the weights: `AttentionLayer`, or `ExtendedLayer` where the readout has more bits, or
            `RationalLayer` where all is rational
    record: how they were built, head by head, and the error measured on the data

    `repr` is one line, `str` a table.
    """

    layer: AttentionLayer | ExtendedLayer | RationalLayer
    record: BuildRecord

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
        if not isinstance(self.layer, AttentionLayer):
            raise ParameterError(
                f"the weights of a {type(self.layer).__name__} do not survive rounding to {dtype}",
                witness=type(self.layer).__name__,
                suggestion="a memorizer built with precision=53 and arithmetic='float'",
            )
        return dataclasses.replace(self, layer=self.layer.astype(dtype))

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, whole or not at all.

        Tensors W_Q, W_K, W_V, W_O, W_D as in `AttentionLayer`, and W_V_corrections where the
        readout has more bits (`ExtendedLayer`); the record is JSON in the metadata. Raises
        ParameterError for rational weights, which are not floats: build them anew from the seed.
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
            tensors = deserialize(content)
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                found = metadata.get("format")
                message = f"its format is {found!r}, not {_FORMAT!r}"
                raise ValueError(message)
            record = _read_record(json.loads(metadata["record"]))
            layer = _read_layer(tensors, record.precision)
            if len(record.heads) != layer.num_heads:
                message = f"{layer.num_heads} heads have {len(record.heads)} records"
                raise ValueError(message)
        except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
            message = f"{path} is not a memorizer: {error}"
            suggestion = "a file written by Memorizer.save or `constructive build`"
            raise FormatError(message, witness=str(path), suggestion=suggestion) from error
        return cls(layer, record)

    def __repr__(self) -> str:
        layer, record = self.layer, self.record
        return (
            f"Memorizer({record.construction}, T={record.num_examples} of {record.capacity}, "
            f"H={layer.num_heads}, n={record.context_size}, d={layer.width}, d_h={layer.head_dim}, "
            f"max error {record.max_error:.1e})"
        )

    def __str__(self) -> str:
        record, layer = self.record, self.layer
        sizes = (
            f"H = {layer.num_heads}, n = {record.context_size}, d = {layer.width}, "
            f"d_h = {layer.head_dim}"
        )
        formula, theorem = _BOUNDS[record.construction]
        bound = f"{formula} = {record.capacity} ({theorem})"
        weights = f"{layer.query_weights.dtype} weights"
        if isinstance(layer, RationalLayer):
            weights = "rational weights (W_K in units of ln 2)"
        elif record.precision > FLOAT64:
            weights += f", readout of {record.precision} bits"
        lines = [
            f"Memorizer: {record.construction} heads, {weights}",
            f"  layer       {sizes}, {layer.num_parameters:,} parameters",
            f"  examples    {record.num_examples}, bound {bound}",
            f"  max error   {record.max_error:.1e} on targets of size {record.largest_target:.2g}",
            f"  condition   {record.condition:.1e} (estimate)"
            if np.isfinite(record.condition)
            else "  condition   not estimated",
            "",
        ]
        table = Table(box=None, pad_edge=False, show_edge=False)
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
        return "\n".join([*lines, *(f"  {line}" for line in tables.lines(table, 100))])


_BOUNDS = {
    "saturated": ("H(min(n, d_h) - 1) + 1", "Theorem 1"),
    "rank_one": ("H(n - 1) + 1", "Theorem 2"),
    "paired": ("(H // 2)(d - 1) + 1", "Theorem 6"),
    "schur": ("H(min(n, d_h) - 1) + 1", "Theorem 1"),
}


def _abridged(records: tuple[HeadRecord, ...]) -> list[tuple[int, HeadRecord | None]]:
    """All heads of a small layer; the first and the last ones of a large layer."""
    rows: list[tuple[int, HeadRecord | None]] = list(enumerate(records))
    return rows if len(rows) <= 12 else [*rows[:8], (8, None), *rows[-3:]]


def _read_layer(tensors: dict[str, Array], precision: int) -> AttentionLayer | ExtendedLayer:
    layer = AttentionLayer(*(tensors[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_D")))
    if "W_V_corrections" in tensors:
        return ExtendedLayer(layer, tensors["W_V_corrections"], precision)
    return layer


def _read_record(fields: dict[str, Any]) -> BuildRecord:
    """A record from its JSON; TypeError or ValueError for anything else."""
    heads = tuple(_typed(HeadRecord, head) for head in fields.pop("heads"))
    order = tuple(fields.pop("order", ()))
    record: BuildRecord = _typed(BuildRecord, {**fields, "heads": heads, "order": order})
    if order and sorted(order) != list(range(record.num_examples)):
        raise ValueError("its order is no order of the examples")
    stops = [0, *(head.stop for head in record.heads)]
    tiled = [head.start for head in record.heads] == stops[:-1] and stops == sorted(stops)
    if not tiled or stops[-1] > record.num_examples:
        raise ValueError("its groups are no groups of its examples")
    if record.construction not in _BOUNDS:
        raise ValueError(f"its construction is {record.construction!r}")
    return record


def _typed(kind: type[Any], fields: dict[str, Any]) -> Any:  # noqa: ANN401
    record = kind(**fields)
    for field in dataclasses.fields(kind):
        value = getattr(record, field.name)
        expected = tuple if field.name in {"heads", "order"} else field.type
        if not isinstance(value, (float, int) if expected is float else expected):  # type: ignore[arg-type]
            message = f"{field.name} is {value!r}"
            raise TypeError(message)
    return record
