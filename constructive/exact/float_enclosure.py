"""Attention in float64, with a-priori bounds of how far that is from real arithmetic.

What balls cost is a Python object for each number; here all queries go through BLAS, and bounds of
the rounding of all steps are products of sizes, as in Higham, *Accuracy and Stability of Numerical
Algorithms*, sections 3.1 and 3.5. A sum of k products is off by at most ::

    gamma_k sum |a| |b|,    gamma_k = k u / (1 - k u),    u = 2^-53,

in whatever order, and with or without fused operations.

*Logits* are x^T (W_K W_Q^T) e. Where heads are sharp, they are large, and so are their errors; of
those that are not certain of one token, logits are computed anew from their factors, as if in twice
the precision (`exact.verified`).

*Values* are tokens times a power of two for each group, 2^(-a), with which their entries are below
1, so those of averages are as well. Dividing loses at most 2^-1075 of an entry.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import flint
import numpy as np

from constructive.exact.directed import working_precision
from constructive.exact.softmax import (
    Absorbed,
    Arithmetic,
    Floats,
    Hidden,
    Numbers,
    absorbed_logits,
    averaged,
    side_by_side,
)
from constructive.exact.upward import LONGEST, TINY, UNIT, gamma, up
from constructive.exact.verified import EXPONENTIAL_ERROR, exponential, products
from constructive.support.arrays import Array, Integers, row_chunks

# Error of attention above which logits are computed anew, in twice the precision.
_GOOD_ENOUGH = 2.0**-44
_FIRST_ORDER = 0.01  # Errors up to which first-order bounds hold with a few percent to spare
_NOTHING = -1e4  # A logit, less the largest, whose exponential is nothing: that of a hidden token


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


class Enclosure(NamedTuple):
    """Matrices of the queries of a block, and bounds of their errors."""

    numbers: Array  # attention (..., H, n), or averages of scaled tokens (..., H, d)
    # (..., H); of the sum of all errors in a row of attention, and of each entry of a row of
    # averages. What is not known to be bounded is infinite, or not a number
    errors: Array


# Softmax in float64 of logits that are off by known bounds, with bounds of what that does.
#
# Let b_i be the logits less that of one token, the reference, and e_i bounds of their errors.
# There are two bounds of the sum over i of `|a_i - alpha_i|`, for the shares a_i that are returned
# and those of the true logits, alpha_i:
#
# - *Small errors.* If weights w_i are off by d_i w_i with `d_i < 1`, shares are off by `2 delta /
#   (1 - delta)` in all, for `delta = sum_i a_i d_i`.
# - *One token alone.* The others have at most `r = sum exp(b_i + e_i)` of the weight of the
#   reference, so that true shares are within 2 r of giving all to it. That is what is returned
#   then: 1 and zeros, with which products are exact.


def bounded_softmax(high: Array, low: Array, errors: Array, hidden: Hidden | None) -> Enclosure:
    """Return attention (..., n), and bounds (...) of the sum of all its errors.

    Logits are sums high + low that are off by `errors` at most. Bounds are infinite or NaN where
    nothing is known.
    """
    visible = high if hidden is None else np.where(hidden, -np.inf, high)
    top = visible.argmax(axis=-1)[..., np.newaxis]
    low_top = np.take_along_axis(low, top, axis=-1)
    below = (high - np.take_along_axis(high, top, axis=-1)) + (low - low_top)
    # Both differences are rounded, and their sum; the first one is that less the second.
    sizes = np.abs(below) + np.abs(low) + np.abs(low_top)
    spread = up(errors + np.take_along_axis(errors, top, axis=-1) + 4.0 * UNIT * sizes)
    np.put_along_axis(spread, top, 0.0, axis=-1)
    if hidden is not None:
        below, spread = np.where(hidden, _NOTHING, below), np.where(hidden, 0.0, spread)

    others = below.shape[-1] - 1
    weights = exponential(below)
    attention: Array = weights / weights.sum(axis=-1, keepdims=True)
    each = up(1.01 * (EXPONENTIAL_ERROR + spread))
    delta = up((attention * each).sum(axis=-1))
    small = (each.max(axis=-1) < _FIRST_ORDER) & (delta < _FIRST_ORDER)
    # What is taken for 0 is below exp(-700) of the largest weight: far less than gamma.
    error = np.where(small, 2.1 * delta + gamma(others + 5), np.inf)

    most = below + spread
    np.put_along_axis(most, top, -np.inf, axis=-1)
    rest = exponential(most) * (1.0 + 2.0**-40)  # NaN beyond exp(700), and less than it is at 0
    alone = 2.0 * up(up(rest).sum(axis=-1) + others * TINY)
    better = alone < error
    one_hot = np.zeros_like(attention)
    np.put_along_axis(one_hot, top, 1.0, axis=-1)
    attention = np.where(better[..., np.newaxis], one_hot, attention)
    return Enclosure(attention, up(np.where(better, alone, error)))


class Bounded(Arithmetic[HeadFactors, BoundedLogits, Enclosure]):
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

    def refine(
        self, logits: BoundedLogits, queries: Integers, heads: Integers
    ) -> tuple[Array, Array, Array]:
        """Compute some logits anew from their factors, in twice the precision."""
        factors = logits.factors
        count = logits.numbers[..., 0, 0].size
        keys = logits.keys
        tokens = keys if len(keys) == 1 else keys[queries * len(keys) // count]
        asked = logits.queries.reshape(count, -1)[queries]
        read = products(factors.query_weights[heads].transpose(0, 2, 1), asked)
        return _times(tokens, *_times(factors.key_weights[heads], *read))

    def softmax(self, logits: BoundedLogits, hidden: Hidden | None) -> Enclosure:
        with np.errstate(all="ignore"):
            shape = logits.numbers.shape
            numbers, bounds = logits.numbers, logits.bounds
            out = None if hidden is None else np.broadcast_to(hidden[:, np.newaxis], shape)
            found = bounded_softmax(numbers, np.zeros_like(numbers), bounds, out)
            attention = found.numbers.reshape(-1, *shape[-2:])
            errors = found.errors.reshape(-1, shape[-2])
            queries, heads = np.nonzero(~(errors <= _GOOD_ENOUGH))
            largest = max(logits.factors.key_weights[0].size, logits.keys[0].size)
            for part in row_chunks(len(queries), 8 * largest):
                query, head = queries[part], heads[part]
                out = None if hidden is None else hidden[query % len(hidden)]
                better = bounded_softmax(*self.refine(logits, query, head), out)
                attention[query, head], errors[query, head] = better
        return found

    def averages(self, attention: Enclosure, values: Array) -> Enclosure:
        shares, errors = attention
        with np.errstate(all="ignore"):
            z = averaged(np.matmul, shares, values)
            # Where one token has all attention, products with 1 and zeros are exact.
            exact = ((shares == 0.0) | (shares == 1.0)).all(axis=-1)
            rounded = 2.0 * gamma(values.shape[1] + 2)
            return Enclosure(z, up(errors + np.where(exact, 0.0, rounded)))


class BoundedReadout(NamedTuple):
    """A readout in float64, with bounds."""

    numbers: Array  # U (H, d, d_out)
    errors: Array  # bounds of what its entries are off by

    def outputs(self, z: Enclosure) -> Enclosure:
        """Return U^T z (T, d_out), with bounds of the errors of its entries, also from U."""
        heads, width, _ = self.numbers.shape
        with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
            turned = z.numbers.transpose(1, 0, 2)
            outputs = _pairwise(turned @ self.numbers)
            sizes = up(_pairwise(np.abs(turned) @ np.abs(self.numbers)))
            per_head = up(np.abs(self.numbers).sum(axis=1))
            off = up(self.errors.sum(axis=(0, 1)))
            if heads * width > LONGEST:
                off = np.full_like(off, np.inf)
            terms = width + heads.bit_length() + 2
            return Enclosure(outputs, up(gamma(terms) * sizes + up(z.errors @ per_head) + off))


def _times(matrices: Array, high: Array, low: Array, off: Array) -> tuple[Array, Array, Array]:
    """Return the products (k, m) of matrices (k, m, i) with vectors (k, i) that are high + low."""
    product, rest, bound = products(matrices, high)
    sizes = np.abs(matrices)
    small, spread = (
        np.matmul(sizes, each[:, :, np.newaxis])[..., 0] for each in (np.abs(low), off)
    )
    rest = rest + np.matmul(matrices, low[:, :, np.newaxis])[..., 0]
    # The sum of both rests is rounded, too: by u times less than gamma times sizes.
    rounded = gamma(matrices.shape[2] + 3) * up(small) + 2.0 * UNIT * np.abs(rest)
    return product, rest, up(bound + up(spread) + up(rounded))


def _pairwise(parts: Array) -> Array:
    """Return the sum over the first axis by halves: each term is in ceil(log2 H) sums."""
    while len(parts) > 1:
        half = len(parts) // 2
        added = parts[:half] + parts[half : 2 * half]
        parts = added if 2 * half == len(parts) else np.concatenate([added, parts[2 * half :]])
    total: Array = parts[0]
    return total


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


# Attention whose logits are off: bounds of it, and of how far that moves averages.
#
# Let each exponent be off by eps at most. Then each attention weight a_j becomes a'_j = a_j w_j /
# sum_i a_i w_i with w_j in exp(+-eps), ::
#
#     |a'_j - a_j|  <=  min(1, a_j g)  =: s_j,    g = exp(2 eps) - 1.
#
# Let v_j be the values, as real numbers, and c any number. As both a and a' sum to one, an average
# moves by at most ::
#
#     |sum_j (a'_j - a_j) v_j|  <=  min(sum_j s_j |v_j - c|, max v - min v).
#
# With c = sum_j a_j v_j a saturated head moves by little, whatever g is, and one whose logits are
# all wrong by no more than its values differ. Where logits are exact, eps is zero, and so is all
# that.
#
# Where parts are merged by logsumexp, nothing divides by the sum of the weights as they were
# computed in the end: a token has a_j w_j itself, all w in exp(+-2 eps), and these do not sum to
# one. So neither c nor min(1, .) helps there: an average moves by g sum_j a_j |v_j| at most.
#
# What float64 rounds here is covered by `up` and by a part of 2^-30.


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

    in_threads = True

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
        return array.astype(np.float64, copy=False)

    keys = queries

    def values(self, array: Numbers) -> Array:
        """Return the values of all heads side by side: (..., n, H k)."""
        values: Array = array.astype(np.float64, copy=False) @ self._readout
        return values

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Sized:
        w_q, w_k = self.queries(query_weights), self.queries(key_weights).transpose(0, 2, 1)
        return Sized(side_by_side(w_q @ w_k), side_by_side(up(np.abs(w_q) @ np.abs(w_k))))

    def logits(self, weights: Sized, queries: Array, keys: Array) -> Sized:
        """Return the logits of a block, (..., H, n), and their sizes (..., H)."""
        numbers = absorbed_logits(np.matmul, weights.numbers, queries, keys)
        sizes = absorbed_logits(_above, weights.sizes, np.abs(queries), np.abs(keys))
        return Sized(numbers, sizes.max(axis=-1))

    def softmax(self, logits: Sized, hidden: Hidden | None) -> Moved:
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
    """Bound exp(2 eps) - 1 from above, for eps >= 0; infinite where that is beyond exp(700)."""
    x = 2.0 * errors
    small = up(x + x**2 / 2.0 + x**3 / 2.0)  # the rest of the series is x^3 / 6 exp(x) at most
    large = up(exponential(np.minimum(x, _LARGEST)) * (1.0 + 4.0 * EXPONENTIAL_ERROR) - 1.0)
    return np.where(x <= _SMALL, small, np.where(x <= _LARGEST, large, np.inf))
