"""Bounds above what float64 computed: of arrays of sums, and of rounding errors.

A bound is worth nothing if a sum of bounds rounds it down, or a product of bounds underflows to
zero. `up` covers the rounding of an array of bounds that float64 computed. With u = 2^-53, let s be
a sum of at most 2^22 products a b of floats that are not negative, added in any order,
with or without fused operations. Every addition loses at most a factor 1 - u (sums do not
underflow), every product a factor 1 - u or, where it underflows, 2^-1075. So ::

    s >= (1 - u)^(2^22) (exact - 2^22 2^-1075),    up(s) = (1 + 2^-30) s + 2^-1000 >= exact.

That holds for all floats, subnormal and huge ones included: an overflow is an infinity, which
bounds everything, and a NaN compares as false, so that it proves nothing. What `up` has
covered may be a factor again. Quotients a / b with a lower bound b > 0 are like products. Bounds
hold at any scale, but say little where numbers are themselves as small as 2^-1000.

This module needs numpy alone. `exact.directed` converts balls and fractions to floats and text.

Reference: Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.
"""

from constructive.support.arrays import Array

UNIT = 2.0**-53

_SLACK = 1.0 + 2.0**-30
TINY = 2.0**-1000  # More than 2^22 products lose by underflow


def up(values: Array) -> Array:
    """Raise sums of at most 2^22 products above what they would be without rounding."""
    covered: Array = values * _SLACK + TINY
    return covered


def gamma(terms: int) -> float:
    """Return gamma_k, rounded up: a sum of k products is off by `gamma_k sum |a| |b|` at most.

    But for underflow, which `up` covers. gamma_k = k u / (1 - k u).
    """
    return terms * UNIT / (1.0 - terms * UNIT) * _SLACK
