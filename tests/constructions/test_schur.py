"""One shared context: elimination within heads, and a Schur complement of size about 2H."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    generators,
)
from constructive.strategies import memorizable


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 3), st.integers(0, 99), st.data())
def test_generic_data_at_and_below_the_bound_are_memorized(heads, size, extra, seed, data):
    bound = heads * (size - 1) + 1
    count = data.draw(st.sampled_from([bound, data.draw(st.integers(1, bound))]))
    dataset = generators.shared_context(
        num_examples=count, context_size=size, width=size + 1 + extra, seed=seed
    )
    memorizer = build_memorizer(dataset, num_heads=heads, construction="schur", seed=seed)
    assert memorizer.max_error(dataset) < 1e-6
    assert memorizer.record.max_error == pytest.approx(memorizer.max_error(dataset), abs=1e-7)


@given(memorizable(min_context_size=2, constructions=st.just("saturated"), at_bound=False))
def test_what_is_built_for_hostile_data_is_right_or_refused(problem):
    assume(problem.dataset.shared_context)
    try:
        memorizer = build_memorizer(
            problem.dataset, num_heads=problem.num_heads, construction="schur"
        )
    except PrecisionError:
        return
    scale = max(np.abs(problem.dataset.targets).max(), 1e-300)
    assert memorizer.max_error(problem.dataset) <= 1e-5 * scale


def test_large_shared_contexts_are_memorized_and_proved():
    data = generators.shared_context(num_examples=20 * 7 + 1, context_size=8, width=16, seed=3)
    memorizer = build_memorizer(data, num_heads=20, construction="schur")
    assert memorizer.max_error(data) < 1e-10
    assert certify(memorizer, data, claims=["rank", "error"]).verdict.name == "PROVED"


def test_every_head_saturates_off_its_group():
    data = generators.shared_context(num_examples=20 * 7 + 1, context_size=8, width=16, seed=3)
    memorizer = build_memorizer(data, num_heads=20, construction="schur")
    attention = memorizer.layer.attention(data.contexts, data.queries)
    for index, head in enumerate(memorizer.record.heads):
        off = np.ones(data.num_examples, dtype=bool)
        off[head.start : head.stop] = False
        assert (attention[off, index].max(axis=1) > 1 - 1e-12).mean() == pytest.approx(
            head.saturated_fraction, abs=1e-9
        )


def test_a_head_without_a_dimension_to_spare_is_solved_for():
    data = generators.shared_context(num_examples=10 * 5 + 1, context_size=6, width=9, seed=2)
    memorizer = build_memorizer(data, num_heads=10, head_dim=6, construction="schur")
    first, *others = memorizer.record.heads
    assert first.sharpness == 0.0 < min(head.sharpness for head in others)
    assert memorizer.record.coupled >= data.num_examples - first.stop
    assert memorizer.max_error(data) < 1e-8


def test_several_outputs_are_memorized():
    data = generators.shared_context(num_examples=31, context_size=4, width=8, target_dim=3)
    memorizer = build_memorizer(data, num_heads=10, construction="schur", value_dim=5)
    assert memorizer.max_error(data) < 1e-8
    assert memorizer.predict(data.contexts, data.queries).shape == (31, 3)


def test_what_does_not_apply_says_what_to_use():
    own = generators.uniform(num_examples=7, context_size=3, width=5)
    with pytest.raises(ParameterError, match="needs one shared context") as caught:
        build_memorizer(own, num_heads=3, construction="schur")
    assert "construction='paired'" in str(caught.value)
    single = Dataset([[1.0, 0.0]], [[2.0, 1.0]], [3.0])
    with pytest.raises(ParameterError, match="n >= 2"):
        build_memorizer(single, num_heads=3, construction="schur")
    many = generators.shared_context(num_examples=8, context_size=3, width=5)
    with pytest.raises(CapacityError, match="num_heads=4"):
        build_memorizer(many, num_heads=3, construction="schur")
