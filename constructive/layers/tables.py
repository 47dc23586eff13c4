"""What a memorizer shows of itself: a few facts, and a row for each head."""

from fractions import Fraction

from constructive.exact.directed import percent
from constructive.layers.layer import Layer
from constructive.layers.record import BuildRecord, HeadRecord, TrainedRecord
from constructive.support.tables import Sheet, new_table

_HEADINGS = "head", "examples", "sharpness", "saturated", "rank reached (estimate)"


def sheet(layer: Layer, record: BuildRecord | TrainedRecord) -> Sheet:
    """Return the table of a layer and its record."""
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
