"""What the checker bounds for paired heads, step by step, against many digits.

Rounding seldom comes near its bounds. So errors of what is given are made large, and the truth is
whatever they leave possible; what is within a bound for those is within it for small ones.
"""

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from paired_cases import Matrix, distance, possible, softmax

from constructive import build_memorizer, generators

# Numbers.


def test_constants(checker):
    with mpmath.workprec(200):
        first, rest = map(mpmath.mpf, checker.paired.LN2)
        assert int(first * 2**32) == first * 2**32
        assert abs(first + rest - mpmath.log(2)) < mpmath.mpf(2) ** -85
        assert mpmath.exp(-checker.paired.NATS) < checker.paired.LEFT < 1e-17


@pytest.mark.parametrize("x", [-60.5, -60.0, -37.2, -1e-300, 0.0, 0.3, 1.0, 88.8, 699.9])
def test_exponentials_of_any_size(checker, x):
    (found,) = checker.paired.exponentials(np.array([x]))
    with mpmath.workprec(120):
        truth = mpmath.exp(mpmath.mpf(x))
        assert abs(mpmath.mpf(float(found)) - truth) <= 2.0**-46 * truth + 1e-26


def test_exponentials_of_what_is_too_large_are_no_numbers(checker):
    found = checker.paired.exponentials(np.array([700.0, 1e300, np.inf, np.nan, -np.inf]))
    assert np.isnan(found[:4]).all()
    assert found[4] == 0


@pytest.mark.parametrize("spread", [0, 60, 110, 400])
@pytest.mark.parametrize("width", [1, 2, 40])
def test_products_of_mixed_scales(checker, spread, width):
    """Within the bound, which is about 2^-90 |x| |y| for each entry."""
    rng = np.random.default_rng(spread)
    x, y = rng.uniform(-1, 1, (2, 20, width)) * 2.0 ** -rng.integers(0, spread + 1, (2, 20, width))
    high, low, bound = checker.paired.precisely(x, y)
    with mpmath.workprec(2000):
        for k in range(20):
            truth = mpmath.fdot(map(mpmath.mpf, x[k].tolist()), map(mpmath.mpf, y[k].tolist()))
            assert abs(truth - float(high[k]) - mpmath.mpf(float(low[k]))) <= bound
    size = float(np.abs(x).max() * np.abs(y).max())
    assert bound <= width * size * 2.0**-70
    several = checker.paired.precisely(x.reshape(4, 5, width), y.reshape(4, 5, width))
    assert several[2] == bound
    assert (several[0].ravel() == high).all()
    assert checker.paired.precisely(x[:, None], np.stack([y, y], axis=1))[2] == bound


def test_digits_are_those_of_the_number(checker):
    x = np.array([1.0, -0.75, 2.0**-70, 1 / 3, 2.0**-300, 2.0**-70 / 3, 2.0**-66 / 7])
    digits, top, left = checker.paired.split(x)
    with mpmath.workprec(500):
        for k, value in enumerate(x.tolist()):
            parts = [mpmath.ldexp(d[k], top - 20 * i) for i, d in enumerate(digits)]
            assert abs(mpmath.fsum(parts) - mpmath.mpf(value)) <= left
    assert np.abs(digits).max() <= 2**20
    assert left <= 2.0 ** (2 - 100)


# Attention.


@pytest.mark.parametrize("off", [0.0, 1e-15, 1e-6, 1e-4])
@pytest.mark.parametrize("score_error", [0.0, 1e-16, 1e-7, 1e-4])
@pytest.mark.parametrize("low", [0.0, 1e-5])
def test_attention_covers_all_that_is_possible(checker, off, score_error, low):
    """And not much more than logits can be off by, of gaps of at most 2."""
    rng = np.random.default_rng(0)
    high = rng.uniform(-9, 9, (5, 2))
    scores = rng.uniform(-1, 1, (5, 4))
    lows = low * rng.uniform(-1, 1, (5, 2)), low * rng.uniform(-1, 1, (5, 4))
    errors = np.full((5, 1), score_error)
    found, bound = checker.paired.Layer.attention(high, lows[0], off, scores, lows[1], errors)
    with mpmath.workdps(60):
        for k in range(5):
            worst = 0
            for head in range(2):
                given = (high[k, head], lows[0][k, head], off, scores[k], lows[1][k], score_error)
                shares = found[k, head]
                worst += max(distance(softmax(x), shares) for x in possible(*given))
            assert worst <= bound[k]
            most = np.abs(high[k]).sum() * 4 * score_error + 2 * 2 * off * (1 + score_error)
            assert bound[k] <= 2.2 * most + 1e-12


