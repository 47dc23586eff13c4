"""Step 4. All heads together: the intermediate representation Z, of rank T (proofs/4)."""

import numpy as np

from constructive.constructions.construction import FixedHeads
from constructive.constructions.multihead.heads import SATURATION_EPS
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact.softmax import Floats
from constructive.layers.attention import Chunk, after_attention, examples
from constructive.support.arrays import Array, Integers
from constructive.support.work import report


def represent(dataset: Dataset, heads: FixedHeads) -> tuple[Array, Array]:
    """Run all heads on all examples.

    Returns Z (T, H d), and the share of the examples off its group on which each head is saturated
    (H,), zero where no head is built to be.
    """
    weights = heads.query_weights, heads.key_weights
    sizes = np.diff(heads.stops, prepend=0)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    z = np.empty((dataset.num_examples, len(sizes) * dataset.width))
    counts = np.zeros(len(sizes), np.int64)

    def stored(chunk: Chunk[Array]) -> tuple[slice, Integers | int]:
        z[chunk.rows] = chunk.representation.reshape(len(chunk.representation), -1)
        if heads.saturating is None:
            return chunk.rows, 0
        on = chunk.attention.max(axis=2) >= 1.0 - SATURATION_EPS
        on[np.arange(len(on)), owner[chunk.rows]] = False
        return chunk.rows, on.sum(axis=0)

    view = examples(dataset.contexts, dataset.queries)
    for rows, saturated in after_attention(stored, Floats(np.float64), weights, view):
        counts += saturated
        report("evaluate heads", rows.stop, dataset.num_examples)
    return z, counts / np.maximum(dataset.num_examples - sizes, 1)


def operations_of_z(shapes: ExampleShapes, num_heads: int) -> float:
    """Estimate the operations that Z takes, which all T x T systems are made of."""
    size = shapes.context_size
    keys = size if shapes.shared_context else shapes.width + size
    return 2.0 * shapes.num_examples * num_heads * shapes.width * (keys + size)
