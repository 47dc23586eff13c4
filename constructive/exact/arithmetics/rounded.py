"""Attention whose logits are off: bounds of it, and of how far that moves averages.

Let each exponent be off by eps at most. Then each attention weight a_j becomes
a'_j = a_j w_j / sum_i a_i w_i with w_j in exp(+-eps), ::

    |a'_j - a_j|  <=  min(1, a_j g)  =: s_j,    g = exp(2 eps) - 1.

Let v_j be the values, as real numbers, and c any number. As both a and a' sum to one, an average
moves by at most ::

    |sum_j (a'_j - a_j) v_j|  <=  min(sum_j s_j |v_j - c|, max v - min v).

With c = sum_j a_j v_j a saturated head moves by little, whatever g is, and one whose logits are
all wrong by no more than its values differ. Where logits are exact, eps is zero, and so is all
that.

Where parts are merged by logsumexp, nothing divides by the sum of the weights as they were computed
in the end: a token has a_j w_j itself, all w in exp(+-2 eps), and these do not sum to one. So
neither c nor min(1, .) helps there: an average moves by g sum_j a_j |v_j| at most.

What float64 rounds here is covered by `up` and by a part of 2^-30.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from constructive.exact.arithmetics.arithmetic import Arithmetic, Hidden, Numbers
from constructive.exact.arithmetics.floats import absorbed_logits, side_by_side
from constructive.exact.compensated import EXPONENTIAL_ERROR, exponential
from constructive.exact.upward import up
from constructive.support.arrays import Array

_SMALL = 2.0**-6  # Exponents up to which a series is nearer than exp, less one
_LARGEST = 700.0  # Exponents up to which there are exponentials


class Sized(NamedTuple):
    """Numbers, and bounds of the sums of sizes that they are made of."""

    numbers: Array  # W_Q W_K^T of all heads side by side (d, H d); or logits (..., H, n)
    # |W_Q| |W_K|^T in the same places; or the largest |e|^T |W_Q| |W_K|^T |x| of the tokens x that
    # a query sees (..., H)
    sizes: Array


class Moved(NamedTuple):
    """Attention or averages of some queries, with bounds."""

    bounds: Array  # upper bounds of attention (..., H, n), or of how far averages move (..., H, k)
    errors: Array  # eps (..., H)


class Rounded(Arithmetic[Sized, Sized, Moved]):
    """Float64, and bounds of what evaluations do whose exponents are off."""

    def __init__(
        self,
        errors: Callable[[Array], Array],
        readout: Array,
        *,
        merged: bool = False,
        itemsize: int = 8,
    ) -> None:
        self._errors, self._readout, self._merged = errors, readout, merged
        self.itemsize = itemsize

    def queries(self, array: Numbers) -> Array:
        """Convert floats to float64."""
        return array.astype(np.float64, copy=False)

    keys = queries

    def values(self, array: Numbers) -> Array:
        """Return the values of all heads side by side: (..., n, H k)."""
        values: Array = array.astype(np.float64, copy=False) @ self._readout
        return values

    def weights(
        self,
        query_weights: Numbers,
        key_weights: Numbers,
        shared: Numbers | None = None,  # noqa: ARG002 - sizes are of each token
    ) -> Sized:
        """Multiply the weights of all heads, and their sizes."""
        w_q, w_k = self.queries(query_weights), self.queries(key_weights).transpose(0, 2, 1)
        return Sized(side_by_side(w_q @ w_k), side_by_side(up(np.abs(w_q) @ np.abs(w_k))))

    def logits(self, weights: Sized, queries: Array, keys: Array) -> Sized:
        """Return the logits of a block, (..., H, n), and their sizes (..., H)."""
        numbers = absorbed_logits(np.matmul, weights.numbers, queries, keys)
        sizes = absorbed_logits(_above, weights.sizes, np.abs(queries), np.abs(keys))
        return Sized(numbers, sizes.max(axis=-1))

    def softmax(self, logits: Sized, hidden: Hidden | None) -> Moved:
        """Return bounds of attention: (..., H, n)."""
        numbers = logits.numbers
        if hidden is not None:
            numbers = np.where(hidden[:, np.newaxis], -np.inf, numbers)
        numbers = numbers - numbers.max(axis=-1, keepdims=True)
        exponentials = exponential(numbers)
        least = exponentials.sum(axis=-1, keepdims=True) * (1.0 - 2.0**-30)
        bounds = up(up(exponentials * (1.0 + 4.0 * EXPONENTIAL_ERROR)) / least)
        return Moved(bounds, self._errors(logits.sizes))

    def averages(self, attention: Moved, values: Array) -> Moved:
        """Bound how far averages of the values of each head move: (..., H, k)."""
        shares, heads = attention.bounds, attention.bounds.shape[-2]
        by_head = values.reshape(*values.shape[:2], heads, -1)
        if shares.ndim == 4:  # several queries of a group see the same values
            by_head = by_head[:, np.newaxis]
        moving = shares * growth(attention.errors)[..., np.newaxis]
        if self._merged:
            return Moved(_summed(up(moving), np.abs(by_head)), attention.errors)
        middle = np.einsum("...hn,...nho->...ho", shares, by_head)
        middle /= shares.sum(axis=-1)[..., np.newaxis]  # bounds of attention exceed one in sum
        off = np.abs(by_head - middle[..., np.newaxis, :, :])
        near = _summed(up(np.minimum(moving, 1.0)), off)
        spread = up(by_head.max(axis=-3) - by_head.min(axis=-3))
        return Moved(np.minimum(near, spread), attention.errors)


def _above(left: Array, right: Array) -> Array:
    """Bound `left @ right` from above, for factors that are not negative."""
    return up(left @ right)


def _summed(shares: Array, sizes: Array) -> Array:
    """Bound sums over tokens: (..., H, k)."""
    return up(np.einsum("...hn,...nho->...ho", shares, sizes))


def growth(errors: Array) -> Array:
    """Bound exp(2 eps) - 1 from above, for eps >= 0; infinite where that is beyond exp(700).

    Example:
        >>> growth(np.array([0.0, 1e-3, 1.0, 1e3])).round(6).tolist()
        [0.0, 0.002002, 6.389056, inf]
    """
    x = 2.0 * errors
    small = up(x + x**2 / 2.0 + x**3 / 2.0)  # the rest of the series is x^3 / 6 exp(x) at most
    large = up(exponential(np.minimum(x, _LARGEST)) * (1.0 + 4.0 * EXPONENTIAL_ERROR) - 1.0)
    return np.where(x <= _SMALL, small, np.where(x <= _LARGEST, large, np.inf))
