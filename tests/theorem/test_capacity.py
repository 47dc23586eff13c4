"""Capacities, numbers of heads, and counts of parameters."""

import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    PrecisionError,
    Verdict,
    build_memorizer,
    check,
    explain,
    fewest_heads,
    generators,
    heads_needed,
    token_mixing,
    upper_bound_certificate,
)
from constructive.theory import bounds
from constructive.theory.bounds import (
    RANK_ONE,
    SATURATED,
    parameter_count,
    rank_one_capacity,
    saturated_capacity,
)
from constructive.theory.capacity import fixed_capacity

# Exact capacity, the counts of parameters, and the tables.


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
    found = fixed_capacity(shared, heads, head_dim, seed=seed)
    assert found.at_least == found.at_most == rank_one_capacity(heads, size)
    assert found.at_least >= saturated_capacity(heads, size, head_dim)
    own = generators.uniform(
        num_examples=heads * width + 1, context_size=size, width=width, seed=seed
    )
    assert fixed_capacity(own, heads, head_dim, seed=seed).at_least == heads * width


def test_bounds_may_differ():
    """Translates of one context, with one query: rows lie in d + 1 dimensions (Proposition F)."""
    rng = np.random.default_rng(0)
    contexts = rng.integers(-9, 9, (4, 3)) + rng.integers(-9, 9, (9, 1, 3))
    found = fixed_capacity(Dataset(contexts, np.ones((9, 3)), np.zeros(9)), 5)
    assert (found.at_least, found.at_most) == (4, 9)
    assert "rank 4 modulo a prime" in found.why_at_least


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_heads", 0), ("head_dim", 0), ("seed", -1), ("seed", 1.5), ("seed", None)],
)
def test_arguments_which_make_no_sense(name, value):
    data = generators.uniform(num_examples=2, context_size=2, width=2)
    with pytest.raises(ParameterError, match=f"{name}={value} is not a") as caught:
        fixed_capacity(data, **{"num_heads": 1, name: value})
    assert caught.value.witness == value


TWO = generators.uniform(num_examples=2, context_size=2, width=2)


@pytest.mark.parametrize("value", [0, 2.0])
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (heads_needed, ("num_examples", "context_size", "head_dim")),
        (partial(RANK_ONE.plan, TWO), ("num_heads", "head_dim")),
        (partial(SATURATED.plan, TWO), ("num_heads", "head_dim")),
        (parameter_count, ("num_heads", "width", "head_dim", "value_dim", "target_dim")),
    ],
)
def test_counts_of_the_statements_are_positive(function, sizes, value):
    options = dict.fromkeys(sizes, 2)
    function(**options)
    for name in sizes:
        with pytest.raises(ParameterError) as caught:
            function(**options | {name: value})
        assert caught.value.problem == f"{name}={value} is not a positive integer"
        assert caught.value.witness == value


@given(st.integers(1, 40), st.integers(2, 6), st.integers(2, 6))
def test_needed_heads_are_the_fewest(total, size, head_dim):
    heads = heads_needed(total, size, head_dim)
    assert saturated_capacity(heads, size, head_dim) >= total
    assert heads == 1 or saturated_capacity(heads - 1, size, head_dim) < total


# How many heads data take: exactly, and with room for float64.


@pytest.mark.parametrize(
    ("total", "least", "heads"),
    [(1, 1, 1), (5, 1, 1), (6, 2, 2), (8, 2, 3), (10, 2, 3), (11, 3, 3)],
)
def test_generic_contexts(total, least, heads):
    """Hd examples; a head more where less than half of one is left."""
    data = generators.gaussian(num_examples=total, context_size=3, width=5)
    found = fewest_heads(data)
    assert (found.least, found.heads) == (least, heads)
    assert fixed_capacity(data, least).at_least == total
    if least > 1:
        assert upper_bound_certificate(data, least - 1).proved
        assert f"allow {5 * (least - 1)} of {total} examples with {least - 1} h" in found.reason
    assert build_memorizer(data).layer.num_heads == heads
    assert "contexts allow" in str(explain(data))


def test_a_part_of_the_examples_may_need_the_heads():
    own = generators.gaussian(num_examples=12, context_size=3, width=9)
    contexts = own.contexts.copy()
    contexts[:9] = contexts[0]
    data = Dataset(contexts, own.queries, own.targets)
    found = fewest_heads(data)
    assert found.least == 4
    assert found.heads == 5
    before = "with 3 heads chosen before the targets"
    assert found.reason == f"contexts allow 7 of 9 examples {before}, and 11 with 5"


def test_what_is_there_by_a_hair_is_not_counted_on():
    """Tokens in three dimensions, but for rounding: exact ranks see eight, and float64 does not."""
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((30, 4, 3)) @ rng.standard_normal((3, 8))
    data = Dataset(contexts, rng.standard_normal((30, 8)), rng.random(30))
    found = fewest_heads(data)
    assert (found.least, found.heads) == (4, 10)
    assert "float64 sees tokens in 3 dimensions and differences in 3" in found.reason
    assert build_memorizer(data, num_heads=12).max_error(data) < 1e-6


