"""Attention in float64, with a-priori bounds of rounding.

A sum of k products is off by gamma_k times the sum of their sizes. Attention of a head is had

- where one token leads by NATS, whatever rounding does: as 1 and zeros. The others have at most
  (n - 1) exp(-NATS) of its weight, and attention is off by twice that in all;
- where logits are known less well than to NEAR: in fixed point, as long as these are few;
- otherwise by float64. If no logit is off by more than r, attention is off by r in all: on the way
  from ones to the others its derivative has the entries a_i (l_i - a.l) with |l_i| <= r, and the
  sum of their sizes is a mean absolute deviation, so at most a standard deviation, so at most r.
"""

from collections import namedtuple

import numpy as np

from attend import HeadOfEach, Heads, Numbers, attend
from bounds import chunks, exponentials, gamma, up
from digits import Digits
from fixed import floats
from views import Examples, exact_sum

CHUNK = 1 << 18  # entries of arrays which are worked on at a time
NATS, LEFT = 45.0, 3e-20  # more than exp(-NATS)
LIMIT = 1e6  # errors of logits beyond which nothing is known of them
NEAR = 2.0**-40  # those with which float64 is good enough
DIGITS = 5

# numbers, and bounds of the sums of sizes of what they are sums of
Sized = namedtuple("Sized", "values sizes")


class Floats(Numbers):
    """Float64 with sizes of sums: W_K W_Q^T e X^T is off by a part of them, in any order."""

    def weights(self, w):
        return sized(w)

    def queries(self, x):
        return sized(x)

    def tokens(self, parts):
        x = sized(exact_sum(parts))
        return x, x.values

    def product(self, x, y):
        return Sized(x.values @ y.values, up(x.sizes @ y.sizes))

    def arranged(self, x, function):
        return Sized(*map(function, x))


def sized(x):
    x = x.astype(np.float64)
    return Sized(x, np.abs(x))


class Bounded(Floats):
    """Attention with bounds (B, H) of the sum of its errors, as long as logits are known."""

    def __init__(self, weights):
        self.gamma = gamma(2 * weights["W_Q"].shape[1] + weights["W_Q"].shape[2] + 8)

    def tokens(self, parts):
        """Of all tokens of a context the largest entries count."""
        x = exact_sum(parts)
        return Sized(x, np.abs(x).max(axis=1, keepdims=True)), x

    def softmax(self, logits, hidden):
        """Attention, bounds, and which of them are not good enough."""
        off = up(self.gamma * logits.sizes[..., 0])
        logits = logits.values if hidden is None else np.where(hidden, -np.inf, logits.values)
        below = logits - logits.max(axis=2, keepdims=True)
        first = logits.argmax(axis=2)[..., None]
        others = below.copy()
        np.put_along_axis(others, first, -np.inf, axis=2)
        lead = -others.max(axis=2) * (1.0 - 2.0**-50)
        alone = (off < LIMIT) & (lead >= up(NATS + 2.0 * off))
        size = logits.shape[2]
        weight = exponentials(below)  # of logits off by 2^-47 more, up to 60 below
        attention = weight / weight.sum(axis=2, keepdims=True)
        error = up(off + 2.0**-44 + 2.0 * gamma(size + 8) + size * 1e-25)
        one = np.zeros_like(attention)
        np.put_along_axis(one, first, 1.0, axis=2)
        attention = np.where(alone[..., None], one, attention)
        error = np.where(alone, 2.0 * size * LEFT, error)  # products with 1 and zeros are exact
        return attention, error, ~(alone | (off <= NEAR))


def attended(weights, view, most, work):
    """For each group of a view: it, tokens, attention (B, H, n), and bounds (B, H) of its errors.

    most: how many heads on examples may be had in fixed point
    """
    numbers = Bounded(weights)
    for group, block, tokens, (attention, error, unknown) in attend(
        numbers, Heads(numbers, weights), view
    ):
        examples, heads = np.nonzero(unknown)
        if len(examples) <= most:
            most -= len(examples)
            units = tokens.shape[2] * max(tokens.shape[1], weights["W_Q"].shape[2])
            for part in chunks(len(examples), units, CHUNK):
                at = examples[part], heads[part]
                found = in_fixed_point(weights, group, block.hidden, at, work)
                attention[at], error[at] = found
        yield group, tokens, attention, error


def in_fixed_point(weights, group, hidden, at, work):
    """The same (k, n), (k,) of some heads, each on one example."""
    (examples, which), (tokens,) = at, group.tokens
    own = tokens[examples if len(tokens) > 1 else np.zeros_like(examples)]
    data = {"contexts": own, "queries": group.queries[examples]}
    if hidden is not None:
        data["lengths"] = (~hidden[examples, 0]).sum(axis=1)
    view = Examples(data, [slice(None)])
    numbers = Digits(DIGITS, work)
    (*_, found), = attend(numbers, HeadOfEach(numbers, weights, which), view)  # fmt: skip
    attention, error = floats(found)
    size = attention.shape[2]
    return attention[:, 0], up(size * error + gamma(size + 4))
