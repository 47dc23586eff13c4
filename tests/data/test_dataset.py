"""What a data set accepts, refuses, and keeps in a file."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from constructive import (
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    build_memorizer,
    generators,
)
from constructive.strategies import datasets


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
