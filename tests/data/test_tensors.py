"""PyTorch at the border: short dtypes, lists of tensors, and its data sets."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from constructive import AttentionLayer, DataError, Dataset, RationalDataset, build_memorizer
from constructive.support.arrays import as_array

SHORT = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", SHORT)
def test_every_number_of_a_short_dtype_is_exact_in_float32(dtype):
    kind = torch.uint16 if dtype == torch.bfloat16 else torch.uint8
    numbers = torch.arange(2 ** (8 * dtype.itemsize), dtype=torch.int32).to(kind).view(dtype)
    found = as_array(numbers)
    assert found.dtype == np.float32
    finite = np.isfinite(found)
    assert finite.sum() > 200
    assert np.array_equal(found[finite], numbers.double().numpy()[finite])


@given(arrays.arrays(np.float32, (2, 3, 4), elements=st.floats(-8, 8, width=16)), st.booleans())
def test_bfloat16_is_taken_everywhere(values, grad):
    tensor = torch.tensor(values).bfloat16().requires_grad_(grad)
    exact = tensor.detach().float().numpy()
    data = Dataset(tensor, tensor[:, 0], tensor[:, 0, 1])
    assert data.contexts.dtype == data.queries.dtype == data.targets.dtype == np.float32
    assert np.array_equal(data.contexts, exact)
    assert data == Dataset(list(tensor), list(tensor[:, 0]), list(tensor[:, 0, 1]))
    rational = RationalDataset(tensor, tensor[:, 0], tensor[:, 0, 1])
    assert np.array_equal(rational.contexts.astype(float), exact)
    layer = AttentionLayer(*[tensor[:, :, :1]] * 3, tensor[:, 0, :1], tensor[:1, 0, :1])
    assert layer.query_weights.dtype == np.float32
    outputs = layer(tensor.repeat(1, 1, 1)[:, :, :3], tensor[:, 0, :3])
    assert np.array_equal(outputs, layer(exact[:, :, :3], exact[:, 0, :3]))


def test_bfloat16_of_other_libraries():
    """JAX has the one of ml_dtypes."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(24.0).reshape(2, 3, 4) / 8
    data = Dataset(values.astype(ml_dtypes.bfloat16), values[:, 0], [1, 2])
    assert data.contexts.dtype == np.float32
    assert np.array_equal(data.contexts, values)


def test_it_is_memorized_and_predicted():
    rng = torch.Generator().manual_seed(1)
    contexts = torch.randn((5, 3, 6), generator=rng).bfloat16()
    data = Dataset(contexts, contexts[:, -1], torch.arange(5).bfloat16())
    memorizer = build_memorizer(data)
    found = memorizer.predict(contexts, contexts[:, -1])
    assert np.abs(found - np.arange(5)).max() < 1e-6


def test_a_number_that_is_none_is_found_after_the_conversion():
    contexts = torch.ones((2, 3, 4)).bfloat16()
    contexts[1, 2, 0] = torch.inf
    with pytest.raises(DataError) as caught:
        Dataset(contexts, contexts[:, 0], [1, 2])
    assert caught.value.witness == (1, 2, 0)


def test_complex_numbers_are_refused_and_ragged_lists_are_ragged():
    with pytest.raises(DataError, match="complex"):
        Dataset(torch.ones((2, 3, 4), dtype=torch.complex64), np.ones((2, 4)), [1, 2])
    with pytest.raises(DataError, match="ragged"):
        Dataset([torch.ones(3, 4), torch.ones(2, 4)], np.ones((2, 4)), [1, 2])
