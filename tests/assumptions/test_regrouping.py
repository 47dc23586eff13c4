"""Regrouping, against brute force over all groupings."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from constructive import Dataset, Verdict, assumptions, build_memorizer, certify, generators
from constructive.exact import dyadic
from constructive.support.errors import CapacityError
from constructive.theory.bounds import group_sizes


def fits(queries, groups):
    """What the claim *grouping* asks of the queries, by definition."""
    for head, group in enumerate(groups):
        if dyadic.rank(queries[list(group)]) < len(group):
            return False
        if head and len(dyadic.span_members(queries, list(group))) > len(group):
            return False
    return True


def possible(queries, num_heads):
    ends = np.cumsum([0, *group_sizes(len(queries), num_heads)])
    return any(
        fits(queries, [order[a:b] for a, b in pairwise(ends)])
        for order in permutations(range(len(queries)))
    )


def with_queries(queries, context_size):
    data = generators.uniform(
        num_examples=len(queries), context_size=context_size, width=queries.shape[1]
    )
    return Dataset(data.contexts, queries, data.targets)


def test_verdicts_agree_with_brute_force():
    said = dict.fromkeys(Verdict, 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        queries = rng.integers(-1, 2, size=(5, 3)).astype(float)
        found = assumptions.regroup(with_queries(queries, 3), 2, seed=seed)
        said[found.verdict] += 1
        if found.verdict is not Verdict.UNDECIDED:
            assert possible(queries, 2) == (found.verdict is Verdict.PROVED)
        if found.order is not None:
            assert sorted(found.order.tolist()) == list(range(5))
            assert fits(queries, [found.order[a:b].tolist() for a, b in found.groups])
    assert said[Verdict.PROVED] > 5
    assert said[Verdict.REFUTED] > 5


def test_what_is_regrouped_is_built_and_proved():
    rng = np.random.default_rng(0)
    queries = np.round(rng.standard_normal((31, 9)) * 1000)
    queries[4] = queries[0] - queries[2]
    queries[20:24] = queries[[5, 9, 13, 17]] + queries[[6, 10, 14, 18]]
    data = with_queries(queries, 4)
    found = assumptions.regroup(data, 10)
    ordered = data.take(found.order)
    assert certify(build_memorizer(ordered, num_heads=10), ordered).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("change", "members"),
    [
        (lambda q: q.__setitem__(3, 0.0), (3,)),
        (lambda q: q.__setitem__(3, -2 * q[8]), (3, 8)),
    ],
)
def test_zero_and_parallel_queries_defeat_every_grouping(change, members):
    queries = np.round(np.random.default_rng(1).standard_normal((13, 6)) * 1000)
    change(queries)
    found = assumptions.regroup(with_queries(queries, 4), 5)
    assert found.verdict is Verdict.REFUTED
    assert found.members == members
    assert found.dependency.holds(queries)


def test_a_context_without_rank_n_is_the_reason():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    contexts = data.contexts.copy()
    contexts[4, 1] = 2 * contexts[4, 0]
    found = assumptions.regroup(Dataset(contexts, data.queries, data.targets), 3)
    assert found.verdict is Verdict.REFUTED
    assert "context of example 4" in found.detail


def test_too_many_examples():
    data = generators.uniform(num_examples=8, context_size=3, width=5)
    with pytest.raises(CapacityError, match="more than H\\(n - 1\\) \\+ 1 = 7"):
        assumptions.regroup(data, 3)


def test_the_given_order_is_kept_where_it_will_do():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    assert assumptions.regroup(data, 3).order.tolist() == list(range(7))


def test_wide_queries_are_regrouped_by_their_images():
    """All of a group's places but a few are for others: queries of d = 384, one of them a sum."""
    rng = np.random.default_rng(0)
    queries = np.round(rng.standard_normal((121, 384)) * 1024)
    queries[3] = queries[0] + queries[1]
    queries[90] = 2.0 * queries[40] - queries[41]
    data = Dataset(rng.standard_normal((121, 5, 384)), queries, np.zeros(121))
    found = assumptions.regroup(data, 30)
    assert found.verdict is Verdict.PROVED
    assert found.detail == "found in pass 1"
    assert fits(data.take(found.order).queries, [range(a, b) for a, b in found.groups[:2]])
