"""What a dataset accepts, refuses, and keeps in a file: arrays, tensors of PyTorch, and labels."""

import copy
import io
import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from pytorch import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from constructive import (
    AssumptionError,
    AttentionLayer,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    RationalDataset,
    build_memorizer,
    certify,
    check,
    generators,
    token_mixing,
)
from constructive.strategies import datasets

# What a dataset accepts and refuses.


def test_one_shared_context_is_kept_once():
    data = Dataset(np.ones((3, 5)), np.ones((1000, 5)), np.ones(1000))
    assert data.shared_context
    assert data.contexts.shape == (3, 5)
    assert np.shares_memory(data.take([1, 2]).contexts, data.contexts)
    assert [contexts.shape for _, contexts in data.context_chunks()] == [(1, 3, 5)]
    assert (data.width, data.target_dim, data.target_matrix.shape) == (5, 1, (1000, 1))


def test_floats_stay_and_other_numbers_are_exact():
    kinds = {"f4": "f4", "f8": "f8", ">f4": "f4", "f2": "f4", "i4": "f8", "?": "f8"}
    for kind, kept in kinds.items():
        eye = np.eye(2, dtype=kind)
        data = Dataset(eye, eye, eye)
        assert {data.contexts.dtype, data.queries.dtype, data.targets.dtype} == {np.dtype(kept)}
        assert (data.contexts == eye).all()
    assert Dataset([[2**53, 1]], [[-(2**53), 0]], [True]).contexts[0, 0] == 2.0**53


@pytest.mark.parametrize(
    ("contexts", "queries", "targets", "text"),
    [
        ((2, 3, 4), (2, 5), (2,), "tokens have d=4 entries, but queries have d=5"),
        ((2, 3, 4), (3, 4), (3,), "3 queries have 2 contexts"),
        ((2, 3, 4), (2, 4), (3,), "2 queries have 3 targets"),
        ((2, 3, 4), (2,), (2,), "queries have 1 axes"),
        ((4,), (2, 4), (2,), "contexts have 1 axes"),
        ((3, 4), (2, 4), (2, 1, 1), "targets have 3 axes"),
        ((0, 3, 4), (0, 4), (0,), "the dataset is empty"),
        ((3, 0, 4), (3, 4), (3,), "the dataset is empty"),
        ((), (2, 4), (2,), "contexts have 0 axes"),
    ],
)
def test_shapes_that_do_not_fit(contexts, queries, targets, text):
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


@pytest.mark.parametrize(
    ("queries", "text", "witness"),
    [
        ([[1, 2], [np.nan, 0]], "queries[1, 0] is nan", (1, 0)),
        ([[1, np.inf]], "queries[0, 1] is inf", (0, 1)),
        ([[1, -np.inf]], "queries[0, 1] is -inf", (0, 1)),
        (np.ma.array(np.eye(2), mask=[[0, 0], [1, 0]]), "queries[1, 0] is masked", (1, 0)),
        ([["a", "b"]], "dtype <U1", "<U1"),
        ([[1j, 2]], "dtype complex128", "complex128"),
        ([[1, 2], [3]], "as an array", None),
        ([[2**53 + 1, 0]], "beyond 2^53", None),
        ([[-(2**63), 0]], "beyond 2^53", None),
        ([[2**70, 0]], "dtype object", "object"),
    ],
)
def test_what_are_not_real_numbers(queries, text, witness):
    with pytest.raises(DataError) as caught:
        Dataset(np.eye(2), queries, [1] * len(queries))
    assert text in caught.value.problem
    assert caught.value.witness == witness
    assert Dataset(np.eye(2), np.ma.array(np.eye(2)), [1, 2]).queries.shape == (2, 2)


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
    with pytest.raises(DataError, match="targets") as caught:
        Dataset(*numbers[:2], ["a", "b"])
    assert "Dataset.of_classes(contexts, queries, labels)" in caught.value.suggestion


# What it keeps in a file.


