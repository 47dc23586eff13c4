"""Logits in float64, with a-priori bounds of how far they are from real arithmetic."""

import math
from typing import NamedTuple

import flint
import numpy as np

from constructive.exact.directed import working_precision
from constructive.exact.softmax import (
    Absorbed,
    Floats,
    Hidden,
    Numbers,
    absorbed_logits,
    side_by_side,
)
from constructive.exact.upward import TINY, UNIT
from constructive.support.arrays import Array


class HeadFactors(NamedTuple):
    """Products of the weights of all heads, in float64."""

    products: Array  # W_Q W_K^T of all heads side by side (d, H d)
    sizes: Array  # `|W_Q| |W_K|^T` in the same places
    head_dim: int  # d_h


class BoundedLogits(NamedTuple):
    """Logits, and the tokens that they are of."""

    numbers: Array  # (..., H, n)
    bounds: Array  # of their errors
    queries: Array  # (k, d) or (k, b, d)
    keys: Array  # (k, n, d), or (1, n, d) for all


def head_factors(query_weights: Numbers, key_weights: Numbers) -> HeadFactors:
    """Multiply weights, W_Q and W_K (H, d, d_h), of which bounds of logits are made."""
    w_q = query_weights.astype(np.float64, copy=False)
    turned = key_weights.astype(np.float64, copy=False).transpose(0, 2, 1)
    with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
        products, sizes = w_q @ turned, np.abs(w_q) @ np.abs(turned)
    return HeadFactors(side_by_side(products), side_by_side(sizes), w_q.shape[2])


def bounded_logits(weights: HeadFactors, queries: Numbers, keys: Numbers) -> BoundedLogits:
    """Bound how far logits in float64 are from those of real arithmetic."""
    asked, seen = (array.astype(np.float64, copy=False) for array in (queries, keys))
    with np.errstate(all="ignore"):
        numbers = absorbed_logits(np.matmul, weights.products, asked, seen)
        sizes = absorbed_logits(np.matmul, weights.sizes, np.abs(asked), np.abs(seen))
        roundings = weights.head_dim + 2 * asked.shape[-1] + 16
        # Twice gamma, for `sizes` is rounded as well. The last term is for what underflows: at
        # most 3 d^2 d_h products lose 2^-1075 each, times what they are multiplied by; W_Q
        # W_K^T has d^2 entries, and W_Q d d_h, in memory, so that d^2 d_h < 2^70.
        bounds = 2.1 * roundings * UNIT * sizes
        bounds += TINY * (1 + np.abs(seen).max()) * (1 + np.abs(asked).max())
    return BoundedLogits(numbers, bounds, asked, seen)


# Attention in float64 of logits that are short integers in one unit: a table has exponentials.
#
# Where tokens and weights are short dyadic numbers, float64 makes no error in logits (the caller
# has shown that). Exponentials of the differences to the largest one are read from a table that
# ball arithmetic made; so only sums of positive numbers are rounded.


ENOUGH = 746.0  # exp(-746) is less than half of the smallest float64
_TABLE_BITS = 80


class Tabulated(Floats):
    """Float64, with exact logits."""

    def __init__(self, unit: float, most: float) -> None:
        super().__init__(np.float64)
        self._unit = unit
        # One zero more, for what is hidden, and for what is less than float64 holds.
        self._table = np.append(exponentials(unit, most), 0.0)

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Absorbed:
        """Multiply the weights of all heads, so that logits are integers."""
        absorbed = super().weights(query_weights, key_weights, shared)
        return absorbed._replace(matrix=absorbed.matrix * (1.0 / self._unit))

    def softmax(self, logits: Array, hidden: Hidden | None) -> Array:
        if hidden is not None:
            np.copyto(logits, -np.inf, where=hidden[:, np.newaxis])
        np.subtract(logits.max(axis=-1, keepdims=True), logits, out=logits)
        np.minimum(logits, len(self._table) - 1, out=logits)
        weights: Array = self._table.take(logits.astype(np.int64))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights


def exponentials(unit: float, most: float) -> Array:
    """Return exp(-k unit) for k = 0, 1, ... until float64 rounds it to 0, or k unit <= most.

    Each is off by a factor of 1 + 2^-51 at most, or where it underflows by 2^-1022. The unit is a
    power of two, and `most` the largest exponent there is.
    """
    count = min(math.ceil(ENOUGH / unit), int(most / unit)) + 1
    with working_precision(_TABLE_BITS):
        return np.array([float(flint.arb(-k * unit).exp()) for k in range(count)])
