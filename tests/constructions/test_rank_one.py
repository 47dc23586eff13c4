"""Rank-one heads with groups as large as contexts allow (Theorem 10)."""

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    CapacityError,
    Dataset,
    Memorizer,
    Verdict,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.theory.grouping import TooNarrow, prove_wide, widths
from constructive.theory.regrouping import WideGroups


def build(data, heads, **options):
    return build_memorizer(data, num_heads=heads, construction="rank_one", **options)


@pytest.mark.parametrize("make", [generators.uniform, generators.gaussian])
@pytest.mark.parametrize(("heads", "size", "width"), [(4, 8, 16), (5, 9, 4), (3, 2, 6), (2, 3, 2)])
def test_groups_of_d_less_one(make, heads, size, width, tmp_path):
    total = heads * (width - 1) + 1
    data = make(num_examples=total, context_size=size, width=width, target_dim=2)
    memorizer = build(data, heads)
    assert memorizer.layer.head_dim == 1
    assert memorizer.record.capacity == total
    assert memorizer.max_error(data) < 1e-9
    memorizer.save(tmp_path / "m.safetensors")
    certificate = certify(Memorizer.load(tmp_path / "m.safetensors"), data)
    assert [claim.name for claim in certificate.claims] == [
        "wide_grouping", "rank", "error"
    ]  # fmt: skip
    assert check(certificate, memorizer, data).proved
    more = make(num_examples=total + 1, context_size=size, width=width)
    with pytest.raises(CapacityError, match=r"H\(d - 1\) \+ 1 = ") as caught:
        build(more, heads)
    assert f"num_heads={heads + 1}" in caught.value.suggestion


def test_up_to_theorem_2_nothing_changes():
    data = generators.uniform(num_examples=7, context_size=3, width=9)
    memorizer = build(data, 3)
    assert memorizer.record.capacity == 7
    assert certify(memorizer, data).claims[0].name == "grouping"
    assert explain(data.take([*range(7)]), num_heads=3, construction="rank_one").plan.capacity == 7
    shared = generators.shared_context(num_examples=8, context_size=3, width=9)
    with pytest.raises(CapacityError, match=r"H\(n - 1\) \+ 1 = 7"):
        build(shared, 3)


def test_contexts_which_are_too_narrow_are_named():
    own = generators.gaussian(num_examples=16, context_size=4, width=6)
    contexts = own.contexts.copy()
    contexts[6:, :, 2:] = 1.0  # differences in two dimensions, for groups of five
    data = Dataset(contexts, own.queries, own.targets)
    assert widths(data, (6, 5, 5), np.random.default_rng(0))[1].examples == (6, 7, 8, 9, 10)
    with pytest.raises(AssumptionError, match="no order of the examples suits 3") as caught:
        build(data, 3)
    assert caught.value.witness == tuple(range(6, 16))
    assert "the contexts of 10 examples span 3 dimensions" in str(caught.value)
    assert "differences of tokens 2; of these 3 groups take at most 7" in str(caught.value)
    assert "construction='generic'" in caught.value.suggestion
    contexts = own.contexts.copy()
    contexts[:6, :, 3:] = 0.0
    data = Dataset(contexts, own.queries, own.targets)
    found = widths(data, (6, 5, 5), np.random.default_rng(0))[1]
    assert found == TooNarrow((0, 1, 2, 3, 4, 5), 3, tokens=True)
    memorizer = build(data, 3)  # others go first
    assert memorizer.record.order[:6] != (0, 1, 2, 3, 4, 5)
    assert certify(memorizer, data).proved


def test_parts_of_a_group_count():
    """Two examples of a group with one direction between them; the others have enough."""
    rng = np.random.default_rng(0)
    contexts = rng.integers(-9, 10, (8, 2, 6)).astype(float)
    contexts[5:7, 1] = contexts[5:7, 0] + [[1.0, 2, 3, 4, 5, 6]]
    data = Dataset(contexts, rng.standard_normal((8, 6)), np.zeros(8))
    assert widths(data, (4, 4), rng)[1] == TooNarrow((5, 6), 1, tokens=False)
    assert widths(data, (6, 2), rng)[1] is None
    later = TooNarrow(tuple(range(8)), 6, tokens=False)
    assert widths(data, (0, 8), rng)[1] == later  # an empty first group counts as the first one
    assert widths(data, (8, 0), rng)[1] == TooNarrow(tuple(range(8)), 6, tokens=True)


def test_dependent_queries_of_a_group_are_shared_among_others(tmp_path):
    data = generators.integers(num_examples=16, context_size=3, width=6)
    queries = data.queries.copy()
    queries[8] = queries[6] + queries[7]
    queries[2] = queries[12] - queries[13]  # an earlier query in the span of a later group
    data = Dataset(data.contexts, queries, data.targets)
    memorizer = build(data, 3)
    assert sorted(memorizer.record.order) == list(range(16))
    assert memorizer.max_error(data) < 1e-9
    memorizer.save(tmp_path / "m.safetensors")
    loaded = Memorizer.load(tmp_path / "m.safetensors")
    assert loaded.record == memorizer.record
    certificate = certify(loaded, data)
    assert certificate["wide_grouping"].proved
    assert check(certificate, loaded, data).proved
    grouping = certify(loaded, data, claims=["grouping"])["grouping"]
    assert grouping.verdict is Verdict.UNDECIDED
    assert "another order" in grouping.detail


