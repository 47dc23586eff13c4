"""`build_memorizer`: the theorem as one function, and the `Memorizer` it returns."""

import dataclasses
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from constructive import capacity
from constructive.attention import AttentionLayer
from constructive.dataset import Array, Dataset
from constructive.errors import DataError, FormatError, ParameterError, PrecisionError
from constructive.exact import extended, rational, specialize
from constructive.exact.extended import ExtendedLayer
from constructive.exact.rational import Fractions, RationalDataset, RationalLayer
from constructive.files import replacing
from constructive.multihead import assumptions, grouping, heads, intermediate, readout
from constructive.multihead.intermediate import Progress, silent

_FORMAT = "constructive memorizer 1"
_FLOAT64 = 53
_LADDER = (106, 212, 424, 848)
"""Bits which precision="auto" tries beyond float64."""
_MOST_BITS = 4096


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
    precision: bits of the readout
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
        bound = (
            f"H(min(n, d_h) - 1) + 1 = {record.capacity} (Theorem 1)"
            if record.construction == "saturated"
            else f"H(n - 1) + 1 = {record.capacity} (Theorem 2)"
        )
        weights = f"{layer.query_weights.dtype} weights"
        if isinstance(layer, RationalLayer):
            weights = "rational weights (W_K in units of ln 2)"
        elif record.precision > _FLOAT64:
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
        text = io.StringIO()
        Console(file=text, width=100, color_system=None, legacy_windows=False).print(table)
        rows = [f"  {line.rstrip()}" for line in text.getvalue().splitlines()]
        return "\n".join([*lines, *rows])


def build_memorizer(
    dataset: Dataset | RationalDataset,
    *,
    num_heads: int,
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
    shared_keys: bool = False,
    saturated_fraction: float = 0.99,
    tolerance: float = 1e-6,
    precision: int | Literal["auto"] = 53,
    arithmetic: Literal["float", "rational"] = "float",
    seed: int = 0,
    progress: Progress = silent,
) -> Memorizer:
    """Build weights which memorize a data set, by the proof of Theorem 1 or of Theorem 2.

    dataset:      T examples
    num_heads:    H
    head_dim:     d_h; by default n for saturated heads, 1 for rank-one heads
    value_dim:    d_v >= d_out; by default d_out
    construction: "saturated" (Theorem 1, T <= H(min(n, d_h) - 1) + 1), "rank_one" (Theorem 2,
                  T <= H(n - 1) + 1 for every d_h), or "auto": saturated where T allows it
    shared_keys:  all heads score tokens along one key direction
    saturated_fraction: share of the examples off its group on which a head must saturate
    tolerance:    largest error which is handed out, for each entry of the targets relative to the
                  largest target there
    precision:    bits of the readout. Beyond 53 it is solved in balls, stored as a sum of float64
                  arrays, and evaluated in balls (`ExtendedLayer`). "auto": float64 where it meets
                  the tolerance, else as many bits as reproduce the targets to float64 accuracy
    arithmetic:   "rational": weights from small integers, for integer or short rational data; then
                  predictions are Fractions, and each == its target (`exact.rational`)
    seed:         of all random choices; the same seed on one machine gives the same bits
    progress:     called with (step, done, total) during long work

    The error on the data is measured before the memorizer is returned.

    Raises
      ParameterError   for arguments which make no sense
      CapacityError    for more examples than the theorem holds; says how many heads would do
      AssumptionError  for a context without rank n, dependent queries, repeated inputs
      DataError        for equal inputs with different targets
      PrecisionError   if the readout misses the tolerance at this precision

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Theorem 1; rank-one heads are ours.

    >>> from constructive import build_memorizer, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    >>> memorizer = build_memorizer(data, num_heads=3)  # T = 7 = H(n - 1) + 1
    >>> bool(abs(memorizer.predict(data.contexts, data.queries) - data.targets).max() < 1e-10)
    True
    """
    if arithmetic != "float":
        return _rational(dataset, num_heads, head_dim, construction, arithmetic, seed)
    if isinstance(dataset, RationalDataset):
        raise ParameterError(
            "the data are rational, the arithmetic is not",
            witness=arithmetic,
            suggestion="arithmetic='rational', or a Dataset",
        )
    _check_parameters(dataset, value_dim, saturated_fraction, tolerance, precision, seed)
    plan = capacity.plan(
        num_examples=dataset.num_examples,
        context_size=dataset.context_size,
        num_heads=num_heads,
        head_dim=head_dim,
        construction=construction,
    )
    rng = np.random.default_rng(seed)

    assumed = assumptions.check(dataset)
    groups = grouping.partition(dataset, num_heads)
    progress("build heads", 0, num_heads)
    built = heads.construct(
        dataset, assumed, groups, plan,
        shared_keys=shared_keys, fraction=saturated_fraction, rng=rng,
    )  # fmt: skip
    z = intermediate.assemble(dataset, built, progress=progress)
    progress("solve for the readout", 0, 1)
    solution = readout.solve(z, dataset.target_matrix)

    layer = AttentionLayer.from_effective_readout(
        z.query_weights, z.key_weights, solution.effective, value_dim
    )
    record = BuildRecord(
        construction=plan.construction,
        shared_keys=shared_keys,
        num_examples=dataset.num_examples,
        context_size=dataset.context_size,
        capacity=plan.capacity,
        seed=seed,
        saturated_fraction=saturated_fraction,
        scalar_targets=dataset.targets.ndim == 1,
        condition=solution.condition,
        max_error=float(solution.residuals.max()),
        largest_target=float(np.abs(dataset.targets).max()),
        heads=_head_records(built, z, solution),
    )
    largest = np.abs(dataset.target_matrix).max(axis=0)
    carried = bool((solution.residuals <= tolerance * largest).all())
    precisions: tuple[int, ...] = ()
    if precision == "auto":
        precisions = () if carried else _LADDER
    elif precision > _FLOAT64:
        precisions = (precision,)
    if not precisions:
        if not carried:
            raise _imprecise(dataset, plan, solution)
        return Memorizer(layer, record)
    progress("solve in balls", 0, 1)
    return _extended(dataset, layer, record, precisions, tolerance, rng)


