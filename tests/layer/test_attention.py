"""The layer against its definition, written out example by example."""

import numpy as np
import pytest
from definition import attended, output
from hypothesis import given
from hypothesis import strategies as st

from constructive import AttentionLayer, DataError, ParameterError


def random_layer(rng, heads=3, width=5, head_dim=2, value_dim=4, target_dim=2):
    draw = rng.standard_normal
    return AttentionLayer(
        draw((heads, width, head_dim)),
        draw((heads, width, head_dim)),
        draw((heads, width, value_dim)),
        draw((heads * value_dim, value_dim)),
        draw((value_dim, target_dim)),
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans(), st.sampled_from([1, 4 << 20]))
def test_forward_pass_is_the_definition(seed, examples, shared, chunk_bytes):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng)
    contexts = rng.standard_normal((4, 5) if shared else (examples, 4, 5))
    queries = rng.standard_normal((examples, 5))
    outputs = layer(contexts, queries, chunk_bytes=chunk_bytes)
    attention = layer.attention(contexts, queries, chunk_bytes=chunk_bytes)
    representation = layer.intermediate(contexts, queries, chunk_bytes=chunk_bytes)
    for index, query in enumerate(queries):
        context = contexts if shared else contexts[index]
        alpha, z = attended(layer, context, query)
        wanted = output(layer, context, query)
        np.testing.assert_allclose(outputs[index], wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(attention[index], alpha, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(representation[index], z.ravel(), rtol=1e-9, atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.integers(3, 7), st.integers(3, 4))
def test_values_may_be_narrower_than_targets(seed, value_dim, between, target_dim):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    layer = AttentionLayer(
        *draw((2, 3, 5, 2)),
        draw((3, 5, value_dim)),
        draw((3 * value_dim, between)),
        draw((between, target_dim)),
    )
    contexts, queries = draw((4, 6, 5)), draw((4, 5))
    wanted = [
        output(layer, context, query) for context, query in zip(contexts, queries, strict=True)
    ]
    np.testing.assert_allclose(layer(contexts, queries), wanted, rtol=1e-9, atol=1e-9)
    heads = layer.effective_readout.reshape(3, 5, target_dim)
    assert (np.linalg.matrix_rank(heads) <= value_dim).all()


def test_float32_weights_compute_in_float32():
    rng = np.random.default_rng(0)
    layer = random_layer(rng)
    contexts, queries = rng.standard_normal((6, 4, 5)), rng.standard_normal((6, 5))
    single = layer.astype(np.float32)
    outputs = single(contexts, queries)
    assert outputs.dtype == single.intermediate(contexts, queries).dtype == np.float32
    np.testing.assert_allclose(outputs, layer(contexts, queries), rtol=1e-3, atol=1e-4)


def test_huge_logits_do_not_overflow():
    ones = np.ones((1, 2, 1))
    layer = AttentionLayer.from_effective_readout(1e150 * ones, 1e150 * ones, np.ones((2, 1)))
    assert layer([[[1.0, 0.0], [0.0, 2.0]]], [[1.0, 1.0]]).tolist() == [[2.0]]


def test_effective_readout_is_copied_through_wider_values():
    rng = np.random.default_rng(0)
    readout = rng.standard_normal((3 * 5, 2))
    weights = rng.standard_normal((2, 3, 5, 2))
    layer = AttentionLayer.from_effective_readout(*weights, readout, value_dim=4)
    assert (layer.effective_readout == readout).all()
    assert layer.num_parameters == 3 * (2 * 5 * 2 + 5 * 4 + 16) + 4 * 2


def test_values_narrower_than_targets_are_refused():
    zeros = np.zeros((1, 2, 1))
    with pytest.raises(ParameterError, match="value_dim=1 is less than the d_out=2"):
        AttentionLayer.from_effective_readout(zeros, zeros, np.zeros((2, 2)), value_dim=1)


@pytest.mark.parametrize(
    ("contexts", "queries"),
    [((2, 3, 4), (2, 5)), ((3, 3, 5), (2, 5)), ((3, 4), (2, 5)), ((2, 3, 5), (5,)), ((5,), (2, 5))],
)
def test_inputs_which_do_not_fit(contexts, queries):
    layer = random_layer(np.random.default_rng(0))
    with pytest.raises(DataError, match="do not fit the layer"):
        layer(np.zeros(contexts), np.zeros(queries))


def nan_at(array, place):
    changed = array.copy()
    changed[place] = np.nan
    return changed


@pytest.mark.parametrize(
    ("position", "change", "words"),
    [
        *((place, lambda w: w[:-1], "shapes of the weights do not fit") for place in range(5)),
        (2, lambda w: nan_at(w, (1, 2, 3)), r"W_V\[1, 2, 3\] is nan"),
        (0, lambda w: w.astype(np.float32), "dtypes"),
    ],
)
def test_weights_which_do_not_fit(position, change, words):
    arrays = list(vars(random_layer(np.random.default_rng(0))).values())
    arrays[position] = change(arrays[position])
    with pytest.raises(ParameterError, match=words):
        AttentionLayer(*arrays)
