"""Exact capacity, the counts of parameters, and the tables."""

from dataclasses import replace

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
    heads_needed,
    published_bounds,
    rank_one_capacity,
    saturated_capacity,
)
from constructive.theory.bounds import (
    RANK_ONE,
    SATURATED,
    nonzero_parameter_count,
    parameter_count,
)


@settings(max_examples=20)
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


def test_contexts_in_a_subspace():
    """Most contexts lie in three dimensions, and a few do not: these are not to blame."""
    generic = generators.uniform(num_examples=23, context_size=3, width=8)
    contexts = generic.contexts.copy()
    contexts[:20, :, 3:] = 0
    found = exact_capacity(Dataset(contexts, generic.queries, generic.targets), 4)
    assert (found.lower, found.upper) == (3 * 4 + 3, 3 * 4 + 3)
    assert found.contexts.blamed.tolist() == list(range(20))
    assert "|J| = 20 examples of J have tokens of k_J = 3" in found.reason


def test_what_is_only_probable_is_said_so():
    """Translates of one context, with one query: rows lie in d + 1 dimensions (Proposition F)."""
    rng = np.random.default_rng(0)
    contexts = rng.integers(-9, 9, (4, 3)) + rng.integers(-9, 9, (9, 1, 3))
    found = exact_capacity(Dataset(contexts, np.ones((9, 3)), np.zeros(9)), 5)
    assert (found.lower, found.upper) == (4, 9)
    assert not found.exact
    assert "probably, at most" in repr(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_heads": 0},
        {"head_dim": 0},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": None},
    ],
    ids=str,
)
def test_arguments_which_make_no_sense(wrong):
    data = generators.uniform(num_examples=2, context_size=2, width=2)
    ((name, value),) = wrong.items()
    with pytest.raises(ParameterError, match=f"{name}={value} is not a") as caught:
        exact_capacity(data, **{"num_heads": 1} | wrong)
    assert caught.value.witness == value


@pytest.mark.parametrize("value", [0, -1, 2.0])
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (heads_needed, ("num_examples", "context_size", "head_dim")),
        (RANK_ONE.plan, ("num_examples", "context_size", "num_heads", "head_dim")),
        (SATURATED.plan, ("num_examples", "context_size", "num_heads", "head_dim")),
        (parameter_count, ("num_heads", "width", "head_dim", "value_dim", "target_dim")),
        (nonzero_parameter_count, ("num_examples", "width", "target_dim")),
        (published_bounds, ("num_examples", "context_size", "width")),
        (capacity_table, ("num_examples", "context_size", "width")),
        (comparison, ("num_examples", "context_size", "width")),
    ],
)
def test_counts_of_the_statements_are_positive(function, sizes, value):
    options = dict.fromkeys(sizes, 2)
    if function is nonzero_parameter_count:
        options["plan"] = RANK_ONE.plan(num_examples=2, context_size=2, num_heads=2)
    function(**options)
    for name in sizes:
        with pytest.raises(ParameterError) as caught:
            function(**options | {name: value})
        assert caught.value.problem == f"{name}={value} is not a positive integer"
        assert caught.value.witness == value


@pytest.mark.parametrize("name", ["num_heads", "head_dim"])
def test_counts_of_a_plan_are_positive(name):
    plan = RANK_ONE.plan(num_examples=2, context_size=2, num_heads=2)
    wrong = replace(plan, **{name: -1})
    with pytest.raises(ParameterError, match=f"{name}=-1 is not a positive integer"):
        nonzero_parameter_count(num_examples=2, plan=wrong, width=2, target_dim=1)


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