def _rational(
    dataset: Dataset | RationalDataset,
    num_heads: int,
    head_dim: int | None,
    construction: str,
    arithmetic: str,
    seed: int,
) -> Memorizer:
    """The memorizer with rational weights."""
    if arithmetic != "rational":
        raise ParameterError(
            f"unknown arithmetic={arithmetic!r}",
            witness=arithmetic,
            suggestion="'float' or 'rational'",
        )
    if not isinstance(dataset, RationalDataset):
        dataset = RationalDataset(dataset.contexts, dataset.queries, dataset.targets)
    plan = capacity.plan(
        num_examples=dataset.num_examples,
        context_size=dataset.context_size,
        num_heads=num_heads,
        head_dim=head_dim,
        construction=construction,
    )
    layer = rational.construct(dataset, plan, num_heads, np.random.default_rng(seed))
    stops = np.cumsum(capacity.group_sizes(dataset.num_examples, num_heads)).tolist()
    record = BuildRecord(
        construction=plan.construction,
        shared_keys=False,
        num_examples=dataset.num_examples,
        context_size=dataset.context_size,
        capacity=plan.capacity,
        seed=seed,
        saturated_fraction=0.0,
        scalar_targets=dataset.targets.ndim == 1,
        condition=float("nan"),
        max_error=layer.max_error(dataset),
        largest_target=float(max(abs(x) for x in dataset.targets.ravel())),
        heads=tuple(
            HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=stop)
            for start, stop in zip([0, *stops[:-1]], stops, strict=True)
        ),
    )
    return Memorizer(layer, record)