def test_large_errors_of_small_shares_are_not_taken_for_small_ones(checker):
    """A token 14 nats behind, of which most of one is not known: its share may be twice as much.

    All that is taken of it is a millionth.
    """
    scores, high = np.array([[0.0, 1.0]]), np.full((1, 2), 14.0)
    attention = checker.paired.Layer.attention
    found, bound = attention(high, 0 * high, 0.9, scores, 0 * scores, np.zeros((1, 1)))
    with mpmath.workdps(30):
        given = (14.0, 0.0, 0.9, scores[0], [0.0, 0.0], 0.0)
        worst = 2 * max(distance(softmax(x), found[0, 0]) for x in possible(*given))
    assert worst <= bound[0]


def test_rounding_of_logits_counts(checker, monkeypatch):
    """As if a rounding were 1e-6: twelve of them of every logit's distance to the largest one."""
    monkeypatch.setattr(checker.paired, "UNIT", 1e-6)
    rng = np.random.default_rng(0)
    high, scores = rng.uniform(-9, 9, (5, 2)), rng.uniform(-1, 1, (5, 4))
    shares, bound = checker.paired.Layer.attention(
        high, 0 * high, 0.0, scores, 0 * scores, np.zeros((5, 1))
    )
    logits = high[:, :, None] * scores[:, None]
    behind = logits.max(axis=2, keepdims=True) - logits
    expected = 2.1 * 1.01 * 12e-6 * (shares * behind).sum(axis=(1, 2))
    assert np.allclose(bound, expected, rtol=1e-4)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("lead", "off", "score_error", "alone"),
    [
        (40.1, 0.0, 0.0, True),
        (40.1, 0.0, 0.1, False),
        (40.1, 0.1, 0.0, False),
        (39.9, 0.0, 0.0, False),
        (80.0, 1.0, 1.0, True),
        (1e6, 0.0, 1e3, True),
    ],
)
def test_a_token_which_leads_is_alone(checker, sign, lead, off, score_error, alone):
    """Then the bound does not grow by what logits may be off, beyond what they lead by."""
    scores = np.array([[0.0, -sign, 0.0, -sign * 3.0]]) + sign * np.array([[1.0, 0, 0, 0]])
    high = np.full((1, 2), sign * lead)
    _, bound = checker.paired.Layer.attention(
        high, np.zeros((1, 2)), off, scores, np.zeros((1, 4)), np.array([[score_error / lead]])
    )
    shown = 2 * (5 * 4 * checker.paired.LEFT + checker.bounds.gamma(9))
    if alone:
        assert shown <= bound[0] <= 1.01 * shown
    else:
        assert bound[0] > 1.5 * shown


# Layers which these proofs are about.


def small_layer(**changes):
    """Five heads of d_h = 2 on three examples, where nothing is wrong."""
    rng = np.random.default_rng(0)
    w_q = np.zeros((5, 4, 2))
    w_q[:, :, 0] = rng.standard_normal((5, 4))
    weights = {
        "W_Q": w_q,
        "W_K": np.broadcast_to(rng.standard_normal((1, 4, 2)), (5, 4, 2)).copy(),
        "W_V": np.concatenate([rng.standard_normal((4, 4, 1)), np.zeros((1, 4, 1))]),
        "W_O": np.ones((5, 1)),
        "W_D": np.ones((1, 1)),
    }
    data = {
        "contexts": rng.standard_normal((3, 2, 4)),
        "queries": rng.standard_normal((3, 4)),
        "targets": rng.standard_normal(3),
    }
    for name, (place, value) in changes.items():
        (weights if name in weights else data)[name][place] = value
    return weights, data


