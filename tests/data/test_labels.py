"""Class labels: one-hot targets, files, and what a certificate says of them."""

import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch.utils.data import TensorDataset

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    build_memorizer,
    certify,
    check,
    generators,
    token_mixing,
)
from constructive.data.labels import one_hot

LABELS = ["dog", "cat", "cow", "dog", "cat", "ox", "dog"]


@pytest.fixture
def examples():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    return data.contexts, data.queries


@pytest.fixture
def data(examples):
    return Dataset.of_classes(*examples, LABELS)


def test_targets_are_one_hot(data):
    assert data.classes == ("cat", "cow", "dog", "ox")
    assert (data.targets.sum(axis=1) == 1.0).all()
    assert [data.classes[column] for column in data.targets.argmax(axis=1)] == LABELS


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
        (torch.tensor([5, 3]), (3, 5)),
        (torch.tensor([[5], [3]], dtype=torch.int8), (3, 5)),
        ([torch.tensor(5), torch.tensor(3)], (3, 5)),
        (torch.tensor([True, False]), (False, True)),
    ],
)
def test_labels_of_one_type(labels, classes):
    targets, found = one_hot(labels)
    assert found == classes
    assert list(map(type, found)) == list(map(type, classes))
    assert targets.shape == (2, len(classes))


@pytest.mark.parametrize(
    ("labels", "words", "witness"),
    [
        (["a", 1], r"labels\[1\] is 1, a int after a str", 1),
        ([1, True], r"labels\[1\] is True, a bool after a int", 1),
        ([0.5, 1.0], r"labels\[0\] is 0.5, a float", 0),
        (["a", None], r"labels\[1\] is missing", 1),
        (["a", float("nan")], r"labels\[1\] is missing", 1),
        (np.eye(2), "2 columns", (2, 2)),
        ([["a"], ["b"]], r"labels\[0\] is \['a'\], a list", 0),
        ("ab", "labels are a str, not a list", "str"),
        (3, "labels are a int, not a list", "int"),
        ({"a", "b"}, "labels are a set, not a list", "set"),  # whose order differs by process
        ({0: "a", 1: "b"}, "labels are a dict, not a list", "dict"),
        (["a", "b\0"], "a label has the character 0", "b\0"),
        ([1 << 63], "has more than 64 bits", 1 << 63),
    ],
)
def test_what_are_no_labels(labels, words, witness):
    with pytest.raises(DataError, match=words) as caught:
        one_hot(labels)
    assert caught.value.witness in (witness, repr(witness))


