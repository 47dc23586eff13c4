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
    """Weights in float64, and products of all heads."""

    query_weights: Array  # W_Q (H, d, d_h)
    key_weights: Array  # W_K (H, d, d_h)
    products: Array  # W_Q W_K^T of all heads side by side (d, H d)
    sizes: Array  # `|W_Q| |W_K|^T` in the same places


class BoundedLogits(NamedTuple):
    """Logits, and what they were made of."""

    numbers: Array  # (..., H, n)
    bounds: Array  # of their errors
    factors: HeadFactors  # of all heads
    queries: Array  # (k, d) or (k, b, d)
    keys: Array  # (k, n, d), or (1, n, d) for all


class Bounded:
    """Float64 with bounds."""

    in_threads = True

    def queries(self, array: Numbers) -> Array:
        return array.astype(np.float64, copy=False)

    keys = queries

    def values(self, array: Numbers) -> Array:
        """Return the tokens of each group times a power of two, so that entries are below 1."""
        tokens = self.queries(array)
        exponents = np.frexp(np.abs(tokens).max(axis=(1, 2), keepdims=True))[1]
        scaled: Array = np.ldexp(tokens, -exponents)
        return scaled

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> HeadFactors:
        w_q, w_k = self.queries(query_weights), self.queries(key_weights)
        turned = w_k.transpose(0, 2, 1)
        with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
            products = side_by_side(w_q @ turned)
            return HeadFactors(w_q, w_k, products, side_by_side(np.abs(w_q) @ np.abs(turned)))

    def logits(self, weights: HeadFactors, queries: Array, keys: Array) -> BoundedLogits:
        width, head_dim = weights.query_weights.shape[1:]
        with np.errstate(all="ignore"):
            numbers = absorbed_logits(np.matmul, weights.products, queries, keys)
            sizes = absorbed_logits(np.matmul, weights.sizes, np.abs(queries), np.abs(keys))
            roundings = head_dim + 2 * width + 16
            # Twice gamma, for `sizes` is rounded as well. The last term is for what underflows: at
            # most 3 d^2 d_h products lose 2^-1075 each, times what they are multiplied by; W_Q
            # W_K^T has d^2 entries, and W_Q d d_h, in memory, so that d^2 d_h < 2^70.
            bounds = 2.1 * roundings * UNIT * sizes
            bounds += TINY * (1 + np.abs(keys).max()) * (1 + np.abs(queries).max())
        return BoundedLogits(numbers, bounds, weights, queries, keys)


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
