"""Attention of pairs of heads of rank one: reaches times scores, each a high and a low part.

logits  l_j = (e . q) (x_j . k)      so differences of scores count, times the reach e . q
"""

from collections import namedtuple

import numpy as np

from attend import Numbers, attend
from bounds import UNIT, exponent, exponentials, gamma, up
from floating import Sized
from views import Examples

NATS, LEFT = 40.0, 4.3e-18  # a token which leads by NATS leaves others at most LEFT > exp(-NATS)
NEAR = 1e-10  # errors of attention with which scores of one part are good enough
BITS, DIGITS = 20, 5  # numbers as sums of digits, for products which have to be nearly exact

Parts = namedtuple("Parts", "high low off")  # their sum, and a bound of its error


class Pairs(Numbers):
    """Scores of tokens by the key of all heads, which are given: Parts (B, n)."""

    def __init__(self, scores):
        self.scores = scores

    def weights(self, w):
        return w

    def queries(self, x):
        return x

    def tokens(self, parts):
        return self.arranged(self.scores, lambda x: x[..., None]), parts[0]

    def product(self, x, y):
        """Logits less one of the largest, and bounds of what they are off by."""
        ends = np.stack([y.high.argmin(axis=2), y.high.argmax(axis=2)], axis=1)
        top = np.take_along_axis(ends, (x.high > 0).astype(np.int64), axis=1)
        gap = sum(part - np.take_along_axis(part, top, axis=2) for part in (y.high, y.low))
        size = np.abs(gap)
        off = up(2 * np.reshape(y.off, (-1, 1, 1)) + 4 * UNIT * size)
        spread = up(x.off * up(size + off) + np.abs(x.high) * up(2 * off + 4 * UNIT * size))
        return Sized(x.high * gap + x.low * gap, spread)

    def softmax(self, logits, hidden):
        """Attention of both heads (B, 2, n), and a bound (B,) of all errors together."""
        values, spread = logits
        values = values if hidden is None else np.where(hidden, -np.inf, values)
        powers = exponentials(values)
        shares = powers / powers.sum(axis=2, keepdims=True)
        each = up(1.01 * (2.0**-46 + spread))
        delta = up((shares * each).sum(axis=2)) + values.shape[2] * 1e-26
        error = np.where(each.max(axis=2) < 0.01, 2.1 * delta, np.inf)
        surely = values + spread
        np.put_along_axis(surely, values.argmax(axis=2)[..., None], -np.inf, axis=2)
        alone = surely.max(axis=2) <= -NATS * (1 + 2.0**-30)
        error = np.where(alone, 5 * values.shape[2] * LEFT, error)
        return shares, up((error + gamma(values.shape[2] + 5)).sum(axis=1))

    def arranged(self, x, function):
        if isinstance(x, Parts):
            return x._replace(high=function(x.high), low=function(x.low))
        return Sized(*map(function, x)) if isinstance(x, Sized) else function(x)


class PairOfEach:
    """Two heads (B, 2, d) for each query."""

    count = 2

    def __init__(self, heads):
        self.heads = heads

    def absorbed(self, numbers, queries):
        """Reaches (B, 2, 1)."""
        reach = Parts(*precisely(queries[:, None], self.heads))
        return numbers.arranged(reach, lambda x: x[..., None])


def attention_of(x, queries, heads, key, scores):
    """Attention (B, 2, n) of pairs of heads on contexts, and a bound (B,) of all its errors.

    scores: x @ key, and bounds (B,) of their errors
    """

    def of(rows, scores):
        view = Examples({"contexts": x[rows], "queries": queries[rows]}, [slice(None)])
        (*_, found), = attend(Pairs(scores), PairOfEach(heads[rows]), view)  # fmt: skip
        return found

    high, off = scores
    attention, error = of(slice(None), Parts(high, np.zeros_like(high), off))
    worse = np.flatnonzero(~(error < NEAR))
    if len(worse):  # large logits with small gaps: scores have to be better
        attention[worse], error[worse] = of(worse, Parts(*precisely(x[worse], key)))
    return attention, error


def split(x):
    """Digits of 20 bits, the unit of the first one, and a bound of what is left of each entry."""
    top = exponent(x) - BITS
    rest, digits = np.ldexp(x, -top), []
    for _ in range(DIGITS):
        digits.append(np.rint(rest))
        rest = (rest - digits[-1]) * 2.0**BITS  # exact
    return digits, top, up(2.0 ** max(top - BITS * (DIGITS - 1), -1000))


def precisely(x, y):
    """x.y along the last axis as high + low, and a bound of its error: about 2^-90 |x| |y|."""
    (a, top_a, left_a), (b, top_b, left_b) = split(x), split(y)
    high = low = 0.0
    for order in range(DIGITS + 1):  # at most 5 * 1024 products of at most 2^40: exact
        which = range(max(0, order - DIGITS + 1), min(order + 1, DIGITS))
        term = sum(np.einsum("...d,...d->...", a[i], b[order - i]) for i in which)
        term = np.ldexp(term, top_a + top_b - BITS * order)
        total = high + term
        part = total - high
        low = low + ((high - (total - part)) + (term - part))
        high = total
    x_size, y_size = float(np.abs(x).max()), float(np.abs(y).max())
    dropped = 2.0 ** max(top_a + top_b + 2 * BITS + 4 - BITS * (DIGITS + 1), -1000)
    ends = up(x_size * left_b) + up(y_size * left_a) + up(left_a * left_b)
    # Partial sums are below d size, so each of 6 parts of `low` is below 2^-53 of that.
    return high, low, up(x.shape[-1] * (ends + dropped + up(x_size * y_size) * 2.0**-100))