def layer_of(checker, weights, data):
    return checker.paired.Layer(weights, data, np.arange(3), np.array([2, 3]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"W_V": ((4, 1, 0), 1e-9)}, "a head without a partner reads"),
        ({"W_O": ((4, 0), 0.0)}, "do not copy"),
        ({"W_D": ((0, 0), 2.0)}, "do not copy"),
        ({"W_Q": ((3, 2, 1), 1e-9)}, "not of rank one"),
        ({"W_Q": ((0, 0, 1), 1e-9)}, "not of rank one"),
        ({"W_K": ((3, 2, 0), 1e-9)}, "one key direction"),
        ({"W_K": ((0, 2, 0), 1e-9)}, "one key direction"),
        ({"W_Q": ((1, 1, 0), 1e30)}, "too large for float64"),
    ],
)
def test_layers_which_are_others(checker, changes, words):
    with pytest.raises(ValueError, match=words):
        layer_of(checker, *small_layer(**changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"W_Q": ((4, 1, 1), 5.0)}, {"W_K": ((4, 1, 0), 5.0)}, {"W_K": ((1, 1, 1), 5.0)}],
)
def test_layers_as_they_may_be(checker, changes):
    """A head without a partner may look anywhere, and keys may have columns nobody asks."""
    layer = layer_of(checker, *small_layer(**changes))
    assert layer.heads.shape == (2, 2, 4)


@pytest.mark.parametrize("scale", [-300, -5, 0, 7, 300])
def test_layers_are_brought_to_size_one_exactly(checker, scale):
    weights, data = small_layer()
    power = 2.0**scale
    plain = layer_of(checker, weights, data)
    moved = layer_of(
        checker,
        weights | {"W_Q": weights["W_Q"] * power, "W_V": weights["W_V"] * power},
        data | {"contexts": data["contexts"] / power, "targets": data["targets"] / power},
    )
    assert (moved.a, plain.c - moved.c) == (plain.a - scale, 0 if scale == 0 else plain.c - moved.c)
    assert (moved.heads == plain.heads).all()
    assert (moved.scores == plain.scores).all()
    for layer, given in ((plain, data["targets"]), (moved, data["targets"] / power)):
        assert (np.ldexp(layer.targets[:, 0], layer.c) == given).all()
        assert np.abs(layer.targets).max() < 1
        assert np.abs(layer.first).max() < 1
        assert np.abs(layer.queries).max() < 1
        assert 0.5 <= np.abs(layer.contexts * 2.0**-layer.a).max() < 1
    pairs = weights["W_V"][:4, :, :1].reshape(2, 2, 4, 1)
    assert (np.ldexp(plain.first, plain.c - plain.a) == pairs[:, 0]).all()
    assert (np.ldexp(plain.both, plain.c - plain.a) == pairs.sum(axis=1)).all()


def test_rounding_of_scores_and_tails(checker, monkeypatch):
    """As if a rounding were 1e-3: the error of a score, and what is read of tokens far behind."""
    monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-3 * terms)
    layer = layer_of(checker, *small_layer())
    longest = np.linalg.norm(layer.tokens(np.arange(3)), axis=2).max(axis=1)
    expected = 6e-3 * np.linalg.norm(layer.key) * longest
    assert np.allclose(layer.score_error, expected, rtol=1e-8)
    assert (layer.score_error >= expected).all()
    largest = np.abs(layer.tokens(np.arange(3))).max(axis=(1, 2))
    assert (layer.largest >= largest).all()
    assert np.allclose(layer.tail, 2 * 2 * checker.paired.LEFT * largest, rtol=1e-8, atol=0)


# Who is alike.


def tokens_and_heads(reaches, scores):
    """A layer of pairs of heads which reach so far, on one example with these scores."""
    reaches, count = np.array(reaches, dtype=float), len(scores)
    contexts = np.zeros((1, count, 2))
    contexts[0, :, 0] = scores
    keys, heads = np.zeros((2 * len(reaches), 2, 1)), np.zeros((2 * len(reaches), 2, 1))
    keys[:, 0] = 1.0
    heads[:, 1, 0] = reaches.reshape(-1)
    total = 2 * len(reaches)
    weights = {
        "W_Q": heads,
        "W_K": keys,
        "W_V": np.zeros((total, 2, 1)),
        "W_O": np.ones((total, 1)),
        "W_D": np.ones((1, 1)),
    }
    data = {"contexts": contexts, "queries": np.array([[0.0, 1.0]]), "targets": np.zeros(1)}
    return weights, data


