"""Compensated dot products and exponentials stay within their bounds, against exact arithmetic."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from constructive.exact.verified import EXPONENTIAL_ERROR, dot, exponential

REALS = st.floats(-1e12, 1e12, allow_subnormal=True)


@given(st.integers(1, 40).flatmap(lambda d: arrays.arrays(np.float64, (2, d), elements=REALS)))
def test_dot_products_are_within_their_bounds(pair):
    high, low, bound = dot(*pair)
    exact = sum((Fraction(x) * Fraction(y) for x, y in pair.T.tolist()), Fraction(0))
    assert abs(Fraction(float(high)) + Fraction(float(low)) - exact) <= Fraction(float(bound))
    assert high == high + low


def test_cancellation_of_twenty_digits_is_survived():
    x = np.array([1e20, 1.0, -1e20, 3.0])
    high, low, bound = dot(x, np.array([1.0, 1.0, 1.0, 1e-30]))
    assert high == 1.0
    assert low == pytest.approx(3e-30)
    assert bound < 1e-8


def test_the_bound_is_not_vacuous():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 100, 64))
    _, low, bound = dot(x, y)
    assert (bound < 1e-26).all()
    assert (np.abs(low) > bound).mean() > 0.9  # so the low part carries digits


def test_overflow_gives_no_finite_bound():
    _, _, bound = dot(np.array([1e300, 1.0]), np.array([1e300, 1.0]))
    assert not bound < np.inf


@given(st.floats(-700, 0.1))
def test_exponentials_are_within_their_bound(x):
    with mpmath.workprec(120):
        exact = mpmath.exp(mpmath.mpf(x))
        found = mpmath.mpf(float(exponential(np.array([x]))[0]))
        assert abs(found - exact) <= EXPONENTIAL_ERROR * exact


@pytest.mark.parametrize("x", [-700.0001, -1e4, -1e300, -np.inf])
def test_far_exponentials_are_zero(x):
    assert exponential(np.array([x]))[0] == 0.0
