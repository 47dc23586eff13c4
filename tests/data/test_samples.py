"""What is drawn: generators, strategies of Hypothesis, windows and layers; and texts."""

import itertools
import json
import subprocess
import sys
from fractions import Fraction
from functools import partial

import flint
import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from constructive import (
    DataError,
    Dataset,
    FormatError,
    ParameterError,
    Text,
    generators,
    strategies,
)
from constructive.figures.real_data import text_windows

# Generators do what their names say, and the same again for the same seed.


ALL = [
    generators.uniform,
    generators.shared_context,
    generators.gaussian,
    generators.bag_of_tokens,
    generators.moment_curve,
    generators.integers,
]


@pytest.mark.parametrize("make", ALL)
def test_shapes_and_seeds(make):
    sizes = {"num_examples": 6, "context_size": 3, "width": 5}
    data = make(**sizes, target_dim=2, seed=1)
    shape = (3, 5) if make is generators.shared_context else (6, 3, 5)
    assert (data.contexts.shape, data.queries.shape) == (shape, (6, 5))
    assert (data.targets.shape, make(**sizes).targets.shape) == ((6, 2), (6,))
    again, other = make(**sizes, target_dim=2, seed=1), make(**sizes, target_dim=2, seed=2)
    assert (data.contexts == again.contexts).all()
    assert (data.contexts != other.contexts).any()


@pytest.mark.parametrize("value", [0, -1, 2.0, True, None, "3"])
@pytest.mark.parametrize("name", ["num_examples", "context_size", "width", "target_dim", "seed"])
def test_counts_and_seeds_which_make_no_sense(name, value):
    """What all generators share looks at them."""
    options = {"num_examples": 6, "context_size": 3, "width": 5, name: value}
    if (name, value) in {("target_dim", None), ("seed", 0)}:
        assert generators.integers(**options).num_examples == 6
        return
    kind = "non-negative" if name == "seed" else "positive"
    with pytest.raises(ParameterError, match=f"^{name}={value!r} is not a {kind}") as caught:
        generators.integers(**options)
    assert caught.value.witness == value


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (generators.bag_of_tokens, {"bag_size": 2}, "bag_size=2 is less than context_size=3"),
        (generators.bag_of_tokens, {"bag_size": -1}, "bag_size=-1 is not a positive integer"),
        (generators.bag_of_tokens, {"bag_size": 9.5}, "bag_size=9.5 is not a positive integer"),
        *(
            (generators.integers, {"largest": x}, f"largest={x} is not an integer from 0")
            for x in (-1, 1.5, 2**63, None)
        ),
        (generators.uniform, {"target_dim": 10**14}, "targets of .* do not fit into memory"),
        (generators.uniform, {"target_dim": 10**30}, "targets of .* do not fit into memory"),
        (generators.uniform, {"num_examples": 10**14}, "queries of .* do not fit into memory"),
        (generators.uniform, {"context_size": 10**14}, "contexts of .* do not fit into memory"),
    ],
)
def test_options_that_make_no_sense(make, options, words):
    with pytest.raises(ParameterError, match=words):
        make(**{"num_examples": 9, "context_size": 3, "width": 5, **options})


@pytest.mark.parametrize("largest", [0, 2**63 - 1, np.uint8(7)])
def test_integers_are_at_most_the_largest(largest):
    make = partial(generators.integers, num_examples=9, context_size=3, width=5)
    assert make(largest=largest) == make(largest=int(largest))
    assert np.abs(make(largest=largest).contexts).max() <= largest


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_uniform_is_in_the_unit_interval(make):
    data = make(num_examples=200, context_size=3, width=5)
    for array in (data.contexts, data.queries, data.targets):
        assert array.min() >= 0
        assert array.max() < 1


def test_contexts_from_a_bag_hold_different_tokens_of_it():
    data = generators.bag_of_tokens(num_examples=50, context_size=6, width=4, bag_size=9)
    tokens = data.contexts.reshape(-1, 4)
    assert len(np.unique(tokens, axis=0)) == 9
    assert all(len(np.unique(context, axis=0)) == 6 for context in data.contexts)
    whole = generators.bag_of_tokens(num_examples=2, context_size=6, width=4, bag_size=6)
    assert (np.sort(whole.contexts[0], axis=0) == np.sort(whole.contexts[1], axis=0)).all()


def exact_rank(rows):
    return flint.fmpz_mat([[int(x) for x in row] for row in rows]).rank()


def assert_independent(queries, step=1):
    """As many of every step-th one as there are entries."""
    size = min(queries.shape)
    for chosen in itertools.combinations(range(0, len(queries), step), size):
        assert exact_rank(queries[list(chosen)]) == size


@pytest.mark.parametrize(("count", "width"), [(7, 3), (6, 4), (5, 5), (3, 6)])
def test_moment_curve_has_its_kruskal_rank_exactly(count, width):
    assert_independent(
        generators.moment_curve(num_examples=count, context_size=1, width=width).queries
    )


