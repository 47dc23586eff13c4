"""PyTorch at the border: short dtypes, lists of tensors, and its data sets."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch.utils.data import IterableDataset, Subset, TensorDataset

from constructive import (
    AssumptionError,
    AttentionLayer,
    DataError,
    Dataset,
    ParameterError,
    RationalDataset,
    build_memorizer,
)
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


def test_complex_numbers_and_ragged_tokens_are_refused():
    with pytest.raises(DataError, match="complex"):
        Dataset(torch.ones((2, 3, 4), dtype=torch.complex64), np.ones((2, 4)), [1, 2])
    with pytest.raises(DataError, match="entries"):
        Dataset([torch.ones(3, 4), torch.ones(2, 3)], np.ones((2, 4)), [1, 2])


def tensors():
    rng = torch.Generator().manual_seed(3)
    contexts = torch.randn((6, 3, 5), generator=rng, dtype=torch.float64)
    return contexts, torch.randn((6, 5), generator=rng, dtype=torch.float64), torch.arange(6.0)


def test_data_sets_of_pytorch_are_read():
    given = TensorDataset(*tensors())
    data = Dataset.from_torch(given)
    assert data == Dataset(*tensors())
    assert Dataset.from_torch(Subset(given, [4, 1])) == data[[4, 1]]
    assert Dataset.from_torch(list(given)) == data
    assert Dataset.from_torch(list(data)) == data
    assert build_memorizer(data).max_error(data) < 1e-6


def test_equal_inputs_are_merged_and_the_rest_reproduces_all():
    contexts, queries, targets = (torch.cat([x, x[[2, 0]]]) for x in tensors())
    contexts[6] = contexts[6].flip(0)  # other order, same tokens
    with pytest.warns(UserWarning, match="2 of 8 examples repeat .* 6 are left"):
        data = Dataset.from_torch(TensorDataset(contexts, queries, targets))
    assert data == Dataset(*tensors())
    found = build_memorizer(data).predict(contexts, queries)
    assert np.abs(found - targets.numpy()).max() < 1e-6


def test_equal_inputs_with_different_targets_are_named():
    contexts, queries, targets = (torch.cat([x, x[[2, 0]]]) for x in tensors())
    targets[7] = 9
    given = TensorDataset(contexts, queries, targets)
    with pytest.raises(DataError, match="different targets") as caught:
        Dataset.from_torch(given)
    assert caught.value.witness == (0, 7)
    with pytest.raises(DataError, match="different targets") as of_build:
        build_memorizer(Dataset(*given.tensors)[[1, 0, 7]])
    assert of_build.value.witness == (1, 2)


def test_distinct_keeps_what_differs():
    data = Dataset(*tensors())
    assert data.distinct() is data
    again = data[[3, 1, 3, 0, 1]]
    assert again.distinct() == data[[3, 1, 0]]
    with pytest.raises(AssumptionError, match="same input") as caught:
        build_memorizer(again)
    assert "distinct()" in caught.value.suggestion
    shared = Dataset(data.contexts[0], again.queries, again.targets)
    assert shared.distinct() == Dataset(data.contexts[0], *(x[[3, 1, 0]] for x in arrays_of(data)))
    labels = Dataset.of_classes(again.contexts, again.queries, list("abacb"))
    assert labels.distinct().classes == ("a", "b", "c")


def arrays_of(data):
    return data.queries, data.targets


@pytest.mark.parametrize("targets", [[1, -1, 1], [1.0, 2.0, 1.0]])
def test_what_is_near_is_not_the_same(targets):
    queries = [[1.0, 0.0], [1.0, 5e-324], [1.0, -0.0]]
    merged = Dataset([[1, 0], [1, 1]], queries, targets).distinct()
    assert merged.targets.tolist() == targets[:2]


def test_a_tensor_data_set_in_the_place_of_a_dataset_is_told_the_way():
    given = TensorDataset(*tensors())
    for take in (build_memorizer, build_memorizer(Dataset(*tensors())).max_error):
        for examples in (given, Subset(given, [0])):
            with pytest.raises(ParameterError) as caught:
                take(examples)
            assert caught.value.suggestion == "Dataset.from_torch(dataset)"
    with pytest.raises(ParameterError) as caught:
        build_memorizer(tensors())
    assert "from_torch" not in caught.value.suggestion


class Stream(IterableDataset):
    """Examples without a number."""

    def __iter__(self):
        return iter([tensors()])


def test_what_are_no_triples():
    contexts, queries, targets = tensors()
    for parts in (2, 4):
        some = (contexts, targets, queries, targets)[:parts]
        with pytest.raises(DataError, match="parts") as caught:
            Dataset.from_torch(TensorDataset(*some))
        assert caught.value.witness == parts
    with pytest.raises(DataError, match="from 2 to 3 parts"):
        Dataset.from_torch([(1, 2), (1, 2, 3)])
    with pytest.raises(DataError, match="entries"):
        Dataset.from_torch([(torch.ones(3, 2), [1, 2], 1), (torch.ones(2, 3), [1, 3], 1)])
    for others in (Stream(), 5):
        with pytest.raises(ParameterError, match="index"):
            Dataset.from_torch(others)
