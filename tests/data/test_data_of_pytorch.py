"""What a dataset takes of PyTorch: short dtypes, lists of tensors, its datasets, and labels."""

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    ParameterError,
    RationalDataset,
    build_memorizer,
    generators,
)
from constructive.support.arrays import as_array


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_number_of_a_short_dtype_is_exact_in_float32(dtype):
    kind = torch.uint16 if dtype == torch.bfloat16 else torch.uint8
    numbers = torch.arange(2 ** (8 * dtype.itemsize), dtype=torch.int32).to(kind).view(dtype)
    found = as_array(numbers)
    assert found.dtype == np.float32
    finite = np.isfinite(found)
    assert finite.sum() > 200
    assert np.array_equal(found[finite], numbers.double().numpy()[finite])


@pytest.mark.parametrize("grad", [False, True])
def test_bfloat16_is_taken_everywhere(grad):
    tensor = torch.linspace(-8, 8, 24).reshape(2, 3, 4).bfloat16().requires_grad_(grad)
    exact = tensor.detach().float().numpy()
    data = Dataset(tensor, tensor[:, 0], tensor[:, 0, 1])
    assert data.contexts.dtype == data.queries.dtype == data.targets.dtype == np.float32
    assert np.array_equal(data.contexts, exact)
    assert data == Dataset(list(tensor), list(tensor[:, 0]), list(tensor[:, 0, 1]))
    rational = RationalDataset(tensor, tensor[:, 0], tensor[:, 0, 1])
    assert np.array_equal(rational.contexts.astype(float), exact)
    assert len(rational) == 2
    layer = AttentionLayer(*[tensor[:, :, :1]] * 3, tensor[:, 0, :1], tensor[:1, 0, :1])
    assert layer.query_weights.dtype == np.float32
    outputs = layer(tensor[:, :, :3], tensor[:, 0, :3])
    assert np.array_equal(outputs, layer(exact[:, :, :3], exact[:, 0, :3]))


def tensors(*again):
    """Six examples, and some of these again."""
    rng = torch.Generator().manual_seed(3)
    contexts = torch.randn((6, 3, 5), generator=rng, dtype=torch.float64)
    queries = torch.randn((6, 5), generator=rng, dtype=torch.float64)
    return tuple(x[[*range(6), *again]] for x in (contexts, queries, torch.arange(6.0)))


def test_data_sets_of_pytorch_are_read():
    given = TensorDataset(*tensors())
    data = Dataset.from_torch(given)
    assert data == Dataset(*tensors())
    assert Dataset.from_torch(Subset(given, [4, 1])) == data[[4, 1]]
    assert Dataset.from_torch(list(given)) == data
    assert Dataset.from_torch(list(data)) == data
    assert build_memorizer(data).max_error(data) < 1e-6


def test_loaders_of_pytorch_take_a_data_set():
    data = Dataset(*tensors(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensors of read-only arrays
        batches = list(DataLoader(data, batch_size=3))
    assert [len(batch.query) for batch in batches] == [3, 3, 1]
    assert torch.cat([batch.target for batch in batches]).tolist() == data.targets.tolist()


def test_equal_inputs_are_merged_and_the_rest_reproduces_all():
    contexts, queries, targets = tensors(2, 0)
    contexts[6] = contexts[6].flip(0)  # other order, same tokens
    with pytest.warns(UserWarning, match="2 of 8 examples repeat .* 6 are left"):
        data = Dataset.from_torch(TensorDataset(contexts, queries, targets))
    assert data == Dataset(*tensors())
    found = build_memorizer(data).predict(contexts, queries)
    assert np.abs(found - targets.numpy()).max() < 1e-6


def test_equal_inputs_with_different_targets_are_named():
    given = TensorDataset(*tensors(2, 0))
    given.tensors[2][7] = 9
    with pytest.raises(DataError, match="different targets") as caught:
        Dataset.from_torch(given)
    assert caught.value.witness == (0, 7)
    with pytest.raises(DataError, match="different targets") as of_build:
        build_memorizer(Dataset(*given.tensors)[[1, 0, 7]])
    assert of_build.value.witness == (1, 2)


class Stream(IterableDataset):
    """Examples without a number."""

    def __iter__(self):
        return iter([tensors()])


def test_what_is_not_read_of_pytorch():
    contexts, queries, targets = tensors()
    for parts in (2, 4):
        some = (contexts, targets, queries, targets)[:parts]
        with pytest.raises(DataError, match="parts") as caught:
            Dataset.from_torch(TensorDataset(*some))
        assert caught.value.witness == [parts]
    for examples, words in (
        ([(1, 2), (1, 2, 3)], "examples have 2 or 3 parts"),
        ([], "examples have no parts"),
        ([(torch.ones(3, 2), [1, 2], 1), (torch.ones(2, 3), [1, 3], 1)], "entries"),
    ):
        with pytest.raises(DataError, match=words):
            Dataset.from_torch(examples)
    for others in (Stream(), 5):
        with pytest.raises(ParameterError, match="index"):
            Dataset.from_torch(others)


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


def test_targets_of_torch_may_be_labels():
    drawn = generators.uniform(num_examples=4, context_size=3, width=5)
    inputs, numbers, names = (
        (drawn.contexts, drawn.queries),
        [3, 1, 9, 3],
        ["ox", "cat", "dog", "ox"],
    )
    examples = TensorDataset(*map(torch.tensor, inputs), torch.tensor(numbers))
    labelled = Dataset.from_torch(examples, labels=True)
    assert labelled == Dataset.of_classes(*inputs, numbers)
    assert labelled.classes == (1, 3, 9)
    assert Dataset.from_torch(examples).classes == ()
    named = list(zip(*examples.tensors[:2], names, strict=True))
    labelled = Dataset.from_torch(named, labels=True)
    assert build_memorizer(labelled).predict_labels(*inputs).tolist() == names


def test_a_tensor_is_not_a_shared_context_of_pytorch():
    columns = TensorDataset(torch.zeros(3, 5), torch.zeros(3, 5), torch.zeros(3))
    for examples in (torch.zeros(7, 3, 5), columns):
        with pytest.raises(DataError, match=r"has 1 axes, not \(n, d\)"):
            Dataset.from_torch(examples)
