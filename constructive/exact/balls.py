"""Attention in ball arithmetic: every number comes with a proved bound on its error.

Weights, queries and tokens are exact dyadic rationals; all operations are enclosed: products,
exponentials, and the quotient of the softmax.

*Which tokens matter.* A head that saturates on an example leaves all tokens but one with next to
no attention. So logits are first bounded in float64, which is rigorous too (`bounded_logits`).
Tokens whose logits are surely less than the largest one by `prec` bits get the ball [0, 2^-prec];
logits and exponentials are enclosed only for the others, with python-flint. The bound is not an
estimate: where it is useless (huge weights, infinities) every token counts as one that matters.

Precision is an argument, `prec` in bits, and is set only while an enclosure is computed.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from constructive.checker.bounds import TINY, UNIT
from constructive.exact.directed import working_precision
from constructive.exact.softmax import (
    Arithmetic,
    Hidden,
    Numbers,
    PerQuery,
    absorbed_logits,
    side_by_side,
)
from constructive.support.arrays import Array, Booleans

# Matrices in ball arithmetic.


def exact_matrix(array: Array) -> arb_mat:
    """Return a float matrix as exact balls of radius 0."""
    rows, columns = array.shape
    return arb_mat(rows, columns, array.astype(np.float64, copy=False).ravel().tolist())


def solve(square: arb_mat, targets: arb_mat, prec: int) -> arb_mat | None:
    """Enclose the U with A U = Y, or None where the balls do not show that A is invertible."""
    with working_precision(prec):
        try:
            return square.solve(targets)
        except ZeroDivisionError:
            return None


# Logits in float64, with a-priori bounds of how far they are from real arithmetic.


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
    """Multiply weights, W_Q and W_K (H, d, d_h), for `bounded_logits`."""
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


class BallFactors(NamedTuple):
    """Products of weights of all heads in float64, and of each head in balls."""

    floats: HeadFactors  # for the question which tokens matter
    products: tuple[arb_mat, ...]  # W_Q W_K^T of each head (d, d)


class BallLogits(NamedTuple):
    """Logits in float64 with bounds, and what those in balls are made of."""

    floats: BoundedLogits  # for the question which tokens matter
    products: tuple[arb_mat, ...]  # W_Q W_K^T of each head (d, d)


class Balls(Arithmetic[BallFactors, BallLogits, PerQuery[arb_mat]]):
    """Balls of python-flint; matrices are made one at a time."""

    def __init__(self, prec: int) -> None:
        self.prec = prec

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> BallFactors:
        with working_precision(self.prec):
            products = tuple(
                exact_matrix(w_q) * exact_matrix(w_k.T)
                for w_q, w_k in zip(query_weights, key_weights, strict=True)
            )
        return BallFactors(head_factors(query_weights, key_weights), products)

    def logits(self, weights: BallFactors, queries: Numbers, keys: Numbers) -> BallLogits:
        """Bound logits in float64; which of them are enclosed, the softmax decides."""
        return BallLogits(bounded_logits(weights.floats, queries, keys), weights.products)

    def softmax(self, logits: BallLogits, hidden: Hidden | None) -> PerQuery[arb_mat]:
        matters = relevant_tokens(logits.floats, self.prec, hidden)
        matters = matters.reshape(-1, *matters.shape[-2:])
        queries = logits.floats.queries.reshape(len(matters), -1)
        keys, products = logits.floats.keys, logits.products
        of_group = lru_cache(maxsize=1)(lambda group: exact_matrix(keys[group]))

        def attention(query: int) -> arb_mat:
            seen = None if hidden is None else ~hidden[query % len(hidden)]
            row = exact_matrix(queries[query, np.newaxis])
            tokens = partial(of_group, matrices.group(query, len(keys)))
            with working_precision(self.prec):
                return _attention(row, products, tokens, matters[query], seen, self.prec)

        matrices = PerQuery(len(matters), attention)
        return matrices

    def averages(self, attention: PerQuery[arb_mat], values: Numbers) -> PerQuery[arb_mat]:
        of_group = lru_cache(maxsize=1)(lambda group: exact_matrix(values[group]))

        def average(query: int) -> arb_mat:
            weights, tokens = attention[query], of_group(attention.group(query, len(values)))
            with working_precision(self.prec):
                return weights * tokens

        return PerQuery(len(attention), average)


def relevant_tokens(logits: BoundedLogits, prec: int, hidden: Hidden | None = None) -> Booleans:
    """Return which tokens may have attention above 2^-prec: (..., H, n), one of each head at least.

    Hidden tokens (b, n), which a query does not see, are irrelevant.
    """
    with np.errstate(all="ignore"):  # an overflow makes every token relevant
        numbers, bounds = logits.numbers, logits.bounds
        if hidden is not None:
            numbers = np.where(hidden[:, np.newaxis], -np.inf, numbers)
        top = numbers.argmax(axis=-1)[..., np.newaxis]
        least_of_top = np.take_along_axis(numbers - bounds, top, axis=-1)
        # log(2) < 0.7. Both sides below are rounded by 2^-53 of their own sizes; whichever is
        # larger, 1 + 1e-9 |least_of_top| is more than that can decide.
        margin = 0.7 * prec + 1.0 + 1e-9 * np.abs(least_of_top)
        dropped: Booleans = numbers + bounds < least_of_top - margin
        if hidden is not None:
            dropped |= hidden[:, np.newaxis]
    return ~dropped


def _attention(
    row: arb_mat,
    products: tuple[arb_mat, ...],
    tokens: Callable[[], arb_mat],
    matters: Booleans,
    seen: Booleans | None,
    prec: int,
) -> arb_mat:
    """Return softmax attention (H, n) of all heads on one query, at the precision in force."""
    heads, size = matters.shape
    visible = size if seen is None else int(np.count_nonzero(seen))
    none = arb(0.5, 0.5) * arb(2) ** -prec
    # At most n - 1 tokens of weight at most 2^-prec each leave at least this to the only one.
    nearly_one = 1 - none * (visible - 1)
    line = [none] * size if seen is None else [none if x else arb(0) for x in seen.tolist()]
    attention = line * heads
    transposed = None
    for head, mask in enumerate(matters):
        index = np.flatnonzero(mask).tolist()
        if len(index) == 1:
            attention[head * size + index[0]] = nearly_one
            continue
        if transposed is None:
            transposed = tokens().transpose()
        logits = (row * products[head] * transposed).entries()
        reference = max(logits[i].mid() for i in index)
        weights = [(logits[i] - reference).exp() for i in index]
        # Each token left out has at most 2^-prec of the weight of one that is not.
        total = sum(weights, arb(0)) * (1 + none * (visible - len(index)))
        for i, weight in zip(index, weights, strict=True):
            attention[head * size + i] = weight / total
    return arb_mat(heads, size, attention)
