"""Records: how weights came to be, what was measured then, and tables."""

import dataclasses
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from constructive.data.labels import Label, require_classes
from constructive.exact.directed import percent
from constructive.layers.layer import FLOAT64_BITS, AttentionLayer
from constructive.support.errors import shown, with_article
from constructive.support.tables import Sheet, new_table

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
            the top
        rank_reached: estimated (in floats) rank of Z on the examples of this head and those before
            it
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
        num_examples: T
        context_size: n
        capacity: how many examples the theorem promises for these heads, T or more
        seed: of all random choices
        saturated_fraction: share of the examples off its group on which a head had to saturate
        scalar_targets: whether targets are (T,) rather than (T, d_out)
        condition: estimated condition number of Z, or the largest one of the systems that were
            solved instead of it; NaN where it is not estimated
        max_error: the largest `|f - y|`, as `Memorizer.max_error` evaluates it, unless `own_heads`
        largest_target: the largest size of an entry of the targets
        heads: what each of the H heads did; () where examples do not belong to heads
        precision: bits of the readout; 53 are those of a float64
        order: the examples in the order in which heads take them, or () for the order given
        classes: what the d_out outputs stand for, or () where targets are not classes
            (`Dataset.of_classes`)
        coupled: pairs of an example and a head (or pair of heads) beside the groups that are not
            saturated, and were solved for; counted where construction is "paired"
        scale: r, by which readouts of "tangent" are larger than at the weights where all outputs
            are zero; 1 elsewhere
        formula: how many examples the theorem promises, in symbols; "" in older files
        theorem: where that is proved; "" in older files
        grouped: whether its groups are those of the theorems, of which certificates speak then
        free: whether heads were chosen for the targets, so that no groups are on record
        own_heads: whether max_error is what the heads of an example's own pair miss it by, with
            those that are not saturated on it: to evaluate all would take far longer than the build
    """

    construction: str
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
    scale: float = 1.0
    formula: str = ""
    theorem: str = ""
    grouped: bool = False
    free: bool = False
    own_heads: bool = False

    constant: ClassVar[bool] = False

    def summary(self, layer: AttentionLayer) -> str:
        """Describe a memorizer in a line."""
        return (
            f"{self.construction}, T={self.num_examples} of {self.capacity}, "
            f"H={layer.num_heads}, n={self.context_size}, d={layer.width}, d_h={layer.head_dim}, "
            f"max error {self._error}"
        )

    @property
    def _error(self) -> str:
        return f"{self.max_error:.1e}" + " (own heads)" * self.own_heads

    def title(self, layer: AttentionLayer) -> str:
        """Return the title of its table."""
        return f"{self.construction} heads, {layer.in_words}"

    def facts(self, layer: AttentionLayer) -> Facts:
        """Return the lines above the heads in its table, as names and texts."""
        bound = f"{self.formula} = {self.capacity} ({self.theorem})"
        if not self.formula:
            bound = str(self.capacity)
        error = f"{self._error} on targets of size {self.largest_target:.2g}"
        estimated = math.isfinite(self.condition)
        facts = (
            ("layer", _sizes(layer, f"H = {layer.num_heads}, n = {self.context_size}")),
            ("examples", f"{self.num_examples}, bound {bound}"),
            ("max error", error),
            ("condition", f"{self.condition:.1e} (estimate)" if estimated else "not estimated"),
        )
        load = f"{self.scale:.2g}, at a load of {self.num_examples / self.capacity:.0%}"
        return (*facts, ("scale", load)) if self.scale != 1.0 else facts


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
    free: ClassVar[bool] = False
    context_size: ClassVar[int] = 0

    def summary(self, layer: AttentionLayer) -> str:
        """Describe a memorizer in a line."""
        return f"of {with_article(self.source)}, {layer!r}"

    def title(self, layer: AttentionLayer) -> str:
        """Return the title of its table."""
        return f"weights of {with_article(self.source)}, {layer.in_words}"

    def facts(self, layer: AttentionLayer) -> Facts:
        """Return the lines of its table, as names and texts."""
        return (("layer", _sizes(layer, f"H = {layer.num_heads}")),)


def _sizes(layer: AttentionLayer, heads: str) -> str:
    return (
        f"{heads}, d = {layer.width}, d_h = {layer.head_dim}, {layer.num_parameters:,} parameters"
    )


def read_record(fields: dict[str, Any]) -> BuildRecord | TrainedRecord:
    """Return a record from the fields of its JSON."""
    if not isinstance(fields, dict):
        raise TypeError("its record is not an object")
    if "source" in fields:
        trained: TrainedRecord = typed(TrainedRecord, fields)
        if not trained.source.isprintable():
            raise ValueError("its source is not printable")
        return trained
    construction = fields["construction"]
    before = {"grouped": construction in _GROUPED_BEFORE, "free": construction == "tangent"}
    fields = {**before, **fields}
    for gone in ("lead", "shared_keys"):  # of older files
        fields.pop(gone, None)
    heads = tuple(typed(HeadRecord, head) for head in fields.pop("heads"))
    order = tuple(fields.pop("order", ()))
    classes = require_classes(fields.pop("classes", ()))
    listed = {"heads": heads, "order": order, "classes": classes}
    record: BuildRecord = typed(BuildRecord, {**fields, **listed})
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


def typed(kind: type[Any], fields: dict[str, Any]) -> Any:  # noqa: ANN401 - of that kind
    """Return a record of a file. Raises TypeError for fields that are not what they should be."""
    record = kind(**fields)
    for field in dataclasses.fields(kind):
        value = getattr(record, field.name)
        if field.name in {"heads", "order", "classes"}:
            known = isinstance(value, tuple)
        elif field.type in {int, float}:
            known = _is_size(value, **_SPECIAL.get(field.name, {}))
            known = known and (field.type is float or isinstance(value, int))
        else:
            known = isinstance(value, field.type)  # type: ignore[arg-type] # it is a class
        if not known:
            raise TypeError(f"{field.name} is {shown(value)}")
    return record


_SPECIAL: dict[str, dict[str, Any]] = {
    "saturated_fraction": {"most": 1},
    "condition": {"unknown": True},
    "share": {"unknown": True},  # infinite where nothing bounds it
    "margin": {"least": -math.inf, "most": math.inf},  # below zero if rounding takes more than it
}


def _is_size(
    value: object,
    least: float = 0.0,
    most: float = sys.float_info.max,
    *,
    unknown: bool = False,
) -> bool:
    """Return whether it is a number in this range; NaN and infinity where it may be unknown."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    special = unknown and isinstance(value, float) and not math.isfinite(value)
    return least <= value <= most or (special and value != -math.inf)


