"""Dot products and exponentials in float64, vectorized, with proved bounds of their errors.

u = 2^-53 is the unit roundoff, and gamma_k = k u / (1 - k u). Both functions are rigorous on every
machine with IEEE arithmetic, whatever its libraries do: they use `+`, `-`, `*` and rint only.

*Dot products.* Products are split into a rounded product and its error (Dekker), and sums into a
rounded sum and its error (Knuth), both exact; the errors are summed in plain arithmetic. So ::

    |high + low - x.y| <= gamma_d^2 |x|.|y|

but for underflow (Ogita, Rump and Oishi, *Accurate sum and dot product*, SIAM J. Sci. Comput. 2005,
section 5): the terms may be 10^8 times the sum, and `high` is still good to its last digit. Two
such results that nearly agree have a difference that is good, too, if it is taken of both parts.
Of each term a product and the four parts of its error may underflow, and lose 2^-1075 each.

*Exponentials* of -700 <= x <= 700. With k = rint(x / ln 2), f = (x - k L_1) - k L_2 where L_1 has
32 bits: k L_1 is exact, and so is the first difference (k = 0, or the two are within a factor of
two). L_2 is ln 2 - L_1 rounded, below 2^-32, so f is off by at most u (0.35 + 2^-20), and
`|f| <= 0.35`. The Taylor polynomial of degree 13 is off by less than
`0.35^14 / 14! * 1.5 < 2^-57`. In Horner's rule p_j = c_j + f p_(j+1) is off by E_j, where ::

    E_j <= 0.35 (1 + 2 u) E_(j+1) + 0.7 u exp(0.35) + 2 u exp(0.35)

for a product, a sum, and a rounded coefficient of c_j <= 1; so E_0 <= 2.7 u 1.42 / 0.64 < 6 u. With
what f is off that is less than 7 u + 2^-57 < 2^-50, and less than 2^-49 of exp(f) > 0.7. 2^k times
it is exact, for x >= -700 keeps away from underflow, and x <= 700 from overflow.
"""

import math

import numpy as np

from constructive.exact.upward import gamma, up
from constructive.support.arrays import Array

EXPONENTIAL_ERROR = 2.0**-49  # Relative error of `exponential`

_SPLITTER = 2.0**27 + 1.0
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_DEGREE = 13
_LARGEST = 700.0


def dot(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Return products x.y along the last axis as high + low, and bounds of their errors.

    `high` is high + low rounded. Bounds are NaN after an overflow.

    Example:
        >>> high, low, bound = dot(np.array([1e16, 1.0, -1e16]), np.array([1.0, 1.0, 1.0]))
        >>> float(high), float(low), bool(bound < 1e-12)
        (1.0, 0.0, True)
    """
    total, compensation = np.zeros((2, *np.broadcast_shapes(left.shape[:-1], right.shape[:-1])))
    sizes = np.zeros_like(total)
    terms = left.shape[-1]
    with np.errstate(all="ignore"):
        for index in range(terms):
            x, y = left[..., index], right[..., index]
            product = x * y
            x_high, y_high = _leading(x), _leading(y)
            x_low, y_low = x - x_high, y - y_high
            error = x_low * y_low - (
                ((product - x_high * y_high) - x_low * y_high) - x_high * y_low
            )
            total, lost = _two_sum(total, product)
            compensation += lost + error
            sizes += np.abs(product)
        high, low = _two_sum(total, compensation)
        # gamma_d^2 for the rounding of the compensation, and as much again for that of `sizes`.
        bound = up(2.0 * gamma(terms) ** 2 * sizes) + 0.0 * high
    return high, low, bound


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """`x + y` as a rounded sum and its error (Knuth)."""
    added = x + y
    virtual = added - x
    return added, (x - (added - virtual)) + (y - virtual)


def _leading(x: Array) -> Array:
    """Return the leading 26 bits of x (Veltkamp)."""
    scaled = _SPLITTER * x
    high: Array = scaled - (scaled - x)
    return high


def exponential(x: Array) -> Array:
    """Return exp(x) with a relative error of at most 2^-49; 0 below -700, NaN above 700.

    Example:
        >>> float(exponential(np.array([-1.0]))[0]) - math.exp(-1.0) < 1e-15
        True
    """
    clipped = np.clip(np.nan_to_num(x), -_LARGEST, _LARGEST)
    power = np.rint(clipped * (1.0 / math.log(2.0)))
    rest = (clipped - power * _LN2_HIGH) - power * _LN2_LOW
    result = np.full_like(rest, 1.0 / math.factorial(_DEGREE))
    for index in range(_DEGREE - 1, -1, -1):
        result *= rest
        result += 1.0 / math.factorial(index)
    result = np.ldexp(result, power.astype(np.int64))
    return np.where(x < -_LARGEST, 0.0, np.where(x <= _LARGEST, result, np.nan))
