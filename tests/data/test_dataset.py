"""What a data set accepts, refuses, and keeps in a file; it is a sequence of examples."""

import copy
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.utils.data import DataLoader

from constructive import (
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    RationalDataset,
    build_memorizer,
    generators,
)
from constructive.strategies import datasets

# What a data set accepts, refuses, and keeps in a file.


def test_shapes_and_sizes():
    data = Dataset(np.ones((4, 3, 5)), np.ones((4, 5)), np.ones((4, 2)))
    assert (data.num_examples, data.context_size, data.width, data.target_dim) == (4, 3, 5, 2)
    assert not data.shared_context
    assert data.target_matrix.shape == (4, 2)


def test_one_shared_context_is_kept_once():
    data = Dataset(np.ones((3, 5)), np.ones((1000, 5)), np.ones(1000))
    assert data.shared_context
    assert data.contexts.shape == (3, 5)
    assert np.shares_memory(data.take([1, 2]).contexts, data.contexts)
    assert [contexts.shape for _, contexts in data.context_chunks()] == [(1, 3, 5)]
    assert data.target_matrix.shape == (1000, 1)


def test_chunks_cover_all_examples_once():
    data = Dataset(np.arange(60.0).reshape(5, 3, 4), np.ones((5, 4)), np.ones(5))
    rows = [rows for rows, _ in data.context_chunks(chunk_bytes=2 * 3 * 4 * 8)]
    assert rows == [slice(0, 2), slice(2, 4), slice(4, 5)]


@pytest.mark.parametrize(
    "examples",
    [[3, 0, -1], range(3), np.array([1], np.uint8), [False, True, True, False], np.array([2] * 9)],
)
def test_take_is_what_numpy_takes(examples):
    data = generators.uniform(num_examples=4, context_size=2, width=3)
    taken = data.take(examples)
    for name in ("contexts", "queries", "targets"):
        assert (getattr(taken, name) == getattr(data, name)[np.asarray(examples)]).all()


@pytest.mark.parametrize(
    ("examples", "witness", "words"),
    [
        ([], (0,), "no examples to take"),
        ([False] * 4, (4,), "no examples to take: all Booleans are False"),
        ([True] * 3, (3,), "3 Booleans are not one for each of 4 examples"),
        ([0, 4, 9], 4, "no example with index 4"),
        ([0, -5], -5, "no example with index -5"),
        ([2**63], 2**63, "no example with index 9223372036854775808"),
        ([2**70], "object", "dtype object"),
        ([0.0, 1.0], "float64", "dtype float64"),
        (["0"], "<U1", "dtype <U1"),
        (1, (), "0 axes, not one"),
        (None, (), "0 axes, not one"),
        ([[0, 1]], (1, 2), "2 axes, not one"),
        ([[0], [1, 2]], None, "as an array"),
    ],
)
@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_examples_which_cannot_be_taken(make, examples, witness, words):
    data = make(num_examples=4, context_size=2, width=3)
    with pytest.raises(DataError) as caught:
        data.take(examples)
    assert words in caught.value.problem
    assert caught.value.witness == witness
    assert "indices from 0 to 3, or 4 Booleans" in caught.value.suggestion


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_stay_as_they_are(dtype):
    data = Dataset(np.eye(2, dtype=dtype), np.eye(2, dtype=dtype), np.ones(2, dtype=dtype))
    assert {data.contexts.dtype, data.queries.dtype, data.targets.dtype} == {np.dtype(dtype)}


def test_integers_become_float64_exactly():
    data = Dataset([[2**53, 1]], [[-(2**53), 0]], [True])
    assert data.contexts.dtype == np.float64
    assert data.contexts[0, 0] == 2.0**53


@pytest.mark.parametrize(
    ("contexts", "queries", "targets", "text"),
    [
        ((2, 3, 4), (2, 5), (2,), "tokens have d=4 entries, but queries have d=5"),
        ((2, 3, 4), (3, 4), (3,), "3 queries have 2 contexts"),
        ((2, 3, 4), (2, 4), (3,), "2 queries have 3 targets"),
        ((2, 3, 4), (2,), (2,), "queries have 1 axes"),
        ((4,), (2, 4), (2,), "contexts have 1 axes"),
        ((3, 4), (2, 4), (2, 1, 1), "targets have 3 axes"),
        ((0, 3, 4), (0, 4), (0,), "the data set is empty"),
        ((3, 0, 4), (3, 4), (3,), "the data set is empty"),
    ],
)
def test_shapes_which_do_not_fit(contexts, queries, targets, text):
    with pytest.raises(DataError) as caught:
        Dataset(np.ones(contexts), np.ones(queries), np.ones(targets))
    assert text in caught.value.problem
    assert caught.value.witness == {"contexts": contexts, "queries": queries, "targets": targets}
    assert "(T, n, d)" in caught.value.suggestion


def test_a_table_with_a_row_for_each_example_is_told_its_shape():
    table = np.arange(40.0).reshape(2, 20)
    with pytest.raises(DataError, match=r"try: contexts\.reshape\(2, 5, 4\), if a row is"):
        Dataset(table, np.ones((2, 4)), np.ones(2))
    assert Dataset(table.reshape(2, 5, 4), np.ones((2, 4)), np.ones(2)).context_size == 5
    for rows, width in ((3, 20), (2, 19)):  # none with a row for each, or not of whole tokens
        with pytest.raises(DataError) as caught:
            Dataset(np.ones((rows, width)), np.ones((2, 4)), np.ones(2))
        assert "reshape" not in caught.value.suggestion


