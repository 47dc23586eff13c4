"""Exact linear algebra on floats, against sympy and against integers."""

from fractions import Fraction

import flint
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency

SMALL = arrays.arrays(
    float, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(-3, 3)
)


def exact(matrix):
    return sympy.Matrix([[sympy.Rational(Fraction(x)) for x in row] for row in matrix.tolist()])


@given(SMALL, st.integers(-400, 400), st.integers(0, 2**32 - 1))
def test_ranks_kernels_and_dependencies(matrix, exponent, seed):
    rng = np.random.default_rng(seed)
    scales = 2.0 ** rng.integers(-200, 200, size=(len(matrix), 1))
    scaled = matrix * scales * 2.0**exponent
    truth = exact(matrix).rank()
    assert dyadic.rank(scaled) == truth
    kernel = dyadic.kernel(scaled)
    assert kernel.ncols() == matrix.shape[1] - truth
    assert kernel.rank() == kernel.ncols()
    assert not any(any(row) for row in (dyadic.integers(scaled)[0] * kernel).tolist())
    found = dyadic.dependency(scaled)
    assert (found is None) == (truth == len(matrix))
    if found is not None:
        assert found.holds(scaled)
        assert all(found.coefficients)
        rows = list(found.rows)
        assert dyadic.rank(scaled[rows]) == len(rows) - 1  # no part of it is dependent
        assert all(dyadic.rank(scaled[[i for i in rows if i != j]]) == len(rows) - 1 for j in rows)


@settings(max_examples=30)
@given(SMALL, st.data())
def test_span_members(matrix, data):
    rows = data.draw(st.lists(st.integers(0, len(matrix) - 1), min_size=1, unique=True))
    truth = exact(matrix[rows]).rank()
    members = [i for i in range(len(matrix)) if exact(matrix[[*rows, i]]).rank() == truth]
    assert dyadic.span_members(matrix, rows).tolist() == members


def test_thousands_of_blocks():
    rng = np.random.default_rng(0)
    blocks = rng.integers(-1, 2, size=(3000, 3, 4)).astype(float)
    truth = [flint.fmpz_mat(block.astype(int).tolist()).rank() == 3 for block in blocks]
    assert 0 < sum(truth) < 3000
    assert dyadic.independent(blocks, rng).tolist() == truth
    assert not dyadic.independent(np.ones((2, 3, 2)), rng).any()


def test_a_dependency_of_relative_size_1e_14_is_called_correctly():
    """Where numpy is wrong in both directions."""
    rng = np.random.default_rng(1)
    context = rng.standard_normal((8, 12))
    context[7] = context[0] + context[1]  # up to rounding, which numpy cannot see
    assert np.linalg.matrix_rank(context) == 7
    assert dyadic.rank(context) == 8
    context = np.round(context * 2**20)
    context[7] = context[0] + context[1]
    context[7, 0] += 2.0**-26  # relative size 1e-14
    assert np.linalg.matrix_rank(context) == 7
    assert dyadic.rank(context) == 8
    context[7, 0] -= 2.0**-26
    assert dyadic.rank(context) == 7
    graded = np.diag(10.0 ** -np.arange(0, 60, 10))  # and full rank of many scales
    assert np.linalg.matrix_rank(graded) < 6
    assert dyadic.rank(graded) == 6


def test_denormal_and_huge_entries():
    assert dyadic.rank(np.array([[5e-324, 0.0], [0.0, 1.7e308]])) == 2
    assert dyadic.rank(np.array([[5e-324, 1.5e308], [1e-323, 0.0]])) == 2
    found = dyadic.dependency(np.array([[5e-324, 1e-323], [8e307, 1.6e308]]))
    assert found is not None
    assert found.coefficients[1] == Fraction(-5e-324) / Fraction(8e307)
    assert "~" in str(found)  # a number of hundreds of digits is not printed in full


def test_float32_is_what_it_is():
    single = np.array([[0.1, 0.2], [0.3, 0.6]], dtype=np.float32)
    assert dyadic.rank(single) == exact(single.astype(float)).rank()


@pytest.mark.parametrize("rows", [1, 9, 10])
def test_long_dependencies_are_shortened(rows):
    text = str(Dependency(tuple(range(rows)), (Fraction(1),) * rows))
    assert ("..." in text) == (rows > 8)
    assert text.endswith("= 0")


@pytest.mark.parametrize(
    ("coefficient", "text"),
    [
        (Fraction(2, 3), "2/3"),
        (Fraction(-(10**23)), f"-{10**23}"),
        (Fraction(10**24), "~1.00000e+24"),
        (Fraction(-1, 3 * 10**5000), "-~3.33333e-5001"),
        (Fraction(1 << 3_400_000), "~9.66624e+1023501"),
    ],
)
def test_coefficients_of_any_length_are_shown(coefficient, text):
    shown = str(Dependency((0, 1), (coefficient, Fraction(1))))
    assert shown == f"{text} [0] + [1] = 0"


def test_a_wrong_dependency_does_not_hold():
    assert not Dependency((0, 1), (Fraction(1), Fraction(1))).holds(np.eye(2))


def test_blocks_are_decided_by_the_cheapest_proof(monkeypatch):
    """Cholesky, a look, a prime, and exact elimination, in this order; what is left is left."""
    rng = np.random.default_rng(3)
    size = dyadic.BATCHED + 2
    generic = rng.standard_normal((size, size))
    near, twice, unused, hidden = (generic.copy() for _ in range(4))
    near[1] = near[0] + 1e-9 * near[1]
    twice[7] = twice[30]
    unused[:, 4] = 0.0
    hidden = np.round(hidden * 2.0**20)
    hidden[9] = hidden[2] - hidden[5] + 3 * hidden[11]
    blocks = np.stack([generic, near, twice, unused, hidden])
    calls = {}

    def counted(module, name):
        honest, calls[name] = getattr(module, name), 0

        def function(*given):
            calls[name] += 1
            return honest(*given)

        monkeypatch.setattr(module, name, function)

    counted(dyadic.modular, "rank")
    counted(dyadic, "has_full_rank")
    found = dyadic.decide(blocks, rng, most=0)
    assert calls == {"rank": 2, "has_full_rank": 0}
    assert found.independent.tolist() == [True, True, False, False, False]
    assert found.dependent.tolist() == [False, False, True, True, False]
    found = dyadic.decide(blocks, rng)
    assert calls["has_full_rank"] == 1
    assert found.dependent.tolist() == [False, False, True, True, True]
    assert not (found.independent & found.dependent).any()


def test_rank_is_lost_modulo_a_prime_and_not_over_the_rational_numbers():
    prime = next(modular.safe_primes())
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 + prime]])
    assert dyadic.seemingly_dependent(matrix).tolist() == [0, 1]
    assert dyadic.has_full_rank(matrix)
    near = np.array([[1.0, 1.0], [1.0, 1.0 + prime * 2.0**-50]])  # too near for Cholesky, too
    found = dyadic.decide(near[np.newaxis], np.random.default_rng(0), most=0)
    assert not found.independent.any()
    assert not found.dependent.any()
    assert dyadic.independent(near[np.newaxis], np.random.default_rng(0)).all()


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [([0.75, 3.0], -2), ([0.0], 0), ([96.0], 5), ([2.0**-1074], -1074), ([0.1], -55)],
)
def test_granularity(numbers, wanted):
    assert dyadic.granularity(np.array(numbers)) == wanted