@settings(max_examples=20)
@given(datasets())
def test_files_keep_every_bit(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        again = Dataset.load(path)
        assert [p.name for p in path.parent.iterdir()] == ["data.npz"]
    assert again.fingerprint() == data.fingerprint()


def packed(*arrays, save=np.savez, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


WHOLE = packed(contexts=np.eye(2), queries=np.eye(2), targets=[1, 2])
DAMAGED = {
    "it is text, not an .npz archive": b"not an archive",
    "it is not an .npz archive": b"",
    "it holds a single array": packed(np.ones(3), save=np.save),
    "contexts holds objects": packed(contexts=np.array([{}], dtype=object), queries=1, targets=1),
    "no array named targets": packed(contexts=np.eye(2), queries=np.eye(2)),
    "not a zip file": WHOLE[:-30],
    "is not a dataset": WHOLE.replace(b"NUMPY", b"NUMPI"),
}


@pytest.mark.parametrize("words", DAMAGED)
def test_files_that_are_not_data_sets(tmp_path, words):
    """And nobody is advised to load them all the same."""
    path = tmp_path / "data.npz"
    path.write_bytes(DAMAGED[words])
    with pytest.raises(FormatError, match=words) as caught:
        Dataset.load(path)
    assert "numpy.savez" in caught.value.suggestion
    assert "pickle" not in str(caught.value)
    path.write_bytes(WHOLE)
    assert Dataset.load(path).num_examples == 2
    with pytest.raises(FormatError, match="it is a zip archive, as datasets are"):
        Memorizer.load(path)


def test_every_flipped_byte_is_data_or_an_error(tmp_path):
    path = tmp_path / "data.npz"
    for position in range(0, len(WHOLE), 7):
        broken = bytearray(WHOLE)
        broken[position] ^= 0x55
        path.write_bytes(broken)
        try:
            loaded = Dataset.load(path)
        except (FormatError, DataError):
            continue
        assert isinstance(loaded, Dataset)


def test_what_a_short_archive_unpacks_to_has_to_fit_into_memory(tmp_path, monkeypatch):
    path, zeros = tmp_path / "data.npz", np.zeros((10_000, 10, 10))
    np.savez_compressed(path, contexts=zeros, queries=np.eye(2), targets=[1, 2], others=zeros)
    assert path.stat().st_size < 20_000
    for memory, words in ((1e7, "queries"), (7e6, "do not fit into memory")):
        monkeypatch.setattr("constructive.data.stored.physical_memory", lambda most=memory: most)
        with pytest.raises((DataError, FormatError), match=words):
            Dataset.load(path)


# A dataset is a sequence of examples, with equality by content.


@pytest.fixture(params=[generators.uniform, generators.shared_context])
def data(request):
    return request.param(num_examples=4, context_size=2, width=3, target_dim=2)


@pytest.mark.parametrize("index", [0, 3, -1, -4, np.int64(2), np.uint8(1)])
def test_one_example(data, index):
    example = data[index]
    context = data.contexts if data.shared_context else data.contexts[index]
    for found in (example, list(data)[index]):
        assert (found.context == context).all()
        assert (found.query == data.queries[index]).all()
        assert (found.target == data.targets[index]).all()
    with pytest.raises(ValueError, match="read-only"):
        example.query[0] = 1.0
    assert len(data) == len(list(data)) == 4


@pytest.mark.parametrize(
    "index",
    [slice(3), slice(1, None, 2), slice(None, None, -1), [3, 0, -1], range(3), np.array([2] * 9),
     np.array([1], np.uint8), [False, True, True, False]],
)  # fmt: skip
def test_some_examples_are_those_of_numpy(data, index):
    some, chosen = data[index], index if isinstance(index, slice) else np.asarray(index)
    contexts = data.contexts if data.shared_context else data.contexts[chosen]
    assert some == Dataset(contexts, data.queries[chosen], data.targets[chosen])


@pytest.mark.parametrize(
    ("examples", "witness", "words"),
    [
        ([], (0,), "no examples to take"),
        (slice(9, None), (0,), "no examples to take"),
        ([False] * 4, (0,), "no examples to take"),
        ([True] * 3, (3,), "an array (3,) of bool"),
        ([0, 4, 9], 4, "no example with index 4"),
        (-5, -5, "no example with index -5"),
        ([2**63], 2**63, "no example with index 9223372036854775808"),
        (["0"], (1,), "an array (1,) of <U1"),
        ("targets", (), "an array () of <U7"),
        (True, (), "an array () of bool"),
        ([[0, 1]], (1, 2), "an array (1, 2) of int64"),
        ([[0], [1, 2]], None, "as an array"),
    ],
)
def test_examples_that_cannot_be_taken(data, examples, witness, words):
    with pytest.raises(DataError) as caught:
        data[examples]
    assert words in caught.value.problem
    assert caught.value.witness == witness
    assert "indices from 0 to 3, or 4 Booleans" in caught.value.suggestion
    with pytest.raises(DataError, match="examples have one axis, and 2 indices are given"):
        data[1, 2]


@settings(max_examples=20)
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
        assert len({data, same}) == 1
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


def test_distinct_keeps_what_differs():
    data = generators.gaussian(num_examples=6, context_size=3, width=5, seed=3)
    assert data.distinct() is data
    again = data[[3, 1, 3, 0, 1]]
    assert again.distinct() == data[[3, 1, 0]]
    with pytest.raises(AssumptionError, match="same input") as caught:
        build_memorizer(again)
    assert "distinct()" in caught.value.suggestion
    shared = Dataset(data.contexts[0], again.queries, again.targets)
    assert shared.distinct() == shared[[0, 1, 3]]
    labels = Dataset.of_classes(again.contexts, again.queries, list("abacb"))
    assert labels.distinct().classes == ("a", "b", "c")
    near = Dataset([[1, 0], [1, 1]], [[1.0, 0.0], [1.0, 5e-324], [1.0, -0.0]], [1, -1, 1])
    assert near.distinct().targets.tolist() == [1, -1]


# Class labels: one-hot targets, files, and what a certificate says of them.


LABELS = ["dog", "cat", "cow", "dog", "cat", "ox", "dog"]
NUMBERS = [3, 1, 2, 3, 1, 9, 3]


@pytest.fixture
def inputs():
    labelled = generators.uniform(num_examples=7, context_size=3, width=5)
    return labelled.contexts, labelled.queries


@pytest.fixture
def labelled(inputs):
    return Dataset.of_classes(*inputs, LABELS)


def pandas(kind, *values, **options):
    return lambda: getattr(pytest.importorskip("pandas"), kind)(*values, **options)


def of_labels(labels):
    """Data of two examples; labels of pandas are made where it is installed."""
    return Dataset.of_classes(np.eye(2), np.eye(2), labels() if callable(labels) else labels)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["b", "a"]), ("a", "b")),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        ([3, -1], (-1, 3)),
        (np.array([7, 7], np.uint8), (7,)),
        ([np.int64(2), 1], (1, 2)),
        ([True, False], (False, True)),
        (("b", "c"), ("b", "c")),
        (np.array([["b"], ["a"]]), ("a", "b")),
        (lambda: torch.tensor([5, 3]), (3, 5)),
        (lambda: torch.tensor([[5], [3]], dtype=torch.int8), (3, 5)),
        (lambda: [torch.tensor(5), torch.tensor(3)], (3, 5)),
        (lambda: torch.tensor([True, False]), (False, True)),
        (pandas("Series", ["b", "a"]), ("a", "b")),
        (pandas("Series", ["b", "a"], dtype="string"), ("a", "b")),
        (pandas("Categorical", ["b", "a"], categories=["c", "b", "a"]), ("a", "b")),
        (pandas("DataFrame", {"label": ["b", "a"]}), ("a", "b")),
        (pandas("Series", [3, 1], dtype="Int64"), (1, 3)),
        (pandas("Series", [True, False], dtype="boolean"), (False, True)),
    ],
)
def test_labels_of_one_type(labels, classes):
    data = of_labels(labels)
    assert data.classes == classes
    assert list(map(type, data.classes)) == list(map(type, classes))
    given = [classes[column] for column in data.targets.argmax(axis=1)]
    assert data == of_labels(given)
    assert data.targets.sum(axis=1).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("labels", "words", "witness"),
    [
        (["a", 1], r"labels\[1\] is 1, an int after a str", 1),
        ([1, True], r"labels\[1\] is True, a bool after an int", 1),
        ([0.5, 1.0], r"labels\[0\] is 0.5, a float", 0),
        (["a", None], r"labels\[1\] is missing", 1),
        (["a", float("nan")], r"labels\[1\] is missing", 1),
        (np.eye(2), "2 columns", (2, 2)),
        ([np.array([1])] * 2, r"labels\[0\] is array\(\[1\]\), an ndarray", 0),
        ([["a"], ["b"]], r"labels\[0\] is \['a'\], a list\n.*\n.*labels\.astype\(str\)", 0),
        ("ab", "labels are a str, not a list", "str"),
        (3, "labels are an int, not a list", "int"),
        ({"a", "b"}, "labels are a set, not a list", "set"),  # whose order differs by process
        ({0: "a", 1: "b"}, "labels are a dict, not a list", "dict"),
        (["a", "b\0"], "a label has the character 0", "b\0"),
        ([1 << 63], "has more than 64 bits", repr(1 << 63)),
        (pandas("Series", [3, None], dtype="Int64"), r"labels\[1\] is missing", 1),
        (pandas("Series", ["a", None], dtype="category"), r"labels\[1\] is missing", 1),
        (pandas("Series", ["NaT"], dtype="datetime64[ns]"), r"labels\[0\] is missing", 0),
        (pandas("Series", [3.0, 1.0]), r"try: labels\.astype\(int\)", 0),
        (pandas("DataFrame", {"x": [1, 2], "y": ["b", "a"]}), "2 columns", (2, 2)),
    ],
)
def test_what_are_not_labels(labels, words, witness):
    with pytest.raises(DataError, match=words) as caught:
        of_labels(labels)
    assert caught.value.witness == witness


