"""Right inverses of Z, in float64 or in fixed point: any R which is near enough will do."""

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np

from bounds import LONGEST, gamma, up
from files import require
from fixed import BITS, arranged, fixed, floats, multiply

LARGEST = 2_000_000  # entries of Z up to which it is inverted in fixed point
GAINED = 50  # bits which a step of the iteration for an inverse gains
NEAR = 0.1  # |I - Z R| above which R is too far from a right inverse
NEARER = 2.0**-10  # the same for Z in float64: nothing is lost by that


def right_inverse_bound(z_all, count):
    """A number kappa = |R| / (1 - |I - Z R|) for some R, by floats or in fixed point; or None.

    In floats Z is taken times a power of two which makes its largest entries about one.
    """
    top = max(part.last + BITS * len(part.digits) for part in z_all)
    pieces = [floats(part, top) for part in z_all]
    z, error = np.concatenate([piece[0] for piece in pieces]), max(piece[1] for piece in pieces)
    require(max(z.shape) <= LONGEST, f"Z has more than {LONGEST} columns")
    found = inverse_in_floats(z, error, NEAR)
    if found is not None:
        return found / Fraction(2) ** top
    if z.size > LARGEST:
        return None
    one = np.eye(len(z))
    turned = arranged(z_all[0], np.transpose)
    gram = multiply(z_all[0], turned, count)
    top = gram.last + BITS * len(gram.digits)
    right = fixed([guess(floats(gram, top)[0])], count)
    right = right._replace(last=right.last - top)
    for _ in range(3 + count * BITS // GAINED):  # any R will do: its digits are R, without an error
        left, error = floats(multiply(gram, right, count))
        q = float(up(up(np.abs(left - one).sum(axis=1)).max() + up(len(one) * error)))
        if q < NEAR:
            wide = multiply(turned, right, count)
            top = wide.last + BITS * len(wide.digits)
            wide, error = floats(wide, top)
            reach = float(up(up(np.abs(wide).sum(axis=1)).max() + up(len(one) * error)))
            return Fraction(reach) * Fraction(2) ** top / (1 - Fraction(q))
        if not math.isfinite(q):
            return None
        # Where float64 sees a singular matrix, each step makes good what is smaller by 2^50.
        right = multiply(right, fixed([guess(left)], count), count)._replace(error=0)
    return None


def inverse_in_floats(z, error, near):
    """The same for Z in float64, whose entries are off by so much at most; if |I - Z R| < near."""
    one = np.eye(len(z))
    with np.errstate(all="ignore"):  # what overflows or is not a number shows nothing
        inverse = z.T @ guess(z @ z.T)
        for _ in range(3):
            sums, defect = up(np.abs(inverse).sum(axis=1)), z @ inverse - one
            off = gamma(z.shape[1] + 2) * (up(np.abs(z) @ sums) + 1)
            off = up(np.abs(defect).sum(axis=1) + off)
            q = float(up(off.max() + up(error * up(sums.sum()))))
            if q < near:
                return Fraction(float(up(sums.max()))) / (1 - Fraction(q))
            inverse = inverse - inverse @ defect  # Newton
    return None


def guess(gram):
    """About the inverse of a matrix, or of one with a little more on its diagonal: any will do."""
    one = np.eye(len(gram))
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        inverse = np.linalg.inv(gram + one * 2.0**-51 * np.abs(gram).max())
        if np.isfinite(inverse).all():
            return inverse
    return one
