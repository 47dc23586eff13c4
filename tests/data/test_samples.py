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
    random_attention_layer,
    sinusoidal_positions,
    text_windows,
)


def test_what_follows_in_a_text_is_memorized_and_proved():
    """Queries repeat, so that no groups of them are independent: random heads need none."""
    text = b"The cat sat on the mat. The dog sat on the log. The cat saw the dog, and it ran."
    ids = np.frombuffer(text, np.uint8)
    rng = np.random.default_rng(0)
    windows = np.lib.stride_tricks.sliding_window_view(ids, 8)[:30]
    contexts = rng.standard_normal((256, 12))[windows] + rng.standard_normal((8, 12))
    data = Dataset(contexts, contexts[:, -1], ids[8:38])
    assert len(np.unique(data.queries, axis=0)) < data.num_examples
    memorizer = build_memorizer(data, construction="generic")
    assert memorizer.layer.num_heads == fewest_heads(data).heads <= 4
    assert certify(memorizer, data).proved


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
