"""Data, errors, outputs and files of sequence memorizers, and what they are in floats."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    DataError,
    FormatError,
    ParameterError,
    SequenceDataset,
    SequenceMemorizer,
    build_sequence_memorizer,
    certify,
)
from constructive.sequences import examples
from constructive.sequences.constructions import CONSTRUCTIONS
from constructive.sequences.memorizer import fewest_weights
from constructive.sequences.network import UniformAttention
from constructive.support.files import digest


@pytest.mark.parametrize(
    ("task", "sequences", "labels", "witness"),
    [
        ("next", ["ab", "cd", "ba"], [1, 2, 3], (0, 2)),
        ("last", ["abc", "bac"], [1, 2], (0, 1)),
        ("seq2seq", ["aa", "bb"], [[1, 2], [3, 3]], (0, 1)),
    ],
)
def test_inconsistent_labels(task, sequences, labels, witness):
    with pytest.raises(DataError, match="have one multiset of tokens") as caught:
        build_sequence_memorizer(sequences, labels, task=task)
    assert caught.value.witness == witness


@pytest.mark.parametrize(
    ("sequences", "labels", "options", "error", "message"),
    [
        ([], [], {}, DataError, "there are no sequences"),
        ([[]], [1], {}, DataError, r"sequences have lengths \[0\]"),
        (["ab", "abc"], [1, 2], {}, DataError, r"lengths \[2, 3\]; attention sees proportions"),
        (["ab"], [1, 2], {}, DataError, "1 sequences have 2 labels"),
        ([1, 2], [1, 2], {}, DataError, "a sequence is none"),
        ([[{1}]], [1], {}, DataError, "a token cannot be told from others"),
        (["ab"], [[1]], {}, DataError, "a label cannot be told from others"),
        (["ab"], [[1]], {"task": "seq2seq"}, DataError, "labels do not fit 1 sequences of 2"),
        ([[(1, 2), (1,)]], [1], {}, DataError, r"tokens have \[1, 2\] entries"),
        ([[(1, float("nan"))]], [1], {}, DataError, r"entry 1 of the token \(1, nan\)"),
        (["a"], [float("nan")], {}, DataError, "a label is nan, which is not equal to itself"),
        (["ab"], None, {}, ParameterError, "sequences without labels"),
        ([[float("inf")]], [1], {}, DataError, r"entry 0 of the token \(inf,\) is not a finite"),
        (["ab"], [1], {"task": "first"}, ParameterError, "unknown task='first'"),
        (["ab"], [1], {"construction": "hash"}, ParameterError, "unknown construction='hash'"),
        (["ab"], [1], {"max_word_bits": 0}, ParameterError, "max_word_bits=0 is not a positive"),
        (["ab"], [1], {"seed": -1}, ParameterError, "seed=-1 is not a non-negative"),
        (["ab"], [1], {"seed": 10**5000}, ParameterError, "seed= has 16610 bits"),
        (["ab"], np.array(1), {}, DataError, "1 sequences have 0 labels"),
        ([[("x", float("nan"))]], [1], {}, DataError, "which is not equal to itself"),
    ],
)
def test_bad_input(sequences, labels, options, error, message):
    with pytest.raises(error, match=message):
        build_sequence_memorizer(sequences, labels, **options)


def test_a_data_set_has_its_labels_and_its_task():
    dataset = SequenceDataset.of(["ab", "ba"], ["x", "y"], task="last")
    memorizer = build_sequence_memorizer(dataset, seed=3)
    same = build_sequence_memorizer(["ab", "ba"], ["x", "y"], task="last", seed=3)
    assert memorizer.content() == same.content()
    assert build_sequence_memorizer(dataset, task="last", seed=3).content() == same.content()
    assert certify(memorizer, dataset).proved
    for arguments, options in (((["x", "y"],), {}), ((), {"task": "next"}), ((), {"task": [1]})):
        with pytest.raises(ParameterError, match="has its labels, and its task 'last'") as caught:
            build_sequence_memorizer(dataset, *arguments, **options)
        assert caught.value.suggestion == "build_sequence_memorizer(dataset)"


def test_predictions_for_other_sequences():
    words = build_sequence_memorizer(["ab", "cd"], [1, 2])
    with pytest.raises(DataError, match="unknown token 'e'"):
        words.predict(["ae"])
    with pytest.raises(DataError, match="sequences have 3 tokens, not 2"):
        words.predict(["abc"])
    numbers = build_sequence_memorizer([[1, 2], [3, 4]], [1, 2])
    for other in (["ab"], [[(1, 2), (3, 4)]]):
        with pytest.raises(DataError, match="the tokens are not vectors of 1 numbers"):
            numbers.predict(other)
    assert repr(numbers).startswith("SequenceMemorizer(next, n=2, ")


DAYS = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
MIXED = [[1, 2], ["a", "b"], [(1, "x"), None]]
NUMBERS = np.random.default_rng(0).standard_normal((20, 3, 2))


@pytest.mark.parametrize(
    ("sequences", "labels", "asked", "wanted"),
    [
        (["a", "b"], [True, False], ["b", "a"], [False, True]),
        ([[(1,)], [2]], [1, 2], [[1], [(2,)]], [1, 2]),
        (["a", "b"], DAYS, ["b"], [DAYS[1]]),
        (MIXED, ["p", None, 2.5], [[2, 1], *MIXED], ["p", "p", None, 2.5]),
        (NUMBERS, np.arange(20) % 9, NUMBERS, (np.arange(20) % 9).tolist()),
    ],
    ids=["Booleans", "vectors of one number", "dates", "numbers among symbols", "arrays"],
)
def test_kinds_of_tokens_and_labels(sequences, labels, asked, wanted):
    found = build_sequence_memorizer(sequences, labels).predict(asked)
    assert found == wanted
    assert [*map(type, found)] == [*map(type, wanted)]


def test_tokens_are_mixed_with_a_salt():
    """No data can be made beforehand whose sums of mixed bits agree."""
    dataset = SequenceDataset.of([[0, 1], [2, 3]], [0, 1])
    values = np.arange(4)
    first, second = (examples._mixed(values, salt) for salt in (1, 2))
    assert not (first == second).any()
    assert dataset.told_apart_by(values, salt=5)
    assert not dataset.told_apart_by(np.array([1, 2, 2, 1]), salt=5)


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("task", ["next", "seq2seq"])
def test_no_network_for_labels_drawn_at_random_has_fewer_weights(construction, task):
    tokens = np.random.default_rng(1).choice(10**6, size=(64, 4), replace=False).tolist()
    shape = (64, 4) if task == "seq2seq" else 64
    labels = np.random.default_rng(2).integers(16, size=shape).tolist()
    memorizer = build_sequence_memorizer(tokens, labels, task=task, construction=construction)
    keys = memorizer.record.sizes.keys
    needed = fewest_weights(keys=keys, classes=16, places=256, width=1)
    assert 1 < needed <= memorizer.nonzero_parameters
    layers = memorizer.embedding.depth + memorizer.classifier.depth
    assert 2 * layers <= memorizer.nonzero_parameters


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context_size": 0}, "its parts do not fit together"),
        ({"task": "first"}, "its parts do not fit together"),
        ({"attention": UniformAttention.summing(2, 9)}, "its parts do not fit together"),
        ({"symbols": ("a", "a")}, "a symbol is there twice"),
        ({"classes": (1, True)}, "a class is there twice"),
    ],
)
def test_memorizers_of_parts_which_do_not_fit(changes, words):
    memorizer = build_sequence_memorizer(["ab", "bb"], [1, 2])
    with pytest.raises(ParameterError, match=words):
        dataclasses.replace(memorizer, **changes)
    wide = build_sequence_memorizer([[(1, 2)], [(3, 4)]], [1, 2])
    with pytest.raises(ParameterError, match="symbols are one number each"):
        dataclasses.replace(wide, symbols=("a", "b"))


# Files of sequences and of their memorizers: what is read is what was written, or refused.


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.integers(-(1 << 9000), 1 << 9000), st.text(),
        st.binary(), st.floats(allow_nan=False, allow_infinity=False), st.fractions(),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
)  # fmt: skip


@settings(deadline=None)
@given(VALUES)
def test_values(value):
    content = json.loads(json.dumps(examples.encoded(value)))
    found = examples.decoded(content)
    assert found == value
    assert type(found) is type(value)


@settings(deadline=None)
@given(st.one_of(st.integers(-(1 << 9000), 1 << 9000), st.fractions()))
def test_numbers(number):
    assert examples.number(examples.written(number)) == number


@pytest.mark.parametrize(
    "text", ["", "-", "0x1f", "1F", "+1", " 1", "1_0", "2/4", "01", "-0", "1/"]
)
def test_texts_which_are_no_numbers(text):
    with pytest.raises(ValueError, match=r"is not a number|invalid literal"):
        examples.number(text)


@pytest.fixture
def files(tmp_path):
    sequences, labels = [[1, 2], [3, 4]], ["x", "y"]
    build_sequence_memorizer(sequences, labels).save(tmp_path / "m.json")
    SequenceDataset.of(sequences, labels).save(tmp_path / "d.json")
    return tmp_path


def changes(content):
    """A few ways to spoil each entry of JSON, and of a list the first and the last."""
    of_list = range(len(content))
    for key in content.copy() if isinstance(content, dict) else {*of_list[:1], *of_list[-1:]}:
        value = content[key]
        for other in (None, "zz", [[1, 2]], 10**4000):
            content[key] = other
            yield
        content[key] = value
        if isinstance(value, dict | list):
            yield from changes(value)


@pytest.mark.parametrize(("name", "kind"), [("m", SequenceMemorizer), ("d", SequenceDataset)])
def test_spoilt_files_are_refused_or_are_files_of_something_else(files, name, kind):
    path = files / f"{name}.json"
    content = json.loads(path.read_text())
    before = digest(content)
    refused = 0
    for _ in changes(content):
        if digest(content) == before:
            continue
        path.write_text(json.dumps(content))
        try:
            assert digest(kind.load(path).content()) == digest(content)
        except FormatError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(classes=[["int", "1"], ["bool", 1]]), "a class is there twice"),
        (lambda m: m["attention"].update(W_K=["1", "0"]), "attention is not uniform"),
        (lambda m: m["record"].update(construction="<hash>"), "its record is not a name"),
        (lambda m: m["record"].update(seed=-1), "a number of its record is not a number"),
        (lambda m: m["record"]["sizes"].update(prime_bits=3), "is of a power hash"),
        (lambda m: m["embedding"].update(residual=False), "not written as it should be"),
        (lambda m: m.update(more=1), "it is not written as it should be"),
    ],
)
def test_what_is_wrong_with_a_memorizer(files, change, words):
    content = json.loads((files / "m.json").read_text())
    change(content)
    (files / "m.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=words):
        SequenceMemorizer.load(files / "m.json")


def test_an_object_which_repeats_a_key(files):
    text = (files / "d.json").read_text()
    (files / "d.json").write_text(text.replace("{", '{"task":"next",', 1))
    with pytest.raises(FormatError, match="an object repeats a key"):
        SequenceDataset.load(files / "d.json")


@pytest.mark.parametrize("kind", [SequenceMemorizer, SequenceDataset])
@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"format": "x"}', "[" * 10**5, '{"a": NaN}'])
def test_other_files(tmp_path, kind, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError, match=f"is not a file of {kind.__name__}.save"):
        kind.load(tmp_path / "x.json")
