"""Step 4. All heads together: the intermediate representation Z, of rank T (proofs/4)."""

from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead.heads import SATURATION_EPS, GroupHead
from constructive.data.dataset import Dataset, token_numbers
from constructive.exact.softmax import Floats
from constructive.layers.attention import Chunk, after_attention, examples
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.work import report

# Relative difference below which the two largest shares of attention may be of equal tokens.
_TIE = 1e-6


@dataclass(frozen=True, eq=False)
class Intermediate:
    """Z with the weights that make it.

    query_weights, key_weights: (H, d, d_h);  representation: Z (T, H d)
    group_ends: (H,), the number of examples in the groups of this head and those before it
    """

    query_weights: Array
    key_weights: Array
    representation: Array
    group_ends: Integers


def assemble(dataset: Dataset, heads: tuple[GroupHead, ...]) -> tuple[Intermediate, Array]:
    """Run all heads on all examples, and count where they saturate.

    Returns Z, and the share of the examples off its group on which each head is saturated (H,).
    """
    query_weights = np.stack([head.query_weights for head in heads])
    key_weights = np.stack([head.key_weights for head in heads])
    sizes = np.array([head.group.size for head in heads])
    owner = np.repeat(np.arange(len(heads)), sizes)
    total = dataset.num_examples
    representation = np.empty((total, len(heads) * dataset.width))
    saturated = np.zeros(len(heads), dtype=np.int64)
    weights, view = (query_weights, key_weights), examples(dataset.contexts, dataset.queries)

    def counted(chunk: Chunk[Array]) -> tuple[slice, Integers]:
        rows = chunk.rows
        representation[rows] = chunk.representation.reshape(rows.stop - rows.start, -1)
        on = chunk.attention.max(axis=2) >= 1.0 - SATURATION_EPS
        _add_equal_tokens(on, chunk.attention, dataset, rows)
        on[np.arange(len(on)), owner[rows]] = False
        return rows, on.sum(axis=0)

    for rows, counts in after_attention(counted, Floats(np.float64), weights, view):
        saturated += counts
        report("evaluate heads", rows.stop, total)
    z = Intermediate(query_weights, key_weights, representation, np.cumsum(sizes))
    return z, saturated / np.maximum(total - sizes, 1)


def _add_equal_tokens(on: Booleans, attention: Array, dataset: Dataset, rows: slice) -> None:
    """Count a head as saturated where equal tokens have its attention together.

    on: (rows, H), which is changed;  attention: (rows, H, n)
    """
    examples, heads = np.nonzero(~on)
    shares = attention[examples, heads]
    if not len(shares) or dataset.context_size == 1:
        return
    second, largest = np.partition(shares, -2, axis=1)[:, -2:].T
    tied = np.flatnonzero(second >= (1.0 - _TIE) * largest)
    if not len(tied):
        return
    examples, heads, shares = examples[tied], heads[tied], shares[tied]
    contexts = dataset.contexts_of(rows)
    looked_at, index = np.unique(examples % len(contexts), return_inverse=True)
    numbers = token_numbers(contexts[looked_at])[index]
    top = np.take_along_axis(numbers, shares.argmax(axis=1)[:, np.newaxis], axis=1)
    together = shares.sum(axis=1, where=numbers == top)
    on[examples, heads] = together >= 1.0 - SATURATION_EPS