def _extended(
    dataset: Dataset,
    layer: AttentionLayer,
    record: BuildRecord,
    precisions: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """The memorizer with the first readout of these precisions which is exact enough."""
    total = dataset.num_examples
    found = specialize.search(layer, dataset, rng)
    if found.rank < total:
        raise PrecisionError(
            f"Z has rank {found.rank} < T={total} modulo {found.tried} primes, probably in truth",
            witness=found.rank,
            suggestion="another seed=, or more heads",
        )
    wanted = tolerance * record.largest_target
    if len(precisions) > 1:  # "auto": no worse than targets in float64
        wanted = min(wanted, record.largest_target * 2.0**-_FLOAT64)
    for precision in precisions:
        parts = extended.solve(layer, dataset, found.columns, precision=precision)
        shape = layer.num_heads, layer.width, dataset.target_dim
        values = [np.zeros_like(layer.value_weights) for _ in parts]
        for value, part in zip(values, parts, strict=True):
            value[:, :, : dataset.target_dim] = part.reshape(shape)
        leading = dataclasses.replace(layer, value_weights=values[0])
        solved = ExtendedLayer(leading, np.stack(values[1:]), precision)
        error = solved.max_error(dataset)
        if error <= wanted:
            record = dataclasses.replace(record, max_error=error, precision=precision)
            return Memorizer(solved, record)
    raise PrecisionError(
        f"a readout of {precision} bits misses the targets by up to {error:.1e}",
        witness={"max_error": error, "precision": precision},
        suggestion=f"precision={2 * precision}",
    )


def _head_records(
    built: tuple[heads.Head, ...], z: intermediate.Intermediate, solution: readout.Readout
) -> tuple[HeadRecord, ...]:
    return tuple(
        HeadRecord(
            start=head.group.start,
            stop=head.group.stop,
            sharpness=head.sharpness,
            saturated_fraction=float(fraction),
            rank_reached=rank,
        )
        for head, fraction, rank in zip(built, z.saturated_fraction, solution.ranks, strict=True)
    )


def _check_parameters(
    dataset: Dataset,
    value_dim: int | None,
    saturated_fraction: float,
    tolerance: float,
    precision: object,
    seed: int,
) -> None:
    if not isinstance(dataset, Dataset):
        message = f"dataset is a {type(dataset).__name__}, not a Dataset"
        raise ParameterError(message, suggestion="Dataset(contexts, queries, targets)")
    if value_dim is not None and value_dim < dataset.target_dim:
        message = (
            f"value_dim={value_dim} is less than the d_out={dataset.target_dim} of the targets"
        )
        suggestion = f"value_dim={dataset.target_dim} or more"
        raise ParameterError(message, witness=value_dim, suggestion=suggestion)
    if not 0.0 <= saturated_fraction <= 1.0:
        message = f"saturated_fraction={saturated_fraction!r} is not a share of the examples"
        raise ParameterError(
            message, witness=saturated_fraction, suggestion="a number from 0 to 1, such as 0.99"
        )
    if not tolerance > 0.0:
        message = f"tolerance={tolerance!r} is not positive"
        raise ParameterError(message, witness=tolerance, suggestion="a number such as 1e-6")
    bits = isinstance(precision, int) and not isinstance(precision, bool)
    if precision != "auto" and not (bits and _FLOAT64 <= precision <= _MOST_BITS):  # type: ignore[operator]
        message = f"precision={precision!r} is not a number of bits"
        suggestion = f"{_FLOAT64} (float64) to {_MOST_BITS}, or 'auto'"
        raise ParameterError(message, witness=precision, suggestion=suggestion)
    if not hasattr(seed, "__index__") or seed < 0:
        message = f"seed={seed!r} is not a non-negative integer"
        raise ParameterError(message, witness=seed, suggestion="seed=0")


def _imprecise(dataset: Dataset, plan: capacity.Plan, solution: readout.Readout) -> PrecisionError:
    """What to say of a float64 readout which misses a target by more than its share."""
    largest = np.abs(dataset.target_matrix).max(axis=0)
    worst = int(np.argmax(solution.residuals / np.maximum(largest, np.finfo(float).tiny)))
    error = float(solution.residuals[worst])
    message = (
        f"float64 cannot carry this readout: max error {error:.1e} on targets of size "
        f"{largest[worst]:.2g}; the condition number of Z is about "
        f"{solution.condition:.0e} (estimate)"
    )
    ways = ["precision='auto', a readout beyond float64"]
    if dataset.shared_context and plan.construction == "rank_one":
        ways.append(
            "construction='saturated' with head_dim=n, or own contexts: rank-one heads on a shared "
            f"context are ill-conditioned from about n=16 on (here n={dataset.context_size})"
        )
    ways.append("more heads, which lowers the condition number")
    witness = {"max_error": error, "condition": solution.condition}
    return PrecisionError(message, witness=witness, suggestion="; ".join(ways))


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
    record: BuildRecord = _typed(BuildRecord, {**fields, "heads": heads})
    return record


def _typed(kind: type[Any], fields: dict[str, Any]) -> Any:  # noqa: ANN401
    record = kind(**fields)
    for field in dataclasses.fields(kind):
        value = getattr(record, field.name)
        expected = tuple if field.name == "heads" else field.type
        if not isinstance(value, (float, int) if expected is float else expected):  # type: ignore[arg-type]
            message = f"{field.name} is {value!r}"
            raise TypeError(message)
    return record
