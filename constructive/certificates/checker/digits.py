"""Attention in fixed point, by exponentials of Python's integers."""

import numpy as np
from mpmath.libmp import from_man_exp, mpf_exp, to_fixed

from attend import Numbers
from fixed import BITS, Fixed, arranged, carried, fixed, floats, integers, moved, multiply
from views import exact_sum


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
