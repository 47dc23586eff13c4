"""Exact linear algebra on floats and modulo primes, against Fractions, flint and integers."""

import itertools
import math
from fractions import Fraction
from unittest import mock

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from oracle import rank_of

from constructive import build_memorizer, generators, strategies
from constructive.checker.bounds import granularity
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.exact.modular import as_flint, balanced
from constructive.exact.softmax import Point, VanishingDenominatorError
from constructive.layers import residues
from constructive.support import work
from constructive.support.errors import ParameterError
from constructive.support.work import progress_to

# On floats, against Fractions.


SMALL = arrays.arrays(
    float, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(-3, 3)
)


def true_rank(matrix):
    return rank_of([[Fraction(x) for x in row] for row in matrix.tolist()])


@given(SMALL, st.integers(-400, 400), st.integers(0, 2**32 - 1))
def test_ranks_kernels_and_dependencies(matrix, exponent, seed):
    rng = np.random.default_rng(seed)
    scales = 2.0 ** rng.integers(-200, 200, size=(len(matrix), 1))
    scaled = matrix * scales * 2.0**exponent
    truth = true_rank(matrix)
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


def test_hundreds_of_blocks():
    rng = np.random.default_rng(0)
    blocks = rng.integers(-1, 2, size=(600, 3, 4)).astype(float)
    truth = [flint.fmpz_mat(block.astype(int).tolist()).rank() == 3 for block in blocks]
    assert 0 < sum(truth) < 600
    assert dyadic.independent(blocks, rng).tolist() == truth
    assert not dyadic.independent(np.ones((2, 3, 2)), rng).any()


def test_denormal_and_huge_entries():
    assert dyadic.rank(np.array([[5e-324, 0.0], [0.0, 1.7e308]])) == 2
    assert dyadic.rank(np.array([[5e-324, 1.5e308], [1e-323, 0.0]])) == 2
    found = dyadic.dependency(np.array([[5e-324, 1e-323], [8e307, 1.6e308]]))
    assert found is not None
    assert found.coefficients[1] == Fraction(-5e-324) / Fraction(8e307)
    assert "~" in str(found)  # a number of hundreds of digits is not printed in full


def test_long_dependencies_are_shortened():
    for rows in (8, 9):
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


def test_blocks_are_decided_by_the_cheapest_proof():
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
    exactly = dyadic.has_full_rank
    with (
        mock.patch.object(modular, "rank", wraps=modular.rank) as by_prime,
        mock.patch.object(dyadic, "has_full_rank", wraps=exactly) as by_all,
    ):
        found = dyadic.decide(blocks, rng, most=0)
        assert (by_prime.call_count, by_all.call_count) == (2, 0)
        assert found.independent.tolist() == [True, True, False, False, False]
        assert found.dependent.tolist() == [False, False, True, True, False]
        found = dyadic.decide(blocks, rng)
        assert by_all.call_count == 1
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
    assert granularity(np.array(numbers)) == wanted


# Arithmetic modulo m against python-flint and brute force.


PRIME = next(modular.safe_primes())
SMALL_PRIMES = (5, 7, 11, 1009, PRIME)


def flint_rank(matrix, prime):
    return as_flint(matrix, prime).rank()


def random_matrix(rng, prime):
    """A random matrix: dense, of low rank, zero, sparse, a permutation, with repeated rows."""
    rows, columns = rng.integers(1, 40, size=2)
    kind = rng.integers(6)
    dense = rng.integers(prime, size=(rows, columns))
    if kind == 1:
        inner = rng.integers(0, min(rows, columns) + 1)
        left, right = dense[:, :inner].astype(object), rng.integers(prime, size=(inner, columns))
        dense = np.asarray(left @ right.astype(object) % prime, dtype=np.int64).reshape(
            rows, columns
        )
    elif kind == 2:
        dense = np.zeros_like(dense)
    elif kind == 3:
        dense *= rng.random(dense.shape) < 0.1
    elif kind == 4:
        dense = np.eye(rows, columns, dtype=np.int64)[rng.permutation(rows)]
    elif kind == 5:
        dense = dense[rng.integers(rows, size=rows)]
    return dense