def test_pairs_are_alike_where_both_heads_surely_read_one_token(checker, monkeypatch):
    """The largest score leads by 1/2, and the smallest one by 1/4: 80 and 160 are needed."""
    reaches = [
        (80.001, 300), (79.999, 300), (300, 79.999), (300, 80.001), (-160.01, -300),
        (-159.99, -300), (-300, -159.99), (300, -300), (-300, 300), (0, 300), (1e9, 1e9),
    ]  # fmt: skip
    monkeypatch.setattr(checker.paired, "COUPLED", len(reaches))
    weights, data = tokens_and_heads(reaches, [0.0, 0.5, -0.25, 1.0, 0.25])
    stops = np.zeros(len(reaches), dtype=np.int64)
    layer = checker.paired.Layer(weights, data, np.arange(1), stops)
    where, pairs = layer.unlike(np.empty(0, np.int64))
    assert pairs.tolist() == [1, 2, 5, 6, 7, 8, 9]
    assert not where.any()
    where, pairs = layer.unlike(np.array([7]))  # its own pair is not asked
    assert pairs.tolist() == [1, 2, 5, 6, 8, 9]


def test_no_more_pairs_may_couple_than_memory_was_announced_for(checker):
    weights, data = tokens_and_heads([(1, 1)] * 5, [0.0, 1.0])
    layer = checker.paired.Layer(weights, data, np.arange(1), np.zeros(5, dtype=np.int64))
    assert len(layer.unlike(np.empty(0, np.int64))[0]) == 5
    weights, data = tokens_and_heads([(1, 1)] * 6, [0.0, 1.0])
    layer = checker.paired.Layer(weights, data, np.arange(1), np.zeros(6, dtype=np.int64))
    with pytest.raises(ValueError, match="too many couple"):
        layer.unlike(np.empty(0, np.int64))


@np.errstate(all="ignore")
def test_errors_of_scores_count_where_it_is_close(checker):
    weights, data = tokens_and_heads([(80.001, 300), (300, 300)], [0.0, 0.5, 1.0])
    layer = checker.paired.Layer(weights, data, np.arange(1), np.zeros(2, dtype=np.int64))
    assert not len(layer.unlike(np.empty(0, np.int64))[0])
    layer.score_error = np.full(1, 1e-4)
    assert layer.unlike(np.empty(0, np.int64))[1].tolist() == [0]
    layer.score_error = np.full(1, 0.3)  # larger than the lead: nothing is sure
    assert layer.unlike(np.empty(0, np.int64))[1].tolist() == [0, 1]


@np.errstate(all="ignore")
def test_rounding_of_reaches_counts_where_it_is_close(checker, monkeypatch):
    """As if a rounding were 1e-6: (d + 2) |q| |e| of it is what a reach may be off."""
    for reach, alike in ((80 + 80.1 * 4.01e-6, True), (80 + 80.1 * 3.99e-6, False)):
        weights, data = tokens_and_heads([(reach, 80.1)], [0.0, 0.5, 1.0])
        layer = checker.paired.Layer(weights, data, np.arange(1), np.zeros(1, dtype=np.int64))
        monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-6 * terms)
        assert len(layer.unlike(np.empty(0, np.int64))[0]) == (not alike)
        monkeypatch.undo()


@np.errstate(all="ignore")
def test_rounding_of_gaps_counts_where_it_is_close(checker, monkeypatch):
    """As if a rounding were 1e-4: two of a gap of 1/2."""
    monkeypatch.setattr(checker.paired, "UNIT", 1e-4)
    for part, alike in ((2.01e-4, True), (1.99e-4, False)):
        weights, data = tokens_and_heads([(80 / (1 - part), 300)], [0.0, 0.5, 1.0])
        layer = checker.paired.Layer(weights, data, np.arange(1), np.zeros(1, dtype=np.int64))
        assert len(layer.unlike(np.empty(0, np.int64))[0]) == (not alike)


# Blocks.


