"""Attention in float64 with a-priori bounds of rounding, in fixed point, and by a table.

A sum of k products is off by gamma_k times the sum of their sizes. Attention of a head is had

- where one token leads by NATS, whatever rounding does: as 1 and zeros. The others have at most
  (n - 1) exp(-NATS) of its weight, and attention is off by twice that in all;
- where logits are known less well than to NEAR: in fixed point, as long as these are few;
- otherwise by float64. If no logit is off by more than r, attention is off by r in all: on the way
  from ones to the others its derivative has the entries a_i (l_i - a.l) with |l_i| <= r, and the
  sum of their sizes is a mean absolute deviation, so at most a standard deviation, so at most r.
"""

import math
from collections import namedtuple
from fractions import Fraction

import mpmath
import numpy as np
from mpmath.libmp import from_man_exp, mpf_exp, to_fixed

from .attend import Examples, HeadOfEach, Heads, Numbers, attend, exact_sum
from .bounds import (
    BITS,
    Fixed,
    arranged,
    carried,
    chunks,
    exponentials,
    fixed,
    floats,
    gamma,
    integers,
    moved,
    multiply,
    up,
)
from .files import require
from .pieces import in_pieces

# Attention in fixed point, by exponentials of Python's integers.


class Digits(Numbers):
    """Numbers of so many digits of 20 bits, and an integer bound of the error of each array.

    work: counts exponentials, and may refuse them
    """

    def __init__(self, count, work):
        self.count, self.work = count, work

    def weights(self, w):
        return fixed([w], self.count)

    def queries(self, x):
        return fixed([x], self.count)

    def tokens(self, parts):
        """For averages they are as they are, to be divided by a scale first."""
        return fixed(parts, self.count), exact_sum(parts)

    def product(self, x, y):
        return multiply(x, y, self.count)

    def softmax(self, logits, hidden):
        return softmax(logits, self.count, self.work, hidden)

    def arranged(self, x, function):
        return arranged(x, function)


def exponential(count):
    """Operations which one to so many digits takes, in Python's integers; measured."""
    return 2e5 * (1 + count / 8 + (count / 11) ** 2)


def softmax(logits, count, work, hidden=None):
    """Attention (B, H, n). Tokens whose share is below e^-cut of the largest one count as zero."""
    shown = np.True_ if hidden is None else ~hidden
    tokens, unit, widest = logits.digits.shape[-1], BITS * (count - 1), 0
    if tokens == 1:
        return Fixed(np.ones_like(logits.digits[:1]), 0, 0)
    off = moved(logits.error, -logits.last - unit)
    if 100 * off >= 1 << unit:
        raise OverflowError("logits need more digits")
    top = logits.last + BITS * len(logits.digits)
    rough = np.where(shown, floats(logits, top)[0], -np.inf)
    large = rough.argmax(axis=-1)[..., None]  # nearly the largest; others less it:
    less = arranged(logits, lambda x: x - np.take_along_axis(x, large, axis=-1)).digits
    rough = np.ldexp(floats(logits._replace(digits=carried(less)), top)[0], top)
    cut = 14.0 * count  # e^-cut is less than a unit
    highest = rough.max(axis=-1, keepdims=True, where=shown, initial=-np.inf)
    alive = shown & (rough + np.abs(rough) * 2.0**-48 >= highest * (1 - 2.0**-48) - (cut + 0.1))
    several = alive & (alive.sum(axis=-1, keepdims=True) > 1)
    digits = np.zeros((count, *rough.shape))
    digits[0] = alive & ~several
    places = np.argwhere(several)
    if len(places):
        work.take(len(places) * exponential(count))
        exact = integers(logits.digits[(slice(None), *places.T)])
        owner = places[:, 0] * rough.shape[1] + places[:, 1]
        first, owner = np.unique(owner, return_index=True, return_inverse=True)[1:]
        below = exact - np.maximum.reduceat(exact, first)[owner]
        for k, difference in enumerate(below):
            exponent = from_man_exp(difference, logits.last)
            low, high = (to_fixed(mpf_exp(exponent, unit + 20, r), unit) for r in "fc")
            below[k], widest = low, max(widest, high - low + 2)
        share = (below << unit) // np.add.reduceat(below, first)[owner]
        for k in range(count):
            digits[(k, *places.T)] = (share >> (unit - BITS * k)) & ((1 << BITS) - 1)
    # Logits off by e change a share by less than 2.1 e; the largest term of a denominator is 1.
    lost = 2 * (tokens + 1) * (widest + 1) + 1 + 3 * off
    return Fixed(digits, -unit, lost)


