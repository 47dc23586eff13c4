"""Own contexts: heads in pairs, and a small system for each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive import (
    AssumptionError,
    CapacityError,
    Dataset,
    ParameterError,
    PrecisionError,
    build_memorizer,
    generators,
    paired_capacity,
)


@given(
    st.integers(2, 9),
    st.integers(2, 5),
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 99),
    st.data(),
)
def test_generic_data_up_to_the_capacity_are_memorized(heads, size, extra, wide, seed, data):
    width = size + 1 + extra
    bound = paired_capacity(heads, width)
    count = data.draw(st.sampled_from([bound, data.draw(st.integers(1, bound))]))
    dataset = generators.gaussian(num_examples=count, context_size=size, width=width, seed=seed)
    try:
        memorizer = build_memorizer(
            dataset,
            num_heads=heads,
            head_dim=width + 1 if wide else None,
            construction="paired",
            tolerance=1e-4,
            seed=seed,
        )
    except PrecisionError:
        assert count > (heads // 2) * (width - 2)  # only where no angle is left to choose
        return
    assert memorizer.max_error(dataset) < 1e-3
    assert sorted(memorizer.record.order) == list(range(count))


@pytest.mark.parametrize("head_dim", [1, 5, 17])
@pytest.mark.parametrize("make", [generators.uniform, generators.gaussian])
def test_the_bound_of_the_theorems_is_reached(make, head_dim):
    data = make(num_examples=20 * 7 + 1, context_size=8, width=16, target_dim=2, seed=1)
    memorizer = build_memorizer(data, num_heads=20, head_dim=head_dim, construction="paired")
    assert memorizer.record.max_error < 1e-8
    assert memorizer.max_error(data) < 1e-8
    assert memorizer.record.heads[-1].stop == data.num_examples - 1  # one example is the extra one


def test_the_two_heads_of_a_pair_cancel_on_other_examples():
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    record, layer = memorizer.record, memorizer.layer
    order = np.array(record.order)
    z = layer.intermediate(data.contexts, data.queries).reshape(61, 6, 2, 12)[order]
    unlike = np.abs(z[:, :, 0] - z[:, :, 1]).max(axis=2) > 1e-12
    for pair in range(6):
        own = slice(record.heads[2 * pair].start, record.heads[2 * pair + 1].stop)
        assert unlike[own, pair].all()
        unlike[own, pair] = False
        assert not unlike[own.stop :, pair].any()  # heads saturate on all later examples
    assert 0 < unlike.sum() <= record.coupled
    values = layer.effective_readout.reshape(6, 2, 12)
    assert (values[1:, 0] == -values[1:, 1]).all()
    assert (values[0, 0] != -values[0, 1]).any()  # the correction for the extra example


def test_an_odd_head_stays_idle():
    data = generators.gaussian(num_examples=40, context_size=4, width=12, seed=4)
    memorizer = build_memorizer(data, num_heads=9, construction="paired")
    assert not memorizer.layer.query_weights[8].any()
    assert memorizer.record.heads[8].start == memorizer.record.heads[8].stop
    assert memorizer.max_error(data) < 1e-8


def test_float32_data_are_memorized_in_float64_weights():
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    single = Dataset(
        data.contexts.astype(np.float32), data.queries.astype(np.float32), data.targets
    )
    memorizer = build_memorizer(single, num_heads=12, construction="paired")
    assert memorizer.layer.query_weights.dtype == np.float64
    assert memorizer.max_error(single) < 1e-8


def test_what_does_not_apply_says_what_to_use():
    shared = generators.shared_context(num_examples=7, context_size=3, width=5)
    with pytest.raises(ParameterError, match="needs own contexts") as caught:
        build_memorizer(shared, num_heads=3, construction="paired")
    assert "construction='saturated'" in str(caught.value)
    with pytest.raises(ParameterError, match="n >= 2"):
        build_memorizer(
            Dataset([[[1.0, 0.0]]], [[2.0, 1.0]], [3.0]), num_heads=4, construction="paired"
        )
    narrow = generators.uniform(num_examples=8, context_size=4, width=4)  # 2(n - 1) > d - 1
    with pytest.raises(CapacityError, match=r"at most d - 1 = 3") as caught:
        build_memorizer(narrow, num_heads=4, construction="paired")
    assert "num_heads=6" in str(caught.value)
    assert "construction='saturated', which memorizes 13" in str(caught.value)
    build_memorizer(narrow, num_heads=6, construction="paired")
    with pytest.raises(CapacityError, match="none: one head is not a pair"):
        build_memorizer(narrow, num_heads=1, construction="paired")


def test_dependent_queries_in_a_pair_are_named():
    data = generators.gaussian(num_examples=12, context_size=3, width=6, seed=1)
    queries = data.queries.copy()
    queries[3:] = queries[:3].T[:, :1].T * np.arange(1, 10)[:, np.newaxis]  # multiples of one
    with pytest.raises(AssumptionError, match="one pair of heads, have rank") as caught:
        build_memorizer(
            Dataset(data.contexts, queries, data.targets), num_heads=6, construction="paired"
        )
    assert "construction='saturated'" in str(caught.value)


def test_contexts_which_coincide_are_refused():
    data = generators.gaussian(num_examples=21, context_size=3, width=12, seed=1)
    same = Dataset(np.repeat(data.contexts[:1], 21, axis=0), data.queries, data.targets)
    with pytest.raises(PrecisionError, match=r"singular|cannot carry"):
        build_memorizer(same, num_heads=4, construction="paired")


@pytest.mark.parametrize("head_dim", [1, 8])
@pytest.mark.parametrize("power", [-150, -300, -308])
def test_a_context_whose_products_underflow_is_told_by_an_error_of_ours(head_dim, power):
    """A Gram matrix of zeros says nothing of its rank, and is not to be solved with."""
    data = generators.gaussian(num_examples=17, context_size=3, width=8, seed=0)
    contexts = data.contexts.copy()
    contexts[5] *= 10.0**power
    spoilt = Dataset(contexts, data.queries, data.targets)
    refused = pytest.raises(PrecisionError, match="too far apart for float64")
    with refused, np.errstate(all="ignore"):  # numpy warns of the overflow on the way
        build_memorizer(spoilt, num_heads=8, head_dim=head_dim, construction="paired")