@pytest.fixture(scope="module")
def small(checker):
    return steps_of(checker)


def steps_of(checker, sign=1):
    """13 examples of 4 pairs, the last one of its own, and what the checker makes of them."""
    data = generators.gaussian(num_examples=13, context_size=3, width=5, seed=3)
    memorizer = build_memorizer(data, num_heads=8, construction="paired", seed=1)
    tensors = dict(memorizer.layer.tensors)
    tensors |= {name: sign * tensors[name] for name in ("W_Q", "W_K")}
    layer = checker.paired.Layer(
        tensors,
        {"contexts": data.contexts, "queries": data.queries, "targets": data.targets},
        np.array(memorizer.record.order),
        np.array([head.stop for head in memorizer.record.heads[1::2]]),
    )
    owner = np.repeat(np.arange(4), np.diff(layer.stops, prepend=0))
    at, pairs = layer.unlike(owner)
    coupled = at, pairs, *layer.read(at, pairs, (1.0, -1.0))
    own = layer.read(np.arange(len(owner)), owner, (1.0, -1.0))
    return layer, owner, own, coupled


@pytest.mark.parametrize("chunk", [1, 40, 100])
def test_pieces_are_put_together(checker, small, monkeypatch, chunk):
    layer, owner, own, coupled = small
    blocks = checker.paired.Blocks(layer, owner, own, coupled)
    distances = checker.paired.residuals(layer, owner, own, coupled)
    monkeypatch.setattr(checker.paired, "CHUNK", chunk)
    other, _, *steps = steps_of(checker)
    near = {"rtol": 1e-9, "atol": 1e-14}
    assert np.allclose(other.scores, layer.scores, **near)
    assert np.allclose(other.score_error, layer.score_error, **near)
    assert np.allclose(other.tail, layer.tail, rtol=1e-9, atol=0)
    assert len(coupled[0]) > 3
    for found, expected in zip((*steps[0], *steps[1]), (*own, *coupled), strict=True):
        assert np.allclose(found, expected, **near)
    w = np.random.default_rng(0).uniform(0, 1, len(layer.order))
    again = checker.paired.Blocks(other, owner, *steps)
    assert np.allclose(again(w), blocks(w), **near)
    assert np.allclose(again.reach(w), blocks.reach(w), **near)
    found = checker.paired.residuals(other, owner, *steps)
    assert np.allclose(found, distances, rtol=0.3, atol=1e-14)


def right_inverse(blocks):
    """R by its blocks, with the token of the extra example: (pairs d + d, T)."""
    total, width = len(blocks.sums), len(blocks.token)
    pairs = len(blocks.layer.stops)
    r = np.zeros((pairs + 1, width, total))
    for rows, _, inverse, *_ in blocks.parts:
        for columns, block in zip(rows, inverse, strict=True):
            pair = int(np.searchsorted(blocks.layer.stops, columns[0], side="right"))
            r[pair][:, columns] = block
    r[pairs, :, -1] = blocks.token
    return r.reshape(-1, total)


