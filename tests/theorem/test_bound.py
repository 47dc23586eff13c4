"""What Theorem 1 and Theorem 2 promise, on data drawn to satisfy their assumptions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    CapacityError,
    Dataset,
    build_memorizer,
    generators,
)
from constructive.strategies import memorizable

PRECISE = 1e-8
"""Relative error on small integer data; measured values are below 1e-11."""


def scale(dataset):
    return max(1.0, np.abs(dataset.targets).max())


@settings(max_examples=100)
@given(memorizable())
def test_everything_at_the_bound_is_memorized(problem):
    """By groups of the sizes in the proof, which do not see the saturating part of their heads."""
    memorizer, data = problem.build(), problem.dataset
    outputs, record = memorizer.predict(data.contexts, data.queries), memorizer.record
    assert outputs.shape == data.targets.shape
    assert np.abs(outputs - data.targets).max() <= PRECISE * scale(data)
    assert record.num_examples == record.capacity
    if data.context_size == 1:
        return
    rank = data.context_size
    if problem.construction == "saturated":
        rank = min(rank, problem.head_dim)
    sizes = [head.stop - head.start for head in record.heads]
    assert sizes == [rank] + [rank - 1] * (len(sizes) - 1)
    assert [head.rank_reached for head in record.heads] == [head.stop for head in record.heads]
    attention = memorizer.layer.attention(data.contexts, data.queries)
    for index, head in enumerate(record.heads):
        assert (attention[head.start : head.stop, index] < 0.999).all()


@given(memorizable(at_bound=False))
def test_everything_below_the_bound_is_memorized(problem):
    assert problem.build().max_error(problem.dataset) <= PRECISE * scale(problem.dataset)


@given(memorizable(constructions=st.just("rank_one")), st.booleans())
def test_one_key_direction_may_serve_all_heads(problem, shared_keys):
    memorizer = build_memorizer(
        problem.dataset,
        num_heads=problem.num_heads,
        construction="rank_one",
        shared_keys=shared_keys,
    )
    assert memorizer.max_error(problem.dataset) <= PRECISE * scale(problem.dataset)
    if shared_keys:
        keys = memorizer.layer.key_weights
        assert (keys == keys[:1]).all()


@given(memorizable())
def test_one_example_more_than_the_bound_is_refused(problem):
    data, count = problem.dataset, problem.dataset.num_examples
    holds = count
    if problem.construction == "rank_one" and not data.shared_context and data.context_size > 1:
        holds = max(holds, problem.num_heads * (data.width - 1) + 1)  # Theorem 10
    # Repeated examples are a fault of their own: the count has to be refused before that is seen.
    more = data.take([*range(count), *[0] * (holds + 1 - count)])
    with pytest.raises(CapacityError) as caught:
        build_memorizer(
            more,
            num_heads=problem.num_heads,
            head_dim=problem.head_dim,
            construction=problem.construction,
        )
    assert caught.value.witness == holds + 1


@settings(max_examples=30)
@given(memorizable(min_context_size=2), st.randoms(use_true_random=False))
def test_permuting_examples_changes_nothing_but_their_order(problem, random):
    order = list(range(problem.dataset.num_examples))
    random.shuffle(order)
    permuted = problem.dataset.take(order)
    memorizer = problem.build()
    outputs = memorizer.predict(problem.dataset.contexts, problem.dataset.queries)
    again = memorizer.predict(permuted.contexts, permuted.queries)
    np.testing.assert_allclose(again, outputs[order], atol=PRECISE * scale(problem.dataset))
    assert problem._replace(dataset=permuted).build().max_error(permuted) <= (
        PRECISE * scale(problem.dataset)
    )


@settings(max_examples=30)
@given(memorizable(), st.integers(-30, 30))
def test_scaling_targets_scales_the_readout(problem, exponent):
    dataset = problem.dataset
    factor = 2.0**exponent
    scaled = Dataset(dataset.contexts, dataset.queries, dataset.targets * factor)
    layer, other = problem.build().layer, problem._replace(dataset=scaled).build().layer
    assert (other.effective_readout == factor * layer.effective_readout).all()
    assert (other.query_weights == layer.query_weights).all()
    assert (other.key_weights == layer.key_weights).all()


@given(memorizable(), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_heads_saturate_on_the_fraction_asked_for(problem, fraction):
    memorizer = build_memorizer(
        problem.dataset,
        num_heads=problem.num_heads,
        head_dim=problem.head_dim,
        construction=problem.construction,
        saturated_fraction=fraction,
    )
    for head in memorizer.record.heads:
        if head.sharpness:
            assert head.saturated_fraction >= fraction


@pytest.mark.parametrize(
    ("tokens", "width", "num_heads", "head_dim", "count"),
    [
        (1, 1, 1, 1, 1),
        (1, 4, 3, 2, 1),
        (2, 2, 1, 1, 2),
        (4, 4, 3, 4, 10),  # n = d
        (3, 5, 2, 9, 5),  # d_h > n
        (3, 5, 2, 1, 5),  # d_h = 1
        (3, 5, 6, 3, 2),  # fewer examples than heads
        (6, 6, 1, 6, 6),  # H = 1
    ],
)
@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_corners(tokens, width, num_heads, head_dim, count, make):
    data = make(num_examples=count, context_size=tokens, width=width, target_dim=2)
    memorizer = build_memorizer(data, num_heads=num_heads, head_dim=head_dim, value_dim=3)
    assert memorizer.layer.value_dim == 3
    assert memorizer.max_error(data) < 1e-9


@pytest.mark.parametrize(
    "make",
    [
        generators.uniform,
        generators.shared_context,
        generators.gaussian,
        generators.bag_of_tokens,
        generators.moment_curve,
    ],
)
@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_every_protocol_is_memorized_at_the_bound(make, construction):
    data = make(num_examples=10 * 7 + 1, context_size=8, width=16, seed=5)
    memorizer = build_memorizer(data, num_heads=10, construction=construction)
    assert memorizer.max_error(data) < 1e-6


@pytest.mark.parametrize("exponent", [-300, -120, -40, 40, 120, 300])
def test_the_scale_of_tokens_and_queries_does_not_matter(exponent):
    data = generators.gaussian(num_examples=19, context_size=4, width=6)
    factor = 2.0**exponent
    for scaled in (
        Dataset(data.contexts * factor, data.queries, data.targets),
        Dataset(data.contexts, data.queries * factor, data.targets),
        Dataset(data.contexts / factor, data.queries * factor, data.targets),
    ):
        for construction in ("saturated", "rank_one"):
            memorizer = build_memorizer(scaled, num_heads=6, construction=construction)
            assert memorizer.max_error(scaled) < 1e-9