# Tables of memorizers: a few facts, and a row for each head.


_HEADINGS = "head", "examples", "sharpness", "saturated", "rank reached (estimate)"


def memorizer_sheet(layer: AttentionLayer, record: BuildRecord | TrainedRecord) -> Sheet:
    """Return a few facts of a layer and its record, and a row for each head."""
    table = new_table(*_HEADINGS if record.heads else (), left=())
    for index, head in _abridged(record.heads):
        if head is None:
            table.add_row("...", "", "", "", "")
            continue
        others = record.heads[-1].stop > head.stop - head.start
        table.add_row(
            str(index),
            f"{head.start}..{head.stop - 1}" if head.stop > head.start else "none",
            f"{head.sharpness:.1e}" if head.sharpness else "-",
            _at_least(head.saturated_fraction) if others else "-",
            f"{head.rank_reached} of {head.stop}",
        )
    return Sheet(f"Memorizer: {record.title(layer)}", record.facts(layer), table)


def _at_least(share: float) -> str:
    """Return a share of examples, which is a ratio of counts, rounded down."""
    return percent(Fraction(share).limit_denominator(10**9), above=False)


def _abridged(records: tuple[HeadRecord, ...]) -> list[tuple[int, HeadRecord | None]]:
    """Return all heads of a small layer; the first and the last ones of a large layer."""
    rows: list[tuple[int, HeadRecord | None]] = list(enumerate(records))
    return rows if len(rows) <= 12 else [*rows[:8], (8, None), *rows[-3:]]