@pytest.mark.parametrize("spoilt", [0.0, 1e-4])
def test_blocks_bound_what_is_left_of_the_identity(checker, small, spoilt):
    """With values spoilt by what their errors allow, in the worst direction for each entry."""
    layer, owner, own, coupled = small
    rng = np.random.default_rng(0)
    own = own[0], own[1] + spoilt
    coupled = *coupled[:3], coupled[3] + spoilt
    blocks = checker.paired.Blocks(layer, owner, own, coupled)
    total, width = len(layer.order), len(layer.key)
    x = np.zeros((total, len(layer.stops) + 1, width))
    off = np.zeros((total, len(layer.stops) + 1))
    off[:, :-1] = layer.tail[:, None]
    x[np.arange(len(owner)), owner], off[np.arange(len(owner)), owner] = own
    x[coupled[0], coupled[1]], off[coupled[0], coupled[1]] = coupled[2:]
    # What the second head of pair 0 reads: one token of the extra example, anything of others.
    z = layer.read(np.arange(total), np.zeros(total, dtype=np.int64), (0.0, 1.0))[0]
    (token,) = (t for t in layer.tokens(np.array([total - 1]))[0] if np.abs(t - z[-1]).max() < 1e-9)
    x[:, -1], x[-1, -1], off[-1, -1] = z, token, layer.tail[-1]
    r = right_inverse(blocks)
    middle = np.abs(np.eye(total) - x.reshape(total, -1) @ r)
    worst = middle + np.repeat(off, width, axis=1) @ np.abs(r)
    for w in (np.ones(total), rng.uniform(0, 1, total), np.eye(total)[-1], np.eye(total)[2] + 0.01):
        found = blocks(w)
        assert (found >= (worst * (1 - 1e-12)) @ w - 1e-15).all()
        # The extra example may read anything of its size, and is far from none of it.
        loose = (np.abs(np.eye(total) - x[:, :-1].reshape(total, -1) @ r[:-width]) @ w) + 10 * (
            np.repeat(off[:, :-1], width, axis=1) @ np.abs(r[:-width]) @ w
        )
        assert (found <= loose + 2 * blocks.column * w[-1] + 1e-10).all()
    for last in (0.5, 1e-6, 1e6):
        w = rng.uniform(0, 1, total)
        w[-1] = last
        reach = np.abs(r) @ w
        assert reach.max() <= blocks.reach(w) <= 2 * reach.max()


def test_signs_of_heads_and_keys_cancel(checker, small):
    """Where all scores change their signs, the token which is read has the least one."""
    layer, owner, own, coupled = small
    other, _, *steps = steps_of(checker, sign=-1)
    assert (other.scores == -layer.scores).all()
    w = np.random.default_rng(0).uniform(0, 1, len(layer.order))
    found = checker.paired.Blocks(other, owner, *steps)
    blocks = checker.paired.Blocks(layer, owner, own, coupled)
    assert np.allclose(found(w), blocks(w), rtol=1e-9)
    assert np.allclose(found.token, blocks.token, rtol=1e-12)


@pytest.mark.parametrize(("at", "pair", "sure"), [(12, 0, False), (12, 1, True), (11, 0, True)])
def test_pair_0_has_to_be_sure_of_the_extra_example(checker, small, at, pair, sure):
    layer, owner, own, coupled = small
    keep = ~((coupled[0] == 12) | (coupled[1] == 0))
    kept = [x[keep] for x in coupled]
    more = np.array([at]), np.array([pair]), coupled[2][:1], coupled[3][:1]
    other = tuple(np.concatenate(parts) for parts in zip(kept, more, strict=True))
    if sure:
        checker.paired.Blocks(layer, owner, own, other)
        return
    with pytest.raises(ValueError, match="pair 0 is not sure"):
        checker.paired.Blocks(layer, owner, own, other)


def test_rounding_of_blocks_counts(checker, small, monkeypatch):
    """As if a rounding were 1e-6: of |D| |R| + 1 for a block, and of |x| |R| beside it."""
    layer, owner, own, coupled = small
    total = len(layer.order)
    matrix = lambda blocks: np.stack([blocks(row) for row in np.eye(total)], axis=1)  # noqa: E731
    plain = matrix(checker.paired.Blocks(layer, owner, own, coupled))
    monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-6 * terms)
    blocks = checker.paired.Blocks(layer, owner, own, coupled)
    grown = matrix(blocks) - plain
    sizes = {}
    for rows, _, inverse, *_ in blocks.parts:
        for columns, r in zip(rows, inverse, strict=True):
            least = 7e-6 * (np.abs(own[0][columns]) @ np.abs(r) + 1)
            assert np.allclose(grown[np.ix_(columns, columns)], least, rtol=1e-6)
            sizes[owner[columns[0]]] = columns, np.abs(r)
    for t, pair, x in zip(*coupled[:3], strict=True):
        columns, r = sizes[pair]
        assert np.allclose(grown[t, columns], 7e-6 * (np.abs(x) @ r), rtol=1e-6)
    length = np.abs(blocks.token).sum()
    assert np.allclose(grown[-1, -1], 7e-6 * layer.largest[-1] * length, rtol=1e-6)


