"""The report of the assumptions, and token mixing."""

import numpy as np
import pytest

from constructive import (
    Dataset,
    Verdict,
    assumptions,
    build_memorizer,
    certify,
    generators,
    token_mixing,
)
from constructive.support.errors import AssumptionError, DataError, ParameterError


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


def test_general_position_of_as_many_subsets_as_a_budget_allows():
    data = generators.uniform(num_examples=70, context_size=3, width=60)
    report = assumptions.check(data, budget=1e-3)
    assert 5000 > report.share.subsets > report.position.subsets >= 100
    assert f"0 of {report.position.subsets} random subsets of 60 dependent" in str(report)
    assert assumptions.check(data, budget=1e-3).position == report.position
    assert assumptions.check(data, budget=1e-3, subsets=7).position.subsets == 7


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
    "data",
    [
        Dataset([[1.0]], [[2.0]], [3.0]),
        Dataset([[1.0], [2.0]], [[2.0]], [3.0]),
        generators.shared_context(num_examples=3, context_size=2, width=2),
        generators.uniform(num_examples=2, context_size=4, width=5),
        Dataset(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2)),
    ],
)
def test_tiny_data(data):
    assert str(assumptions.check(data, subsets=10)).startswith("Assumptions: T = ")


@pytest.mark.parametrize(
    "wrong",
    [{"budget": -1}, {"budget": float("nan")}, {"subsets": 0}, {"num_heads": 0}, {"seed": -1},
     {"seed": None}],
    ids=str,
)  # fmt: skip
def test_options_which_make_no_sense(wrong):
    data = generators.uniform(num_examples=4, context_size=3, width=5)
    ((name, value),) = wrong.items()
    asks = [assumptions.check]
    if name == "seed":
        asks += [lambda data, seed: assumptions.regroup(data, 2, seed=seed)]
        asks += [assumptions.dependent_contexts]
    for ask in asks:
        with pytest.raises(ParameterError, match=f"{name}={value}"):
            ask(data, **wrong)


def test_one_token_and_many_examples_have_no_number_of_heads():
    report = assumptions.check(
        generators.uniform(num_examples=3, context_size=1, width=4), subsets=10
    )
    assert report.num_heads is None
    assert report.construction is Verdict.UNDECIDED


def test_equal_queries_fail_before_mixing_and_are_memorized_after_it():
    data = generators.uniform(num_examples=61, context_size=7, width=12)
    same = Dataset(data.contexts, np.tile(data.queries[:1], (61, 1)), data.targets)
    before = assumptions.check(same, 10, subsets=50)
    assert before.assumption_1 is Verdict.REFUTED
    assert before.construction is Verdict.REFUTED
    with pytest.raises(AssumptionError):
        build_memorizer(same, num_heads=10, construction="saturated")
    mixed = token_mixing(same)
    assert assumptions.check(mixed, 10, subsets=50, budget=0.01).construction is Verdict.PROVED
    memorizer = build_memorizer(mixed, num_heads=10)
    assert certify(memorizer, mixed).verdict is Verdict.PROVED


def test_mixing_adds_the_mean():
    data = Dataset([[[1, 2], [3, 6]]], [[5, 7]], [0])
    mixed = token_mixing(data)
    assert mixed.contexts.tolist() == [[[3, 6], [5, 10]]]
    assert mixed.queries.tolist() == [[7, 11]]
    single = Dataset(np.ones((3, 2, 4), np.float32), np.eye(4, dtype=np.float32)[:3], [0, 1, 2])
    assert token_mixing(single).queries.dtype == np.float32


def test_mixing_refuses_what_it_cannot_tell_apart():
    shared = generators.shared_context(num_examples=3, context_size=2, width=4)
    same = Dataset(shared.contexts, np.tile(shared.queries[:1], (3, 1)), shared.targets)
    with pytest.raises(AssumptionError, match="3 examples with the shared context") as caught:
        token_mixing(same)
    assert caught.value.witness == (0, 1, 2)
    huge = Dataset([[[1.7e308, 0], [0, 1.7e308]]], [[1.7e308, 1]], [0])
    with pytest.raises(DataError, match="leave the range of floats"):
        token_mixing(huge)
