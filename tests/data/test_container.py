"""A data set is a sequence of examples, with equality by content."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.utils.data import DataLoader

from constructive import DataError, Dataset, RationalDataset, generators
from constructive.strategies import datasets


@pytest.fixture(params=[generators.uniform, generators.shared_context])
def data(request):
    return request.param(num_examples=4, context_size=2, width=3, target_dim=2)


def test_length_and_iteration(data):
    assert len(data) == 4
    examples = list(data)
    assert len(examples) == 4
    for index, (context, query, target) in enumerate(data):
        assert (context == (data.contexts if data.shared_context else data.contexts[index])).all()
        assert (query == data.queries[index]).all()
        assert (target == data.targets[index]).all()
    assert len(RationalDataset(data.contexts, data.queries, data.targets)) == 4


@pytest.mark.parametrize("index", [0, 3, -1, -4, np.int64(2), np.uint8(1)])
def test_one_example(data, index):
    example = data[index]
    assert example.context.shape == (2, 3)
    assert (example.query == data.queries[index]).all()
    assert (example.target == data.targets[index]).all()
    with pytest.raises(ValueError, match="read-only"):
        example.query[0] = 1.0


def test_targets_without_an_axis_are_numbers():
    assert Dataset([[1, 0]], [[1, 2], [3, 4]], [5, 6])[1].target == 6


@pytest.mark.parametrize(
    "index",
    [slice(3), slice(1, None, 2), slice(None, None, -1), [2, 0], np.array([1]), [True] * 4],
)
def test_some_examples(data, index):
    some = data[index]
    assert isinstance(some, Dataset)
    assert (some.queries == data.queries[index]).all()
    assert some.shared_context == data.shared_context


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (4, "no example with index 4"),
        (-5, "no example with index -5"),
        (slice(9, None), "no examples to take"),
        ((1, 2), "examples have one axis, and 2 indices are given"),
        ("targets", "0 axes, not one"),
        (None, "0 axes, not one"),
        (True, "0 axes, not one"),
    ],
)
def test_no_examples(data, index, words):
    with pytest.raises(DataError, match=words):
        data[index]


@given(datasets(max_examples=4))
def test_equality_is_of_content(data):
    for same in (
        data[:],
        copy.deepcopy(data),
        pickle.loads(pickle.dumps(data)),  # noqa: S301 - ours
        Dataset(data.contexts, data.queries, data.targets),
        Dataset(data.contexts, -0.0 + data.queries, data.targets),
    ):
        assert data == same
        assert hash(data) == hash(same)
        assert len({data, same}) == 1


def test_zeros_of_both_signs_are_equal():
    one, other = (Dataset([[1, 0]], [[zero, 1.0]], [zero]) for zero in (0.0, -0.0))
    assert one == other
    assert hash(one) == hash(other)


def test_what_is_not_equal(data):
    changed = data.targets.copy()
    changed[-1, -1] += 1.0
    single = [np.float32(part) for part in (data.contexts, data.queries, data.targets)]
    others = [
        Dataset(data.contexts, data.queries, changed),
        Dataset(data.contexts, data.queries, data.targets, ("a", "b")),
        Dataset(*(part.astype(float) for part in single)),
        Dataset(*single),
        RationalDataset(data.contexts, data.queries, data.targets),
        data[:3],
        data.with_constant(),
        "data",
    ]
    assert not any(data == other for other in others)
    assert others[2] != others[3]  # of one content and two dtypes
    if data.shared_context:
        own = Dataset(np.stack([data.contexts] * 4), data.queries, data.targets)
        assert own != data


def test_loaders_of_pytorch_take_it():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensors of read-only arrays
        batches = list(DataLoader(data, batch_size=3))
    assert [len(batch.query) for batch in batches] == [3, 3, 1]
    assert torch.cat([batch.target for batch in batches]).tolist() == data.targets.tolist()
