"""Layers in float64 with bounds, against balls of many bits."""

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import Dataset, build_memorizer, generators
from constructive.certificates.claims.error import evaluate, evaluate_in_floats
from constructive.exact.directed import working_precision
from constructive.layers.attention import AttentionLayer
from constructive.layers.extended import enclose, intermediate

BITS = 400


def random_layer(rng, *, heads, width, inner, outputs, sharpness):
    w_q, w_k = sharpness * rng.standard_normal((2, heads, width, inner))
    readout = rng.standard_normal((heads * width, outputs))
    return AttentionLayer.from_effective_readout(w_q, w_k, readout)


def random_data(rng, *, total, size, width, outputs, shared, scale):
    contexts = scale * rng.standard_normal((size, width) if shared else (total, size, width))
    queries = rng.standard_normal((total, width))
    return Dataset(contexts, queries, rng.standard_normal((total, outputs)))


def require_enclosed(layer, data):
    """What float64 encloses holds the truth, residuals and representation alike."""
    found = evaluate_in_floats(layer, data, representation=True)
    exact = enclose(layer, BITS)
    truth = evaluate(exact, data, representation=False)
    with working_precision(BITS):
        for ours, true in zip(found.residuals.entries(), truth.residuals.entries(), strict=True):
            assert ours.overlaps(true)  # which is narrow, but not a point
        scale = np.ldexp(1.0, -found.exponents)
        z = intermediate(exact, data).tolist()
        for row, true, power in zip(found.midpoints, z, scale, strict=True):
            for ours, entry in zip(row, true, strict=True):
                assert not abs(arb(ours) - entry * arb(power)) > found.radius
    return found


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.01, 1.0, 30.0, 1e4]),
    st.sampled_from([1e-200, 1e-8, 1.0, 1e6]),
    st.booleans(),
    st.integers(1, 5),
)
def test_it_holds_the_truth(seed, sharpness, scale, shared, size):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, heads=3, width=3, inner=2, outputs=2, sharpness=sharpness)
    data = random_data(rng, total=4, size=size, width=3, outputs=2, shared=shared, scale=scale)
    require_enclosed(layer, data)


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "generic", "paired"])
def test_bounds_of_what_is_built_are_near_the_truth(construction):
    data = generators.uniform(num_examples=64, context_size=8, width=16, seed=3)
    layer = build_memorizer(data, num_heads=10, construction=construction).layer
    found = require_enclosed(layer, data)
    assert found.radius < 1e-12
    assert found.largest_residual < 1e-9


def test_sharp_heads_need_logits_in_twice_the_precision(monkeypatch):
    data = generators.uniform(num_examples=22, context_size=8, width=16, seed=3)
    layer = build_memorizer(data, num_heads=3).layer
    sharp = evaluate_in_floats(layer, data, representation=True)
    monkeypatch.setattr("constructive.exact.float_enclosure._GOOD_ENOUGH", np.inf)
    plain = evaluate_in_floats(layer, data, representation=True)
    assert sharp.radius < plain.radius / 3


def test_equal_logits_of_a_sharp_head_are_shared():
    context = [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    weights = np.full((1, 2, 1), 1e3)
    layer = AttentionLayer.from_effective_readout(weights, weights, np.array([[1.0], [2.0]]))
    data = Dataset([context], [[1.0, 2.0]], [0.0])
    found = require_enclosed(layer, data)
    assert found.radius < 1e-9


@pytest.mark.parametrize("scale", [1e160, 1e300])
def test_what_overflows_decides_nothing(scale):
    rng = np.random.default_rng(0)
    layer = random_layer(rng, heads=2, width=3, inner=2, outputs=1, sharpness=scale)
    data = random_data(rng, total=3, size=2, width=3, outputs=1, shared=False, scale=1e300)
    found = evaluate_in_floats(layer, data, representation=True)
    assert not found.largest_residual.is_finite()
    assert found.radius == np.inf
