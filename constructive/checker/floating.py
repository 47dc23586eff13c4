"""Attention in float64 with a-priori bounds of rounding, in fixed point, and by a table.

A sum of k products is off by gamma_k times the sum of their sizes. Where that is not good enough,
logits are computed as sums of two floats; and where one token leads, whatever rounding does, it has
all attention (`enclosed`).
"""

import math
from collections import namedtuple

import mpmath
import numpy as np
from mpmath.libmp import from_man_exp, mpf_exp, to_fixed

from .attend import Heads, Numbers, attend, exact_sum
from .bounds import (
    BITS,
    UNIT,
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


CHUNK = 1 << 18  # entries of arrays which are worked on at a time
GOOD = 2.0**-48  # errors of attention which are good enough
FIRST_ORDER = 0.01  # errors of logits up to which bounds of first order hold, and a few percent
NOTHING = -1e4  # a logit, less the largest, whose exponential is nothing: of a hidden token
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
        return enclosed(logits.values, 0.0, up(self.gamma * logits.sizes), hidden)


def enclosed(high, low, off, hidden):
    """Attention (..., n) of logits high + low, which are off by `off`, and bounds (...).

    These are of the sum of all its errors, and of those of averages of numbers below one.

    Let d_i bound the part by which an exponential is off, of the difference to the largest logit.
    Shares a_i are off by 2 delta / (1 - delta) in all, where delta = sum a_i d_i. And if others
    have at most a part r of the largest exponential, attention is off by 2 r from 1 and zeros,
    with which averages are exact: so that is what is returned where it is nearer.
    """
    seen = high if hidden is None else np.where(hidden, -np.inf, high)
    size, top = high.shape[-1], seen.argmax(axis=-1)[..., None]

    def less(x):
        return x - np.take_along_axis(x, top, axis=-1)

    low, off = (np.broadcast_to(x, high.shape) for x in (low, off))
    below, at_top = less(high) + less(low), np.arange(size) == top
    sizes = np.abs(below) + np.abs(low) + np.abs(np.take_along_axis(low, top, axis=-1))
    spread = up(off + np.take_along_axis(off, top, axis=-1) + 4.0 * UNIT * sizes)
    spread = np.where(at_top, 0.0, spread)
    if hidden is not None:
        below, spread = np.where(hidden, NOTHING, below), np.where(hidden, 0.0, spread)
    powers = exponentials(below)
    attention = powers / powers.sum(axis=-1, keepdims=True)
    each = up(1.01 * (2.0**-49 + spread))
    delta = up((attention * each).sum(axis=-1))
    error = 2.1 * delta + 3.0 * gamma(size + 8) + size * 1e-25
    error = np.where(each.max(axis=-1) < FIRST_ORDER, error, np.inf)
    rest = exponentials(np.where(at_top, -np.inf, below + spread))
    alone = 2.0 * up(up(rest).sum(axis=-1) + size * 1e-25)
    nearer = alone < error
    return np.where(nearer[..., None], at_top, attention), up(np.where(nearer, alone, error))


def attended(weights, view, then=lambda *found: found):
    """What some thread makes of each group of a view: by default it, tokens, attention and errors.

    Attention is (B, H, n), and bounds of its errors are (B, H). Where these are not good enough,
    logits are computed anew from their factors, as if in twice the precision.
    """
    numbers = Bounded(weights)
    heads, turned = Heads(numbers, weights), weights["W_Q"].astype(np.float64).transpose(0, 2, 1)
    keys = weights["W_K"].astype(np.float64)

    def one(part):
        ((group, block, tokens, (attention, error)),) = attend(numbers, heads, part)
        examples, which = np.nonzero(~(error <= GOOD))
        units = max(keys[0].size, tokens[0].size)
        for some in chunks(len(examples), units, CHUNK):
            at, head = examples[some], which[some]
            own = tokens if len(tokens) == 1 else tokens[at]
            read = products(turned[head], group.queries[at].astype(np.float64))
            logits = times_sum(own, *times_sum(keys[head], *read))
            hidden = None if block.hidden is None else block.hidden[at, 0]
            attention[at, head], error[at, head] = enclosed(*logits, hidden)
        return then(group, tokens, attention, error)

    return in_pieces(one, view.parts())


# Products of matrices and vectors as sums of two floats.
#
# Let x be a row of d entries below 2^e in size, and b the largest integer with d 2^(2b) <= 2^53.
# Adding 1.5 2^(e-b+52) and taking it away again rounds x to multiples of 2^(e-b), and so on; all
# differences are exact. So sums of products of the first two parts of both factors are exact, in
# any order. What is left is rounded once, by gamma_(d+2) of its sizes, and so are two sums of
# errors of sums (Knuth), by 2 u of these. What underflows is covered by `up`.


def products(matrices, vectors):
    """Products (k, m) of matrices (k, m, d) and vectors (k, d): high + low, and error bounds."""
    terms = matrices.shape[-1]
    bits = (53 - (terms - 1).bit_length()) // 2
    x, y = slices(matrices, bits), slices(vectors, bits)
    both = np.stack([y[0], y[1]], axis=-1)
    leading, second = x[0] @ both, x[1] @ both
    known = (y[0] + y[1])[..., None]
    left = (matrices @ y[2][..., None] + x[2] @ known)[..., 0]
    sizes = np.abs(matrices) @ np.abs(y[2])[..., None] + np.abs(x[2]) @ np.abs(known)
    total, lost = two_sum(leading[..., 0], leading[..., 1])
    total, more = two_sum(total, second[..., 0])
    high, low = two_sum(total, (lost + more) + (second[..., 1] + left))
    rounded = np.abs(lost) + np.abs(more) + np.abs(second[..., 1]) + np.abs(left)
    off = up(gamma(terms + 4) * sizes[..., 0] + 4.0 * UNIT * rounded) + 0.0 * high  # or a NaN
    return high, low, off


def times_sum(matrices, high, low, off):
    """The same for vectors high + low which are off by `off`."""
    product, rest, bound = products(matrices, high)
    sizes = np.abs(matrices)
    small, spread = ((sizes @ each[..., None])[..., 0] for each in (np.abs(low), off))
    rest = rest + (matrices @ low[..., None])[..., 0]
    rounded = gamma(matrices.shape[2] + 3) * up(small) + 2.0 * UNIT * np.abs(rest)
    return product, rest, up(bound + up(spread) + up(rounded))


def slices(x, bits):
    """Two leading parts of all entries, of so many bits of the largest one of a row; the rest."""
    top, parts = np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1], []
    for count in (1, 2):
        shift = np.ldexp(1.5, top + (52 - count * bits))
        parts.append((x + shift) - shift)
        x = x - parts[-1]
    return *parts, x


def two_sum(x, y):
    """X + y as a rounded sum, and its error."""
    added = x + y
    virtual = added - x
    return added, (x - (added - virtual)) + (y - virtual)


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