def test_distances_cover_what_is_far(checker, small, monkeypatch):
    """As if a rounding were 1e-6: of a residual of the size of its target."""
    layer, owner, own, coupled = small
    targets = layer.targets
    try:
        layer.targets = targets + 0.25
        distances = checker.paired.residuals(layer, owner, own, coupled)[:, 0]
        monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-6 * terms)
        found = checker.paired.residuals(layer, owner, own, coupled)[:, 0]
    finally:
        layer.targets = targets
    assert (distances > 0.1).all()
    assert (found - distances >= 15e-6 * distances).all()


def test_tails_count(checker, small):
    """As if 1e-6 were read of tokens far behind: of all columns, and of the extra example."""
    layer, owner, own, coupled = small
    total = len(layer.order)
    matrix = lambda blocks: np.stack([blocks(row) for row in np.eye(total)], axis=1)  # noqa: E731
    blocks = checker.paired.Blocks(layer, owner, own, coupled)
    plain, tail = matrix(blocks), layer.tail
    try:
        layer.tail = tail + 1e-6 * np.arange(1, 14)
        grown = matrix(checker.paired.Blocks(layer, owner, own, coupled)) - plain
    finally:
        layer.tail = tail
    near = {"rtol": 1e-6, "atol": 1e-12}
    assert np.allclose(grown[:, :12], 1e-6 * np.outer(np.arange(1, 14), blocks.sums[:12]), **near)
    last = 13e-6 * np.abs(blocks.token).sum()
    assert np.allclose(grown[:, 12], np.append(np.zeros(12), last), **near)


def test_distances_cover_rounding(checker, small, monkeypatch):
    layer, owner, own, coupled = small
    exact = checker.paired.residuals(layer, owner, own, coupled)[:, 0]
    first, both = layer.first[:, :, 0], layer.both[:, :, 0]
    size = np.append(np.einsum("td,td->t", np.abs(own[0]), np.abs(first[owner])), 0.0)
    terms = np.einsum("td,td->t", np.abs(coupled[2]), np.abs(first[coupled[1]]))
    np.add.at(size, coupled[0], terms)
    monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-6 * terms)
    found = checker.paired.residuals(layer, owner, own, coupled)[:, 0]
    assert (found - exact >= 15e-6 * size).all()
    assert (found - exact <= 60e-6 * (size + np.abs(both).sum())).all()
    monkeypatch.setattr(checker.paired, "gamma", lambda _: 0.0)
    monkeypatch.setattr(checker.paired, "UNIT", 1e-6)
    found = checker.paired.residuals(layer, owner, own, coupled)[:, 0]
    least = layer.largest * 2e-6 * np.abs(both).sum()
    assert (found - exact >= 0.999 * least - 1e-12).all()


def test_rounding_of_what_is_read_counts(checker, small, monkeypatch):
    """As if a rounding were 1e-3: of sums over tokens, by their largest entry."""
    layer, owner, own, _ = small
    monkeypatch.setattr(checker.paired, "gamma", lambda terms: 1e-3 * terms)
    _, errors = layer.read(np.arange(len(owner)), owner, (1.0, -1.0))
    # Three times n + 2 roundings at the end, and n + 5 in each of two heads.
    grown = (errors - own[1]) / layer.largest[: len(owner)]
    assert np.allclose(grown, 1e-3 * (3 * 5 + 2 * 8), rtol=1e-6)


@pytest.mark.parametrize("radius", [0.0, 0.3, 0.8, 0.95])
def test_where_coupling_contracts_a_vector_shows_it(checker, radius):
    for seed in range(5):
        n = np.random.default_rng(seed).random((6, 6)) ** 8
        n *= radius / np.abs(np.linalg.eigvals(n)).max()
        w, q = checker.paired.Blocks.solve(Matrix(n))
        assert (w > 0).all()
        assert (n @ w <= q * w).all()
        assert q < 1
        assert q <= max(radius * 1.1, (1 + radius) / 2)


@pytest.mark.parametrize("radius", [1.0, 1.0001, 3.0, 1e200])
def test_where_coupling_does_not_contract_nothing_is_shown(checker, radius):
    with pytest.raises(ValueError, match="not shown to contract"):
        checker.paired.Blocks.solve(Matrix(np.full((2, 2), radius / 2)))


# Distances.


