"""Files of sequences and of their memorizers: what is read is what was written, or refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    FormatError,
    ParameterError,
    SequenceDataset,
    SequenceMemorizer,
    build_sequence_memorizer,
)
from constructive.sequences import storage

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
    content = json.loads(json.dumps(storage.encoded(value)))
    found = storage.decoded(content)
    assert found == value
    assert type(found) is type(value)


@settings(deadline=None)
@given(st.one_of(st.integers(-(1 << 9000), 1 << 9000), st.fractions()))
def test_numbers(number):
    assert storage.number(storage.written(number)) == number


@pytest.mark.parametrize(
    "text", ["", "-", "0x1f", "1F", "+1", " 1", "1_0", "2/4", "01", "-0", "1/"]
)
def test_texts_which_are_no_numbers(text):
    with pytest.raises(ValueError, match=r"is not a number|invalid literal"):
        storage.number(text)


def test_what_a_file_does_not_hold(tmp_path):
    memorizer = build_sequence_memorizer([[frozenset("a")], ["b"]], [1, 2])
    with pytest.raises(ParameterError, match=r"a file does not hold frozenset"):
        memorizer.save(tmp_path / "m.json")
    with pytest.raises(ParameterError, match="which is a frozenset"):
        SequenceDataset.of([[1], [2]], ["x", frozenset()]).save(tmp_path / "d.json")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def files(tmp_path):
    sequences, labels = [[1, 2], [3, 4]], ["x", "y"]
    build_sequence_memorizer(sequences, labels).save(tmp_path / "m.json")
    SequenceDataset.of(sequences, labels).save(tmp_path / "d.json")
    return tmp_path


def changes(content):
    """A few ways to spoil each entry of JSON."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(items):
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
    before = storage.digest(content)
    refused = 0
    for _ in changes(content):
        if storage.digest(content) == before:
            continue
        path.write_text(json.dumps(content))
        try:
            assert storage.digest(kind.load(path).content()) == storage.digest(content)
        except FormatError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(classes=[["int", "1"], ["bool", 1]]), "a class is there twice"),
        (lambda m: m["attention"].update(W_K=["1", "0"]), "attention is not uniform"),
        (lambda m: m["record"].update(construction="<hash>"), "its record is not a name"),
        (lambda m: m["record"].update(seed=-1), "a number of its record is not a number"),
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