class Sharp(Digits):
    """Logits in fixed point, and attention in float64, with a bound of the sum of its errors."""

    def softmax(self, logits, hidden):
        """Attention (B, H, n) of differences of logits, which are exact, as sums of two floats.

        Exponentials e^x (1 + y), |y| < 2^-46, are off by a part of 2^-50, two roundings and y^2, or
        by 1e-26, and by what logits are off, twice: by less than delta. The largest is one, so that
        shares are off by 2 delta / (1 - delta) in all; sums and quotients are rounded as well.
        """
        tokens = logits.digits.shape[-1]
        off = Fraction(logits.error) * Fraction(2) ** logits.last
        if off >= NEAR:
            raise OverflowError("logits need more digits")
        top = logits.last + BITS * len(logits.digits)
        rough = np.ldexp(floats(logits, top)[0], top)
        if hidden is not None:
            rough = np.where(hidden, -np.inf, rough)
        for _ in range(2):  # less what is nearly the largest, and then less the largest
            large = rough.argmax(axis=-1)[..., None]
            less = arranged(logits, lambda x, at=large: x - np.take_along_axis(x, at, axis=-1))
            high, low = two_floats(carried(less.digits), logits.last)
            rough = high if hidden is None else np.where(hidden, -np.inf, high)
        if not (rough < 1.0).all():
            raise OverflowError("logits need more digits")
        weight = exponentials(high) * (1.0 + low)
        if hidden is not None:
            weight = np.where(hidden, 0.0, weight)
        attention = weight / weight.sum(axis=-1, keepdims=True)
        delta = 2.0**-50 + 2.0**-51 + 2.1 * float(off)
        return attention, up(2.1 * delta + gamma(tokens + 3) + tokens * 1e-25)


def two_floats(digits, last):
    """Numbers whose digits are given, as high + low, which is off by less than 2^-90 of high."""
    high = low = np.zeros(digits.shape[1:])
    for k, digit in enumerate(digits):
        x = np.ldexp(digit, last + BITS * (len(digits) - 1 - k))
        added = high + x
        other = added - high
        low = low + ((high - (added - other)) + (x - other))
        high = added
    added = high + low
    return added, low - (added - high)


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


def attended(weights, view, most, then=lambda *found: found):
    """What some thread makes of each group of a view: by default it, tokens, attention and errors.

    Attention is (B, H, n), and bounds of its errors are (B, H).

    most: how many heads on examples may be had in fixed point
    """
    numbers = Bounded(weights)
    heads, parts, left = Heads(numbers, weights), view.parts(), most
    exact = [fixed([weights[name]], DIGITS) for name in ("W_Q", "W_K")]

    def one(part, most=most):
        ((group, block, tokens, (attention, error, unknown)),) = attend(numbers, heads, part)
        examples, which = np.nonzero(unknown)
        if len(examples) <= most:
            units = tokens.shape[2] * max(tokens.shape[1], weights["W_Q"].shape[2])
            for some in chunks(len(examples), units, CHUNK):
                at = examples[some], which[some]
                attention[at], error[at] = in_fixed_point(exact, group, block.hidden, at)
        return len(examples), then(group, tokens, attention, error)

    for part, (count, found) in zip(parts, in_pieces(one, parts), strict=True):
        fits = count <= left
        left -= count * fits
        yield found if fits or count > most else one(part, -1)[1]


def in_fixed_point(exact, group, hidden, at):
    """The same (k, n), (k,) of some heads, each on one example, from logits in fixed point."""
    (examples, which), (tokens,) = at, group.tokens
    own = tokens[examples if len(tokens) > 1 else np.zeros_like(examples)]
    data = {"contexts": own, "queries": group.queries[examples]}
    if hidden is not None:
        data["lengths"] = (~hidden[examples, 0]).sum(axis=1)
    view = Examples(data, [slice(None)])
    numbers = Sharp(DIGITS, None)
    (*_, found), = attend(numbers, HeadOfEach(numbers, *exact, which), view)  # fmt: skip
    attention, error = found
    return attention[:, 0], error


# Attention of exact logits: short integers times a unit, with exponentials from a table.

ENOUGH = 746.0  # exp(-746) is less than half of the least float64
TABLE = 1 << 20


class Table(Numbers):
    """Float64, in which all sums on the way to logits are exact.

    unit: of what all logits are multiples;  widest: by how much they differ at most
    """

    def __init__(self, unit, widest):
        require(min(ENOUGH, widest) <= TABLE * unit, "logits of heads are too fine for a table")
        count = min(math.ceil(ENOUGH / unit), int(widest / unit)) + 1  # the last may be 0
        self.unit, self.powers = unit, table_of(count, unit)

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


def table_of(count, unit):
    """exp(-k unit) for k below count, as products of two."""
    with mpmath.workprec(80):
        low, high = (
            [mpmath.exp(mpmath.mpf(-k * step) * unit) for k in range(steps)]
            for step, steps in ((1, 1024), (1024, count // 1024 + 1))
        )
        return np.array([float(high[k // 1024] * low[k % 1024]) for k in range(count)])
