"""Exact capacity, the counts of parameters, and the tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    Dataset,
    ParameterError,
    Verdict,
    build_memorizer,
    capacity_table,
    certify,
    comparison,
    exact_capacity,
    explain,
    generators,
    nonzero_parameter_count,
    published_bounds,
    rank_one_capacity,
    saturated_capacity,
)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4), st.integers(2, 4), st.integers(0, 3), st.integers(1, 3), st.integers(0, 99)
)
def test_generic_data_reach_the_conjectured_capacity(heads, size, more, head_dim, seed):
    """Own contexts: min(T, Hd); a shared one: H(n - 1) + 1 (theory, section 6)."""
    width = size + more
    shared = generators.shared_context(
        num_examples=heads * width + 1, context_size=size, width=width, seed=seed
    )
    found = exact_capacity(shared, heads, head_dim, seed=seed)
    assert found.exact
    assert found.lower == rank_one_capacity(heads, size)
    assert found.lower >= saturated_capacity(heads, size, head_dim)
    own = generators.uniform(
        num_examples=heads * width + 1, context_size=size, width=width, seed=seed
    )
    assert exact_capacity(own, heads, head_dim, seed=seed).lower == heads * width


def test_the_weights_that_are_returned_prove_the_lower_bound():
    data = generators.uniform(num_examples=12, context_size=3, width=4)
    found = exact_capacity(data, 3)
    assert (found.lower, found.upper) == (12, 12)
    memorizer = build_memorizer(data.take(range(7)), num_heads=3)
    proof = certify(type(memorizer)(found.layer, memorizer.record), data, claims=["rank"])
    assert proof.verdict is Verdict.PROVED


def test_what_is_only_probable_is_said_so():
    """Most contexts lie in three dimensions, and a few do not: no proved bound knows of that."""
    generic = generators.uniform(num_examples=23, context_size=3, width=8)
    contexts = generic.contexts.copy()
    contexts[:20, :, 3:] = 0
    found = exact_capacity(Dataset(contexts, generic.queries, generic.targets), 4)
    assert (found.lower, found.upper) == (3 * 4 + 3, 23)
    assert not found.exact
    assert "probably, at most" in repr(found)


@pytest.mark.parametrize("name", ["num_heads", "head_dim", "attempts"])
def test_counts_are_positive(name):
    data = generators.uniform(num_examples=2, context_size=2, width=2)
    options = {"num_heads": 1, "head_dim": 1, "attempts": 1} | {name: 0}
    with pytest.raises(ParameterError, match=f"{name}=0 is not a positive integer"):
        exact_capacity(data, **options)


@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
@pytest.mark.parametrize(
    ("total", "heads", "head_dim"), [(7, 3, 3), (5, 3, 4), (9, 4, 3), (3, 2, 2)]
)
def test_nonzero_counts_are_those_of_built_weights(construction, total, heads, head_dim):
    data = generators.gaussian(num_examples=total, context_size=3, width=5, target_dim=2)
    memorizer = build_memorizer(
        data, num_heads=heads, head_dim=head_dim, value_dim=3, construction=construction
    )
    chosen = explain(data, num_heads=heads, head_dim=head_dim, construction=construction).plan
    counted = sum(np.count_nonzero(x) for x in memorizer.layer.tensors.values())
    assert counted == nonzero_parameter_count(
        num_examples=total, plan=chosen, width=5, target_dim=2
    ) + heads * (3 - 2)  # W_O copies unused value columns, too


def test_tables():
    sizes = {"num_examples": 621, "context_size": 32, "width": 64}
    rows = published_bounds(**sizes)
    assert all(row.source and row.data and row.formula for row in rows)
    text = comparison(**sizes)
    assert all(row.source.split(",")[0].split()[0] in text for row in rows)
    for row in rows[:2]:
        assert str(row.parameters) in text.replace(",", "")
    lines = capacity_table(**sizes).splitlines()
    assert "3,861" in lines[3]
    assert capacity_table(num_examples=1, context_size=1, width=1).splitlines()[-1].split()[:3] == [
        "1", "2", "1",
    ]  # fmt: skip