def test_an_earlier_query_in_one_span_is_decided_exactly():
    """One of 75 other examples may stay unsaturated, but then Theorem 10 says nothing."""
    data = generators.integers(num_examples=76, context_size=4, width=16)
    queries = data.queries.copy()
    queries[3] = queries[70] + queries[71]
    data = Dataset(data.contexts, queries, data.targets)
    memorizer = build(data, 5, saturated_fraction=0.9)
    assert memorizer.record.order
    assert certify(memorizer, data).proved


def test_up_to_theorem_2_another_order_is_found_too():
    data = generators.integers(num_examples=7, context_size=3, width=5)
    queries, contexts = data.queries.copy(), data.contexts.copy()
    queries[2] = queries[0] + queries[1]
    contexts[5, 2] = contexts[5, 1]  # equal tokens: rank 2, and one direction
    data = Dataset(contexts, queries, data.targets)
    memorizer = build(data, 3)
    assert memorizer.record.capacity == 7
    assert certify(memorizer, data).claims[0].name == "wide_grouping"
    assert certify(memorizer, data).proved


def same_contexts(kinds, heads, size, width, seed=0):
    """Corollary (v): contexts of a few kinds, those of one kind next to each other."""
    rng = np.random.default_rng(seed)
    total = (heads - 1) * min(width - 1, kinds * (size - 1)) + min(width, kinds * size)
    contexts = rng.standard_normal((kinds, size, width))[np.sort(np.arange(total) % kinds)]
    return Dataset(contexts, rng.standard_normal((total, width)), rng.standard_normal(total))


@pytest.mark.parametrize("kinds", [3, 5])
def test_repeated_contexts_up_to_what_they_hold(kinds):
    data = same_contexts(kinds, heads=4, size=3, width=8)
    memorizer = build(data, 4)
    sizes = [head.stop - head.start for head in memorizer.record.heads]
    assert sizes == ([8, 7, 7, 7] if kinds == 5 else [8, 6, 6, 6])  # at most 2 of each kind
    certificate = certify(memorizer, data)
    assert certificate.proved
    assert check(certificate, memorizer, data).proved
    if kinds == 3:
        one_more = same_contexts(kinds, heads=5, size=3, width=8).take(range(len(data.queries) + 1))
        with pytest.raises(AssumptionError, match=r"of these 4 groups take at most"):
            build(one_more, 4)


def test_differences_in_few_dimensions():
    """Corollary (vi): the first group has k examples, the others delta; not even ones."""
    rng = np.random.default_rng(0)
    directions, places = rng.integers(-4, 5, (3, 12)), rng.integers(-4, 5, (6, 12))
    total = 4 * 3 + 9  # delta = 3, k = 9
    contexts = rng.integers(-4, 5, (total, 5, 3)) @ directions + places[np.arange(total) % 6, None]
    data = Dataset(
        contexts.astype(float), rng.standard_normal((total, 12)), rng.standard_normal(total)
    )
    memorizer = build(data, 5)
    assert [head.stop - head.start for head in memorizer.record.heads] == [9, 3, 3, 3, 3]
    assert certify(memorizer, data).proved


@pytest.mark.parametrize(("size", "width", "total"), [(6, 10, 46), (12, 5, 13), (3, 9, 11)])
def test_equal_tokens(size, width, total):
    """Words of a small vocabulary: the most attended word may occur twice."""
    rng = np.random.default_rng(1)
    words = rng.standard_normal((14, width))
    contexts = words[rng.integers(0, 14, (total, size))]
    contexts[:, -1] = contexts[:, 0]
    contexts[0] = words[0]  # a context of one word, which the first group may have
    data = Dataset(contexts, rng.standard_normal((total, width)), rng.standard_normal(total))
    memorizer = build(data, 5)
    for head in memorizer.record.heads[1:]:
        assert head.saturated_fraction > 0.98
    assert certify(memorizer, data).proved


def test_what_no_order_mends():
    data = generators.integers(num_examples=16, context_size=3, width=6)
    queries = data.queries.copy()
    queries[11] = -3 * queries[4]
    with pytest.raises(AssumptionError, match="2 queries span 1 dimensions") as caught:
        build(Dataset(data.contexts, queries, data.targets), 3)
    assert caught.value.witness == (4, 11)
    repeated = data.take([*range(15), 3])
    with pytest.raises(AssumptionError, match="examples 3 and 15 are the same input"):
        build(repeated, 3)


def test_where_no_order_is_found(monkeypatch):
    """That is not a proof, and the refusal says what to try."""
    data = generators.integers(num_examples=16, context_size=3, width=6)
    queries = data.queries.copy()
    queries[8] = queries[6] + queries[7]
    monkeypatch.setattr(WideGroups, "passes", 0)
    with pytest.raises(AssumptionError, match="and no other order was found") as caught:
        build(Dataset(data.contexts, queries, data.targets), 3)
    assert "the queries of examples 6 to 10, one group, have rank 4" in str(caught.value)
    assert "assumptions.regroup(dataset, 3, construction='rank_one', seed=1)" in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "verdict"),
    [(((0, 2), (2, 2)), Verdict.PROVED), (((0, 0), (0, 2)), Verdict.REFUTED)],
)
def test_tokens_count_for_the_first_group_even_if_it_is_empty(groups, verdict):
    """Differences span one dimension, tokens two: two examples suit the first group only."""
    same = np.tile([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], (2, 1, 1))
    data = Dataset(same, np.eye(2, 3), np.zeros(2))
    claim = prove_wide(data, groups, np.arange(2), np.random.default_rng(0))
    assert claim.verdict is verdict
    assert claim.witness == (None if verdict is Verdict.PROVED else (0, 1))
