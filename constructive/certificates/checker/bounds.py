"""Bounds in float64: what rounding and underflow can do to them is covered in one place."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

LONGEST = 1 << 22  # terms of a sum of bounds
UNIT = 2.0**-53
AT_ONCE = 1 << 18  # entries which are looked at together
LN2 = 2977044471 * 2.0**-32, 1.9082149292705877e-10  # log(2): its first 32 bits, and the rest


def up(x):
    """Above what a sum of at most LONGEST products of bounds would be without rounding.

    Every addition and every product loses a part of at most 2^-53, so 2^22 of them 2^-31 at most;
    products which underflow lose 2^-1075 each. What overflows is infinite, or not a number, and
    then compares as not proved. What is raised may be a factor again; quotients are like products.
    """
    return x * (1.0 + 2.0**-30) + 2.0**-1000


def above(x, digits=3):
    """Decimal text of a number, rounded up."""
    rounded = Context(digits, ROUND_CEILING).create_decimal_from_float(float(x))
    return f"{float(rounded):.{digits}g}"


def below(x, digits=3):
    """Decimal text of a number, rounded down."""
    rounded = Context(digits, ROUND_FLOOR).create_decimal_from_float(float(x))
    return f"{float(rounded):.{digits}g}"


def gamma(terms):
    """A sum of so many products, in any order, is off by this part of the sum of their sizes."""
    return terms * UNIT / (1.0 - terms * UNIT) * (1.0 + 2.0**-30)


def lengths(x):
    """Bounds of lengths along the last axis; squares that underflow add less than 2^-1000."""
    return np.sqrt((x * x).sum(axis=-1)) * (1.0 + 2.0**-30) + 2.0**-500


def exponentials(x):
    """exp(x) for x < 700, with relative errors below 2^-46, or absolute ones below 1e-26."""
    cut = np.clip(np.nan_to_num(x), -60.0, 700.0)
    half = np.rint(cut / LN2[0])
    y = cut - half * LN2[0] - half * LN2[1]  # the first difference is exact
    out = np.full_like(x, 1.0 / math.factorial(14))
    for k in range(13, -1, -1):  # off by 28 roundings, and by 0.35^15 / 15! < 2^-62
        out = out * y + 1.0 / math.factorial(k)
    out = np.ldexp(out, half.astype(np.int64))
    return np.where(x < -60.0, 0.0, np.where(x < 700.0, out, np.nan))


def exponent(x):
    """The least e with all entries below 2^e in size, and 0 for zeros."""
    return math.frexp(max(float(x.max()), -float(x.min())))[1]


def granularity(array):
    """The largest e with every entry a multiple of 2^e; 0 of zeros."""
    flat, found = array.reshape(-1), []
    for part in chunks(len(flat), 1, AT_ONCE):
        mantissas, exponents = np.frexp(flat[part][flat[part] != 0].astype(np.float64))
        whole = (mantissas * 2.0**53).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54 + exponents
        found += [int(lowest.min())] if len(lowest) else []
    return min(found, default=0)


def chunks(total, entries, most):
    """Slices of so many rows that `most` entries are not passed, or of one."""
    step = max(1, most // entries)
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]


def entries(size, width, heads, inner):
    """Entries of one example in the largest array: of its tokens, or of what heads make of them."""
    return max(size * width, heads * max(size, width, inner))
