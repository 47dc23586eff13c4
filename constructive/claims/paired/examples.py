"""Data and weights in the order of the pairs, with bounds of their rounding."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.attention import AttentionLayer
from constructive.dataset import CHUNK_BYTES, Array, Dataset
from constructive.exact.compensated import SLACK, TINY, gamma
from constructive.memorizer import Memorizer

Integers = npt.NDArray[np.int64]

MARGIN = 40.0
"""Nats by which a pair has to agree on an example (it is built for 45)."""

TAIL = 4.3e-18
"""exp(-MARGIN), rounded up."""

_LARGEST, _FLOOR = 1e140, 1e-150
"""No entry may be larger, so that squares and products stay in range. Squares below 1e-308 are
lost, so what they add to a length, far below the floor, is not."""


class UndecidedError(Exception):
    """Why nothing was proved."""


def layer_of(memorizer: Memorizer) -> AttentionLayer:
    """The layer of a memorizer whose weights are plain floats."""
    if not isinstance(memorizer.layer, AttentionLayer):
        raise TypeError(f"{type(memorizer.layer).__name__} has no paired heads in float64")
    return memorizer.layer


def require_range(memorizer: Memorizer, dataset: Dataset) -> None:
    """Refuse numbers whose squares or products leave float64; small ones are harmless (_FLOOR)."""
    arrays = (
        dataset.contexts,
        dataset.queries,
        dataset.targets,
        *layer_of(memorizer).tensors.values(),
    )
    largest = max(max(float(array.max()), -float(array.min())) for array in arrays)
    if not largest <= _LARGEST:
        raise UndecidedError(
            f"an entry of the data or the weights is as large as {largest:.1e}; scale them"
        )


def lengths(vectors: Array) -> Array:
    """Upper bounds of the lengths of vectors along the last axis, whose squares may underflow."""
    squares = np.einsum("...d,...d->...", vectors, vectors)
    lengths: Array = np.sqrt(squares) * SLACK + _FLOOR
    return lengths


@dataclass(frozen=True, eq=False)
class Examples:
    """Data and weights in the order of the pairs, in float64, and bounds of rounding.

    queries: (T, d);  query_weights: (2, P, d), of the first and the second heads;  key: (d,)
    scores:  E_t k (T, n), score_error (T,);  largest: max |E_t|, (T,)
    stops:   (P,), the position after the last one of each pair
    """

    dataset: Dataset
    order: Integers
    stops: Integers
    queries: Array
    query_weights: Array
    key: Array
    scores: Array
    score_error: Array
    largest: Array

    @classmethod
    def of(cls, memorizer: Memorizer, dataset: Dataset) -> "Examples":
        """Read data and weights in the order of the record."""
        layer, record = memorizer.layer, memorizer.built
        order = np.array(record.order, dtype=np.int64)
        pairs = layer.num_heads // 2
        stops = np.array([record.heads[2 * pair + 1].stop for pair in range(pairs)])
        weights = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
        key = layer.key_weights[0, :, 0].astype(np.float64)
        total, size, width = len(order), dataset.context_size, dataset.width
        scores, longest, largest = np.empty((total, size)), np.empty(total), np.empty(total)
        step = max(1, CHUNK_BYTES // (8 * size * width))
        for start in range(0, total, step):
            rows = slice(start, start + step)
            contexts = dataset.contexts[order[rows]].astype(np.float64, copy=False)
            scores[rows] = contexts @ key
            longest[rows] = lengths(contexts).max(axis=1)
            largest[rows] = np.abs(contexts).max(axis=(1, 2))
        error = gamma(width + 2) * float(lengths(key)) * longest * SLACK + TINY
        queries = dataset.queries[order].astype(np.float64, copy=False)
        split = np.stack([weights[::2], weights[1::2]])
        return cls(dataset, order, stops, queries, split, key, scores, error, largest)

    @property
    def owner(self) -> Integers:
        """The pair of each position which belongs to one."""
        return np.repeat(np.arange(len(self.stops)), np.diff(self.stops, prepend=0))

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    @property
    def tail(self) -> Array:
        """tail_t (T,): bounds the entries of x_{t,p} where pair p agrees on t."""
        others = self.scores.shape[1] - 1
        tail: Array = 2.0 * others * TAIL * self.largest * SLACK + TINY
        return tail

    def contexts(self, positions: Integers) -> Array:
        """Contexts in float64: (k, n, d)."""
        return self.dataset.contexts[self.order[positions]].astype(np.float64, copy=False)
