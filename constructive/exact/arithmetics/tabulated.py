"""Attention in float64 of logits that are short integers in one unit: a table has exponentials.

Where tokens and weights are short dyadic numbers, float64 makes no error in logits (the caller
has shown that). Exponentials of the differences to the largest one are read from
a table that ball arithmetic made; so only sums of positive numbers are rounded.
"""

import math

import flint
import numpy as np

from constructive.exact.arithmetics.arithmetic import Hidden, Numbers
from constructive.exact.arithmetics.floats import Absorbed, Floats
from constructive.exact.precision import working_precision
from constructive.support.arrays import Array

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
        """Return attention."""
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

    Example:
        >>> exponentials(0.5, 1.0).tolist()
        [1.0, 0.6065306597126334, 0.36787944117144233]
    """
    count = min(math.ceil(ENOUGH / unit), int(most / unit)) + 1
    with working_precision(_TABLE_BITS):
        return np.array([float(flint.arb(-k * unit).exp()) for k in range(count)])