def test_distances_cover_errors_of_what_is_read(checker, small):
    layer, owner, own, coupled = small
    exact = checker.paired.residuals(layer, owner, own, coupled)
    more = checker.paired.residuals(layer, owner, (own[0], own[1] + 1e-3), coupled)
    sums = np.abs(layer.first[owner, :, 0]).sum(axis=1)
    assert (more[: len(owner), 0] >= exact[: len(owner), 0] + 0.999e-3 * sums).all()
    at, pairs, values, errors = coupled
    more = checker.paired.residuals(layer, owner, own, (at, pairs, values, errors + 1e-3))
    sums = np.bincount(at, np.abs(layer.first[pairs, :, 0]).sum(axis=1), len(layer.order))
    assert (more[:, 0] >= exact[:, 0] + 0.999e-3 * sums).all()
    assert (more[:, 0] <= exact[:, 0] + 1.001e-3 * sums + 1e-12).all()


def test_distances_cover_all_heads_which_are_alike(checker, small):
    layer, owner, own, coupled = small
    exact = checker.paired.residuals(layer, owner, own, coupled)
    tail = layer.tail
    try:
        layer.tail = tail + 1e-3
        more = checker.paired.residuals(layer, owner, own, coupled)
    finally:
        layer.tail = tail
    grown = 1e-3 * np.abs(layer.first[:, :, 0]).sum()
    assert (more >= exact + 0.999 * grown).all()
    assert math.isclose(float((more - exact).max()), grown, rel_tol=1e-3)


# What is proved by these.


@pytest.fixture
def proved(checker, monkeypatch):
    """Run `prove` on distances, w, q and the reach of R w: the words of its refusal, or None."""
    part = checker.paired

    def run(bound, *, rank=True, worst=0.5, weight=2.0, q=0.25, reach=3.0, a=3, c=5):
        def read(positions, *_):
            return np.zeros((len(positions), 2)), np.zeros(len(positions))

        nobody = np.empty(0, dtype=np.int64)
        layer = SimpleNamespace(
            stops=np.array([2, 3]), unlike=lambda _: (nobody, nobody), read=read, a=a, c=c
        )
        distances = np.zeros((4, 2))
        distances[2, 1] = worst
        found = SimpleNamespace(
            solve=lambda: (np.full(4, weight), q),
            reach=lambda w: reach if (w == weight).all() else None,
        )
        monkeypatch.setattr(part, "residuals", lambda *_: distances if bound else 1 / 0)
        monkeypatch.setattr(part, "Blocks", lambda *_: found if rank else 1 / 0)
        try:
            with np.errstate(all="ignore"):
                part.prove(layer, rank, bound)
        except ValueError as failure:
            return str(failure).split(":")[0]
        return None

    return run


@pytest.mark.parametrize("c", [-1060, 0, 5, 1000])
def test_errors_are_compared_at_their_scale(proved, c):
    power = 2.0**c
    for bound, refused in ((0.5, False), (0.499, True), (0.6, False)):
        said = proved({"error": bound * power}, rank=False, c=c)
        assert said == ("error" if refused else None)
    for worst in (math.inf, math.nan):
        assert proved({"error": 1.7e308}, rank=False, worst=worst) == "error"


def test_coupling_has_to_contract(proved):
    assert proved({}) is None
    for q in (1.0, 1.5, math.nan, math.inf):
        assert proved({}, q=q) == "rank"
    assert proved({}, q=1 - 2.0**-53) is None


@pytest.mark.parametrize("shift", [-1000, 0, 900])
def test_readouts_are_compared_at_their_scale(proved, shift):
    """3 (1/2) / 2 / (1 - 1/4) = 1, times 2^(c - a)."""
    power = 4 * 2.0**shift
    for bound, refused in ((1.00001, False), (0.99999, True), (1e-9, True)):
        said = proved({"readout": bound * power}, c=5 + shift)
        assert said == ("readout" if refused else None)
    for broken in ({"worst": math.inf}, {"reach": math.inf}, {"weight": 0.0}, {"reach": math.nan}):
        assert proved({"readout": 1.7e308}, **broken) == "readout"
    both = {"readout": 8.0, "error": 20.0}
    assert proved(both) is None
    assert proved(both | {"error": 15.0}) == "error"
