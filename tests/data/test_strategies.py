"""Strategies are valid by construction: ranks are checked exactly, with python-flint."""

import itertools
import subprocess
import sys
from fractions import Fraction

import flint
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from constructive import strategies
from constructive.data.dataset import Dataset


def exact_rank(rows):
    return flint.fmpz_mat([[int(x) for x in row] for row in rows]).rank()


@given(strategies.contexts())
def test_contexts_have_rank_n(contexts):
    assert all(exact_rank(context) == len(context) for context in contexts)


@given(strategies.queries(max_examples=7))
def test_queries_have_kruskal_rank_min_of_count_and_width(queries):
    size = min(queries.shape)
    for chosen in itertools.combinations(range(len(queries)), size):
        assert exact_rank(queries[list(chosen)]) == size


@given(strategies.datasets(min_examples=2, max_examples=5, min_context_size=2, max_context_size=3))
def test_datasets_keep_to_their_bounds(data):
    assert 2 <= data.num_examples <= 5
    assert 2 <= data.context_size <= 3
    assert data.context_size <= data.width <= data.context_size + 2
    assert 1 <= data.target_dim <= 3


@given(strategies.datasets(shared_contexts=st.just(value=True)))
def test_what_users_vary_is_a_strategy(data):
    assert data.shared_context


@given(strategies.memorizable(constructions=st.just("rank_one"), max_heads=2))
def test_problems_are_at_the_bound(problem):
    data = problem.dataset
    assert problem.construction == "rank_one"
    assert problem.num_heads <= 2
    assert data.num_examples == problem.num_heads * (data.context_size - 1) + 1


def test_shrinking_ends_at_something_small():
    def two_heads(problem):
        return problem.num_heads >= 2 and problem.dataset.num_examples >= 3

    smallest = find(strategies.memorizable(), two_heads)
    assert (smallest.num_heads, smallest.dataset.num_examples) == (2, 3)
    assert smallest.dataset.contexts[0].tolist() == [[1, 0], [0, 1]]
    assert smallest.dataset.queries.tolist() == [[1, 0], [1, 1], [1, -1]]
    assert not smallest.dataset.targets.any()
    assert isinstance(smallest.dataset, Dataset)


@pytest.mark.parametrize(
    ("size", "heads", "many"), [(8, 3, 15), (16, 3, 15), (20, 8, 31), (40, 3, 31)]
)
def test_problems_of_any_size_are_built(size, heads, many):
    @settings(max_examples=25, deadline=None, database=None)
    @given(strategies.memorizable(min_context_size=size, max_context_size=size, max_heads=heads))
    def test(problem):
        data, counted = problem.dataset, problem.num_heads * (size - 1) + 1
        assert problem.build().max_error(data) < 1e-6
        assert data.num_examples <= counted
        seen.add(data.num_examples)

    seen = set()
    test()
    assert max(seen) > many


@given(strategies.queries(min_examples=32, max_examples=60, min_width=3, max_width=3))
def test_more_than_31_queries_are_independent_too(queries):
    assert exact_rank(queries) == 3
    for chosen in itertools.combinations(range(0, len(queries), 5), 3):
        assert exact_rank(queries[list(chosen)]) == 3
    assert abs(queries).max() <= len(queries) / 2 + 24


def test_large_problems_shrink_to_the_fewest_heads():
    large = strategies.memorizable(
        min_context_size=12, max_context_size=12, max_extra_width=0, max_target_dim=1
    )
    smallest = find(large, lambda problem: problem.dataset.num_examples > 31)
    assert (smallest.num_heads, smallest.dataset.num_examples) == (3, 34)
    assert not smallest.dataset.targets.any()
    assert smallest.dataset.queries[:, 1].tolist()[:5] == [0, 1, 2, 3, 4]


def test_without_hypothesis_the_error_names_the_extra():
    script = "import sys; sys.modules['hypothesis'] = None; import constructive.strategies"
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert 'try: pip install ".[strategies]" in a checkout' in done.stderr


def pasted(text):
    """The arguments of the failing call which Hypothesis prints, read as Python."""
    names = {"Dataset": Dataset, "Problem": strategies.Problem, "Fraction": Fraction}
    names["SequenceProblem"] = strategies.SequenceProblem
    return eval(text[text.index("refused(") :], {**names, "refused": lambda given: given})  # noqa: S307


@pytest.mark.parametrize(
    ("strategy", "large"),
    [
        (strategies.memorizable(), lambda p: p.dataset.num_examples > 2),
        (strategies.datasets(), lambda data: data.num_examples > 2 and not data.shared_context),
        (strategies.datasets(), lambda data: data.shared_context and data.targets.ndim == 2),
        (strategies.sequence_problems(), lambda p: len(p.sequences) > 2),
    ],
)
def test_what_fails_is_printed_to_be_pasted(strategy, large):
    seen = []
    shrunk = [Phase.generate, Phase.shrink]

    # print_blob: where CI is set, Hypothesis adds a sentence to the note, and that is not Python.
    @settings(database=None, phases=shrunk, deadline=None, print_blob=False)
    @given(strategy)
    def refused(given):
        if large(given):
            seen.append(given)
            raise AssertionError

    with pytest.raises(AssertionError) as caught:
        refused()
    assert pasted("\n".join(caught.value.__notes__)) == seen[-1]
