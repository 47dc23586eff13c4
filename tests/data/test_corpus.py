"""Texts as tokens: nothing is lost, what follows what, and what cannot be recited."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import DataError, FormatError, ParameterError, Text

IDS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6)


@settings(max_examples=25)
@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=3),
    st.lists(st.binary(min_size=1), min_size=1, max_size=3),
    IDS.map(lambda texts: [tuple(ids) for ids in texts]),
)
def test_nothing_is_lost(words, contents, ids):
    for make, texts in ((Text.words, words), (Text.bytes, contents), (Text.of, ids)):
        text = make(*texts)
        assert [text.joined(tokens) for tokens in text.texts] == texts
        assert text.vocabulary == tuple(dict.fromkeys(t for part in text.texts for t in part))
        assert (text.num_texts, text.longest) == (len(texts), max(map(len, text.texts)))
        assert len(text) == sum(map(len, text.texts))
        # The first tokens are those of the first characters, too.
        first = text.texts[0][: 1 + len(text.texts[0]) // 2]
        assert make(text.joined(first)).tokens == first


def test_what_words_are():
    assert Text.words("It's 3.5 naïve\r\n\n").tokens == (
        "It", "'", "s", " ", "3", ".", "5", " ", "naïve", "\r", "\n", "\n",
    )  # fmt: skip
    assert Text.bytes("ü").tokens == tuple("ü".encode())
    assert Text.of(np.array([7, 7, 2])).tokens == (7, 7, 2)


@given(IDS, st.integers(1, 3))
def test_batches_hold_each_position_once(texts, prompt):
    texts = [[*ids, 0, 0][: max(len(ids), prompt)] for ids in texts]
    text = Text.of(*texts, prompt=prompt)
    met = {}
    for batch in text.batches():
        for s, n in np.argwhere(batch.places >= 0).tolist():
            place = int(batch.places[s, n])
            assert place not in met
            assert batch.ids[s, n] == text.ids[place]
            assert text.position(place).token == n
            met[place] = int(batch.following[s, n])
        assert (batch.following[batch.places < 0] == -1).all()
    wanted = []
    for ids in texts:
        following = [text.vocabulary.index(i) for i in ids[1:]] + [text.end]
        wanted += [-1] * (prompt - 1) + following[prompt - 1 :]
    assert [met[place] for place in range(len(text))] == wanted
    assert text.num_positions == sum(x >= 0 for x in wanted)


@pytest.mark.parametrize(
    ("lengths", "shapes"),
    [
        ([4, 4, 40, 4], [(3, 4), (1, 40)]),
        ([8, 4, 5], [(3, 8)]),
        ([9, 4, 5], [(2, 5), (1, 9)]),
        ([8192, 8192], [(2, 8192)]),
        ([8193, 8192], [(1, 8192), (1, 8193)]),
    ],
)
def test_texts_of_about_one_length_stand_together(lengths, shapes):
    text = Text.of(*([i] * length for i, length in enumerate(lengths)))
    assert [batch.ids.shape for batch in text.batches()] == shapes


def contradictions(texts, prompt, window):
    """Pairs of positions whose contexts agree and whose continuations do not, by comparison."""
    every = [
        ((i, k), (k, ids[max(0, k + 1 - (window or k + 1)) : k + 1]), [*ids, None][k + 1])
        for i, ids in enumerate(texts)
        for k in range(len(ids))
    ]
    return {
        (one[0], two[0])
        for index, two in enumerate(every)
        for one in every[:index]
        if one[1] == two[1] and one[2] != two[2] and two[0][1] >= prompt - 1
    }, {(c[0], tuple(c[1])) for p, c, _ in every if p[1] >= prompt - 1}


@given(IDS, st.integers(1, 2), st.sampled_from([None, 1, 2, 3]))
def test_different_contexts(texts, prompt, window):
    texts = [[*ids, 0][: max(len(ids), prompt)] for ids in texts]
    text = Text.of(*texts, prompt=prompt)
    wrong, contexts = contradictions(texts, prompt, window)
    if wrong:
        with pytest.raises(DataError) as refused:
            text.different(window)
        assert refused.value.witness in wrong
    else:
        places = text.different(window)
        assert len(places) == len(contexts)
        found = [text.position(place) for place in places.tolist()]
        assert all(position.token >= prompt - 1 for position in found)
        assert len({
            (k, tuple(texts[i][max(0, k + 1 - (window or k + 1)) : k + 1])) for i, k in found
        }) == len(contexts)  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "words", "suggestion"),
    [
        (("a b", "a c"), "text 0 goes on with 'b' after token 1, and text 1 with 'c'", "prompt=3"),
        (("a b", "b", "a"), "text 0 goes on with ' ' after token 0, and text 2 ends", "longer"),
        (("a", "b", "a b"), "text 0 ends after token 0, and text 2 goes on with ' '", "longer"),
    ],
)
def test_equal_prefixes_with_different_continuations(texts, words, suggestion):
    with pytest.raises(DataError, match=words) as refused:
        Text.words(*texts).different()
    assert suggestion in refused.value.suggestion
    for ids in ([1, 1], [0, 1, 0]):
        assert len(Text.of(ids, [2]).different()) == len(ids) + 1  # each follows another context


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (Text.words, DataError, "are not numbers of tokens, text after text"),
        (lambda: Text.words(""), DataError, "text 0 has 0 tokens, and the prompt is 1"),
        (lambda: Text.words("a", ""), DataError, "text 1 has 0 tokens"),
        (lambda: Text.words("a b", prompt=4), DataError, "3 tokens, and the prompt is 4"),
        (lambda: Text.words(b"a"), ParameterError, "b'a' is not a string"),
        (lambda: Text.words(["a"]), ParameterError, r"\['a'\] is not a string"),
        (lambda: Text.bytes(3), ParameterError, "3 is not a string or bytes"),
        (lambda: Text.of([1.0]), ParameterError, "1.0 is not a token id, an integer"),
        (lambda: Text.of(["1"]), ParameterError, "'1' is not a token id, an integer"),
        (lambda: Text.of(7), ParameterError, "None is not a token id, an integer"),
        (lambda: Text.words("a", prompt=0), ParameterError, "prompt=0"),
        (lambda: Text.words("a").different(0), ParameterError, "window=0"),
        (lambda: Text.words("a", "b").tokens, ParameterError, "these are 2 texts"),
        (lambda: Text(("a",), np.array([0]), np.array([1]), 1, "lines"), ParameterError,
         "unknown unit='lines'"),
        (lambda: Text(("a",), np.array([0, 1]), np.array([2])), DataError,
         r"ids\[1\] = 1 is none of 1 tokens"),
        (lambda: Text(("a",), np.array([-1]), np.array([1])), DataError, r"ids\[0\] = -1 is none"),
        (lambda: Text(("a",), np.array([0]), np.array([2])), DataError, "numbers of tokens"),
        (lambda: Text(("a",), np.array([0.0]), np.array([1])), DataError, "numbers of tokens"),
    ],
)  # fmt: skip
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words) as refused:
        make()
    assert refused.value.suggestion


@given(IDS, st.sampled_from(["words", "bytes", "ids"]))
def test_files(tmp_path_factory, texts, unit):
    if unit == "words":
        text = Text.words(*(" \ud800\n".join(map(str, ids)) for ids in texts))
    else:
        text = Text.bytes(*map(bytes, texts)) if unit == "bytes" else Text.of(*texts)
    path = tmp_path_factory.mktemp("texts") / "text.json"
    text.save(path)
    again = Text.load(path)
    assert again.content() == text.content()
    assert (again.texts, again.unit, again.prompt) == (text.texts, text.unit, text.prompt)
    assert [file.name for file in path.parent.iterdir()] == ["text.json"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "constructive text 2"}, "its format is 'constructive text 2'"),
        ({"unit": "lines"}, "unknown unit='lines'"),
        ({"unit": "ids"}, "'a' in the vocabulary is not one of ids"),
        ({"unit": "bytes", "vocabulary": [97, 256]}, "256 in the vocabulary is not one of bytes"),
        ({"vocabulary": ["a", "a"]}, "'a' in the vocabulary is there twice"),
        ({"vocabulary": ["a"]}, "is none of 1 tokens"),
        ({"vocabulary": 7}, "is not a file of Text.save"),
        ({"texts": [[0, True]]}, "its texts are not numbers of tokens"),
        ({"texts": [[0, 1.0]]}, "its texts are not numbers of tokens"),
        ({"texts": [[0, 10**30]]}, "is not a file of Text.save"),
        ({"texts": [[]]}, "text 0 has 0 tokens"),
        ({"texts": []}, "numbers of tokens"),
        ({"texts": 7}, "is not a file of Text.save"),
        ({"prompt": 0}, "prompt=0"),
        ({"prompt": "1"}, "prompt='1'"),
        ({"prompt": 9}, "the prompt is 9"),
    ],
)
def test_spoilt_files(tmp_path, changes, words):
    content = Text.words("a.").content()
    path = tmp_path / "text.json"
    path.write_text(json.dumps(content | changes))
    with pytest.raises(FormatError, match=words) as refused:
        Text.load(path)
    assert "written by Text.save or `constructive recite`" in refused.value.suggestion
    path.write_text(json.dumps({key: content[key] for key in content if key not in changes}))
    with pytest.raises(FormatError, match=r"is not a file of Text\.save"):
        Text.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"null", b"\xff", b"[" * 100000])
def test_files_which_are_none(tmp_path, content):
    (tmp_path / "text.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"is not a file of Text\.save"):
        Text.load(tmp_path / "text.json")
    with pytest.raises(FileNotFoundError):
        Text.load(tmp_path / "none.json")


def test_arrays_are_read_only_copies():
    ids = np.array([0, 0])
    text = Text(("a",), ids, np.array([2]))
    ids[0] = 7
    assert text.ids.tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        text.ids[0] = 1


def test_repr():
    assert repr(Text.bytes(b"abc", b"bcd", prompt=2)) == "Text(S=2, N=6, V=4, bytes, prompts of 2)"
