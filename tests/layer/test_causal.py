"""The causal layer against its definition, its rank, its margins; logits with and without error."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from definition import attended
from flint import arb, arb_mat, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from test_softmax import VIEWS, WIDTH

from constructive import CausalLayer, DataError, ParameterError
from constructive.exact import modular
from constructive.exact.float_enclosure import exponentials
from constructive.exact.float_model import FLOAT32, FLOAT64, MODELS, STORAGES, model_named
from constructive.exact.softmax import Point, Residues
from constructive.layers import residues
from constructive.layers.attention import CausalView, Shared
from constructive.recite.exact_logits import exact_logits, exact_positions
from constructive.recite.margins import Margins, average_sizes, margins

PRIME = next(modular.safe_primes())
SEEDS = st.integers(0, 2**32 - 1)
WINDOWS = st.sampled_from([None, 1, 2, 3, 100])
FREE = MODELS["float32, any contraction"]


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
    asked = np.arange(layer.inner_dim), out.__setitem__
    list(residues.attended(arithmetic, weights, view, *asked, skip=layer.skip))
    return modular.rank(out[:, first:].reshape(-1, layer.inner_dim), PRIME)


@pytest.mark.parametrize(
    ("count", "heads", "head_dim", "skip"),
    [(1, 1, 1, True), (1, 3, 3, False), (2, 2, 3, True), (5, 2, 1, False)],
)
def test_rank_at_the_bound_and_one_beyond(count, heads, head_dim, skip):
    """All positions: min(K, min(S, d) + S (n - 1)); without the first ones min(K, S (n - 1))."""
    rng, width = np.random.default_rng(3), 3
    inner = (heads + skip) * width
    weights = rng.integers(-9, 10, (2, heads, width, head_dim)).astype(float)
    layer = CausalLayer(*weights, np.zeros((inner, 1)), skip=skip)
    longest = 2 + inner // count  # rows at n - 1 of them, n, and n + 1
    for length in range(max(1, longest - 2), longest + 2):
        tokens = rng.integers(-9, 10, (count, length, width)).astype(float)
        later = count * (length - 1)
        assert rank_modulo(layer, tokens, 0) == min(inner, min(count, width) + later)
        assert not later or rank_modulo(layer, tokens, 1) == min(inner, later)


# --- logits that are exact, margins and their bounds


def dyadic_layer(rng, *, window=None, scale=0.25, skip=True):
    """As `build_decoder` makes them, in float32, with a random readout."""
    queries = rng.integers(-3, 4, size=(2, WIDTH, WIDTH))
    keys = scale * np.broadcast_to(np.eye(WIDTH), queries.shape)
    readout = rng.standard_normal(((2 + skip) * WIDTH, 3))
    return CausalLayer(*(w.astype(np.float32) for w in (queries, keys, readout)), window, skip)


def dyadic_tokens(rng, count=1, length=12):
    return rng.integers(-1, 2, size=(count, length, WIDTH)).astype(np.float32)


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
    first = 0 if layer.window is None else max(0, row + 1 - layer.window)
    with ctx.workprec(200):
        tokens = arb_mat(sequence[first : row + 1].tolist())
        query = arb_mat(sequence[row : row + 1].tolist()).transpose()
        z = query.entries() if layer.skip else []
        for w_q, w_k in zip(layer.query_weights.tolist(), layer.key_weights.tolist(), strict=True):
            logits = tokens * arb_mat(w_k) * arb_mat(w_q).transpose() * query
            powers = arb_mat([[x.exp() for x in logits.entries()]])
            z += [x / sum(powers.entries()) for x in (powers * tokens).entries()]
        outputs = arb_mat([z]) * arb_mat(layer.readout_weights.tolist())
        logits = (outputs * arb_mat(unembedding.tolist()).transpose()).entries()
        following = logits.pop(right)
        return min((following - other for other in logits), key=float)


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


# Logits without rounding, and what the rounding of others moves: for each view.


def pairs(name, rng):
    """A view of random tokens; and each query with the tokens that it sees, by definition."""
    view, visible = VIEWS[name](rng)
    of = ((place, visible(*place)) for place in np.ndindex(*view.shape))
    return view, [(at, view.queries[at], view.tokens[group, list(k)]) for at, (group, k) in of]


@settings(max_examples=40)
@given(
    st.sampled_from(["own", "causal"]), st.booleans(), SEEDS, st.integers(-12, 12),
    st.integers(1, 5),
)  # fmt: skip
def test_partial_sums_are_never_larger_than_said(name, each, seed, exponent, head_dim):
    """In random orders; and all are multiples of their units."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-9, 10, size=(2, 2, WIDTH, head_dim)) * 2.0**exponent
    view, cases = pairs(name, rng)
    known = exact_logits(tuple(weights), view, stored=True, each=each)

    def check(head, sums, terms):
        partial_sums = np.cumsum(rng.permutation(terms))
        unit = 2.0 ** sums.exponents[head]
        assert np.abs(partial_sums).max() <= sums.largest[head] <= 2.0 ** sums.bits[head] * unit
        assert (partial_sums / unit == np.round(partial_sums / unit)).all()

    for index in rng.permutation(len(cases))[:4]:
        _, e, seen = cases[index]
        x = seen[rng.integers(len(seen))]
        for head, (w_q, w_k) in enumerate(zip(*weights, strict=True)):
            sums = partial(check, head)
            asked, keys, matrix, absorbed, turned = known.summed
            for column in range(head_dim):
                sums(asked, e * w_q[:, column])
                sums(keys, x * w_k[:, column])
                assert abs(e @ w_q[:, column]) <= known.stored[2].largest[head]
                assert abs(x @ w_k[:, column]) <= known.stored[3].largest[head]
            product = w_q @ w_k.T
            for k in range(WIDTH):
                sums(absorbed, e * product[:, k])
                sums(turned, product[k] * x)
                for j in range(WIDTH):
                    sums(matrix, w_q[j] * w_k[k])
            sums(known.logits(), (e @ w_q) * (x @ w_k))
            sums(known.logits(), (e @ product) * x)
            sums(known.logits(), [e @ product @ x, -(e @ product @ x)])
            for some in (e * x * np.abs(product).max(), w_q.ravel() * w_k.ravel()):
                assert np.abs(some).sum() <= known.paths


