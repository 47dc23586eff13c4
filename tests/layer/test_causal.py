"""The causal layer against its definition, and its rank."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import CausalLayer, DataError, ParameterError
from constructive.exact import modular
from constructive.exact.softmax import Point, Residues
from constructive.layers.attention import CausalView, attend

PRIME = next(modular.safe_primes())
SEEDS = st.integers(0, 2**32 - 1)
WINDOWS = st.sampled_from([None, 1, 2, 3, 100])


def random_layer(rng, *, heads=2, width=3, head_dim=2, outputs=4, window=None):
    draw = rng.standard_normal
    return CausalLayer(
        draw((heads, width, head_dim)), draw((heads, width, head_dim)),
        draw(((heads + 1) * width, outputs)), window,
    )  # fmt: skip


def by_definition(layer, sequence):
    """The representation of each position of one sequence (N, K)."""
    rows = []
    for i, query in enumerate(sequence):
        first = 0 if layer.window is None else max(0, i + 1 - layer.window)
        seen = sequence[first : i + 1]
        attention = oracle.attended(layer.tensors, seen, query)
        rows.append(oracle.floats(oracle.read_out(query, seen, attention)))
    return np.array(rows)


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 4), st.integers(1, 9), WINDOWS,
       st.sampled_from([1, 100, 1000, 1 << 25]))  # fmt: skip
def test_forward_pass_is_the_definition(seed, count, length, window, block_bytes):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, window=window)
    sequences = rng.standard_normal((count, length, 3))
    wanted = np.array([by_definition(layer, sequence) for sequence in sequences])
    z = layer.intermediate(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(z, wanted, rtol=1e-10, atol=1e-12)
    outputs = layer(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(outputs, wanted @ layer.readout_weights, rtol=1e-10, atol=1e-11)
    assert layer.inner_dim == z.shape[2]


def test_single_precision_stays_single():
    rng = np.random.default_rng(0)
    layer = random_layer(rng)
    single = CausalLayer(*(weights.astype(np.float32) for weights in layer.tensors.values()))
    sequences = rng.standard_normal((2, 5, 3))
    assert single(sequences).dtype == single.intermediate(sequences).dtype == np.float32
    np.testing.assert_allclose(single(sequences), layer(sequences), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query_weights": np.zeros((2, 3, 1))}, "weights have shapes"),
        ({"key_weights": np.zeros((2, 4, 2))}, "weights have shapes"),
        ({"readout_weights": np.zeros((6, 4))}, r"weights have shapes(.|\n)*\(H \+ 1\) d"),
        ({"readout_weights": np.zeros((9, 0))}, "weights have shapes"),
        ({"query_weights": np.zeros((2, 3, 2), np.float32)}, "dtypes"),
        ({"readout_weights": np.full((9, 4), np.nan)}, r"U\[0, 0\] is nan"),
        ({"window": 0}, "window=0"),
        ({"window": 2.5}, "window=2.5"),
    ],
)
def test_weights_which_do_not_fit(change, words):
    given_ = {
        "query_weights": np.zeros((2, 3, 2)), "key_weights": np.zeros((2, 3, 2)),
        "readout_weights": np.zeros((9, 4)), "window": None,
    }  # fmt: skip
    with pytest.raises(ParameterError, match=words):
        CausalLayer(**{**given_, **change})


def test_sequences_which_do_not_fit():
    layer = random_layer(np.random.default_rng(0))
    for shape in ((5, 3), (1, 5, 4), (0, 5, 3), (1, 0, 3)):
        with pytest.raises(DataError, match=r"not \(S, N, d=3\)"):
            layer(np.zeros(shape))
    with pytest.raises(DataError, match="sequences"):
        layer([[[1.0, np.inf, 0.0]]])


# --- the rank (Theorem 12)


def rank_modulo(layer, tokens, first):
    """The rank of Z modulo p, without the first positions."""
    out = np.empty((*tokens.shape[:2], layer.inner_dim))
    exponent = modular.least_exponent(tokens)
    arithmetic = Residues(Point(PRIME, 12345), exponent, exponent)
    weights, view = (layer.query_weights, layer.key_weights), CausalView(tokens)
    own = layer.width
    every = np.divmod(np.arange(layer.inner_dim - own), layer.width)
    out[..., :own] = modular.residues(tokens, PRIME)[..., :own]
    for chunk in attend(arithmetic, weights, view):
        out[..., own:][chunk.rows] = chunk.representation.entries(*every)
    return modular.rank(out[:, first:].reshape(-1, layer.inner_dim), PRIME)


@pytest.mark.parametrize(
    ("count", "heads", "head_dim"), [(1, 1, 1), (1, 2, 3), (2, 2, 3), (5, 1, 1)]
)
def test_rank_at_the_bound_and_one_beyond(count, heads, head_dim):
    """All positions: min(K, min(S, d) + S (n - 1)); without the first ones min(K, S (n - 1))."""
    rng, width = np.random.default_rng(3), 3
    inner = (heads + 1) * width
    weights = rng.integers(-9, 10, (2, heads, width, head_dim)).astype(float)
    layer = CausalLayer(*weights, np.zeros((inner, 1)))
    longest = 2 + inner // count  # rows at n - 1 of them, n, and n + 1
    for length in range(max(1, longest - 2), longest + 2):
        tokens = rng.integers(-9, 10, (count, length, width)).astype(float)
        later = count * (length - 1)
        assert rank_modulo(layer, tokens, 0) == min(inner, min(count, width) + later)
        assert not later or rank_modulo(layer, tokens, 1) == min(inner, later)
