"""What rounding and underflow do to float64, covered in one place; numbers of many digits."""

import math
from collections import namedtuple
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np

LONGEST = 1 << 22  # terms of a sum of bounds
UNIT = 2.0**-53
TINY = 2.0**-1000  # more than LONGEST products lose by underflow
AT_ONCE = 1 << 18  # entries which are looked at together
LN2 = 2977044471 * 2.0**-32, 1.9082149292705877e-10  # log(2): its first 32 bits, and the rest


def up(x):
    """Above what a sum of at most LONGEST products of bounds would be without rounding.

    Every addition and every product loses a part of at most 2^-53, so 2^22 of them 2^-31 at most;
    products which underflow lose 2^-1075 each. What overflows is infinite, or not a number, and
    then compares as not proved. What is raised may be a factor again; quotients are like products.
    """
    return x * (1.0 + 2.0**-30) + TINY


def above(x, digits=3, limit=None):
    """Decimal text of a number, rounded up; to more digits, where it would pass a limit."""
    return _text(x, digits, ROUND_CEILING, lambda text: limit is None or text <= limit)


def below(x, digits=3, limit=None):
    """Decimal text of a number, rounded down; to more digits, where it would not pass a limit."""
    return _text(x, digits, ROUND_FLOOR, lambda text: limit is None or text > limit)


def _text(x, digits, rounding, enough):
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    x = Fraction(x)
    for count in range(digits, 18):
        rounded = Context(count, rounding).divide(Decimal(x.numerator), Decimal(x.denominator))
        if enough(rounded):
            break
    usual = not rounded or 1e-300 < abs(float(rounded)) < 1e300  # else no float is near it
    return f"{float(rounded) if usual else rounded:.{count}g}"


def gamma(terms):
    """A sum of so many products, in any order, is off by this part of the sum of their sizes.

    Rounded up; but for underflow, which `up` covers (Higham, section 3).
    """
    return terms * UNIT / (1.0 - terms * UNIT) * (1.0 + 2.0**-30)


def lengths(x):
    """Bounds of lengths along the last axis; squares that underflow add less than 2^-1000."""
    return np.sqrt((x * x).sum(axis=-1)) * (1.0 + 2.0**-30) + 2.0**-500


def exponentials(x):
    """exp(x) for x < 700, with relative errors below 2^-50, or absolute ones below 1e-26.

    In units of 2^-53: a step is off by 0.35 of the one before, and by 0.5 + 1.42 + 1 for a product,
    a sum and a coefficient, so all by 4.5, of 0.707 or more; and y by 0.36. The series ends with
    0.35^15 / 15! < 2^-62.
    """
    cut = np.clip(np.nan_to_num(x), -60.0, 700.0)
    half = np.rint(cut / LN2[0])
    y = cut - half * LN2[0] - half * LN2[1]  # the first difference is exact
    out = np.full_like(x, 1.0 / math.factorial(14))
    for k in range(13, -1, -1):
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


# Real numbers in fixed point: digits of 20 bits as floats, and one bound of the error of an array.
#
#     x = sum_k digits[k] 2^(last + 20 (K - 1 - k)),    |truth - x| <= error 2^last
#
# Digits are at most 2^20 in size, so products of arrays of digits are exact in float64 in sums of
# 2^12. Exponents and errors are Python integers: nothing underflows or overflows, at any scale.

BITS = 20
Fixed = namedtuple("Fixed", "digits last error")  # (K, ...), an integer, an integer


def fixed(parts, count, scale=0):
    """A sum of arrays of floats, times 2^-scale (an integer, or an array of them)."""
    tops = []
    for part in parts:
        rest, at = np.frexp(part.astype(np.float64))
        tops.append(int((at - scale).max(where=rest != 0, initial=-5000)))
    top, error = max(tops) + len(parts).bit_length() - BITS, 0
    digits = np.zeros((count, *parts[0].shape))
    for part in parts:
        rest, at = np.frexp(part.astype(np.float64))
        for k in range(count):
            shift = at - scale - top + BITS * k
            digit = np.rint(np.ldexp(rest, shift))
            rest = rest - np.ldexp(digit, -shift)  # exact: it loses its leading bits
            digits[k] += digit
        error += bool(rest.any())  # what is left is at most half a unit
    return trimmed(Fixed(carried(digits), top - BITS * (count - 1), error), count)


def carried(digits):
    """The same numbers with digits of at most 2^19 in size, but for the first one."""
    for k in range(len(digits) - 1, 0, -1):
        carry = np.rint(digits[k] * 2.0**-BITS)
        digits[k] -= carry * 2.0**BITS
        digits[k - 1] += carry
    return digits


def moved(bound, shift):
    """An integer bound in units which are 2^shift times as large, rounded up."""
    return -(-bound >> shift) if shift > 0 else bound << -shift


def size(x):
    """A bound of the numbers which the digits are, in units of the last one."""
    others = len(x.digits) - 1  # less than one unit of the first digit, all together
    return (int(np.abs(x.digits[0]).max()) + (others > 0)) << BITS * others


def multiply(x, y, count):
    """The product x @ y to `count` digits, by `count` + 1 orders of products of digits."""
    inner, kept, total = x.digits.shape[-1], count + 1, 0.0
    step = max(1, (1 << 12) // kept)  # at most `kept` products of one order, of 2^40 each
    for start in range(0, inner, step):
        part, sums = slice(start, start + step), [0.0] * (kept + 3)
        for i, a in enumerate(x.digits[:kept]):
            for j, b in enumerate(y.digits[: kept - i]):
                sums[3 + i + j] = sums[3 + i + j] + a[..., part] @ b[..., part, :]
        total = carried(total + np.stack(np.broadcast_arrays(*sums)))
    error = size(x) * y.error + size(y) * x.error + x.error * y.error
    left_out = len(x.digits) + len(y.digits) - 1 - kept  # orders, beside those which are there
    if left_out > 0:  # less than 2^(2 20) each, in units of the first of them
        error += len(x.digits) * len(y.digits) << 2 * BITS + BITS * (left_out - 1)
    error = moved(inner * error, BITS * left_out)
    return trimmed(Fixed(total, x.last + y.last + BITS * left_out, error), count)


def trimmed(x, count):
    """Without digits which are zero everywhere at both ends, and with `count` digits at most.

    At the lower end only those of exact numbers, which stay exact so.
    """
    used = np.flatnonzero(x.digits.reshape(len(x.digits), -1).any(axis=1))
    first, stop = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
    if x.error or stop > first + count:
        stop = first + count
    stop = min(stop, len(x.digits))
    cut = len(x.digits) - stop
    error = moved(x.error, BITS * cut)
    error += bool(x.digits[stop:].any())  # which is less than a unit
    return Fixed(x.digits[first:stop], x.last + BITS * cut, error)


def arranged(x, function):
    """The same numbers in arrays of another shape."""
    return x._replace(digits=np.stack([function(digit) for digit in x.digits]))


def floats(x, scale=0):
    """The nearest floats or so to x 2^-scale, and an upper bound of their distance to the truth."""
    places = [x.last + BITS * k - scale for k in range(len(x.digits))]
    values = sum(np.ldexp(d, place) for d, place in zip(x.digits[::-1], places, strict=True))
    error = up(float(Fraction(x.error) * Fraction(2) ** (x.last - scale)))
    return values, float(up(error + 2.0**-50 * float(np.abs(values).max())))


def integers(digits):
    """Digits as Python integers, in units of the last one."""
    whole = digits[::-1].astype(np.int64).astype(object)
    return sum(digit << (BITS * k) for k, digit in enumerate(whole))
