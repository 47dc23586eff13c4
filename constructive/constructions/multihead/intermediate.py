"""Step 4. All heads together: the intermediate representation Z, of rank T (proofs/4)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead.heads import SATURATION_EPS, GroupHead
from constructive.data.dataset import Dataset
from constructive.exact.softmax import Floats
from constructive.layers.attention import Chunk, after_attention, examples
from constructive.support.arrays import Array, Integers
from constructive.support.work import report

# Relative difference below which the two largest shares of attention may be of equal tokens.


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


def represent(
    dataset: Dataset,
    weights: tuple[Array, Array],
    group_ends: Integers,
    seen: Callable[[Chunk[Array]], Integers] = lambda _: np.zeros(0, np.int64),
) -> tuple[Intermediate, list[Integers]]:
    """Run all heads on all examples; return Z, and what `seen` makes of each chunk of examples."""
    z = np.empty((dataset.num_examples, len(weights[0]) * dataset.width))

    def stored(chunk: Chunk[Array]) -> tuple[slice, Integers]:
        z[chunk.rows] = chunk.representation.reshape(len(chunk.representation), -1)
        return chunk.rows, seen(chunk)

    found, view = [], examples(dataset.contexts, dataset.queries)
    for rows, one in after_attention(stored, Floats(np.float64), weights, view):
        found.append(one)
        report("evaluate heads", rows.stop, dataset.num_examples)
    return Intermediate(*weights, z, group_ends), found


def assemble(dataset: Dataset, heads: tuple[GroupHead, ...]) -> tuple[Intermediate, Array]:
    """Run all heads on all examples, and count where they saturate.

    Returns Z, and the share of the examples off its group on which each head is saturated (H,).
    """
    query_weights = np.stack([head.query_weights for head in heads])
    key_weights = np.stack([head.key_weights for head in heads])
    sizes = np.array([head.group.size for head in heads])
    owner = np.repeat(np.arange(len(heads)), sizes)

    def saturated(chunk: Chunk[Array]) -> Integers:
        on = chunk.attention.max(axis=2) >= 1.0 - SATURATION_EPS
        on[np.arange(len(on)), owner[chunk.rows]] = False
        counts: Integers = on.sum(axis=0)
        return counts

    weights = query_weights, key_weights
    z, counts = represent(dataset, weights, np.cumsum(sizes), saturated)
    return z, np.sum(counts, axis=0) / np.maximum(dataset.num_examples - sizes, 1)
