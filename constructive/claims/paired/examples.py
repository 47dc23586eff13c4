"""Data and weights in the order of the pairs, at size one, with bounds of their rounding.

Contexts are divided by a power of two 2^a, and the key and the queries by others, so that their
largest entries are below 1; the heads are multiplied by all three, so that no logit changes. What
is read is Z 2^-a. Bounds hold at any scale; at this one, the 2^-1000 which they are raised by for
underflow (`exact.directed`) is nothing. Dividing loses at most 2^-1075 of an entry, which
these 2^-1000 cover as well: contexts and key have entries below 1. Queries are
multiplied by heads of any size, so they are divided only where nothing is lost.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.attention import AttentionLayer
from constructive.dataset import CHUNK_BYTES, Array, Dataset
from constructive.exact.directed import LONGEST, exponent_of, gamma, lengths, scaled, up
from constructive.memorizer import Memorizer

Integers = npt.NDArray[np.int64]

MARGIN = 41.0
"""Nats by which a pair has to agree on an example: built for 45; a checker asks for 40."""

TAIL = 4.3e-18
"""More than exp(-40)."""


class UndecidedError(Exception):
    """Why nothing was proved."""


def layer_of(memorizer: Memorizer) -> AttentionLayer:
    """The layer of a memorizer whose weights are plain floats."""
    if not isinstance(memorizer.layer, AttentionLayer):
        raise TypeError(f"{type(memorizer.layer).__name__} has no paired heads in float64")
    return memorizer.layer


@dataclass(frozen=True, eq=False)
class Examples:
    """Data and weights in the order of the pairs, in float64, and bounds of rounding.

    exponent: a; contexts here are those of the data times 2^-a
    queries: (T, d);  query_weights: (2, P, d), of the first and the second heads;  key: (d,)
    scores:  E_t k (T, n), score_error (T,);  largest: bounds max |E_t|, (T,)
    stops:   (P,), the position after the last one of each pair
    """

    dataset: Dataset
    exponent: int
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
        """Read data and weights in the order of the record.

        Raises UndecidedError where heads leave the range of float64 at this scale, and for
        more examples than sums may have terms.
        """
        layer, record = memorizer.layer, memorizer.built
        order = np.array(record.order, dtype=np.int64)
        pairs = layer.num_heads // 2
        stops = np.array([record.heads[2 * pair + 1].stop for pair in range(pairs)])
        total, size, width = len(order), dataset.context_size, dataset.width
        if max(total, pairs * width, size * width) > LONGEST:
            raise UndecidedError(f"sums of more than {LONGEST} terms; fewer examples or heads")
        exponent = exponent_of(dataset.contexts)
        queries, of_queries = scaled(dataset.queries[order].astype(np.float64, copy=False))
        key = layer.key_weights[0, :, 0].astype(np.float64)
        of_key = exponent_of(key)
        key = np.ldexp(key, -of_key)
        with np.errstate(over="ignore"):
            weights = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
            weights = np.ldexp(weights, exponent + of_queries + of_key)
        if not np.isfinite(weights).all():
            raise UndecidedError("heads are too large for float64 at this scale; scale the data")
        scores, longest, largest = np.empty((total, size)), np.empty(total), np.empty(total)
        step = max(1, CHUNK_BYTES // (8 * size * width))
        for start in range(0, total, step):
            rows = slice(start, start + step)
            contexts = _contexts(dataset, order[rows], exponent)
            scores[rows] = contexts @ key
            longest[rows] = lengths(contexts).max(axis=1)
            largest[rows] = up(np.abs(contexts).max(axis=(1, 2)))
        error = up(gamma(width + 2) * float(lengths(key)) * longest)
        split = np.stack([weights[::2], weights[1::2]])
        return cls(
            dataset, exponent, order, stops, queries, split, key, scores, error, largest
        )  # fmt: skip

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
        return up(2.0 * others * TAIL * self.largest)

    def contexts(self, positions: Integers) -> Array:
        """Contexts times 2^-a in float64: (k, n, d)."""
        return _contexts(self.dataset, self.order[positions], self.exponent)


def _contexts(dataset: Dataset, examples: Integers, exponent: int) -> Array:
    contexts = dataset.contexts[examples].astype(np.float64, copy=False)
    scaled_down: Array = np.ldexp(contexts, -exponent)
    return scaled_down
