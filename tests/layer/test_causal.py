"""The causal layer against its definition, its rank at the bound, and bounds of what rounds."""

from fractions import Fraction

import numpy as np
import pytest
from definition import attended
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import CausalLayer, DataError, ParameterError
from constructive.exact import modular
from constructive.exact.arithmetics import Point, Residues
from constructive.exact.float_enclosure import exponentials
from constructive.exact.float_model import FLOAT32, FLOAT64, model_named
from constructive.layers import residues
from constructive.layers.attend import Causal
from constructive.layers.exact_logits import exact_positions
from constructive.layers.margins import Margins, average_sizes, margins

PRIME = next(modular.safe_primes())
SEEDS = st.integers(0, 2**32 - 1)
WINDOWS = st.sampled_from([None, 1, 2, 3, 100])


def random_layer(rng, *, heads=2, width=3, head_dim=2, outputs=4, window=None, skip=True):
    draw = rng.standard_normal
    return CausalLayer(
        draw((heads, width, head_dim)), draw((heads, width, head_dim)),
        draw(((heads + skip) * width, outputs)), window, skip,
    )  # fmt: skip


def by_definition(layer, sequence):
    """The representation of each position of one sequence (N, K)."""
    rows = []
    for i, query in enumerate(sequence):
        first = 0 if layer.window is None else max(0, i + 1 - layer.window)
        _, z = attended(layer, sequence[first : i + 1], query)
        rows.append(np.concatenate([query, z.ravel()]) if layer.skip else z.ravel())
    return np.array(rows)


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 4), st.integers(1, 9), WINDOWS, st.booleans(),
       st.sampled_from([1, 100, 1000, 1 << 25]))  # fmt: skip
