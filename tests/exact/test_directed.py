"""Numbers go to the side they are sent to; float arithmetic with bounds."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from constructive.checker.bounds import up
from constructive.exact import directed, dyadic
from constructive.exact.directed import upper, working_precision

LARGEST = 1.7976931348623157e308
exponents = st.one_of(st.integers(-80, 80), st.integers(-1300, 1300), st.just(0))
numerators = st.integers(-(10**20), 10**20)


@st.composite
def fractions(draw):
    """Of all sizes, far beyond those of floats, and now and then a float or next to one."""
    value = Fraction(draw(numerators), draw(st.integers(1, 10**6))) * Fraction(2) ** draw(exponents)
    if draw(st.booleans()) and abs(value) < Fraction(LARGEST):
        value = Fraction(float(value)) + draw(st.sampled_from([0, 1, -1])) * Fraction(1, 2**1200)
    return value


@st.composite
def balls(draw):
    """A ball, its least and its largest number."""
    middle, size = draw(fractions()), draw(st.integers(20, 200))
    with working_precision(size):
        ball = arb(middle.numerator) / middle.denominator
        if draw(st.booleans()):
            ball = ball + arb(0, draw(st.floats(0, 1))) * ball
    ends = []
    for end in (ball.lower(), ball.upper()):
        mantissa, exponent = (int(part) for part in end.man_exp())
        ends.append(Fraction(mantissa) * Fraction(2) ** exponent)
    return ball, ends[0], ends[1]


@given(fractions())
def test_upper_is_the_least_float_above(value):
    found = upper(value)
    assert found >= value
    below = math.nextafter(found, -math.inf)
    assert below < value


@given(balls())
def test_balls_are_between_their_floats(found):
    ball, least, largest = found
    assert least <= largest <= upper(ball)
    assert upper(ball) == upper(largest)


@pytest.mark.parametrize("nothing", [math.nan, math.inf, arb.nan(), arb.pos_inf()])
def test_what_is_no_number_bounds_nothing(nothing):
    assert upper(nothing) == math.inf


@given(st.lists(st.tuples(st.floats(0, 1e300), st.floats(0, 1e-290)), min_size=1, max_size=30))
def test_products_of_bounds_are_bounds(pairs):
    a, b = np.array(pairs).T
    exact = sum(Fraction(x) * Fraction(y) for x, y in pairs)
    assert Fraction(float(up(a @ b))) >= exact


@pytest.mark.parametrize("kind", [arb, Fraction])
@pytest.mark.parametrize("power", [309, 340, 400])
def test_what_is_beyond_all_floats_keeps_its_side(kind, power):
    huge = kind(10) ** power
    assert (upper(huge), upper(-huge)) == (math.inf, -LARGEST)
    tiny = 1 / huge if power > 330 else kind(10) ** -400
    assert (upper(tiny), upper(-tiny), upper(0 * tiny)) == (5e-324, 0.0, 0.0)


@pytest.mark.parametrize("digits", [0, 1, 3])
@pytest.mark.parametrize("above", [True, False])
def test_decimal_text_is_on_its_side_and_near(above, digits):
    rng = np.random.default_rng(digits)
    some = [*rng.normal(size=200), *rng.normal(size=50) * 1e6, *rng.normal(size=50) * 1e-9]
    for x in [*map(float, some), 0.0, 0.5, -0.5, 1.0, 5e-324, Fraction(1, 3), Fraction(-1, 7), 28]:
        text, unit = directed.fixed(x, digits, above=above), Fraction(1, 10**digits)
        assert len(text.partition(".")[2]) == digits
        away = Fraction(text) - Fraction(x) if above else Fraction(x) - Fraction(text)
        assert 0 <= away < unit
        share = directed.percent(x, digits, above=above)
        away = Fraction(share[:-1]) / 100 - Fraction(x)
        assert 0 <= (away if above else -away) < unit / 100


def test_decimal_text_of_balls_and_of_what_is_not_finite():
    third = arb(1) / 3
    assert directed.fixed(third, 3, above=True) == "0.334"
    assert directed.fixed(third, 3, above=False) == "0.333"
    assert directed.percent(third, 0, above=False) == "33%"
    wide = arb(0.5, 0.25)
    assert (directed.percent(wide, 0), directed.percent(wide, 0, above=False)) == ("76%", "24%")
    for x in (float("nan"), float("inf"), arb.nan()):
        assert directed.fixed(x, 1, above=True) == "inf"
        assert directed.fixed(x, 1, above=False) == "-inf"


# What a Cholesky factorization proves of rows, against exact ranks, at any scale.


def proved(matrix):
    return bool(dyadic.independent_in_floats(dyadic.scaled_rows(matrix)[np.newaxis])[0])


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
    rows = dyadic.scaled_rows(matrices)
    assert dyadic._definite(rows @ rows.swapaxes(1, 2)).sum() > 50
    assert not dyadic.independent_in_floats(rows).any()


@pytest.mark.parametrize("shape", [(3, 3), (48, 60), (200, 200), (300, 900)])
def test_generic_rows_are_proved_at_any_scale(shape):
    rng = np.random.default_rng(1)
    for matrix in (rng.standard_normal(shape), rng.random(shape)):
        assert proved(matrix)
        assert proved(rescaled(rng, matrix, 480))
        assert proved(matrix.astype(np.float32))
        assert proved((matrix * 2.0**30).round() * 5e-324)


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((1, 3)), np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones((2, 1)), np.ones((1, 2**21))],
)
def test_zero_rows_too_many_and_too_long_ones(matrix):
    assert not proved(matrix)
