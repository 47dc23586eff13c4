"""How a sequence memorizer came to be, as its file keeps it."""

import dataclasses
from dataclasses import dataclass

from constructive.sequences.bounds import Sizes
from constructive.sequences.storage import Json

_LARGEST = 1 << 32  # Of the sizes in a record


@dataclass(frozen=True)
class SequenceRecord:
    """How a sequence memorizer came to be.

    Attributes:
        construction: as in `build_sequence_memorizer`
        max_word_bits: as there
        seed: as there
        num_sequences: N
        sizes: the numbers in the bound of Theorem 7 (`sequences.bounds`)
    """

    construction: str
    max_word_bits: int | None
    seed: int
    num_sequences: int
    sizes: Sizes


def read_record(content: Json) -> SequenceRecord:
    """Return the record of a file. Raises ValueError, TypeError or KeyError for what is none."""
    record = dict(content)
    sizes = Sizes(**record.pop("sizes"))
    found = SequenceRecord(**record, sizes=sizes)
    counts = [*dataclasses.astuple(sizes), found.seed, found.num_sequences]
    if found.max_word_bits is not None:
        counts.append(found.max_word_bits)
    small = all(type(x) is int and 0 <= x < _LARGEST for x in dataclasses.astuple(sizes))
    if not small or any(type(x) is not int or x < 0 for x in counts):
        raise ValueError("a number of its record is not a number")
    if not (isinstance(found.construction, str) and found.construction.isidentifier()):
        raise ValueError("the construction in its record is not a name")
    return found
