"""Data and weights in the order of the pairs, at size one. No context is read here.

Contexts (and so what is read), queries and the key are divided by powers of two, so that their
largest entries are below 1, and the heads are multiplied by all three, so that no logit changes.
Bounds hold at any scale; at this one, the 2^-1000 that they are raised by for underflow
(`exact.directed`) is nothing. Dividing loses at most 2^-1075 of an entry. What it enters loses
less than these 2^-1000 by that, as it is multiplied by entries below 1, or by heads below 2^50.
"""

from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact.upward import LONGEST, exponent_of
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array, Integers

# Nats by which a pair has to agree on an example; built for 45, and a checker asks for 40.
MARGIN = 41.0

TAIL = 4.3e-18  # More than exp(-40)


_LARGEST_HEAD = 2.0**50
_WIDEST = 1024  # Entries of tokens up to which a checker has exact products


class UndecidedError(Exception):
    """Why nothing was proved."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Data and weights in the order of the pairs, in float64."""

    dataset: Dataset  # the T examples, as they are
    exponent: int  # a; contexts here are those of the data times 2^-a
    order: Integers  # (T,), the example at each position
    stops: Integers  # (P,), the position after the last one of each pair
    queries: Array  # (T, d), by position
    query_weights: Array  # (2, P, d), of the first and the second heads
    key: Array  # (d,)

    @classmethod
    def of(cls, memorizer: Memorizer, dataset: Dataset) -> "Examples":
        """Read data and weights in the order of the record."""
        layer, record = memorizer.layer.leading, memorizer.built
        order = np.array(record.order, dtype=np.int64)
        pairs = layer.num_heads // 2
        stops = np.array([record.heads[2 * pair + 1].stop for pair in range(pairs)])
        total, size, width = len(order), dataset.context_size, dataset.width
        if max(total, 2 * pairs * width, size) > LONGEST or width > _WIDEST:
            raise UndecidedError(
                f"sums of more than {LONGEST} terms, or tokens of more than {_WIDEST} entries; "
                "fewer examples or heads"
            )
        queries = dataset.queries[order].astype(np.float64, copy=False)
        key = layer.key_weights[0, :, 0].astype(np.float64)
        weights = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
        exponent = exponent_of(np.array([dataset.largest_token_entry]))
        others = exponent_of(queries), exponent_of(key)
        with np.errstate(over="ignore"):
            weights = np.ldexp(weights, exponent + sum(others))
        if not np.abs(weights).max() < _LARGEST_HEAD:
            raise UndecidedError("logits are too large for float64; smaller gaps between tokens")
        queries, key = np.ldexp(queries, -others[0]), np.ldexp(key, -others[1])
        split = np.stack([weights[::2], weights[1::2]])
        return cls(dataset, exponent, order, stops, queries, split, key)

    @property
    def owner(self) -> Integers:
        """The pair of each position that belongs to one."""
        return np.repeat(np.arange(len(self.stops)), np.diff(self.stops, prepend=0))

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    def contexts(self, positions: Integers) -> Array:
        """Return contexts times 2^-a in float64, read now: (k, n, d)."""
        scaled_down: Array = np.ldexp(
            self.dataset.contexts_of(self.order[positions]), -self.exponent
        )
        return scaled_down