def test_arguments_which_make_no_sense_of_heads():
    data = generators.gaussian(num_examples=3, context_size=3, width=5)
    with pytest.raises(ParameterError, match="seed=-1"):
        fewest_heads(data, seed=-1)


# Far too many heads: an error that says what they would take, or an answer at once.


OWN = generators.uniform(num_examples=7, context_size=3, width=5)
SHARED = generators.shared_context(num_examples=8, context_size=3, width=5)
ONE = Dataset(np.ones((3, 1, 2)), np.eye(3, 2), np.zeros(3))
MANY = [10**6, 2**63, 10**5000]


@pytest.mark.parametrize("heads", MANY, ids=lambda heads: f"{heads.bit_length()} bits")
@pytest.mark.parametrize("data", [OWN, SHARED, ONE], ids=["own", "shared", "n = 1"])
def test_builders_say_what_it_would_take(data, heads):
    for build in (
        lambda: build_memorizer(data, num_heads=heads),
        lambda: fixed_capacity(data, heads),
    ):
        with pytest.raises(ParameterError, match="GB and") as caught:
            build()
        assert f"at most {data.num_examples} heads" in caught.value.suggestion


def test_memory_counts_and_what_fits_is_built(monkeypatch):
    assert fixed_capacity(OWN, 8).at_least == 7  # one head more than examples
    assert build_memorizer(OWN, num_heads=8).max_error(OWN) < 1e-9
    monkeypatch.setattr(bounds, "physical_memory", lambda: 8 * 4 * 100.0)
    bounds.require_heads(10, 20, 10)
    with pytest.raises(ParameterError, match="1 GB") as caught:
        bounds.require_heads(11, 20, 10)
    assert caught.value.witness == 11
    bounds.require_heads(bounds.MOST, 7, 0)
    bounds.require_heads(bounds.MOST + 1, bounds.MOST + 1, 0)
    with pytest.raises(ParameterError, match="minutes"):
        bounds.require_heads(bounds.MOST + 1, bounds.MOST, 0)


@pytest.mark.parametrize("heads", [4, 10**6, 10**25])
def test_upper_bounds_hold_for_any_number_of_heads(heads):
    for data in (OWN, SHARED):
        claim = upper_bound_certificate(data, heads)["impossible"]
        assert claim.verdict is Verdict.UNDECIDED
    certificate = upper_bound_certificate(ONE, heads)  # n = 1: all heads agree
    assert f"H = {heads} heads rank Z <= 1 on 3" in certificate["impossible"].statement
    assert certificate["impossible"].verdict is Verdict.PROVED
    assert check(certificate, None, ONE).proved


def test_tokens_that_span_everything_take_no_exact_integers():
    """They took minutes of the processor, where a rank modulo a prime is the proof."""
    data = generators.gaussian(num_examples=400, context_size=16, width=384)
    began = time.process_time()
    assert fixed_capacity(data, num_heads=1).at_least == 384
    assert fewest_heads(data).least == 2
    assert time.process_time() - began < 20


def rounded_patches(total, queries):
    """Tokens of 4 numbers times a random 4 x 32 matrix, and a position, with sums rounded."""
    rng = np.random.default_rng(1)
    tokens = rng.random((total, 16, 4)) @ rng.normal(size=(4, 32)) + rng.normal(size=(16, 32))
    return Dataset(tokens, queries(tokens, rng), rng.normal(size=total))


def test_what_float64_sees_stands_beside_what_is_exact():
    """Sums in 4 + 16 dimensions: rounding fills all 32, exactly, and float64 sees 20 + 3 x 19."""
    data = rounded_patches(128, lambda tokens, rng: rng.normal(size=(len(tokens), 32)))
    found = fixed_capacity(data, num_heads=4)
    assert (found.at_least, found.at_most) == (128, 128)
    assert found.why_at_least.endswith("; float64 sees 77")
    words = "float64 sees tokens in 20 dimensions and differences in 19"
    assert f"But {words}: enough for 77" in str(explain(data, num_heads=4))
    with pytest.raises(PrecisionError, match=words) as caught:
        build_memorizer(data, num_heads=4, construction="generic")
    assert "num_heads=7" in caught.value.suggestion
    assert build_memorizer(data, num_heads=7, construction="generic").max_error(data) < 1e-6
    clear = generators.gaussian(num_examples=20, context_size=4, width=6)
    assert "float64" not in fixed_capacity(clear, 2).why_at_least + str(explain(clear, num_heads=2))


def test_zero_and_equal_queries_are_named():
    def queries(tokens, rng):  # noqa: ARG001
        found = tokens[:, -1].copy()
        found[10:30], found[31:34] = 0.0, found[30]
        return found

    data = rounded_patches(48, queries)
    data = Dataset(data.contexts[:, :, :8], data.queries[:, :8], data.targets)
    words = "20 of them are zero, and all heads attend uniformly there; 3 of them are equal to an"
    with pytest.raises(CapacityError, match=words) as caught:
        build_memorizer(data, num_heads=8)
    assert "token_mixing" in caught.value.suggestion
    assert build_memorizer(token_mixing(data), num_heads=8).max_error(token_mixing(data)) < 1e-9
