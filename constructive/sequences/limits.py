"""How large the sizes of Theorem 7 can be for some data and some network, whatever a record says.

The formula grows with its sizes, so large ones make a weak claim. What they may be follows from
the data and from what the network computes; `SPARE` bits are for the chance by which a search
missed the least number. (The checker of sequences has the same limits, of its own.)
"""

from collections.abc import Iterable
from math import lcm

import numpy as np

from constructive.sequences.bounds import Sizes
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.sequences.network import Column, combination

SPARE = 8


def largest_sizes(
    memorizer: SequenceMemorizer, dataset: SequenceDataset, sizes: Sizes
) -> dict[str, int]:
    """Return the largest possible value of each size but for `keys`, `width` and `label_bits`."""
    columns, ids = memorizer.encode_dataset(dataset)
    contexts, _ = dataset.keys(np.arange(len(dataset.tokens)))
    hashes = _bits_of_hashes(memorizer, columns)
    pairs = 2 * len(ids).bit_length() + SPARE
    longest = memorizer.context_size.bit_length()
    longest += max(sizes.residue_bits, 1) * (pairs + SPARE)
    return {
        "token_bits": _bits_of_tokens(memorizer, columns),
        "residue_bits": sizes.token_bits,
        "prime_bits": min(hashes, pairs + sizes.residue_bits) + SPARE,
        "kept": max(len(np.unique(contexts)) - 1, 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + sizes.residue_bits + 1,
        "key_bits": min(sizes.sum_bits, 2 * sizes.keys.bit_length() + SPARE),
    }


def _bits_of_tokens(memorizer: SequenceMemorizer, columns: list[Column]) -> int:
    """Return bits of U: of what a projection reaches, and of what units of the first layer span.

    One of these units holds the projection, and one three times it; or none holds anything.
    """
    count, width = len(columns[0]), len(columns)
    entries = [x for column in columns for x in column.tolist()]
    unit = lcm(*(x.denominator for x in entries))
    reach = (2 * width * int(max(abs(x * unit) for x in entries)) + 1).bit_length()
    reach += 0 if width == 1 else 2 * count.bit_length() + SPARE
    return min([reach, *_spans(memorizer.embedding.layers[0](columns, count))])


def _spans(units: Iterable[Column]) -> list[int]:
    ends = ((max(unit.tolist()), min(unit.tolist())) for unit in units)
    return [int(high - low + 1).bit_length() for high, low in ends if high > low]


def _bits_of_hashes(memorizer: SequenceMemorizer, columns: list[Column]) -> int:
    """Return bits of n times the largest hash of a token, which attention reads."""
    read = combination(memorizer.embedding(columns), memorizer.attention.value_weights, 0)
    return int(max(*read.tolist(), 0)).bit_length()
