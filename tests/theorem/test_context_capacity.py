"""c(E; H) against its definition: the least bound over all sets J of examples."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive import Dataset
from constructive.exact import dyadic
from constructive.theory.context_capacity import context_capacity, spans_of


def capacity_of(contexts, heads):
    """c(E; H) for queries which differ."""
    queries = np.zeros((len(contexts), contexts.shape[2]))
    queries[:, 0] = np.arange(len(contexts))
    data = Dataset(contexts, queries, np.zeros(len(contexts)))
    return context_capacity(data, heads, np.random.default_rng(0))


def dimensions(contexts):
    """k and delta, by ranks of all tokens and of all differences of integers."""
    width = contexts.shape[2]
    differences = (contexts[:, 1:] - contexts[:, :1]).reshape(-1, width)
    return (
        dyadic.rank(contexts.reshape(-1, width)),
        dyadic.rank(differences) if len(differences) else 0,
    )


def by_definition(contexts, heads):
    total = len(contexts)
    least = total
    for size in range(1, total + 1):
        for chosen in combinations(range(total), size):
            k, delta = dimensions(contexts[list(chosen)])
            least = min(least, total - size + k + (heads - 1) * delta)
    return least


@st.composite
def vocabularies(draw):
    """Contexts of few words: one-hot, repeated, collinear, translated, dependent."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    words, width = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["small", "one-hot", "line", "constant", "any"]))
    if kind == "one-hot":
        vocabulary = np.eye(words)
    elif kind == "line":
        vocabulary = np.outer(np.arange(words), rng.integers(-2, 3, width)) + rng.integers(0, 2)
    else:
        high = 2 if kind == "small" else 9
        vocabulary = rng.integers(-high, high + 1, (words, width))
    if kind == "constant":
        vocabulary[:, 0] = 1
    total, size = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    return vocabulary[rng.integers(0, words, (total, size))].astype(np.float64)


@given(vocabularies(), st.integers(1, 4))
def test_it_is_the_least_bound(contexts, heads):
    found = capacity_of(contexts, heads)
    assert (found.lower, found.upper) == (by_definition(contexts, heads),) * 2
    assert found.exact


@given(vocabularies(), st.integers(-3, 3))
def test_spans_are_proved_by_vectors(contexts, exponent):
    contexts = contexts * 2.0**exponent
    spans = spans_of(contexts)
    assert (spans.tokens, spans.differences) == dimensions(contexts)
    width = contexts.shape[2]
    assert len(spans.orthogonal) == width - spans.differences
    for index, x in enumerate(spans.orthogonal):
        values = contexts @ np.array(x, dtype=np.float64)
        assert (values == values[:, :1]).all()
        assert index >= width - spans.tokens or not values.any()
        later = spans.orthogonal[index + 1 :]
        assert x[spans.pivots[index]] != 0
        assert all(y[spans.pivots[index]] == 0 for y in later)


@pytest.mark.parametrize("tiny", [2.0**-60, 2.0**-900])
def test_spans_are_those_of_the_floats_as_they_are(tiny):
    contexts = np.array([[[1.0, 0.0], [1.0, tiny]], [[3.0, 0.0], [3.0, 0.0]]])
    assert (spans_of(contexts).tokens, spans_of(contexts).differences) == (2, 1)
    flat = np.array([[[1.0, 1.0], [3.0, 3.0 + 2.0**-51]]])
    assert spans_of(flat).tokens == 2
    nearly = np.array([[[1.0, 1.0], [3.0, 3.0]], [[5.0, 5.0], [5.0, 5.0]]])
    assert spans_of(nearly).tokens == spans_of(nearly).differences == 1


def test_some_examples_are_to_blame_and_others_are_not():
    rng = np.random.default_rng(1)
    shared = np.repeat(rng.standard_normal((1, 3, 8)), 9, axis=0)  # H(n - 1) + 1 = 5 of them
    own = rng.standard_normal((4, 3, 8))
    mixed = np.concatenate([own[:2], shared, own[2:]])
    found = capacity_of(mixed, 2)
    assert (found.lower, found.upper) == (9, 9)
    assert found.blamed.tolist() == list(range(2, 11))
    assert "|J| = 9 examples of J have tokens of k_J = 3 and differences of delta_J = 2" in str(
        found
    )
