"""Rank-one heads with groups as large as contexts allow (Theorem 10)."""

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    CapacityError,
    Dataset,
    Memorizer,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.theory.group_spans import TooNarrow, too_narrow


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
    assert [claim.name for claim in certificate.claims] == ["rank", "error", "readout"]
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
    with pytest.raises(AssumptionError, match="differences of tokens of 5 examples") as caught:
        build(data, 3)
    assert caught.value.witness == (6, 7, 8, 9, 10)
    assert "span 2 dimensions" in str(caught.value)
    assert "construction='generic'" in caught.value.suggestion
    contexts = own.contexts.copy()
    contexts[:6, :, 3:] = 0.0
    data = Dataset(contexts, own.queries, own.targets)
    with pytest.raises(AssumptionError, match="the tokens of 6 examples of one group span 3"):
        build(data, 3)


def test_parts_of_a_group_count():
    """Two examples of a group with one direction between them; the others have enough."""
    rng = np.random.default_rng(0)
    contexts = rng.integers(-9, 10, (8, 2, 6)).astype(float)
    contexts[5:7, 1] = contexts[5:7, 0] + [[1.0, 2, 3, 4, 5, 6]]
    data = Dataset(contexts, rng.standard_normal((8, 6)), np.zeros(8))
    assert too_narrow(data, (4, 4), rng) == TooNarrow((5, 6), 1, tokens=False)
    assert too_narrow(data, (6, 2), rng) is None
    assert too_narrow(data, (8, 0), rng) == TooNarrow(tuple(range(8)), 6, tokens=True)


def test_dependent_queries_are_refused_as_before():
    data = generators.gaussian(num_examples=16, context_size=3, width=6)
    queries = data.queries.copy()
    queries[8] = queries[6] + queries[7]
    with pytest.raises(AssumptionError, match="one group, have rank 4"):
        build(Dataset(data.contexts, queries, data.targets), 3)
