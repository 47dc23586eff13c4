"""Float arithmetic with bounds: independent rows, products and exponentials."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from constructive.exact import dyadic, verified
from constructive.exact.verified import EXPONENTIAL_ERROR, dot, exponential

# What a Cholesky factorization proves of rows, against exact ranks, at any scale.


def proved(matrix):
    return bool(verified.independent(verified.scaled(matrix)[np.newaxis])[0])


def rescaled(rng, matrix, reach):
    """The same rank, at other scales: nothing overflows or underflows."""
    rows, columns = (rng.integers(-reach, reach + 1, size=length) for length in matrix.shape)
    return np.ldexp(matrix, rows[:, np.newaxis] + columns)


def dependent(rng, size, width, bits=51):
    """A row that is the sum of two others, exactly, though products of entries are rounded."""
    matrix = np.round(rng.uniform(-1.0, 1.0, size=(size, width)) * 2.0**bits)
    matrix[-1] = matrix[0] + matrix[1]
    return matrix[rng.permutation(size)]


@given(
    st.integers(0, 2**32),
    st.integers(2, 7),
    st.integers(0, 4),
    st.sampled_from([0, 3, 200, 450]),
    st.integers(0, 60),
)
def test_what_is_proved_is_true(seed, size, more, reach, bits):
    """Rows that are dependent, and rows that are so but for a last place or a few."""
    rng = np.random.default_rng(seed)
    matrix = dependent(rng, size, size + more)
    if bits:
        row, column = rng.integers(size), rng.integers(size + more)
        matrix[row, column] += 2.0**bits
    matrix = rescaled(rng, matrix, reach)
    truth = dyadic.rank(matrix) == size
    assert truth or not proved(matrix)
    assert dyadic.independent(matrix[np.newaxis], rng).tolist() == [truth]


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from([-1074, -1060, -1022, 900]))
def test_small_integers_at_the_ends_of_float64(seed, size, exponent):
    """Subnormal numbers and huge ones, dependent and independent."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-4, 5, size=(size, size)).astype(float)
    matrix = whole * 2.0**exponent
    assert (matrix / 2.0**exponent == whole).all()
    truth = dyadic.rank(whole) == size
    assert truth or not proved(matrix)
    assert proved(np.eye(size) * 2.0**exponent + np.tril(matrix, k=-1) / 8)


def test_without_the_shift_it_would_prove_what_is_false():
    rng = np.random.default_rng(0)
    matrices = np.stack([dependent(rng, 6, 9) for _ in range(400)])
    rows = verified.scaled(matrices)
    assert verified._definite(rows @ rows.swapaxes(1, 2)).sum() > 50
    assert not verified.independent(rows).any()


@pytest.mark.parametrize("shape", [(3, 3), (48, 60), (200, 200), (300, 900)])
def test_generic_rows_are_proved_at_any_scale(shape):
    rng = np.random.default_rng(1)
    for matrix in (rng.standard_normal(shape), rng.random(shape)):
        assert proved(matrix)
        assert proved(rescaled(rng, matrix, 480))
        assert proved(matrix.astype(np.float32))
        assert proved((matrix * 2.0**30).round() * 5e-324)


def test_a_batch_with_failures():
    rng = np.random.default_rng(2)
    batch = rng.standard_normal((37, 4, 6))
    wrong = rng.random(37) < 0.4
    batch[wrong, 3] = batch[wrong, 1] * 2.0
    assert verified.independent(verified.scaled(batch)).tolist() == (~wrong).tolist()


def test_what_is_too_near_to_be_told_is_not_proved():
    for bits, found in ((10, True), (20, True), (30, False), (52, False)):
        assert proved(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-bits]])) is found


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((1, 3)), np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones((2, 1)), np.ones((1, 2**21))],
)
def test_zero_rows_too_many_and_too_long_ones(matrix):
    assert not proved(matrix)


@given(st.integers(0, 2**32))
def test_rows_are_scaled_by_powers_of_two(seed):
    rng = np.random.default_rng(seed)
    matrix = np.ldexp(1.0 * rng.integers(-9, 10, size=(3, 4)), rng.integers(-30, 30, size=(3, 4)))
    found = verified.scaled(matrix)
    largest = np.abs(found).max(axis=1)
    assert ((largest == 0) | ((largest >= 0.5) & (largest < 1))).all()
    assert ((found == 0) == (matrix == 0)).all()
    i, j = np.nonzero(matrix)
    ratios = [Fraction(found[a, b]) / Fraction(matrix[a, b]) for a, b in zip(i, j, strict=True)]
    assert all(min(r.numerator, r.denominator) == 1 for r in ratios)
    assert all((r.numerator * r.denominator).bit_count() == 1 for r in ratios)
    table = {(a, b): r for a, b, r in zip(i, j, ratios, strict=True)}
    for ((a, b), one), ((c, d), other) in itertools.combinations(table.items(), 2):
        if (a, d) in table and (c, b) in table:  # rows times columns: a cross ratio is one
            assert one * other == table[a, d] * table[c, b]


# Compensated dot products and exponentials stay within their bounds, against exact arithmetic.


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