# Windows of a text.


@pytest.mark.parametrize("size", [1, 16])
def test_all_windows_differ_and_there_are_no_more(size):
    with pytest.raises(DataError, match=f"windows of {size} bytes, not 1000000") as caught:
        text_windows(10**6, size)
    every = caught.value.witness
    assert len(np.unique(text_windows(every, size), axis=0)) == every
    with pytest.raises(DataError):
        text_windows(every + 1, size)


# Strategies are valid by construction: ranks are checked exactly, with python-flint.


@given(strategies.contexts())
def test_contexts_have_rank_n(contexts):
    assert all(exact_rank(context) == len(context) for context in contexts)


@given(strategies.queries(max_examples=7))
def test_queries_have_kruskal_rank_min_of_count_and_width(queries):
    assert_independent(queries)


@given(strategies.datasets(min_examples=2, max_examples=5, min_context_size=2, max_context_size=3))
def test_datasets_keep_to_their_bounds(data):
    assert 2 <= data.num_examples <= 5
    assert 2 <= data.context_size <= 3
    assert data.context_size <= data.width <= data.context_size + 2
    assert 1 <= data.target_dim <= 3


@settings(max_examples=10)
@given(strategies.memorizable(construction="tangent"))
def test_heads_that_know_the_targets(problem):
    built = problem.build()
    assert built.record.construction == "tangent"
    assert built.max_error(problem.dataset) < 1e-6
    assert problem.dataset.num_examples <= 0.8 * built.record.capacity


@given(strategies.datasets(shared_context=True), strategies.memorizable(construction="rank_one"))
def test_what_is_asked_for_is_drawn(data, problem):
    assert data.shared_context
    assert problem.construction == "rank_one"


def test_shrinking_ends_at_something_small():
    with pytest.raises(ParameterError, match="unknown construction='rank'"):
        find(strategies.memorizable(construction="rank"), lambda _: True)

    def two_heads(problem):
        return problem.num_heads >= 2 and problem.dataset.num_examples >= 3

    smallest = find(strategies.memorizable(), two_heads)
    assert (smallest.num_heads, smallest.dataset.num_examples) == (2, 3)
    assert smallest.dataset.contexts[0].tolist() == [[1, 0], [0, 1]]
    assert smallest.dataset.queries.tolist() == [[1, 0], [1, 1], [1, -1]]
    assert not smallest.dataset.targets.any()
    assert isinstance(smallest.dataset, Dataset)


@pytest.mark.parametrize(("size", "heads", "many"), [(8, 3, 15), (40, 3, 31)])
def test_problems_of_any_size_are_built(size, heads, many):
    @settings(max_examples=25, deadline=None, database=None)
    @given(strategies.memorizable(min_context_size=size, max_context_size=size, max_heads=heads))
    def test(problem):
        data, counted = problem.dataset, problem.num_heads * (size - 1) + 1
        assert problem.build().max_error(data) < 1e-6
        assert data.num_examples <= counted
        seen.add(data.num_examples)

    seen = set()
    test()
    assert max(seen) > many


@given(strategies.queries(min_examples=32, max_examples=60, min_width=3, max_width=3))
def test_more_than_31_queries_are_independent_too(queries):
    assert_independent(queries, step=5)
    assert abs(queries).max() <= len(queries) / 2 + 24


def test_without_hypothesis_the_error_names_the_extra():
    script = "import sys; sys.modules['hypothesis'] = None; import constructive.strategies"
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert 'try: pip install ".[strategies]" in a checkout' in done.stderr


def pasted(text):
    """The arguments of the failing call which Hypothesis prints, read as Python."""
    names = {"Dataset": Dataset, "LayerProblem": strategies.LayerProblem, "Fraction": Fraction}
    names["SequenceProblem"] = strategies.SequenceProblem
    return eval(text[text.index("refused(") :], {**names, "refused": lambda given: given})  # noqa: S307


@pytest.mark.parametrize(
    ("strategy", "large"),
    [
        (strategies.memorizable(), lambda p: p.dataset.num_examples > 2),
        (strategies.datasets(), lambda data: data.num_examples > 2 and not data.shared_context),
        (strategies.datasets(), lambda data: data.shared_context and data.targets.ndim == 2),
        (strategies.sequence_problems(), lambda p: len(p.sequences) > 2),
    ],
)
def test_what_fails_is_printed_to_be_pasted(strategy, large):
    seen = []
    shrunk = [Phase.generate, Phase.shrink]

    # print_blob: where CI is set, Hypothesis adds a sentence to the note, and that is not Python.
    @settings(database=None, phases=shrunk, deadline=None, print_blob=False)
    @given(strategy)
    def refused(given):
        if large(given):
            seen.append(given)
            raise AssertionError

    with pytest.raises(AssertionError) as caught:
        refused()
    assert pasted("\n".join(caught.value.__notes__)) == seen[-1]


# Texts.


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
