"""Attention of exact logits: short integers times a unit, with exponentials from a table."""

import math

import mpmath
import numpy as np

from attend import Numbers
from files import require
from views import exact_sum

ENOUGH = 746.0  # exp(-746) is less than half of the least float64
TABLE = 1 << 20


class Table(Numbers):
    """Float64, in which all sums on the way to logits are exact.

    unit: of what all logits are multiples;  widest: by how much they differ at most
    """

    def __init__(self, unit, widest):
        require(min(ENOUGH, widest) <= TABLE * unit, "logits of heads are too fine for a table")
        count = min(math.ceil(ENOUGH / unit), int(widest / unit)) + 1  # the last may be 0
        self.unit, self.powers = unit, exponentials(count, unit)

    def weights(self, w):
        return w.astype(np.float64)

    def queries(self, x):
        return x.astype(np.float64)

    def tokens(self, parts):
        x = exact_sum(parts)
        return x, x

    def product(self, x, y):
        return x @ y

    def softmax(self, logits, hidden):
        if hidden is not None:
            logits[np.broadcast_to(hidden, logits.shape)] = -np.inf
        logits = (logits.max(axis=2, keepdims=True) - logits) / self.unit
        places = np.minimum(logits, len(self.powers) - 1).astype(np.int64)
        weights = self.powers.take(places, mode="clip")
        if hidden is not None:
            weights[np.broadcast_to(hidden, weights.shape)] = 0.0
        return weights / weights.sum(axis=2, keepdims=True)


def exponentials(count, unit):
    """exp(-k unit) for k below count, as products of two."""
    with mpmath.workprec(80):
        low, high = (
            [mpmath.exp(mpmath.mpf(-k * step) * unit) for k in range(steps)]
            for step, steps in ((1, 1024), (1024, count // 1024 + 1))
        )
        return np.array([float(high[k // 1024] * low[k % 1024]) for k in range(count)])
