"""Attention in float64, with a-priori bounds of how far that is from real arithmetic.

What balls cost is a Python object for each number; here all queries go through BLAS, and bounds of
the rounding of all steps are products of sizes, as in Higham, *Accuracy and Stability of Numerical
Algorithms*, sections 3.1 and 3.5. A sum of k products is off by at most ::

    gamma_k sum |a| |b|,    gamma_k = k u / (1 - k u),    u = 2^-53,

in whatever order, and with or without fused operations.

*Logits* are x^T (W_K W_Q^T) e. Where heads are sharp, they are large, and so are their errors; of
those that are not certain of one token, logits are computed anew from their factors with
compensated products, as if in twice the precision (`exact.compensated`).

*Values* are tokens times a power of two for each group, 2^(-a), with which their entries are below
1, so those of averages are as well. Dividing loses at most 2^-1075 of an entry.
"""

from typing import NamedTuple

import numpy as np

from constructive.exact.arithmetics.arithmetic import Arithmetic, Hidden, Numbers
from constructive.exact.arithmetics.floats import absorbed_logits, averaged, side_by_side
from constructive.exact.compensated import dot
from constructive.exact.softmax import differences, shares
from constructive.exact.upward import LONGEST, TINY, UNIT, gamma, up
from constructive.support.arrays import Array, Integers, row_chunks

# Error of attention above which logits are computed anew, in twice the precision.
_GOOD_ENOUGH = 2.0**-44
_NOTHING = -1e4  # A logit, less the largest, whose exponential is nothing: that of a hidden token


class Factors(NamedTuple):
    """Weights in float64, and products of all heads."""

    query_weights: Array  # W_Q (H, d, d_h)
    key_weights: Array  # W_K (H, d, d_h)
    products: Array  # W_Q W_K^T of all heads side by side (d, H d)
    sizes: Array  # `|W_Q| |W_K|^T` in the same places


class BoundedLogits(NamedTuple):
    """Logits, and what they were made of."""

    numbers: Array  # (..., H, n)
    bounds: Array  # of their errors
    factors: Factors  # of all heads
    queries: Array  # (k, d) or (k, b, d)
    keys: Array  # (k, n, d), or (1, n, d) for all


class Enclosure(NamedTuple):
    """Matrices of the queries of a block, and bounds of their errors."""

    numbers: Array  # attention (..., H, n), or averages of scaled tokens (..., H, d)
    # (..., H); of the sum of all errors in a row of attention, and of each entry of a row of
    # averages. What is not known to be bounded is infinite, or not a number
    errors: Array


class Bounded(Arithmetic[Factors, BoundedLogits, Enclosure]):
    """Float64 with bounds."""

    def queries(self, array: Numbers) -> Array:
        """Convert floats to float64, without a copy if they are."""
        return array.astype(np.float64, copy=False)

    keys = queries

    def values(self, array: Numbers) -> Array:
        """Return the tokens of each group times a power of two, so that entries are below 1."""
        tokens = self.queries(array)
        exponents = np.frexp(np.abs(tokens).max(axis=(1, 2), keepdims=True))[1]
        scaled: Array = np.ldexp(tokens, -exponents)
        return scaled

    def weights(
        self,
        query_weights: Numbers,
        key_weights: Numbers,
        shared: Numbers | None = None,  # noqa: ARG002 - bounds are of each token
    ) -> Factors:
        """Multiply the weights of all heads, and their sizes."""
        w_q, w_k = self.queries(query_weights), self.queries(key_weights)
        turned = w_k.transpose(0, 2, 1)
        with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
            products = side_by_side(w_q @ turned)
            return Factors(w_q, w_k, products, side_by_side(np.abs(w_q) @ np.abs(turned)))

    def logits(self, weights: Factors, queries: Array, keys: Array) -> BoundedLogits:
        """Return logits, and bounds of their errors."""
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
        read = dot(asked[:, np.newaxis], factors.query_weights[heads].transpose(0, 2, 1))
        return _times(tokens, *_times(factors.key_weights[heads], *read))

    def softmax(self, logits: BoundedLogits, hidden: Hidden | None) -> Enclosure:
        """Return attention, with bounds of the sum of all its errors."""
        with np.errstate(all="ignore"):
            shape = logits.numbers.shape
            numbers, bounds = logits.numbers, logits.bounds
            out = None if hidden is None else np.broadcast_to(hidden[:, np.newaxis], shape)
            found = _softmax(numbers, np.zeros_like(numbers), bounds, out)
            attention = found.numbers.reshape(-1, *shape[-2:])
            errors = found.errors.reshape(-1, shape[-2])
            queries, heads = np.nonzero(~(errors <= _GOOD_ENOUGH))
            largest = max(logits.factors.key_weights[0].size, logits.keys[0].size)
            for part in row_chunks(len(queries), 8 * largest):
                query, head = queries[part], heads[part]
                out = None if hidden is None else hidden[query % len(hidden)]
                better = _softmax(*self.refine(logits, query, head), out)
                attention[query, head], errors[query, head] = better
        return found

    def averages(self, attention: Enclosure, values: Array) -> Enclosure:
        """Return averages of scaled tokens, with bounds of the errors of their entries."""
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


def _softmax(high: Array, low: Array, bounds: Array, hidden: Hidden | None) -> Enclosure:
    """Return attention of logits (..., n) that are a sum of two."""
    visible = high if hidden is None else np.where(hidden, -np.inf, high)
    top = visible.argmax(axis=-1)[..., np.newaxis]
    below, spread = differences(high, low, bounds, top)
    if hidden is not None:
        below, spread = np.where(hidden, _NOTHING, below), np.where(hidden, 0.0, spread)
    return Enclosure(*shares(below, spread, top))


def _times(matrices: Array, high: Array, low: Array, off: Array) -> tuple[Array, Array, Array]:
    """Return the products (k, m) of matrices (k, m, i) with vectors (k, i) that are high + low."""
    product, rest, bound = dot(matrices, high[:, np.newaxis])
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
