"""The record of a memorizer: how its weights came to be, and what was measured then."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from constructive.data.labels import Label, require_classes
from constructive.layers.layer import Layer
from constructive.layers.shapes import FLOAT64_BITS

Facts = tuple[tuple[str, str], ...]

# Constructions with groups of the theorems, in files that do not say so themselves.
_GROUPED_BEFORE = "saturated", "rank_one", "schur"


@dataclass(frozen=True)
class HeadRecord:
    """What one head did: its examples start..stop-1, and how it saturates on the others.

    Attributes:
        start: its first example, in the order in which heads take them
        stop: the one after its last example; `start` where it has none
        sharpness: c, or 0 where the head has no saturating part
        saturated_fraction: measured share of the other examples with at most 1e-6 attention off
            the top; 0 for rational weights, where it is not measured
        rank_reached: estimated (in floats) rank of Z on the examples of this head and those before
            it; exact for rational weights
    """

    start: int
    stop: int
    sharpness: float
    saturated_fraction: float
    rank_reached: int


@dataclass(frozen=True)
class BuildRecord:
    """How a memorizer came to be, and what was measured on its data.

    Attributes:
        construction: its name, such as "saturated"
        shared_keys: whether all heads score tokens along one key direction
        num_examples: T
        context_size: n
        capacity: how many examples the theorem promises for these heads, T or more
        seed: of all random choices
        saturated_fraction: share of the examples off its group on which a head had to saturate; 0
            for rational weights
        scalar_targets: whether targets are (T,) rather than (T, d_out)
        condition: estimated condition number of Z, or the largest one of the systems that were
            solved instead of it; NaN for rational weights, where it is not estimated
        max_error: the largest `|f - y|`, as float64 evaluates the layer; an upper bound from balls
            where precision > 53; exact for rational weights. Where construction is "paired",
            heads are evaluated on their own examples, and elsewhere where they are not saturated
            (`Memorizer.max_error` evaluates all)
        largest_target: the largest size of an entry of the targets
        heads: what each of the H heads did
        precision: bits of the readout; 53, those of a float64, also for rational weights
        order: the examples in the order in which heads take them, or () for the order given
        classes: what the d_out outputs stand for, or () where targets are not classes
            (`Dataset.of_classes`)
        coupled: pairs of an example and a head (or pair of heads) beside the groups that are not
            saturated, and were solved for; counted where construction is "paired"
        formula: how many examples the theorem promises, in symbols; "" in older files
        theorem: where that is proved; "" in older files
        grouped: whether its groups are those of the theorems, of which certificates speak then
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
    classes: tuple[Label, ...] = ()
    formula: str = ""
    theorem: str = ""
    grouped: bool = False

    constant: ClassVar[bool] = False

    @property
    def small_groups(self) -> bool:
        """Whether groups have at most n, and then n - 1 examples: those of Theorems 1 and 2."""
        most = [self.context_size, *[max(self.context_size - 1, 1)] * len(self.heads)]
        return all(head.stop - head.start <= k for head, k in zip(self.heads, most, strict=False))

    def summary(self, layer: Layer) -> str:
        """Describe a memorizer in a line.

        Args:
            layer: the weights of the memorizer
        """
        return (
            f"{self.construction}, T={self.num_examples} of {self.capacity}, "
            f"H={layer.num_heads}, n={self.context_size}, d={layer.width}, d_h={layer.head_dim}, "
            f"max error {self.max_error:.1e}"
        )

    def title(self, layer: Layer) -> str:
        """Return the title of its table.

        Args:
            layer: the weights of the memorizer
        """
        return f"{self.construction} heads, {layer.in_words}"

    def facts(self, layer: Layer) -> Facts:
        """Return the lines above the heads in its table, as names and texts.

        Args:
            layer: the weights of the memorizer
        """
        bound = f"{self.formula} = {self.capacity} ({self.theorem})"
        if not self.formula:
            bound = str(self.capacity)
        error = f"{self.max_error:.1e} on targets of size {self.largest_target:.2g}"
        estimated = math.isfinite(self.condition)
        return (
            ("layer", _sizes(layer, f"H = {layer.num_heads}, n = {self.context_size}")),
            ("examples", f"{self.num_examples}, bound {bound}"),
            ("max error", error),
            ("condition", f"{self.condition:.1e} (estimate)" if estimated else "not estimated"),
        )


