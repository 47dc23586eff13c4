"""Regrouping for Theorem 10, against brute force over all groups of all sizes."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from constructive import Dataset, Verdict, assumptions, generators
from constructive.exact import dyadic
from constructive.support.errors import CapacityError, ParameterError
from constructive.theory.bounds import group_sizes


def wide(contexts, *, tokens):
    """Condition (2), by all parts of a group."""
    rows = contexts if tokens else contexts[:, 1:] - contexts[:, :1]
    return all(
        dyadic.rank(rows[list(part)].reshape(-1, rows.shape[2])) >= size
        for size in range(1, len(rows) + 1)
        for part in combinations(range(len(rows)), size)
    )


def allowed(data, *, first):
    """All groups of independent queries and wide contexts, with what their queries span."""
    found = {}
    for size in range(1, data.num_examples + 1):
        for group in map(list, combinations(range(data.num_examples), size)):
            independent = dyadic.rank(data.queries[group]) == size
            if independent and wide(data.contexts[group], tokens=first):
                span = dyadic.span_members(data.queries, group)
                found[frozenset(group)] = frozenset(span.tolist())
    return found


def possible(data, num_heads):
    """Whether some groups meet Theorem 10, by definition."""
    first, later = allowed(data, first=True), allowed(data, first=False)
    reached = set(first)
    for _ in range(num_heads - 1):
        reached |= {
            used | group
            for used in reached
            for group, span in later.items()
            if not used & group and not used & span
        }
    return frozenset(range(data.num_examples)) in reached


def meets_theorem_10(data, order, groups):
    assert sorted(order.tolist()) == list(range(data.num_examples))
    used = set()
    for group in (order[start:stop].tolist() for start, stop in groups if start < stop):
        assert dyadic.rank(data.queries[group]) == len(group)
        assert wide(data.contexts[group], tokens=not used)
        assert not used & set(dyadic.span_members(data.queries, group).tolist()) or not used
        used |= set(group)


def some(seed):
    rng = np.random.default_rng(seed)
    width, size, heads = (int(x) for x in rng.integers((2, 2, 1), (4, 4, 4)))
    total = int(rng.integers(2, min(heads * (width - 1) + 1, 6) + 1))
    words = rng.integers(-2, 3, (5, width))
    contexts = words[rng.integers(0, 5, (total, size))]
    if rng.random() < 0.4:
        contexts = rng.integers(-2, 3, (total, size, width))
    queries = rng.integers(-2, 3, (total, width))
    return Dataset(contexts.astype(float), queries.astype(float), np.zeros(total)), heads


def test_verdicts_agree_with_brute_force():
    said = dict.fromkeys(Verdict, 0)
    uneven = 0
    for seed in range(120):
        data, heads = some(seed)
        found = assumptions.regroup(data, heads, construction="rank_one", seed=seed)
        said[found.verdict] += 1
        if found.verdict is not Verdict.UNDECIDED:
            assert possible(data, heads) == (found.verdict is Verdict.PROVED)
        if found.order is not None:
            meets_theorem_10(data, found.order, found.groups)
            sizes = tuple(stop - start for start, stop in found.groups)
            uneven += sizes != group_sizes(data.num_examples, heads)
    assert said[Verdict.PROVED] > 50
    assert said[Verdict.REFUTED] > 20
    assert uneven > 5


def test_chains_of_exchanges():
    """Groups at their largest, contexts which share tokens, dependent queries, no order at all."""
    rng = np.random.default_rng(3)
    heads, width = 6, 12
    total = heads * (width - 1) + 1
    words = rng.integers(-9, 10, (9, width))
    contexts = words[np.sort(rng.integers(0, 9, (total, 3)), axis=1)].astype(float)
    contexts[:, 1] += rng.integers(0, 2, (total, 1)) * rng.integers(-9, 10, width)
    contexts[:, 2] -= np.eye(width)[rng.integers(0, width, total)]
    queries = rng.integers(-9, 10, (total, width)).astype(float)
    nodes = np.arange(1, heads * 3 + 2)[:, np.newaxis] ** np.arange(4)
    queries[: len(nodes)] = nodes @ rng.integers(-9, 10, (4, width))  # 19 in four dimensions
    data = Dataset(contexts, queries, np.zeros(total)).take(rng.permutation(total))
    found = assumptions.regroup(data, heads, construction="rank_one")
    assert found.verdict is Verdict.PROVED
    order = found.order.tolist()
    for start, stop in found.groups[1:]:
        span = dyadic.span_members(data.queries, order[start:stop])
        assert not set(span.tolist()) & set(order[:start])


def test_a_subspace_with_one_query_too_many():
    data = generators.integers(num_examples=21, context_size=3, width=6)
    nodes = np.arange(1, 14)[:, np.newaxis] ** np.arange(4.0)
    most, more = data.queries.copy(), data.queries.copy()
    most[:13, :4], most[:13, 4:] = nodes, 0
    more[:13, :3], more[:13, 3:] = nodes[:, :3], 0  # four groups hold 4 * 2 + 1
    found = assumptions.regroup(
        Dataset(data.contexts, most, data.targets), 4, construction="rank_one"
    )
    assert found.verdict is Verdict.PROVED
    found = assumptions.regroup(
        Dataset(data.contexts, more, data.targets), 4, construction="rank_one"
    )
    assert found.verdict is Verdict.REFUTED
    assert found.members == tuple(range(13))
    assert found.detail == "13 queries span 3 dimensions; of these 4 groups take at most 9"


def test_contexts_which_hold_too_few_are_named():
    data = generators.integers(num_examples=16, context_size=4, width=6)
    contexts = data.contexts.copy()
    contexts[5:, :, 2:] = 1.0
    found = assumptions.regroup(
        Dataset(contexts, data.queries, data.targets), 3, construction="rank_one"
    )
    assert found.verdict is Verdict.REFUTED
    assert found.members == tuple(range(5, 16))
    assert found.dependency is None
    assert "11 examples span 3 dimensions" in found.detail
    assert "take at most 7" in found.detail


def test_a_shared_context_has_groups_of_theorem_2():
    data = generators.shared_context(num_examples=9, context_size=3, width=6)
    found = assumptions.regroup(data, 4, construction="rank_one")
    assert found.detail == "the given order"
    more = generators.shared_context(num_examples=10, context_size=3, width=6)
    assert assumptions.regroup(more, 4, construction="rank_one").verdict is Verdict.REFUTED


def test_the_given_order_is_kept_where_it_will_do():
    data = generators.integers(num_examples=16, context_size=3, width=6)
    found = assumptions.regroup(data, 3, construction="rank_one")
    assert found.order.tolist() == list(range(16))
    assert [stop - start for start, stop in found.groups] == [6, 5, 5]


def test_what_is_refused():
    data = generators.integers(num_examples=17, context_size=3, width=6)
    with pytest.raises(CapacityError, match=r"more than H\(d - 1\) \+ 1 = 16"):
        assumptions.regroup(data, 3, construction="rank_one")
    with pytest.raises(CapacityError, match=r"more than H\(n - 1\) \+ 1 = 7") as caught:
        assumptions.regroup(data, 3)
    assert "construction='rank_one'" in caught.value.suggestion
    with pytest.raises(ParameterError, match="construction='generic' has no groups"):
        assumptions.regroup(data, 3, construction="generic")


def test_groups_stand_one_after_the_other():
    data, heads = some(0)
    found = assumptions.regroup(data, heads, construction="rank_one")
    stops = [stop for _, stop in found.groups]
    assert len(found.groups) == heads
    assert stops[-1] == data.num_examples
    assert all(one[1] == other[0] for one, other in pairwise(found.groups))
