"""Softmax in float64 of logits that are off by known bounds, with bounds of what that does.

Let b_i be the logits less that of one token, the reference, and e_i bounds of their errors. There
are two bounds of the sum over i of `|a_i - alpha_i|`, for the shares a_i that are returned and
those of the true logits, alpha_i:

- *Small errors.* If weights w_i are off by d_i w_i with `d_i < 1`, shares are off by
  `2 delta / (1 - delta)` in all, for `delta = sum_i a_i d_i`.
- *One token alone.* The others have at most `r = sum exp(b_i + e_i)` of the weight of the
  reference, so that true shares are within 2 r of giving all to it. That is what is returned then:
  1 and zeros, with which products are exact.
"""

import numpy as np

from constructive.exact.compensated import EXPONENTIAL_ERROR, exponential
from constructive.exact.upward import TINY, UNIT, gamma, up
from constructive.support.arrays import Array, Integers

_SMALL = 0.01  # Errors up to which first-order bounds hold with a few percent to spare


def differences(high: Array, low: Array, errors: Array, top: Integers) -> tuple[Array, Array]:
    """Return logits (..., n) less that of a reference (..., 1), and bounds of their errors.

    Logits are sums high + low that are off by `errors` at most. The bound is 0 for the reference.
    """
    low_top = np.take_along_axis(low, top, axis=-1)
    below = (high - np.take_along_axis(high, top, axis=-1)) + (low - low_top)
    # Both differences are rounded, and their sum; the first one is that less the second.
    sizes = np.abs(below) + np.abs(low) + np.abs(low_top)
    spread = up(errors + np.take_along_axis(errors, top, axis=-1) + 4.0 * UNIT * sizes)
    np.put_along_axis(spread, top, 0.0, axis=-1)
    return below, spread


def shares(below: Array, spread: Array, top: Integers) -> tuple[Array, Array]:
    """Return attention (..., n), and bounds (...) of the sum of all its errors.

    Arguments are those that `differences` returns and takes; the logit of the reference is among
    the largest. Bounds are infinite or NaN where nothing is known.

    Example:
        >>> below = np.array([[0.0, 0.0], [0.0, -90.0]])
        >>> spread = np.array([[0.0, 1e-12], [0.0, 1e-12]])
        >>> attention, off = shares(below, spread, np.array([[0], [0]]))
        >>> attention
        array([[0.5, 0.5],
               [1. , 0. ]])
        >>> off < [1e-11, 1e-38]
        array([ True,  True])
    """
    others = below.shape[-1] - 1
    weights = exponential(below)
    attention: Array = weights / weights.sum(axis=-1, keepdims=True)
    each = up(1.01 * (EXPONENTIAL_ERROR + spread))
    delta = up((attention * each).sum(axis=-1))
    small = (each.max(axis=-1) < _SMALL) & (delta < _SMALL)
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
    return attention, up(np.where(better, alone, error))