def test_names_of_columns_fit_the_targets(inputs):
    with pytest.raises(DataError, match="3 classes are named, and targets have d_out=2"):
        Dataset(*inputs, np.ones((7, 2)), ("a", "b", "c"))
    with pytest.raises(DataError, match="a class is named twice"):
        Dataset(*inputs, np.ones((7, 2)), ("a", "a"))


def test_equal_names_of_another_type_are_others(inputs, tmp_path):
    """For Python 1 == True; a label which is predicted is one of them."""
    numbers, truths = (
        Dataset.of_classes(*inputs, [kind(x) for x in (1, 0, 0, 1, 1, 0, 1)])
        for kind in (int, bool)
    )
    assert numbers.classes == truths.classes
    assert numbers != truths
    numbers.save_folder(tmp_path / "data")
    stored = Dataset.open(tmp_path / "data")
    assert stored == numbers
    assert stored != truths
    assert truths != stored


def test_classes_stay_with_the_examples(labelled):
    for some in (
        labelled[:3],
        labelled.take([1]),
        labelled.with_constant(),
        token_mixing(labelled),
    ):
        assert some.classes == labelled.classes


@pytest.mark.parametrize("labels", [LABELS, NUMBERS, [True, False] * 3 + [True]])
def test_labels_come_back_from_files(inputs, labels, tmp_path):
    labelled = Dataset.of_classes(*inputs, labels)
    labelled.save(tmp_path / "data.npz")
    again = Dataset.load(tmp_path / "data.npz")
    assert again == labelled
    build_memorizer(again).save(tmp_path / "memorizer.safetensors")
    memorizer = Memorizer.load(tmp_path / "memorizer.safetensors")
    assert memorizer.record.classes == labelled.classes
    assert memorizer.predict_labels(*inputs).tolist() == labels
    assert memorizer.predict_labels(inputs[0][2], inputs[1][2]) == labels[2]


