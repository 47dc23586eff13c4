"""Logits without rounding, and what the rounding of others moves: for each view."""

from functools import partial

import numpy as np
import pytest
from attention_conformance import VIEWS, WIDTH
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive.exact.float_enclosure import Rounded
from constructive.exact.float_model import FLOAT32, MODELS, STORAGES, model_named
from constructive.layers.attend import Causal, Shared, attend
from constructive.layers.exact_logits import exact_logits, exact_positions

SEEDS = st.integers(0, 2**32 - 1)
FREE = MODELS["float32, any contraction"]


def pairs(name, rng):
    """A view of random tokens; and each query with the tokens that it sees, by definition."""
    view, visible = VIEWS[name](rng)
    of = ((place, visible(*place)) for place in np.ndindex(*view.shape))
    return view, [(at, view.queries[at], view.tokens[group, list(k)]) for at, (group, k) in of]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("each", [False, True])
@settings(max_examples=20)
@given(SEEDS, st.integers(-12, 12), st.integers(1, 5))
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


def dyadic(rng, scale=1, heads=2, width=6):
    """Weights as `build_decoder` makes them, and tokens."""
    queries = rng.integers(-3, 4, size=(heads, width, width)).astype(np.float32)
    keys = 0.25 * np.broadcast_to(np.eye(width, dtype=np.float32), queries.shape)
    return (queries, keys), scale * rng.integers(-1, 2, size=(1, 12, width)).astype(np.float32)


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
    weights, view = (w_q * (1.0 + fine), w_k), Causal(tokens)
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


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("merged", [False, True])
@settings(max_examples=20)
@given(SEEDS, st.sampled_from([1e-4, 0.1, 1.0, 30.0]), st.sampled_from([0.1, 1.0, 10.0]))
def test_wrong_logits_move_averages_by_no_more_than_said(name, merged, seed, eps, scale):
    rng = np.random.default_rng(seed)
    view, cases = pairs(name, rng)
    w_q, w_k = scale * rng.standard_normal((2, 2, WIDTH, 3))
    readout = rng.standard_normal((WIDTH, 2 * 2))
    arithmetic = Rounded(lambda sizes: np.full(sizes.shape, eps), readout, merged=merged)
    bounds = np.empty((*view.shape, 2, 2))
    for chunk in attend(arithmetic, (w_q, w_k), view):
        bounds[chunk.rows] = chunk.representation.bounds
    used = []
    for place, e, tokens in cases:
        logits = np.einsum("e,hek,hdk,nd->hn", e, w_q, w_k, tokens)
        values = (tokens @ readout).reshape(len(tokens), 2, 2)
        true = softmax(logits)
        for _ in range(4):
            off = eps * rng.choice([-1.0, 1.0], logits.shape)
            wrong = true * np.exp(2.0 * off) if merged else softmax(logits + off)
            moved = np.abs(np.einsum("hn,nho->ho", wrong - true, values))
            assert (moved <= bounds[place] * (1.0 + 1e-9) + 1e-12).all()
            used.append((moved / np.maximum(bounds[place], 1e-300)).max())
    assert max(used) > 1e-3