def test_primes_are_safe():
    primes = list(itertools.islice(modular.safe_primes(), 3))
    for prime in primes:
        assert flint.fmpz(prime).is_prime()
        assert flint.fmpz(prime // 2).is_prime()
        assert 2**21 < prime < 2**22
    assert primes == sorted(primes, reverse=True)


def test_ranks_agree_with_flint_and_factors_multiply_to_the_matrix():
    rng = np.random.default_rng(1)
    for _ in range(400):
        prime = int(rng.choice(SMALL_PRIMES))
        matrix = random_matrix(rng, prime)
        factors = modular.factor(balanced(matrix, prime), prime)
        assert factors.rank == flint_rank(matrix, prime)
        assert modular.rank(balanced(matrix, prime), prime) == factors.rank
        product = factors.lower.astype(object) @ factors.upper.astype(object)
        rest = product - matrix[factors.rows][:, factors.columns]
        assert not (rest.astype(float) % prime).any()
        assert (np.diagonal(factors.upper) % prime != 0).all()
        assert sorted(factors.rows) == list(range(len(matrix)))
        assert len(set(factors.columns)) == factors.rank


@pytest.mark.parametrize("size", [17, 300])
def test_solve(size):
    rng = np.random.default_rng(size)
    matrix = balanced(rng.integers(PRIME, size=(size, size + 5)), PRIME)
    right = balanced(rng.integers(PRIME, size=(size, 3)), PRIME)
    factors = modular.factor(matrix, PRIME)
    solution = modular.solve(factors, right)
    again = modular.product(matrix[:, factors.columns], solution, PRIME)
    assert ((again - right) % PRIME == 0).all()


def test_solve_refuses_a_singular_matrix():
    factors = modular.factor(np.ones((2, 2)), PRIME)
    with pytest.raises(ParameterError, match="rank 1 modulo"):
        modular.solve(factors, np.ones((2, 1)))


def test_products_longer_than_a_block_are_exact():
    rng = np.random.default_rng(4)
    length = 2 * modular.BLOCK + 100
    # The worst case: all residues of the largest size and of one sign.
    left, right = np.full((2, length), PRIME // 2), np.full((length, 3), -(PRIME // 2))
    left[1] = rng.integers(PRIME, size=length) - PRIME // 2
    exact = left.astype(object) @ right.astype(object)
    found = modular.product(left.astype(float), right.astype(float), PRIME)
    assert ((found.astype(np.int64) - exact) % PRIME == 0).all()
    assert np.abs(found).max() <= PRIME / 2 + 2


@given(st.integers(-(2**53), 2**53), st.integers(-1074, 900), st.integers(0, 2200))
def test_residues_need_whole_quotients_and_no_53_bits(number, exponent, finer):
    """The difference of two floats may be small and a multiple of the unit of both."""
    array = np.array([math.ldexp(number, exponent)])
    value = Fraction(float(array[0])) / Fraction(2) ** exponent
    assert int(modular.residues(array, PRIME, exponent)[0] - value) % PRIME == 0
    if (value / 2**finer).denominator == 1:
        coarse = modular.residues(array, PRIME, exponent + finer)
        assert int(coarse[0] - value / 2**finer) % PRIME == 0
    else:
        with pytest.raises(ParameterError, match="not integer multiples"):
            modular.residues(array, PRIME, exponent + finer)


@given(st.sampled_from((5, 7, 11, 1009, PRIME)), st.integers(0, 2**31))
@settings(max_examples=50)
def test_powers_and_inverses(prime, seed):
    rng = np.random.default_rng(seed)
    base = int(rng.integers(1, prime))
    exponents = rng.integers(prime - 1, size=20)
    found = modular.PowerTable(base, prime)(balanced(exponents, prime - 1))
    assert [int(x) % prime for x in found] == [pow(base, int(k), prime) for k in exponents]
    values = balanced(rng.integers(1, prime, size=9), prime)
    assert (
        modular.product(values[None], modular.inverse(values, prime)[:, None], prime) % prime
    ) == (9 % prime)


def test_full_row_rank_is_proved_where_it_holds_and_never_where_it_does_not():
    rng = np.random.default_rng(5)
    batch = rng.integers(-3, 4, size=(500, 4, 6))
    batch[::3, 3] = batch[::3, 0] + 2 * batch[::3, 1]
    expected = [flint_rank(matrix, PRIME) == 4 for matrix in batch]
    mixing = modular.random_residues(rng, (6, 4), PRIME)
    found = modular.full_row_rank(balanced(batch, PRIME), PRIME, mixing)
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_panels_put_together_agree_with_flint(monkeypatch, dtype):
    """Many panels, columns without pivots in all of them, and products in many pieces."""
    monkeypatch.setattr(modular, "_PANEL", 16)
    monkeypatch.setattr(modular, "_COLUMNS_AT_ONCE", 24)
    monkeypatch.setattr(modular, "_ROWS", 7)
    monkeypatch.setattr(modular, "_TILE", (10, 10))
    monkeypatch.setattr(work, "_WORTH", 0)
    monkeypatch.setattr(modular, "_COLUMNS_OF_PIECE", 5)
    rng = np.random.default_rng(7)
    for _ in range(25):
        prime = int(rng.choice(SMALL_PRIMES))
        rows, columns = rng.integers(1, 80, size=2)
        matrix = rng.integers(prime, size=(rows, columns)) * (rng.random((rows, columns)) < 0.2)
        matrix = matrix[:, rng.integers(columns, size=columns)]
        stored = balanced(matrix, prime).astype(dtype)
        steps = []
        with progress_to(lambda *step, said=steps: said.append(step)):
            factors = modular.factor(stored, prime, overwrite=True)
        assert factors.rank == flint_rank(matrix, prime)
        assert factors.packed.dtype == dtype
        assert not factors.rank or np.shares_memory(factors.packed, stored)
        assert steps
        assert all(done <= total == columns for _, done, total in steps)
        product = factors.lower.astype(object) @ factors.upper.astype(object)
        rest = product - matrix[factors.rows][:, factors.columns]
        assert not (rest.astype(float) % prime).any()
        firsts = [flint_rank(matrix[:, : k + 1], prime) for k in range(columns)]
        assert factors.columns.tolist() == np.flatnonzero(np.diff([0, *firsts])).tolist()


def test_a_matrix_is_kept_unless_it_may_be_overwritten():
    matrix = balanced(np.random.default_rng(8).integers(PRIME, size=(60, 60)), PRIME)
    before = matrix.copy()
    factors = modular.factor(matrix, PRIME)
    assert (matrix == before).all()
    modular.solve(factors, matrix[:, :2])
    assert (matrix == before).all()
    assert (modular.factor(matrix, PRIME, overwrite=True).packed == factors.packed).all()


def test_a_null_vector_is_one():
    rng = np.random.default_rng(6)
    for _ in range(100):
        matrix = random_matrix(rng, PRIME)
        rank, width, given = flint_rank(matrix, PRIME), matrix.shape[1], balanced(matrix, PRIME)
        free = modular.random_residues(rng, (width, 1), PRIME)
        found, vector = modular.null_vector(given, PRIME, free)
        assert found == rank
        assert rank == width or vector.any()
        assert not (modular.product(given, vector[:, None].copy(), PRIME) % PRIME).any()


# Z modulo p, and what its rank says of the real Z.


POINT = Point(next(modular.safe_primes()), 123456)


@settings(max_examples=30)
@given(strategies.memorizable())
def test_what_is_built_at_the_bound_has_exact_rank(problem):
    memorizer = problem.build()
    found = residues.search(memorizer.layer, problem.dataset, np.random.default_rng(0))
    assert found.rank == problem.dataset.num_examples
    every = np.arange(memorizer.layer.num_heads * memorizer.layer.width)
    z = residues.intermediate(memorizer.layer, problem.dataset, found.point, every)
    assert as_flint(z, found.point.prime).rank() == found.rank


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_columns_are_chosen_and_rows_come_in_chunks(make):
    data = make(num_examples=7, context_size=3, width=5)
    layer = build_memorizer(data, num_heads=3).layer
    every, columns = np.arange(15), np.array([14, 0, 7, 3])
    whole = residues.intermediate(layer, data, POINT, every)
    some = residues.intermediate(layer, data, POINT, columns, dtype=np.float32, chunk_bytes=1000)
    assert some.dtype == np.float32
    assert ((some - whole[:, columns]) % POINT.prime == 0).all()


def test_another_point_is_tried_where_a_denominator_vanishes(monkeypatch):
    data = generators.uniform(num_examples=5, context_size=3, width=4)
    layer = build_memorizer(data, num_heads=2).layer
    honest, failures = residues.intermediate, iter([True, True, False])

    def intermediate(*args, **options):
        if next(failures, False):
            raise VanishingDenominatorError
        return honest(*args, **options)

    monkeypatch.setattr(residues, "intermediate", intermediate)
    found = residues.search(layer, data, np.random.default_rng(0))
    assert (found.rank, found.retries) == (5, 2)


def test_equal_rows_stay_equal():
    data = generators.uniform(num_examples=5, context_size=3, width=4)
    layer = build_memorizer(data, num_heads=2).layer
    found = residues.search(layer, data.take([0, 1, 1, 2]), np.random.default_rng(0))
    assert (found.rank, found.tried) == (3, 3 * 2)