@dataclass(frozen=True)
class TrainedRecord:
    """What is known of weights that were not built here: where they came from.

    Attributes:
        source: the class of the module that they were read from
        scalar_targets: whether outputs are (T,) rather than (T, d_out)
        constant: whether they are for data with a constant entry (`Dataset.with_constant`)
    """

    source: str
    scalar_targets: bool
    constant: bool

    construction: ClassVar[str] = "trained"
    precision: ClassVar[int] = FLOAT64_BITS
    heads: ClassVar[tuple[HeadRecord, ...]] = ()
    order: ClassVar[tuple[int, ...]] = ()
    classes: ClassVar[tuple[Label, ...]] = ()
    grouped: ClassVar[bool] = False
    small_groups: ClassVar[bool] = False
    context_size: ClassVar[int] = 0

    def summary(self, layer: Layer) -> str:
        """Describe a memorizer in a line.

        Args:
            layer: the weights of the memorizer
        """
        return f"of a {self.source}, {layer!r}"

    def title(self, layer: Layer) -> str:
        """Return the title of its table.

        Args:
            layer: the weights of the memorizer
        """
        return f"weights of a {self.source}, {layer.in_words}"

    def facts(self, layer: Layer) -> Facts:
        """Return the lines of its table, as names and texts.

        Args:
            layer: the weights of the memorizer
        """
        return (("layer", _sizes(layer, f"H = {layer.num_heads}")),)


def _sizes(layer: Layer, heads: str) -> str:
    return (
        f"{heads}, d = {layer.width}, d_h = {layer.head_dim}, {layer.num_parameters:,} parameters"
    )


def read_record(fields: dict[str, Any]) -> BuildRecord | TrainedRecord:
    """Return a record from the fields of its JSON."""
    if not isinstance(fields, dict):
        raise TypeError("its record is not an object")
    if "source" in fields:
        trained: TrainedRecord = _typed(TrainedRecord, fields)
        if not trained.source.isprintable():
            raise ValueError("its source is not printable")
        return trained
    fields = {"grouped": fields["construction"] in _GROUPED_BEFORE, **fields}
    heads = tuple(_typed(HeadRecord, head) for head in fields.pop("heads"))
    order = tuple(fields.pop("order", ()))
    classes = require_classes(fields.pop("classes", ()))
    listed = {"heads": heads, "order": order, "classes": classes}
    record: BuildRecord = _typed(BuildRecord, {**fields, **listed})
    permuted = len(order) == record.num_examples and sorted(order) == list(range(len(order)))
    if order and not permuted:
        raise ValueError("its order is not an order of the examples")
    stops = [0, *(head.stop for head in record.heads)]
    tiled = [head.start for head in record.heads] == stops[:-1] and stops == sorted(stops)
    if not tiled or stops[-1] > record.num_examples:
        raise ValueError("its groups are not groups of its examples")
    words = record.construction, record.formula, record.theorem
    if not all(map(str.isprintable, words)):
        raise ValueError("what it says of its construction is not printable")
    return record


def _typed(kind: type[Any], fields: dict[str, Any]) -> Any:  # noqa: ANN401
    record = kind(**fields)
    for field in dataclasses.fields(kind):
        value = getattr(record, field.name)
        expected = tuple if field.name in {"heads", "order", "classes"} else field.type
        if not isinstance(value, (float, int) if expected is float else expected):  # type: ignore[arg-type]
            message = f"{field.name} is {value!r}"
            raise TypeError(message)
        if isinstance(value, int):
            float(value)  # OverflowError for integers beyond all floats
    return record
