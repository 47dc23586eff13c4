"""Kruskal ranks against brute force and planted violations; the report, and token mixing."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive import (
    DataError,
    Dataset,
    ParameterError,
    Verdict,
    assumptions,
    generators,
    token_mixing,
)
from constructive.exact import dyadic
from constructive.support.errors import AssumptionError
from constructive.theory import assumptions as sampling
from constructive.theory.kruskal import kruskal_rank


def true_rank(vectors):
    count = len(vectors)
    for size in range(1, count + 1):
        for rows in combinations(range(count), size):
            if dyadic.rank(vectors[list(rows)]) < size:
                return size - 1
    return count


@given(st.integers(0, 10**9), st.sampled_from([0.0, 30.0, 1e4]))
def test_bounds_agree_with_brute_force(seed, budget):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 8), rng.integers(1, 5)
    vectors = rng.integers(-2, 3, size=shape) * 2.0 ** rng.integers(-300, 300, size=(shape[0], 1))
    known, truth = kruskal_rank(vectors, budget=budget), true_rank(vectors)
    assert known.lower <= truth <= known.upper
    if known.violation is not None:
        assert known.violation.holds(vectors)
        assert len(known.violation.rows) == known.upper + 1
    if budget == 1e4:
        assert known.exact


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((2, 2), dtype=complex),
        np.ones((2, 2), dtype=np.longdouble),
        [[1.0, np.nan]],
        [[np.inf, 1.0]],
        [1.0, 2.0],
        np.zeros((0, 3)),
        [["a"]],
    ],
)
def test_what_is_no_matrix_of_real_numbers(vectors):
    with pytest.raises(DataError):
        kruskal_rank(vectors)
    with pytest.raises(DataError):
        sampling.dependent_share(vectors, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": -1.0}, r"budget=-1\.0 is not a number of 0 or more"),
        ({"budget": "1"}, "budget='1' is not a number of 0 or more"),
        ({"budget": float("nan")}, "budget=nan is not a number of 0 or more"),
        ({"seed": -1}, "seed=-1 is not a non-negative integer"),
        ({"wanted": 0}, "wanted=0 is not a positive integer"),
    ],
)
def test_options_which_make_no_sense(options, words):
    with pytest.raises(ParameterError, match=words):
        kruskal_rank(np.eye(3), **options)
    for wrong in ({"subsets": 0}, {"seed": -1}):
        with pytest.raises(ParameterError, match=f"{next(iter(wrong))}="):
            sampling.dependent_share(np.eye(3), 2, **wrong)


def planted(rng, count, width, size):
    vectors = np.round(rng.standard_normal((count, width)) * 4096)
    rows = np.sort(rng.choice(count, size, replace=False))
    vectors[rows[-1]] = rng.choice([-2, -1, 1, 2], size - 1) @ vectors[rows[:-1]]
    return vectors, tuple(rows.tolist())


@pytest.mark.parametrize(("size", "count"), [(2, 5000), (3, 60), (4, 30)])
def test_planted_subsets_are_found_with_exact_coefficients(size, count):
    for seed in range(3):
        vectors, rows = planted(np.random.default_rng(seed), count, 32, size)
        known = kruskal_rank(vectors, size)
        assert known.violation.rows == rows
        assert known.violation.holds(vectors)
        assert known.exact


@pytest.mark.parametrize("factor", [3.0, -1.0, 2.0**700, 67108859.0, -1 / 8])
def test_parallel_vectors_of_any_scale(factor):
    """Also where an image modulo a prime is zero, such as that of a multiple of the prime."""
    vectors = np.random.default_rng(0).integers(1, 99, (40, 6)).astype(float)
    vectors[31] = factor * vectors[7]
    known = kruskal_rank(vectors)
    assert (known.lower, known.upper, known.violation.rows) == (1, 1, (7, 31))


def test_what_is_parallel_but_for_a_last_bit():
    vectors = np.random.default_rng(0).standard_normal((50, 4))
    vectors[9] = np.nextafter(vectors[3], 9.0)
    known = kruskal_rank(vectors, 2)
    assert (known.lower, known.violation) == (2, None)


def test_larger_subsets_than_the_budget_allows_are_not_looked_at():
    vectors, _ = planted(np.random.default_rng(0), 60, 32, 3)
    known = kruskal_rank(vectors, 3, budget=34219)  # one less than there are
    assert (known.lower, known.upper, known.violation) == (2, 32, None)
    few = np.round(np.random.default_rng(0).standard_normal((60, 5))) @ np.eye(5, 32)
    assert kruskal_rank(few, budget=0).upper <= 5


def test_clopper_pearson_covers():
    """99 % of the intervals hold the true share; 98.3 % is three standard deviations less."""
    rng = np.random.default_rng(0)
    for share in (0.01, 0.3, 0.9):
        hits = rng.binomial(200, share, size=2000)
        intervals = (sampling.clopper_pearson(int(h), 200, 0.99) for h in hits)
        assert sum(low <= share <= high for low, high in intervals) / 2000 > 0.983
    assert sampling.clopper_pearson(0, 10, 0.99)[0] == 0
    assert sampling.clopper_pearson(10, 10, 0.99)[1] == 1


def test_samples_follow_from_sizes_and_a_budget():
    rng = np.random.default_rng(0)
    small, wide = rng.standard_normal((50, 8)), rng.standard_normal((300, 200))
    assert sampling.affordable(small, 8) == (5000, 5000)
    assert sampling.affordable(small, 8, budget=0) == (100, 0)
    some = sampling.affordable(wide, 200, budget=0.01)
    assert 100 < some[0] < 5000
    assert some == sampling.affordable(wide, 200, budget=0.01)
    # What Cholesky does not prove takes longer.
    hard = wide @ np.diag(np.logspace(0, 7, 200)) @ np.linalg.qr(rng.standard_normal((200, 200)))[0]
    assert sampling.affordable(hard, 200, budget=0.01)[0] < some[0] / 2
    with pytest.raises(ParameterError, match="budget=-1 is not a number of 0 or more"):
        sampling.affordable(small, 8, budget=-1)


def test_subsets_which_are_not_decided_count_for_neither_side():
    rng = np.random.default_rng(1)
    vectors = np.round(rng.standard_normal((14, 12)) * 1024)
    vectors[13] = vectors[:6].sum(axis=0)  # six others and this one are dependent
    every = sampling.dependent_share(vectors, 12, subsets=60)
    assert 0 < every.dependent < 60
    assert every.undecided == 0
    none = sampling.dependent_share(vectors, 12, subsets=60, exact=0)
    assert (none.dependent, none.undecided, none.low) == (0, every.dependent, 0.0)
    assert none.high == every.high
    few = sampling.dependent_share(vectors, 12, subsets=60, exact=2)
    assert (few.dependent, few.undecided) == (2, every.dependent - 2)
    assert few.low < every.low < every.high == few.high
    assert few.witness == every.witness
    assert dyadic.rank(vectors[list(every.witness)]) == 11


def test_columns_with_a_dependency_make_all_subsets_dependent(monkeypatch):
    rng = np.random.default_rng(2)
    vectors = np.round(rng.standard_normal((90, 20)) * 1024)
    vectors[:, 3] = vectors[:, 7] - vectors[:, 11]
    monkeypatch.setattr(dyadic, "has_full_rank", lambda _: 1 / 0)
    found = sampling.dependent_share(vectors, 20, subsets=50)
    assert (found.dependent, found.undecided, found.high) == (50, 0, 1.0)
    assert dyadic.rank(vectors[list(found.witness)]) < 20
    monkeypatch.undo()
    vectors[0, 3] += 2.0**-20  # of one vector alone: subsets with it may be independent
    found = sampling.dependent_share(vectors, 20, subsets=50)
    assert 0 < found.dependent < 50


# The report of the assumptions, and token mixing.


def test_a_report_says_how_each_line_is_known():
    data = generators.integers(num_examples=9, context_size=3, width=5)
    queries, contexts = data.queries.copy(), data.contexts.copy()
    queries[6] = queries[1] - queries[2]
    contexts[5, 2] = contexts[5, 0]
    report = assumptions.check(Dataset(contexts, queries, data.targets), 4, subsets=200)
    assert report.assumption_1 is Verdict.REFUTED
    assert report.assumption_2 is Verdict.REFUTED
    assert report.construction is Verdict.REFUTED
    text = str(report)
    for words in (
        "REFUTED: 1 fail; example 5: tokens [0] - [2] = 0",
        "at most 2: [1] - [2] - [6] = 0",
        "estimate (99%)",
        "General position",
        "Grouping for H = 4",
    ):
        assert words in text


def test_what_is_not_decided_is_said():
    rng = np.random.default_rng(0)
    queries = np.round(rng.standard_normal((66, 64)) * 1024)
    queries[5] = queries[:5].sum(axis=0)  # nearly all subsets of 64 hold these six
    data = Dataset(rng.standard_normal((66, 2, 64)), queries, np.zeros(66))
    found = assumptions.check(data, budget=0).position
    assert (found.subsets, found.dependent, found.low) == (100, 0, 0.0)
    assert 0 < found.undecided < 100
    assert f"{found.undecided} of these not decided" in str(assumptions.check(data, budget=0))
    every = assumptions.check(data, budget=0, subsets=100).position
    assert (every.dependent, every.undecided) == (found.undecided, 0)


def test_three_values():
    few = generators.uniform(num_examples=4, context_size=3, width=5)
    assert assumptions.check(few, subsets=50).assumption_1 is Verdict.PROVED
    many = generators.uniform(num_examples=300, context_size=8, width=9)
    report = assumptions.check(many, subsets=50, budget=1e-4)
    assert report.assumption_1 is Verdict.UNDECIDED
    assert "UNDECIDED: at least" in str(report)
    assert report.construction is Verdict.PROVED


@pytest.mark.parametrize(
    ("name", "value"),
    [("budget", -1), ("budget", float("nan")), ("subsets", 0), ("num_heads", 0), ("seed", -1)],
)
def test_options_of_reports_which_make_no_sense(name, value):
    data = generators.uniform(num_examples=4, context_size=3, width=5)
    asks = [assumptions.check]
    if name == "seed":
        asks += [assumptions.dependent_contexts]
    for ask in asks:
        with pytest.raises(ParameterError, match=f"{name}={value}"):
            ask(data, **{name: value})


def test_mixing_adds_the_mean():
    data = Dataset([[[1, 2], [3, 6]]], [[5, 7]], [0])
    mixed = token_mixing(data)
    assert mixed.contexts.tolist() == [[[3, 6], [5, 10]]]
    assert mixed.queries.tolist() == [[7, 11]]
    single = Dataset(np.ones((3, 2, 4), np.float32), np.eye(4, dtype=np.float32)[:3], [0, 1, 2])
    assert token_mixing(single).queries.dtype == np.float32


def test_mixing_refuses_what_it_cannot_tell_apart():
    shared = generators.shared_context(num_examples=4, context_size=2, width=4)
    assert token_mixing(shared).shared_context
    same = Dataset(shared.contexts, shared.queries[[1, 0, 1, 1]], shared.targets)
    with pytest.raises(AssumptionError, match="3 examples with the shared context") as caught:
        token_mixing(same)
    assert caught.value.witness == (0, 2, 3)
    huge = Dataset([[[1.7e308, 0], [0, 1.7e308]]], [[1.7e308, 1]], [0])
    with pytest.raises(DataError, match="leave the range of floats"):
        token_mixing(huge)
