"""A decoder as a table, which `str` and notebooks show."""

from collections.abc import Mapping

from constructive.exact.directed import fixed, percent
from constructive.layers.decoder_record import DecoderRecord
from constructive.support.arrays import Array
from constructive.support.tables import Sheet, new_table


def sheet(summary: str, record: DecoderRecord, tensors: Mapping[str, Array]) -> Sheet:
    """Return the table.

    Args:
        summary: one line
        record: how the decoder was built
        tensors: its weights by name
    """
    built = "" if record.storage == "float32" else ", as built in float32"
    facts = (
        ("parameters", f"{sum(array.size for array in tensors.values()):,}"),
        ("condition of Z", f"{record.condition:.0e} (estimate)"),
        ("smallest margin", f"{fixed(record.margin, 2, above=False)} (measured{built})"),
        ("of it float32 may take", f"{percent(record.share, 0)} at worst{built}"),
        ("seed", str(record.seed)),
    )
    table = new_table("tensor", "shape", "what")
    about = {
        "embedding": "a row for each token",
        "positions": "a row for each position",
        "W_Q": "queries of each head",
        "W_K": "keys of each head",
        "U": f"effective readout of x and {len(tensors['W_Q'])} heads",
        "unembedding": "a row for each token, and for the end",
    }
    for name, array in tensors.items():
        table.add_row(name, " x ".join(map(str, array.shape)), about[name])
    return Sheet(f"Decoder: {summary}", facts, table)