def test_labels_of_readouts_of_more_bits():
    small = generators.integers(num_examples=5, context_size=3, width=4, seed=1)
    labelled = Dataset.of_classes(small.contexts, small.queries, LABELS[:5])
    memorizer = build_memorizer(labelled, num_heads=2, precision=106)
    assert memorizer.predict_labels(labelled.contexts, labelled.queries).tolist() == LABELS[:5]


def test_numbers_have_no_labels(inputs):
    memorizer = build_memorizer(Dataset(*inputs, np.arange(7)))
    with pytest.raises(ParameterError, match="are not classes") as caught:
        memorizer.predict_labels(*inputs)
    assert "Dataset.of_classes" in caught.value.suggestion


def test_an_error_below_one_half_proves_the_labels(labelled):
    """Weights whose largest output is wrong are within 1/2 of the targets, or may be."""
    memorizer = build_memorizer(labelled)
    certificate = certify(memorizer, labelled, claims=["error"], epsilon=0.49)
    assert certificate.proved
    assert check(certificate, memorizer, labelled).proved  # which reads files with a fourth array
    zeros = np.zeros((1, 5, 1))
    layer = AttentionLayer(zeros, zeros, np.zeros((1, 5, 4)), np.zeros((4, 4)), np.eye(4))
    wrong = Memorizer(layer, memorizer.record)
    assert wrong.predict_labels(labelled.contexts, labelled.queries).tolist() == ["cat"] * 7
    assert not certify(wrong, labelled, claims=["error"], epsilon=0.49).proved