def test_forward_pass_is_the_definition(seed, count, length, window, skip, block_bytes):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, window=window, skip=skip)
    sequences = rng.standard_normal((count, length, 3))
    wanted = np.array([by_definition(layer, sequence) for sequence in sequences])
    z = layer.intermediate(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(z, wanted, rtol=1e-10, atol=1e-12)
    outputs = layer(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(outputs, wanted @ layer.readout_weights, rtol=1e-10, atol=1e-11)
    assert layer.inner_dim == z.shape[2]


def test_later_tokens_change_nothing():
    rng = np.random.default_rng(0)
    layer, sequences = random_layer(rng), rng.standard_normal((1, 8, 3))
    changed = sequences.copy()
    changed[:, 5:] = 7.0
    assert (layer(sequences)[:, :5] == layer(changed)[:, :5]).all()
    assert (layer(sequences)[:, 5:] != layer(changed)[:, 5:]).any()


def test_huge_logits_do_not_overflow():
    ones = np.ones((1, 1, 1))
    layer = CausalLayer(1e150 * ones, 1e150 * ones, np.ones((1, 1)), skip=False)
    assert layer([[[1.0], [2.0], [1.5]]]).ravel().tolist() == [1.0, 2.0, 2.0]


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
        ({"readout_weights": np.zeros((9, 4)), "skip": False}, r"U \(H d, d_out\)"),
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
        "readout_weights": np.zeros((9, 4)), "window": None, "skip": True,
    }  # fmt: skip
    with pytest.raises(ParameterError, match=words):
        CausalLayer(**{**given_, **change})


@pytest.mark.parametrize(
    "sequences", [np.zeros((5, 3)), np.zeros((1, 5, 4)), np.zeros((0, 5, 3)), np.zeros((1, 0, 3))]
)
def test_sequences_which_do_not_fit(sequences):
    layer = random_layer(np.random.default_rng(0))
    with pytest.raises(DataError, match=r"not \(S, N, d=3\)"):
        layer(sequences)


def test_sequences_which_are_not_finite():
    with pytest.raises(DataError, match="sequences"):
        random_layer(np.random.default_rng(0))([[[1.0, np.inf, 0.0]]])


# --- the rank (Theorem 12)


def integers(rng, *shape):
    return rng.integers(-9, 10, size=shape).astype(float)


def rows_modulo(layer, tokens, point, block_bytes=1 << 25):
    """Z modulo p, tokens in units of their least exponent: (S, N, K)."""
    out = np.empty((*tokens.shape[:2], layer.inner_dim))
    exponent = modular.least_exponent(tokens)
    arithmetic = Residues(point, exponent, exponent)
    weights, view = (layer.query_weights, layer.key_weights), Causal(tokens, layer.window)
    every = np.arange(layer.inner_dim)
    store, options = out.__setitem__, {"skip": layer.skip, "chunk_bytes": block_bytes}
    for _ in residues.attended(arithmetic, weights, view, every, store, **options):
        pass
    return out


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("head_dim", [1, 3])
@pytest.mark.parametrize(("count", "heads"), [(1, 1), (1, 3), (2, 2), (5, 2)])
def test_rank_at_the_bound_and_one_beyond(skip, head_dim, count, heads):
    """All positions: min(K, min(S, d) + S (n - 1)); without the first ones min(K, S (n - 1))."""
    rng, width = np.random.default_rng(3), 3
    inner = (heads + skip) * width
    zeros = np.zeros((inner, 1))
    layer = CausalLayer(
        integers(rng, heads, width, head_dim), integers(rng, heads, width, head_dim), zeros,
        skip=skip,
    )  # fmt: skip
    longest = 2 + inner // count  # rows at n - 1 of them, n, and n + 1
    for length in range(max(1, longest - 2), longest + 2):
        z = rows_modulo(layer, integers(rng, count, length, width), Point(PRIME, 12345))
        later = count * (length - 1)
        every = modular.rank(z.reshape(-1, inner), PRIME)
        assert every == min(inner, min(count, width) + later)
        if later:
            assert modular.rank(z[:, 1:].reshape(-1, inner), PRIME) == min(inner, later)


# --- logits that are exact, margins and their bounds


def dyadic_layer(rng, *, heads=2, width=6, outputs=3, window=None, scale=0.25, skip=True):
    """As `build_decoder` makes them, in float32, with a random readout."""
    queries = rng.integers(-3, 4, size=(heads, width, width))
    keys = scale * np.broadcast_to(np.eye(width), queries.shape)
    readout = rng.standard_normal(((heads + skip) * width, outputs))
    return CausalLayer(*(w.astype(np.float32) for w in (queries, keys, readout)), window, skip)


def dyadic_tokens(rng, count=1, length=12, width=6):
    return rng.integers(-1, 2, size=(count, length, width)).astype(np.float32)


@given(st.integers(-6, 2), st.floats(0.01, 1000.0))
def test_the_table_of_exponentials(exponent, most):
    unit = 2.0**exponent
    table = exponentials(unit, most)
    assert len(table) * unit > min(most, 745.0)
    for k in {0, len(table) // 2, len(table) - 1}:
        exact = float(arb(-k * unit).exp())
        assert abs(table[k] - exact) <= 2.0**-51 * exact + 2.0**-1022


def found_margins(layer, unembedding, model, tokens, following):
    known = exact_positions((layer.query_weights, layer.key_weights), tokens)
    places = np.arange(following.size).reshape(following.shape)
    parts = margins(layer, unembedding, model, tokens.astype(float), known, following, places)
    return Margins.together(list(parts))


def true_margin(layer, unembedding, sequence, row, right):
    """The least l_right - l_v in ball arithmetic of 200 bits."""
    precision, ctx.prec = ctx.prec, 200
    try:
        first = 0 if layer.window is None else max(0, row + 1 - layer.window)
        exact = [[arb(float(x)) for x in token] for token in sequence[first : row + 1]]
        z = list(exact[-1]) if layer.skip else []
        for w_q, w_k in zip(layer.query_weights, layer.key_weights, strict=True):
            w = (w_k.astype(float) @ w_q.astype(float).T @ sequence[row].astype(float)).tolist()
            powers = [sum(x * arb(y) for x, y in zip(t, w, strict=True)).exp() for t in exact]
            z += [
                sum(p * t[k] for p, t in zip(powers, exact, strict=True)) / sum(powers)
                for k in range(len(exact[0]))
            ]
        f = [
            sum(zk * arb(float(u)) for zk, u in zip(z, column, strict=True))
            for column in layer.readout_weights.T
        ]
        logits = [
            sum(x * arb(float(o)) for x, o in zip(f, row_, strict=True)) for row_ in unembedding
        ]
        return min(
            (logits[right] - other for v, other in enumerate(logits) if v != right),
            key=float,
        )
    finally:
        ctx.prec = precision


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([None, 3]), st.booleans(), st.sampled_from([2.0**-3, 1.0]))
def test_true_margins_are_between_the_bounds(seed, window, skip, scale):
    rng = np.random.default_rng(seed)
    layer = dyadic_layer(rng, window=window, scale=scale, skip=skip)
    tokens = dyadic_tokens(rng, count=2, length=7)
    unembedding = rng.standard_normal((5, 3)).astype(np.float32)
    following = rng.integers(0, 5, size=(2, 7))
    following[1, :2] = -1
    found = found_margins(layer, unembedding, FLOAT64, tokens, following)
    assert found.places.tolist() == [i for i, v in enumerate(following.ravel()) if v >= 0]
    for place, least, most in zip(found.places, found.least, found.most, strict=True):
        s, n = divmod(int(place), 7)
        true = true_margin(layer, unembedding, tokens[s], n, following[s, n])
        assert arb(least) <= true <= arb(most)
        assert most - least < 1e-11


@pytest.mark.parametrize("scale", [1.0, 2.0**-140, 2.0**100])
@pytest.mark.parametrize("count", [1, 7, 3000])
def test_averages_in_float32_are_bounds(scale, count):
    """Not below the true averages, and not far above; also of what float32 holds as zero."""
    rng = np.random.default_rng(0)
    weights = rng.random((1, 2, count)) ** 40
    weights[0, 1, 1:] = 0.0
    weights /= weights.sum(axis=2, keepdims=True)
    sizes = (scale * rng.random((1, count, 3))).astype(np.float32)
    bounds = average_sizes(weights, sizes)
    for row in range(2):
        for column in range(3):
            pairs = zip(weights[0, row].tolist(), sizes[0, :, column].tolist(), strict=True)
            true = sum(Fraction(a) * Fraction(x) for a, x in pairs)
            assert true <= Fraction(bounds[0, row, column])
            assert bounds[0, row, column] <= float(true) * (1 + count * 2.0**-22 + 1e-5) + 2e-30


def test_averages_beyond_float32_have_infinite_bounds():
    sizes = np.array([[[np.inf], [1.0]]], np.float32)
    assert not average_sizes(np.array([[[0.5, 0.5]]]), sizes) < np.inf


def test_share_is_the_largest_part_of_a_margin():
    rng = np.random.default_rng(0)
    layer, tokens = dyadic_layer(rng), dyadic_tokens(rng)
    unembedding = rng.standard_normal((4, 3)).astype(np.float32)
    wins = (layer(tokens) @ unembedding.T).argmax(axis=2)
    found = found_margins(layer, unembedding, FLOAT32, tokens, wins)
    assert (found.least > 0).all()
    # Against one other token at a time: the largest part of all, and the least margin.
    parts = [
        found_margins(layer, unembedding[[right, v]], FLOAT32, tokens[:, : n + 1],
                      np.where(np.arange(n + 1) == n, 0, -1)[np.newaxis])
        for n, right in enumerate(wins[0].tolist()) for v in range(4) if v != right
    ]  # fmt: skip
    assert all(part.share == pytest.approx(part.error / part.least) for part in parts)
    shares = np.array([part.share[0] for part in parts]).reshape(-1, 3)
    least = np.array([part.least[0] for part in parts]).reshape(-1, 3)
    np.testing.assert_allclose(found.share, shares.max(axis=1), rtol=1e-5)  # n differs
    np.testing.assert_allclose(found.least, least.min(axis=1), rtol=1e-9)
    loses = (wins + 1) % 4
    lost = found_margins(layer, unembedding, FLOAT32, tokens, loses)
    assert (lost.most < 0).all()
    assert np.isinf(lost.share).all()
    coarse = found_margins(layer, unembedding, model_named(None, "bfloat16"), tokens, wins)
    assert (coarse.error > 300 * found.error).all()
    assert (coarse.least == found.least).all()
