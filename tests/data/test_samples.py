"""Sample data: windows of a text, positions, random layers, and what they refuse."""

import numpy as np
import pytest

from constructive import (
    DataError,
    Dataset,
    ParameterError,
    build_memorizer,
    certify,
    fewest_heads,
    generators,
)
from constructive.data.samples import (
    language,
    positional_encoding,
    random_attention_layer,
    sinusoidal_positions,
    text_windows,
)

# Windows of a text: every one of them, what follows, and those which no function fits.


TEXT = (
    "The cat sat on the mat. The dog sat on the log. The cat saw the dog, and the dog ran; the "
    "cat ran after it, and the mat lay where the cat had sat."
)


@pytest.mark.parametrize("kind", ["sinusoidal", "gaussian", "signs"])
@pytest.mark.parametrize("unit", ["words", "bytes"])
def test_what_follows_is_memorized_and_proved(kind, unit):
    """Queries repeat, so that no groups of them are independent: random heads need none."""
    found = language(TEXT, context_size=4, width=12, unit=unit, positions=kind, limit=30)
    data = found.dataset
    assert len(np.unique(data.queries, axis=0)) < data.num_examples
    memorizer = build_memorizer(data, construction="generic")
    assert memorizer.layer.num_heads == fewest_heads(data).heads <= 4
    assert certify(memorizer, data).proved
    outputs = memorizer.predict(data.contexts, data.queries)
    assert found.decode(outputs) == found.decode(data.targets)


def test_windows_and_what_follows_them():
    found = language(TEXT, context_size=3, width=5)
    assert [found.vocabulary[i] for i in found.windows[0]] == ["the", "cat", "sat"]
    assert found.decode(found.dataset.targets)[:2] == ["on", "the"]
    assert (("sat", "on", "the"), ("mat", "log")) in found.ambiguous
    assert not any(
        tuple(found.vocabulary[i] for i in window) == ("sat", "on", "the")
        for window in found.windows
    )
    assert len({tuple(window) for window in found.windows.tolist()}) == len(found.windows)
    assert (found.dataset.queries == found.dataset.contexts[:, -1]).all()
    assert len(language(TEXT, context_size=3, width=5, limit=7).windows) == 7
    assert found.decode([-5, 1e9]) == [found.vocabulary[0], found.vocabulary[-1]]


def test_bytes_are_those_of_utf_8():
    found = language("aé" * 3, context_size=2, width=3, unit="bytes", positions="none")
    assert found.vocabulary == ("a", "\xc3", "\xa9")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"context_size": 0}, ParameterError, "context_size=0 is not a positive"),
        ({"width": 1.5}, ParameterError, "width=1.5 is not a positive"),
        ({"unit": "letters"}, ParameterError, "unknown unit='letters'"),
        ({"positions": "learned"}, ParameterError, "unknown positions='learned'"),
        ({"limit": 0}, ParameterError, "limit=0 is not a positive"),
        ({"seed": -1}, ParameterError, "seed=-1 is not a non-negative"),
        ({"context_size": 999}, DataError, "tokens have no window of 999"),
    ],
)
def test_arguments_which_make_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        language(TEXT, **({"context_size": 3, "width": 5} | options))


def test_positions():
    assert not positional_encoding("none", 3, 4).any()
    assert set(positional_encoding("signs", 3, 4).ravel()) == {-1.0, 1.0}
    assert 0.01 < positional_encoding("gaussian", 30, 40).std() < 0.03
    assert (
        positional_encoding("gaussian", 3, 4, seed=1)
        == positional_encoding("gaussian", 3, 4, seed=1)
    ).all()
    with pytest.raises(ParameterError, match="size=0"):
        positional_encoding("signs", 0, 4)


def test_the_last_token_as_query():
    data = generators.uniform(num_examples=4, context_size=3, width=5)
    assert (data.last_token_queries().queries == data.contexts[:, -1]).all()
    with pytest.raises(DataError, match="share one context"):
        Dataset(data.contexts[0], data.queries, data.targets).last_token_queries()


# Windows of a text, positions and random layers refuse what they cannot make.


@pytest.mark.parametrize("size", [1, 16])
def test_all_windows_differ_and_there_are_no_more(size):
    with pytest.raises(
        DataError, match=f"different windows of {size} bytes, not 1000000"
    ) as caught:
        text_windows(10**6, size)
    every = caught.value.witness
    assert len(np.unique(text_windows(every, size), axis=0)) == every
    with pytest.raises(DataError):
        text_windows(every + 1, size)


def test_windows_longer_than_the_text():
    with pytest.raises(DataError, match="has 0 different windows of 1000000 bytes") as caught:
        text_windows(1, 10**6)
    assert caught.value.witness == 0


@pytest.mark.parametrize("value", [0, -1, 2.0])
@pytest.mark.parametrize(
    ("function", "sizes"),
    [(text_windows, ("count", "size")), (sinusoidal_positions, ("size", "width"))],
)
def test_counts_are_positive(function, sizes, value):
    for name in sizes:
        with pytest.raises(ParameterError, match=f"^{name}={value} is not a positive integer"):
            function(**dict.fromkeys(sizes, 2) | {name: value})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"num_heads": 5}, "num_heads=5 is more than the d=4 entries of a token"),
        ({"num_heads": 0}, "num_heads=0 is not a positive integer"),
        ({"seed": -1}, "seed=-1 is not a non-negative integer"),
    ],
)
def test_layers_which_cannot_be(options, problem):
    tokens = np.ones((2, 3, 4))
    assert np.isfinite(random_attention_layer(tokens, num_heads=4, seed=0)).all()
    with pytest.raises(ParameterError) as caught:
        random_attention_layer(tokens, **{"num_heads": 2, "seed": 0, **options})
    assert caught.value.problem == problem
