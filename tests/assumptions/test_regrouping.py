"""Regrouping, against brute force over all groups that each construction allows."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from constructive import Dataset, Verdict, assumptions, fewest_heads, generators
from constructive.exact import dyadic
from constructive.support.errors import CapacityError, ParameterError
from constructive.theory.grouping import group_sizes


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


def possible_wide(data, num_heads):
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


def fits_wide(data, groups):
    """What Theorem 10 asks of groups, by definition."""
    used = set()
    for group in filter(None, groups):
        span = set(dyadic.span_members(data.queries, group).tolist())
        if dyadic.rank(data.queries[group]) < len(group) or used & span:
            return False
        if not wide(data.contexts[group], tokens=not used):
            return False
        used |= set(group)
    return True


def some_wide(seed):
    rng = np.random.default_rng(seed)
    width, size, heads = (int(x) for x in rng.integers((2, 2, 1), (4, 4, 4)))
    total = int(rng.integers(2, min(heads * (width - 1) + 1, 6) + 1))
    words = rng.integers(-2, 3, (5, width))
    contexts = words[rng.integers(0, 5, (total, size))]
    if rng.random() < 0.4:
        contexts = rng.integers(-2, 3, (total, size, width))
    queries = rng.integers(-2, 3, (total, width))
    return Dataset(contexts.astype(float), queries.astype(float), np.zeros(total)), heads


def fits_even(data, groups):
    """What the claim *grouping* asks of the queries, by definition."""
    for head, group in enumerate(groups):
        if dyadic.rank(data.queries[group]) < len(group):
            return False
        if head and len(dyadic.span_members(data.queries, group)) > len(group):
            return False
    return True


def possible_even(data, num_heads):
    """Whether some order meets it."""
    ends = np.cumsum([0, *group_sizes(data.num_examples, num_heads)])
    return any(
        fits_even(data, [list(order[a:b]) for a, b in pairwise(ends)])
        for order in permutations(range(data.num_examples))
    )


def some_even(seed):
    queries = np.random.default_rng(seed).integers(-1, 2, size=(5, 3)).astype(float)
    return with_queries(queries, 3), 2


def with_queries(queries, context_size):
    data = generators.uniform(
        num_examples=len(queries), context_size=context_size, width=queries.shape[1]
    )
    return Dataset(data.contexts, queries, data.targets)


KINDS = {
    # seeds, data, what is possible, what fits; how often PROVED and REFUTED have to occur
    "saturated": (30, some_even, possible_even, fits_even, 3, 3),
    "rank_one": (60, some_wide, possible_wide, fits_wide, 25, 10),
}


@pytest.mark.parametrize("construction", KINDS)
def test_verdicts_agree_with_brute_force(construction):
    seeds, some, possible, fits, proved, refuted = KINDS[construction]
    said, uneven = dict.fromkeys(Verdict, 0), 0
    for seed in range(seeds):
        data, heads = some(seed)
        found = assumptions.regroup(data, heads, construction=construction, seed=seed)
        said[found.verdict] += 1
        if found.verdict is not Verdict.UNDECIDED:
            assert possible(data, heads) == (found.verdict is Verdict.PROVED)
        assert len(found.groups) == heads
        assert [0, *(stop for _, stop in found.groups)] == [
            *(start for start, _ in found.groups), data.num_examples,
        ]  # fmt: skip
        if found.order is not None:
            order = found.order.tolist()
            assert sorted(order) == list(range(data.num_examples))
            assert fits(data, [order[a:b] for a, b in found.groups])
            sizes = tuple(stop - start for start, stop in found.groups)
            uneven += sizes != group_sizes(data.num_examples, heads)
    assert said[Verdict.PROVED] > proved
    assert said[Verdict.REFUTED] > refuted
    assert uneven > 2 if construction == "rank_one" else uneven == 0


@pytest.mark.parametrize(("construction", "total"), [("saturated", 7), ("rank_one", 16)])
def test_the_given_order_is_kept_where_it_will_do(construction, total):
    data = generators.integers(num_examples=total, context_size=3, width=6)
    found = assumptions.regroup(data, 3, construction=construction)
    assert found.order.tolist() == list(range(total))
    assert found.detail == "the given order"
    assert tuple(stop - start for start, stop in found.groups) == group_sizes(total, 3)


@pytest.mark.parametrize("construction", KINDS)
@pytest.mark.parametrize(("factor", "members"), [(0.0, (3,)), (-2.0, (3, 8))])
def test_zero_and_parallel_queries_defeat_every_grouping(construction, factor, members):
    queries = np.round(np.random.default_rng(1).standard_normal((13, 6)) * 1000)
    queries[3] = factor * queries[8]
    found = assumptions.regroup(with_queries(queries, 4), 5, construction=construction)
    assert found.verdict is Verdict.REFUTED
    assert found.members == members
    assert found.dependency.holds(queries)


def test_what_is_refused():
    data = generators.integers(num_examples=17, context_size=3, width=6)
    with pytest.raises(CapacityError, match=r"more than H\(d - 1\) \+ 1 = 16"):
        assumptions.regroup(data, 3, construction="rank_one")
    for some, ways in ((16, "more heads; or construction='rank_one'"), (17, "more heads")):
        with pytest.raises(CapacityError, match=r"more than H\(n - 1\) \+ 1 = 7") as caught:
            assumptions.regroup(data.take(range(some)), 3)
        assert caught.value.suggestion == ways
    long = generators.integers(num_examples=8, context_size=5, width=3)
    with pytest.raises(CapacityError, match=r"more than H\(d - 1\) \+ 1 = 5") as caught:
        assumptions.regroup(long, 2, construction="rank_one")
    assert caught.value.suggestion == "more heads"  # contexts of 5 tokens in d = 3 have no rank 5
    one = generators.integers(num_examples=2, context_size=1, width=6)
    with pytest.raises(CapacityError, match=r"H\(n - 1\) \+ 1 = 1") as caught:
        assumptions.regroup(one, 3)
    assert caught.value.suggestion == "contexts of n >= 2 tokens"
    with pytest.raises(ParameterError, match="construction='generic' has no groups"):
        assumptions.regroup(data, 3, construction="generic")


def test_wide_queries_are_regrouped():
    """All of a group's places but a few are for others: queries of d = 384, one of them a sum."""
    rng = np.random.default_rng(0)
    queries = np.round(rng.standard_normal((121, 384)) * 1024)
    queries[3] = queries[0] + queries[1]
    queries[90] = 2.0 * queries[40] - queries[41]
    data = Dataset(rng.standard_normal((121, 5, 384)), queries, np.zeros(121))
    found = assumptions.regroup(data, 30)
    assert found.verdict is Verdict.PROVED
    assert found.detail == "found in pass 1"
    order = found.order.tolist()
    assert fits_even(data, [order[a:b] for a, b in found.groups[:2]])


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
    most, more = (Dataset(data.contexts, queries, data.targets) for queries in (most, more))
    assert assumptions.regroup(most, 4, construction="rank_one").verdict is Verdict.PROVED
    found = assumptions.regroup(more, 4, construction="rank_one")
    assert found.verdict is Verdict.REFUTED
    assert found.members == tuple(range(13))
    assert found.detail == "13 queries span 3 dimensions; of these 4 groups take at most 9"


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_contexts_of_few_words_take_exchanges(seed):
    """Groups are as large as contexts allow: what is dealt out does not fit without chains."""
    rng = np.random.default_rng(seed)
    words = rng.integers(-3, 4, (6, 8)).astype(float)
    contexts, queries = words[rng.integers(0, 6, (36, 3))], rng.integers(-9, 10, (36, 8))
    data = Dataset(contexts, queries.astype(float), np.zeros(36))
    found = assumptions.regroup(data, fewest_heads(data).least, construction="rank_one")
    assert found.verdict is Verdict.PROVED
