"""Numbers that are rounded in a known direction: to floats and to text.

A bound is worth nothing if a conversion rounds it to the wrong side. So there is one place for it,
this one: `upper` turns an exact number or a ball into a float, `fixed` and `percent` into text with
a decimal point. Bounds of arrays, and text of few digits, are in `checker.bounds`. The precision of
balls is set here, too.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx

_TOP, _BOTTOM = 1100, -1200  # Exponents of two beyond which a number is beyond all floats

Exact = arb | Fraction | int | float


def upper(x: Exact) -> float:
    """Return the least float that is at least x; infinite if there is none, or for a NaN."""
    return _above(_exactly(x, above=True))


def fixed(x: Exact, digits: int, *, above: bool) -> str:
    """Return decimal text with so many digits after the point, rounded away from what it bounds."""
    bound = _exactly(x, above=above)
    if bound is None:
        return "inf" if above else "-inf"
    parts = bound * 10**digits
    whole: int = math.ceil(parts) if above else math.floor(parts)
    before, after = divmod(abs(whole), 10**digits)
    return "-" * (whole < 0) + (f"{before}.{after:0{digits}}" if digits else str(before))


def percent(x: Exact, digits: int = 1, *, above: bool = True) -> str:
    """Return a share in percent, rounded away from what it bounds."""
    infinite = isinstance(x, float) and not math.isfinite(x)
    scaled: Exact = 100 * (x if infinite or isinstance(x, arb) else Fraction(x))
    return f"{fixed(scaled, digits, above=above)}%"


def _exactly(x: Exact, *, above: bool) -> Fraction | None:
    """A bound of x as a fraction; None if it is not finite. Beyond all floats any will do."""
    if not isinstance(x, arb):
        return None if isinstance(x, float) and not math.isfinite(x) else Fraction(x)
    bound = x.upper() if above else x.lower()
    if not bound.is_finite():
        return None
    mantissa, exponent = (int(part) for part in bound.man_exp())
    reach = mantissa.bit_length() + exponent
    if reach > _TOP:
        mantissa, exponent = (1, _TOP) if mantissa > 0 else (-1, _TOP)
    elif reach < _BOTTOM:
        outwards = (mantissa > 0) == above
        mantissa, exponent = ((1, _BOTTOM) if above else (-1, _BOTTOM)) if outwards else (0, 0)
    return Fraction(mantissa) * Fraction(2) ** exponent


def _above(bound: Fraction | None) -> float:
    if bound is None:
        return math.inf
    try:
        nearest = float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -math.nextafter(math.inf, 0)
    return nearest if nearest >= bound else math.nextafter(nearest, math.inf)


# The precision of python-flint, which is one number for all threads of a process.
#
# Two threads that set it in turns would compute with each other's bits, and the last one to leave
# would set what the other one had. So a thread that sets it here waits until no other in this
# package does. Balls hold at any precision: what could be lost are bits, not a proof. A thread of
# yours that uses python-flint itself meanwhile sees the precision change; give it its own process.


_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Let python-flint compute with so many bits in this block, and as before after it."""
    with _ONE_AT_A_TIME, ctx.workprec(bits):
        yield
