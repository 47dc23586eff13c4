"""The constants of bounds in float64 are what proofs about rounding ask for; in both places."""

import math
from fractions import Fraction

import numpy as np
import pytest

from constructive.exact import upward

UNIT = Fraction(1, 2**53)


@pytest.fixture(params=["checker", "package"])
def bounds(request, checker):
    return checker.bounds if request.param == "checker" else upward


def test_the_unit_roundoff_is_that_of_float64(bounds):
    assert np.float64(1) + bounds.UNIT == 1 < 1 + bounds.UNIT * (1 + 2.0**-52)


def test_sums_of_so_many_products_are_covered_and_not_by_much_more(bounds):
    """(1 - u)^k of a sum of k terms is left at worst, and two more roundings are in `up` itself."""
    assert bounds.LONGEST == 2**22
    factor = Fraction(float(bounds.up(np.float64(1.0)))) - Fraction(2) ** -1000
    left = 1 - (bounds.LONGEST + 4) * UNIT  # at most (1 - u)^(k + 4)
    assert factor * left > 1
    assert factor < 1 + Fraction(1, 2**29)


def test_products_which_underflow_are_covered_and_by_little(bounds):
    lost = bounds.LONGEST**2 * Fraction(1, 2**1075)  # of a row of sums
    least = Fraction(float(bounds.up(np.float64(0.0))))
    assert lost < least <= Fraction(1, 2**999)


def test_a_bound_is_never_below_what_it_bounds(bounds):
    for x in (5e-324, 2.0**-1022, 1e-300, 1.0, 1e300):
        assert bounds.up(np.float64(x)) > x
    with np.errstate(over="ignore"):
        assert bounds.up(np.float64(1.7976931348623157e308)) == math.inf
    assert math.isnan(bounds.up(np.float64(np.nan)))


@pytest.mark.parametrize("terms", [1, 2, 7, 1000, 2**22, 2**39])
def test_gamma_is_rounded_up_and_by_little(bounds, terms):
    exact = terms * UNIT / (1 - terms * UNIT)
    found = Fraction(bounds.gamma(terms))
    assert exact < found < exact * (1 + Fraction(1, 2**29))


def test_lengths_are_rounded_up_at_every_scale(bounds):
    for vector in ([3.0, 4.0], [1e-170, 1e-170], [5e-324, 0.0], [1e-300, 1e150], [1.0] * 1000):
        squares = sum(Fraction(x) ** 2 for x in vector)
        found = Fraction(float(bounds.lengths(np.array(vector))))
        assert found > 0
        assert found**2 > squares
        assert found < Fraction(math.isqrt(int(squares * 4**700)) + 1, 2**700) * (
            1 + Fraction(1, 2**29)
        ) + Fraction(1, 2**499)
    with np.errstate(over="ignore"):
        assert bounds.lengths(np.array([1e200, 1.0])) == math.inf


def test_lengths_of_so_many_entries_are_covered(bounds):
    """Squares lose a part of k + 2 roundings at worst, and what is taken of them two more."""
    factor = Fraction(float(bounds.lengths(np.array([1.0])))) - Fraction(2) ** -500
    assert factor**2 * (1 - (bounds.LONGEST + 8) * UNIT) > 1
    assert factor < 1 + Fraction(1, 2**29)


def test_underflowing_squares_are_covered(bounds):
    """2^22 squares just below the least number that is not rounded to zero."""
    entry = Fraction(math.sqrt(2.0**-1075))
    true = bounds.LONGEST * entry**2
    found = Fraction(float(bounds.lengths(np.array([0.0]))))
    assert found > 0
    assert found**2 > true


@pytest.mark.parametrize(
    ("values", "found"),
    [([0.0], 0), ([1.0], 1), ([-1.0, 0.75], 1), ([0.5], 0), ([3.0, -4.0], 3), ([5e-324], -1073)],
)
def test_exponents(checker, values, found):
    for module in (checker.bounds.exponent, upward.exponent_of):
        assert module(np.array(values)) == found


@pytest.mark.parametrize(
    ("total", "entries", "most"), [(7, 2, 6), (7, 9, 6), (3, 1, 100), (4, 2, 4)]
)
def test_chunks_cover_all_rows_once_and_are_as_large_as_allowed(checker, total, entries, most):
    slices = checker.bounds.chunks(total, entries, most)
    assert [i for s in slices for i in range(total)[s]] == list(range(total))
    size = max(1, most // entries)
    assert [s.stop - s.start for s in slices[:-1]] == [size] * (len(slices) - 1)
    assert slices[-1].stop == total


def test_what_is_printed_is_rounded_away_from_what_it_bounds(checker):
    above, below = checker.bounds.above, checker.bounds.below
    for x in (0.9999, 1.00001, 123456.789, 3e-9, 0.5, 1000.0, np.float64(2 / 3)):
        for digits in (1, 2, 3, 6):
            assert Fraction(below(x, digits)) <= Fraction(float(x)) <= Fraction(above(x, digits))
            apart = Fraction(above(x, digits)) - Fraction(below(x, digits))
            assert apart <= Fraction(10) ** (1 - digits) * Fraction(float(x))
    shown = above(0.99951), below(0.99951), above(1000, 1), above(2.0, 2)
    assert shown == ("1", "0.999", "1e+03", "2")
    assert (above(np.inf), above(np.nan)) == ("inf", "nan")