def test_labels_are_suggested_for_targets_alone():
    numbers = np.ones((2, 3, 4)), np.ones((2, 4)), np.ones(2)
    for place, name in enumerate(("contexts", "queries", "targets")):
        arrays = [*numbers]
        arrays[place] = numbers[place].astype(object)
        with pytest.raises(DataError, match=f"{name} has dtype object") as caught:
            Dataset(*arrays)
        assert "array.astype(float) if all are numbers" in caught.value.suggestion
        assert ("of_classes" in caught.value.suggestion) is (name == "targets")
        arrays[place] = None
        with pytest.raises(DataError, match=f"{name} are None\n"):
            Dataset(*arrays)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_which_are_not_finite(value):
    contexts = np.ones((2, 3, 4))
    contexts[1, 2, 0] = value
    with pytest.raises(DataError) as caught:
        Dataset(contexts, np.ones((2, 4)), np.ones(2))
    assert str(caught.value) == (
        f"contexts[1, 2, 0] is {value}\n  witness: (1, 2, 0)\n  try: finite numbers only"
    )


@pytest.mark.parametrize(
    ("queries", "text"),
    [
        ([["a", "b"]], "dtype <U1"),
        ([[1j, 2]], "dtype complex128"),
        ([[1, 2], [3]], "as an array"),
        ([[2**53 + 1, 0]], "beyond 2^53"),
        ([[-(2**63), 0]], "beyond 2^53"),
        ([[2**70, 0]], "dtype object"),
    ],
)
def test_things_which_are_not_real_numbers(queries, text):
    with pytest.raises(DataError) as caught:
        Dataset(np.eye(2), queries, [1] * len(queries))
    assert text in str(caught.value)


def test_masked_entries_are_refused():
    queries = np.ma.array(np.eye(2), mask=[[0, 0], [1, 0]])
    with pytest.raises(DataError) as caught:
        Dataset(np.eye(2), queries, [1, 2])
    assert caught.value.witness == (1, 0)
    assert Dataset(np.eye(2), np.ma.array(np.eye(2)), [1, 2]).queries.shape == (2, 2)


def test_any_memory_layout_and_byte_order_will_do():
    data = generators.gaussian(num_examples=7, context_size=3, width=5)
    expected = build_memorizer(data, num_heads=3)
    for change in (
        np.asfortranarray,
        lambda array: array.astype(">f8"),
        lambda array: np.repeat(array, 2, axis=0)[::2],
    ):
        again = Dataset(change(data.contexts), change(data.queries), change(data.targets))
        memorizer = build_memorizer(again, num_heads=3)
        assert memorizer.max_error(data) < 1e-12
        np.testing.assert_allclose(
            memorizer.layer.effective_readout, expected.layer.effective_readout, rtol=1e-6
        )


@given(datasets())
def test_files_keep_every_bit(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        again = Dataset.load(path)
        assert [p.name for p in path.parent.iterdir()] == ["data.npz"]
    assert again.fingerprint() == data.fingerprint()


def damaged(path, kind):
    if kind == "text":
        path.write_text("not an archive")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "single array":
        with path.open("wb") as file:
            np.save(file, np.ones(3))
    elif kind == "pickle":
        np.savez(path, contexts=np.array([{}], dtype=object), queries=1, targets=1)
    elif kind == "missing":
        np.savez(path, contexts=np.eye(2), queries=np.eye(2))
    else:
        Dataset(np.eye(2), np.eye(2), [1, 2]).save(path)
        content = path.read_bytes()
        path.write_bytes(
            content[:-30] if kind == "truncated" else content.replace(b"NUMPY", b"NUMPI")
        )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("text", "it is text, not an .npz archive"),
        ("empty", "it is not an .npz archive"),
        ("single array", "it holds a single array"),
        ("pickle", "contexts holds objects"),
        ("missing", "no array named targets"),
        ("truncated", "not a zip file"),
        ("altered", "is not a data set"),
    ],
)
def test_files_which_are_not_data_sets(tmp_path, kind, words):
    """And nobody is advised to load them all the same."""
    path = tmp_path / "data.npz"
    damaged(path, kind)
    with pytest.raises(FormatError, match=words) as caught:
        Dataset.load(path)
    assert "numpy.savez" in caught.value.suggestion
    assert "pickle" not in str(caught.value)


def test_what_a_short_archive_unpacks_to_has_to_fit_into_memory(tmp_path, monkeypatch):
    path, zeros = tmp_path / "data.npz", np.zeros((100_000, 10, 10))
    np.savez_compressed(path, contexts=zeros, queries=np.eye(2), targets=[1, 2], others=zeros)
    assert path.stat().st_size < 200_000
    for memory, words in ((1e8, "queries"), (7e7, "do not fit into memory")):
        monkeypatch.setattr("constructive.data.stored.physical_memory", lambda most=memory: most)
        with pytest.raises((DataError, FormatError), match=words):
            Dataset.load(path)


def test_a_data_set_is_no_memorizer_and_says_so(tmp_path):
    Dataset(np.eye(2), np.eye(2), [1, 2]).save(tmp_path / "data.npz")
    with pytest.raises(FormatError, match="it is a zip archive, as data sets are"):
        Memorizer.load(tmp_path / "data.npz")


def test_every_flipped_byte_is_data_or_an_error(tmp_path):
    path = tmp_path / "data.npz"
    Dataset(np.eye(2), np.eye(2), [1, 2]).save(path)
    content = path.read_bytes()
    for position in range(0, len(content), 3):
        broken = bytearray(content)
        broken[position] ^= 0x55
        path.write_bytes(broken)
        try:
            loaded = Dataset.load(path)
        except (FormatError, DataError):
            continue
        assert isinstance(loaded, Dataset)


# A data set is a sequence of examples, with equality by content.


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