def with_classes(path, **changes):
    """Write the record of a memorizer anew, with other classes or none."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    record = json.loads(metadata["record"])
    del record["classes"]
    save_file(load_file(path), path, metadata=metadata | {"record": json.dumps(record | changes)})


def test_records_of_other_classes_are_refused_and_without_any_are_read(labelled, tmp_path):
    path = tmp_path / "memorizer.safetensors"
    build_memorizer(labelled).save(path)
    for classes in (["cat", "cow", "dog"], list("aabc"), ["a", "b", "c", None], "abcd", 4):
        with_classes(path, classes=classes)
        with pytest.raises(FormatError, match="is not a memorizer"):
            Memorizer.load(path)
        with_classes(path, classes=[])
    with_classes(path)
    assert Memorizer.load(path).record.classes == ()


# Classes of a head that is larger than the data, and labels that losses ignore.


def test_columns_are_those_of_the_head():
    contexts, queries = np.zeros((2, 1, 2)), np.eye(2)
    data = Dataset.of_classes(contexts, queries, [3, 1], classes=5)
    assert data.classes == (0, 1, 2, 3, 4)
    assert data.target_matrix.argmax(axis=1).tolist() == [3, 1]
    named = Dataset.of_classes(contexts, queries, ["b", "a"], classes=["c", "b", "a"])
    assert named.target_matrix.argmax(axis=1).tolist() == [1, 2]
    for labels, classes in (([3, 5], 5), ([0, 1], ["0", "1"]), ([True, False], 2)):
        with pytest.raises(DataError, match="none of the classes"):
            Dataset.of_classes(contexts, queries, labels, classes)


def test_labels_that_losses_ignore_are_no_class():
    contexts, queries = np.zeros((2, 1, 2)), np.eye(2)
    with pytest.raises(DataError, match="PyTorch's losses ignore") as caught:
        Dataset.of_classes(contexts, queries, [3, -100])
    assert caught.value.witness == 1
    meant = Dataset.of_classes(contexts, queries, [3, -100], classes=[-100, 3])
    assert meant.classes == (-100, 3)


def test_positions_of_sequences_are_examples():
    tokens = np.arange(24.0).reshape(2, 4, 3)
    data = Dataset.of_sequences(tokens, [[-100, 1, 2, 0], [1, -100, -100, -100]], 3)
    assert [len(context) for context, _, _ in data] == [2, 3, 4, 1]
    assert np.array_equal(data[1].context, tokens[0, :3])
    assert np.array_equal(data.queries, [tokens[0, 1], tokens[0, 2], tokens[0, 3], tokens[1, 0]])
    assert data.target_matrix.argmax(axis=1).tolist() == [1, 2, 0, 1]
    padded = Dataset.of_sequences(tokens, [[0, 0, 1, 0], [1, 9, 9, 9]], ignored=9)
    assert len(padded) == 5
    for labels in ([1, 2], np.full((2, 4), -100)):
        with pytest.raises(DataError, match="give no examples"):
            Dataset.of_sequences(tokens, labels)
