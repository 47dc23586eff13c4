"""Tables of memorizers and decoders: a few facts, and a row for each head or tensor."""

from collections.abc import Mapping
from fractions import Fraction

from constructive.exact.directed import fixed, percent
from constructive.layers.decoder_record import DecoderRecord
from constructive.layers.layer import Layer
from constructive.layers.record import BuildRecord, HeadRecord, TrainedRecord
from constructive.support.arrays import Array
from constructive.support.tables import Sheet, new_table

_HEADINGS = "head", "examples", "sharpness", "saturated", "rank reached (estimate)"


def memorizer_sheet(layer: Layer, record: BuildRecord | TrainedRecord) -> Sheet:
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


def decoder_sheet(summary: str, record: DecoderRecord, tensors: Mapping[str, Array]) -> Sheet:
    """Return a few facts of a decoder, and a row for each tensor; the summary is one line."""
    built = "" if record.storage == "float32" else ", as built in float32"
    facts = (
        ("parameters", f"{sum(array.size for array in tensors.values()):,}"),
        ("condition of Z", f"{record.condition:.0e} (estimate)"),
        ("smallest margin", f"{fixed(record.margin, 2, above=False)} (measured{built})"),
        ("of it float32 may take", f"{percent(record.share, 0)} at worst{built}"),
        ("seed", str(record.seed)),
    )
    table = new_table("tensor", "shape", "what")
    what = {
        "embedding": "a row for each token",
        "positions": "a row for each position",
        "W_Q": "queries of each head",
        "W_K": "keys of each head",
        "U": f"effective readout of x and {len(tensors['W_Q'])} heads",
        "unembedding": "a row for each token, and for the end",
    }
    for name, array in tensors.items():
        table.add_row(name, " x ".join(map(str, array.shape)), what[name])
    return Sheet(f"Decoder: {summary}", facts, table)