def dyadic(rng):
    layer = dyadic_layer(rng)
    return (layer.query_weights, layer.key_weights), dyadic_tokens(rng)


def test_which_logits_are_exact_where():
    weights, tokens = dyadic(np.random.default_rng(0))
    known = exact_positions(weights, tokens)
    assert known.tabulated
    assert all(known.exact(model_named(None, name)).all() for name in STORAGES)
    assert not known.exact(MODELS["float32, scaled"]).any()
    wide = exact_positions(weights, tokens * 1000)
    assert wide.exact(FLOAT32).all()
    assert not wide.exact(model_named(None, "bfloat16")).any()  # queries have more than 8 bits
    odd = exact_positions(weights, tokens * np.float32(1 + 2.0**-20))
    assert not odd.exact(FLOAT32).any()
    huge = exact_positions((weights[0], weights[1] * np.float32(2.0**120)), tokens * 1024)
    assert not huge.exact(FLOAT32).any()
    rng = np.random.default_rng(1)
    random = rng.standard_normal((2, 1, 6, 6))
    assert not exact_positions(tuple(random), rng.standard_normal((1, 3, 6))).tabulated


def test_heads_have_units_of_their_own_unless_weights_are_stored():
    (w_q, w_k), tokens = dyadic(np.random.default_rng(0))
    fine = np.array([1.0, 2.0**-22], np.float32)[:, np.newaxis, np.newaxis]
    weights, view = (w_q * (1.0 + fine), w_k), CausalView(tokens)
    assert exact_logits(weights, view).exact(FLOAT32).tolist() == [True, False]
    together = exact_logits(weights, view, stored=True)
    assert len(set(together.exponents.tolist())) == 1
    assert together.exact(FLOAT32).tolist() == [False, False]


def test_any_contraction_needs_more():
    """Sums over fewer indices are of larger products in smaller units."""
    for largest, pairwise, free in ((33.0, True, True), (4097.0, True, False)):
        view = Shared(np.array([[largest, 0.0]]), np.array([[0.0, largest]]))
        known = exact_logits((np.ones((1, 2, 1)), np.ones((1, 2, 1))), view)
        found = known.before(FLOAT32), known.before(FREE)
        assert [each.item() for each in found] == [pairwise, free]


def test_the_largest_entries_are_enough_where_all_is_exact_with_them():
    """Then tokens are not looked at one by one; where they are not enough, they are."""
    weights, _ = dyadic(np.random.default_rng(0))
    looked_at = 0
    for scale in (1.2 ** np.arange(60)).astype(int):
        tokens = np.concatenate([np.eye(6) * scale, np.eye(6)])[np.newaxis]
        found, tight = exact_positions(weights, tokens, FLOAT32), exact_positions(weights, tokens)
        assert found.exact(FLOAT32).all() == tight.exact(FLOAT32).all()
        for ours, theirs in zip(found.summed, tight.summed, strict=True):
            assert (ours.exponents == theirs.exponents).all()
            assert (np.asarray(ours.largest) >= theirs.largest).all()
        looked_at += found.exact(FLOAT32).all() and (found.sizes == tight.sizes).all()
    assert 0 < looked_at < 30