COLUMNS = {
    "strings": lambda pandas: pandas.Series(["b", "a"]),
    "string type": lambda pandas: pandas.Series(["b", "a"], dtype="string"),
    "categories": lambda pandas: pandas.Series(["b", "a"], dtype="category"),
    "categorical": lambda pandas: pandas.Categorical(["b", "a"], categories=["c", "b", "a"]),
    "index": lambda pandas: pandas.Index(["b", "a"]),
    "table": lambda pandas: pandas.DataFrame({"label": ["b", "a"]}),
    "one of a table": lambda pandas: pandas.DataFrame({"x": [1, 2], "y": ["b", "a"]})["y"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_pandas_are_labels(name):
    pandas = pytest.importorskip("pandas")
    targets, classes = one_hot(COLUMNS[name](pandas))
    assert classes == ("a", "b")
    assert targets.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_integers_of_pandas_are_labels_and_missing_ones_are_not():
    pandas = pytest.importorskip("pandas")
    assert one_hot(pandas.Series([3, 1], dtype="Int64"))[1] == (1, 3)
    assert one_hot(pandas.Series([True, False], dtype="boolean"))[1] == (False, True)
    for column in (
        pandas.Series([3, None], dtype="Int64"),
        pandas.Series(["a", None]),
        pandas.Series(["a", None], dtype="category"),
        pandas.Series([pandas.Timestamp(0), pandas.NaT])[1:],
    ):
        with pytest.raises(DataError, match="missing"):
            one_hot(column)
    with pytest.raises(DataError) as caught:
        one_hot(pandas.Series([3.0, 1.0]))
    assert "astype(int)" in caught.value.suggestion
    with pytest.raises(DataError, match="2 columns"):
        one_hot(pandas.DataFrame({"x": [1, 2], "y": ["b", "a"]}))


def test_targets_of_torch_may_be_labels(examples):
    tensors = *map(torch.tensor, examples), torch.tensor([3, 1, 2, 3, 1, 9, 3])
    data = Dataset.from_torch(TensorDataset(*tensors), labels=True)
    assert data == Dataset.of_classes(*examples, tensors[2])
    assert data.classes == (1, 2, 3, 9)
    assert Dataset.from_torch(TensorDataset(*tensors)).classes == ()
    named = list(zip(*tensors[:2], LABELS, strict=True))
    data = Dataset.from_torch(named, labels=True)
    assert build_memorizer(data).predict_labels(*examples).tolist() == LABELS


def test_strings_as_targets_are_told_the_way(examples):
    for targets in (LABELS, np.array(LABELS, dtype=object)):
        with pytest.raises(DataError) as caught:
            Dataset(*examples, targets)
        assert "Dataset.of_classes(contexts, queries, labels)" in caught.value.suggestion


def test_equal_names_of_another_type_are_others(examples, tmp_path):
    """For Python 1 == True; a label which is predicted is one of them."""
    numbers, truths = (
        Dataset.of_classes(*examples, [kind(x) for x in (1, 0, 0, 1, 1, 0, 1)])
        for kind in (int, bool)
    )
    assert numbers.classes == truths.classes
    assert numbers != truths
    numbers.save_folder(tmp_path / "data")
    stored = Dataset.open(tmp_path / "data")
    assert stored == numbers
    assert stored != truths
    assert truths != stored


def test_names_of_columns_fit_the_targets(examples):
    with pytest.raises(DataError, match="3 classes are named, and targets have d_out=2"):
        Dataset(*examples, np.ones((7, 2)), ("a", "b", "c"))
    with pytest.raises(DataError, match="a class is named twice"):
        Dataset(*examples, np.ones((7, 2)), ("a", "a"))


def test_classes_stay_with_the_examples(data):
    for some in (data[:3], data.take([1]), data.with_constant(), data.last_token_queries()):
        assert some.classes == data.classes
    assert token_mixing(data).classes == data.classes


@pytest.mark.parametrize("labels", [LABELS, [3, 1, 2, 3, 1, 9, 3], [True, False] * 3 + [True]])
def test_labels_come_back_from_files(examples, labels, tmp_path):
    data = Dataset.of_classes(*examples, labels)
    data.save(tmp_path / "data.npz")
    again = Dataset.load(tmp_path / "data.npz")
    assert again == data
    assert list(map(type, again.classes)) == list(map(type, data.classes))
    build_memorizer(again).save(tmp_path / "memorizer.safetensors")
    memorizer = Memorizer.load(tmp_path / "memorizer.safetensors")
    assert memorizer.record.classes == data.classes
    assert memorizer.predict_labels(*examples).tolist() == labels
    assert memorizer.predict_labels(examples[0][2], examples[1][2]) == labels[2]


def test_labels_of_rational_weights_and_of_more_bits():
    small = generators.integers(num_examples=5, context_size=3, width=4, seed=1)
    data = Dataset.of_classes(small.contexts, small.queries, LABELS[:5])
    for options in ({"arithmetic": "rational"}, {"precision": 106}):
        memorizer = build_memorizer(data, num_heads=2, **options)
        assert memorizer.predict_labels(data.contexts, data.queries).tolist() == LABELS[:5]
    rational = build_memorizer(data, num_heads=2, arithmetic="rational")
    for query in (data.queries[0], data.queries[0].tolist()):
        outputs = rational(data.contexts[0], query)
        assert all(isinstance(x, Fraction) for x in outputs)
        assert (outputs == data.targets[0]).all()


def test_numbers_have_no_labels(examples):
    memorizer = build_memorizer(Dataset(*examples, np.arange(7)))
    with pytest.raises(ParameterError, match="are not classes") as caught:
        memorizer.predict_labels(*examples)
    assert "Dataset.of_classes" in caught.value.suggestion


def test_an_error_below_one_half_proves_the_labels(data):
    memorizer = build_memorizer(data)
    certificate = certify(memorizer, data, claims=["error"], epsilon=0.49)
    assert certificate.proved
    assert check(certificate, memorizer, data).proved  # which reads files with a fourth array
    outputs = memorizer.predict(data.contexts, data.queries)
    right = outputs[data.targets == 1.0]
    others = np.where(data.targets == 1.0, -np.inf, outputs).max(axis=1)
    assert (right - others >= 1 - 2 * 0.49).all()


def test_an_error_of_one_half_proves_no_label(data):
    """Weights whose largest output is wrong are within 1/2 of the targets, or may be."""
    zeros = np.zeros((1, 5, 1))
    layer = AttentionLayer(zeros, zeros, np.zeros((1, 5, 4)), np.zeros((4, 4)), np.eye(4))
    wrong = Memorizer(layer, build_memorizer(data).record)
    assert wrong.predict_labels(data.contexts, data.queries).tolist() == ["cat"] * 7
    assert not certify(wrong, data, claims=["error"], epsilon=0.49).proved


NONE = object()


@pytest.mark.parametrize(
    "classes", [["cat", "cow", "dog"], ["a", "a", "b", "c"], ["a", "b", "c", None], "abcd", 4, NONE]
)
def test_records_of_other_classes_are_refused_and_without_any_are_read(data, tmp_path, classes):
    path = tmp_path / "memorizer.safetensors"
    build_memorizer(data).save(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    record = json.loads(metadata["record"])
    del record["classes"]
    if classes is not NONE:
        record["classes"] = classes
    save_file(load_file(path), path, metadata=metadata | {"record": json.dumps(record)})
    if classes is NONE:
        assert Memorizer.load(path).record.classes == ()
        return
    with pytest.raises(FormatError, match="is not a memorizer"):
        Memorizer.load(path)
