"""Exact numbers of instances: integers times a power of two, and intervals of their functions.

Every float32 number is a multiple of 2^-149, so arrays of them are arrays of Python's integers in
that unit; products have the unit 2^-298, and so on. Numbers of a proof that may be any numbers,
such as weights and tilts, are rounded to a unit.
"""

import re
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import from_man_exp

from files import require

UNIT = 149  # float32 numbers are multiples of 2^-149
TOP = Fraction((2**24 - 1) * 2**104)  # the largest float32 number
DIGITS = 24  # of float32, in bits
INTERVALS = MPIntervalContext()
INTERVALS.prec = 100
EXACT = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,1200}|/[0-9]{1,400})?")
STEEP = 1000  # exponentials of more, in size, are not computed


def is_single(value):
    """Whether a Fraction is a finite float32 number."""
    top, bottom = value.as_integer_ratio()
    odd = top // (top & -top) if top else 0
    short = abs(odd) < 1 << DIGITS and abs(value) <= TOP
    return short and bottom <= 1 << UNIT and bottom & (bottom - 1) == 0


def exact(text):
    """A number of a proof: a decimal, or p/q."""
    known = isinstance(text, str) and EXACT.fullmatch(text) is not None
    require(known, f"{str(text)[:30]!r} is neither a decimal nor p/q")
    return Fraction(text)


def rounded(value, unit):
    """A Fraction in units of 2^-unit, to the nearest."""
    return round(value * (1 << unit))


def integers(array):
    """Float32 numbers in units of 2^-149: Python's integers."""
    found = np.empty(array.size, dtype=object)
    for k, number in enumerate(array.reshape(-1).tolist()):
        top, bottom = number.as_integer_ratio()
        found[k] = top * ((1 << UNIT) // bottom)
    return found.reshape(array.shape)


def product(left, right):
    """The product of two matrices of integers; most entries may be zeros."""
    found = np.full((len(left), right.shape[1]), 0, dtype=object)
    for j in range(len(right)):
        rows, columns = np.flatnonzero(left[:, j]), np.flatnonzero(right[j])
        if len(rows) and len(columns):
            found[np.ix_(rows, columns)] += left[rows, j, None] * right[j, columns]
    return found


def interval(value, unit=0):
    """An interval around an integer times 2^-unit."""
    ends = (from_man_exp(int(value), -unit, INTERVALS.prec, side) for side in "fc")
    return INTERVALS.make_mpf(tuple(ends))


def exponential(exponent):
    """An interval with exp of an interval: from 0 far below, and infinite far above."""
    if exponent.a > -STEEP and exponent.b < STEEP:
        return INTERVALS.exp(exponent)
    far = [INTERVALS.exp(interval(end)) for end in (-STEEP, STEEP)]
    require(exponent.a <= exponent.b, "an exponent is not a number")
    if exponent.b <= -STEEP:
        return INTERVALS.mpf([0, far[0].b])
    if exponent.a >= STEEP:
        return INTERVALS.mpf([far[1].a, "inf"])
    return INTERVALS.mpf([0, "inf"])


def fraction(end):
    """The end of an interval, which is an interval of its own."""
    sign, mantissa, exponent, _ = end._mpi_[0]
    require(mantissa or not exponent, "an interval is not bounded")
    value = Fraction(-int(mantissa) if sign else int(mantissa))
    return value * Fraction(2) ** int(exponent)


def decimal_below(value, digits=3):
    """Decimal text of a Fraction, rounded down."""
    places = Context(digits, ROUND_FLOOR)
    return str(places.divide(Decimal(value.numerator), Decimal(value.denominator)))
