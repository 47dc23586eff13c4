"""Compact decoders recite in float32 and in integers; saturated heads read one token."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx
from test_decoder import TEXTS

from constructive import ParameterError, PrecisionError, Text, build_decoder, certify
from constructive.constructions import compact
from constructive.constructions.compact_readout import nearest_plane, polished, solve_cells
from constructive.constructions.compact_tokens import Layout, base_of, cells_of, order_of, points_of
from constructive.exact.arithmetics import Floats
from constructive.layers.attend import CausalView, attend
from constructive.layers.causal import LEAD, picks, read

ENGLISH = (Path(__file__).parents[2] / "LICENSE").read_text()


def english(tokens):
    return Text.words("".join(Text.words(ENGLISH).tokens[:tokens]))


def integer_margin(decoder, text):
    """The least margin, from the stored arrays alone, in integers."""
    layer, least = decoder.layer, None
    arrays = {name: array.astype(np.int64) for name, array in decoder.tensors.items()}
    assert all(np.array_equal(arrays[name], array) for name, array in decoder.tensors.items())
    assert np.abs(arrays["U"]).sum(axis=0).max() < 2**24
    for batch in text.batches():
        for ids, places, following in zip(*batch, strict=True):
            at = np.arange(int((places >= 0).sum()))
            tokens = arrays["embedding"][ids[at]] + arrays["positions"][at % len(decoder.positions)]
            picked = picks(tokens, arrays["W_Q"], arrays["W_K"], layer.window).tokens
            rows = np.concatenate([tokens[:, np.newaxis], tokens[picked]], axis=1)
            logits = rows.reshape(len(tokens), -1) @ arrays["U"] @ arrays["unembedding"].T
            for place, token in enumerate(following[at].tolist()):
                if token >= 0:
                    others = np.delete(logits[place], token)
                    margin = int(logits[place, token] - others.max())
                    least = margin if least is None else min(least, margin)
    return least


def assert_recites(decoder, text):
    assert decoder.recites(text)
    assert decoder.record.share < 1.0
    assert integer_margin(decoder, text) == decoder.record.margin > 0
    if text.num_texts == 1:
        assert decoder.generate(text.tokens[: text.prompt]) == text.tokens


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"outputs": 2}, {"outputs": 3}, {"every": True}, {"window": 16}, {"window": 2}],
    ids=str,
)
def test_recites(options, seed):
    text = english(200)
    assert_recites(build_decoder(text, parameters="few", seed=seed, **options), text)


@pytest.mark.parametrize("text", [*map(english, (1, 2, 3, 9)), *TEXTS], ids=repr)
def test_recites_short_texts(text):
    assert_recites(build_decoder(text, parameters="few"), text)


def test_few_are_fewer():
    text = english(400)
    few, many = (build_decoder(text, parameters=name) for name in ("few", "many"))
    readout = few.layer.readout_weights
    assert (readout != 0).sum() < len(text)
    assert few.num_stored < many.num_parameters / 10


def test_every_row_is_an_equation():
    text = english(150)
    decoder = build_decoder(text, parameters="few", every=True)
    assert_recites(decoder, text)
    tokens = decoder.embedded(text.ids[np.newaxis])[0]
    picked = picks(tokens, decoder.layer.query_weights, decoder.layer.key_weights, 8).tokens
    rows = np.concatenate([tokens[:, np.newaxis], tokens[picked]], axis=1).reshape(len(text), -1)
    assert np.linalg.matrix_rank(rows) == len(text)


@pytest.mark.parametrize("ids", [[7] * 22, [7] * 34, [1] * 23 + [2], [1, 2] * 20])
def test_repeated_tokens_have_the_claims_that_their_construction_promises(ids):
    """Whatever heads average of one token is that token, so Z has fewer columns than it seems."""
    text = Text.of(ids)
    usual = certify(build_decoder(text, parameters="few"), text)
    assert [claim.name for claim in usual.claims] == ["recites", "executed"]
    assert usual.proved
    full = build_decoder(text, parameters="few", every=True)
    assert certify(full, text, claims=["rank", "recites", "executed"]).proved


def test_formats_bound_the_entries():
    text = english(300)
    short = build_decoder(text, parameters="few", readout="int8")
    longer = build_decoder(text, parameters="few")
    assert_recites(short, text)
    assert (
        np.abs(short.layer.readout_weights).max()
        < 2**7
        <= np.abs(longer.layer.readout_weights).max()
    )
    with pytest.raises(PrecisionError, match="int8"):
        build_decoder(text, parameters="few", readout="int8", outputs=1)


@pytest.mark.parametrize("options", [{}, {"outputs": 2, "every": True}], ids=str)
def test_long_texts_are_built_block_by_block(options, monkeypatch):
    monkeypatch.setattr(compact, "LARGEST", 100)
    monkeypatch.setattr(compact, "BLOCK", 6)
    text = english(300)
    decoder = build_decoder(text, parameters="few", **options)
    assert decoder.layer.num_heads % 2 == 0
    assert_recites(decoder, text)


def test_pairs_add_zero_outside_their_block_only():
    layout = Layout(window=8, code=4, parities=7, period=6, blocks=2, seed=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(8)
    tokens = layout.embedding(order)[rng.integers(8, size=200)] + layout.positions()[:200]
    queries, keys = layout.gated_heads(3, 5, block=1)
    first, second = (picks(tokens, q, k, 8).tokens for q, k in zip(queries, keys, strict=True))
    inside = (np.arange(200) >> 6) == 1
    assert np.array_equal(first[~inside], second[~inside])
    assert (first[inside] != second[inside]).all()


def test_a_changed_integer_is_noticed():
    text = english(100)
    decoder = build_decoder(text, parameters="few")
    readout = decoder.layer.readout_weights.copy()
    readout[5, 0] += 40.0
    layer = dataclasses.replace(decoder.layer, readout_weights=readout)
    assert integer_margin(dataclasses.replace(decoder, layer=layer), text) < decoder.record.margin


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"window": 12}, "power of two"), ({"window": 1}, "power of two"),
        ({"outputs": 0}, "outputs"), ({"readout": "int4"}, "readout"),
        ({"parameters": "some"}, "some"),
    ],
)  # fmt: skip
def test_options_are_looked_at(options, word):
    with pytest.raises(ParameterError, match=word):
        build_decoder(english(9), **{"parameters": "few"} | options)


def test_points_are_the_digits_of_places():
    order = np.array([3, 0, 1, 4, 2])
    assert points_of(order, 1).T.tolist() == [[-3, 0, -1, -4, -2]]
    assert points_of(order, 2).tolist() == [[0, -1], [0, 0], [-1, 0], [-1, -1], [-2, 0]]
    for count in (2, 5, 27, 28, 519):
        for outputs in (1, 2, 3):
            base = base_of(count, outputs)
            assert base**outputs >= count
            assert base == 2 or (base - 1) ** outputs < count
            assert len(np.unique(points_of(np.arange(count), outputs), axis=0)) == count


def test_the_most_frequent_token_comes_first():
    following = np.array([4, 4, 4, 2, 2, 0, 1, 3, 3])
    order = order_of(following, 6)
    assert order[4] == 0
    assert sorted(order.tolist()) == list(range(6))
    assert order[5] == 5


def test_pivoting_gives_the_shortest_readout():
    """Against conditions of optimality, which are sufficient for a convex problem."""
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (60, 50))
    order = np.arange(5)
    following = rng.choice(5, 60, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    (cells,) = cells_of(points_of(order, 1), following, every=False)
    solved = solve_cells(rows @ rows.T, cells, 50, 1e-9)
    readout = rows.T @ solved.multipliers
    assert np.allclose(rows @ readout, solved.outputs, atol=1e-6)
    assert (solved.outputs >= cells.lower - 1e-5).all()
    assert (solved.outputs <= cells.upper + 1e-5).all()
    only_lower, only_upper = np.isinf(cells.upper), np.isinf(cells.lower)
    assert (solved.multipliers[only_lower] >= 0).all()
    assert (solved.multipliers[only_upper] <= 0).all()
    slack = only_lower & (solved.outputs > cells.lower + 1e-5)
    assert slack.any()
    assert (solved.multipliers[slack] == 0).all()


def test_pivoting_gives_up_where_there_are_too_few_columns():
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (60, 20))
    (cells,) = cells_of(points_of(np.arange(5), 1), rng.choice(5, 60), every=True)
    assert solve_cells(rows @ rows.T, cells, 20, 1e-9) is None


def test_the_nearest_plane_is_nearer_than_rounding():
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (40, 60))
    factor = np.linalg.cholesky(rows.T @ rows + 0.1 * np.eye(60)).T
    wanted = 9.0 * rng.standard_normal((60, 3))
    plane, plain = nearest_plane(factor, wanted), np.rint(wanted)
    assert np.array_equal(plane, np.rint(plane))
    near, far = (np.linalg.norm(factor @ (q - wanted), axis=0) for q in (plane, plain))
    assert (near < 0.8 * far).all()


def test_single_steps_leave_room_or_give_up():
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (40, 60)).astype(np.float32)
    following = rng.integers(4, size=40)
    (cells,) = cells_of(points_of(np.arange(4), 1), following, every=True)
    spacing, needed = 30.0, 3.0
    exact = np.linalg.lstsq(rows, cells.centres * spacing, rcond=None)[0]
    start = np.rint(exact) + rng.integers(-1, 2, 60)
    assert cells.room(rows @ start, spacing).min() < needed
    found = polished(rows, start, cells, spacing, needed)
    assert np.array_equal(found, np.rint(found))
    assert cells.room(rows @ found, spacing).min() >= needed
    assert polished(rows, start, cells, 4.0, 1.9) is None


def test_first_positions_of_blocks_may_be_followed_by_anything(monkeypatch):
    monkeypatch.setattr(compact, "LARGEST", 60)
    monkeypatch.setattr(compact, "BLOCK", 6)
    text = Text.of([(7 * i * i + i // 3) % 11 for i in range(200)])
    decoder = build_decoder(text, parameters="few")
    assert decoder.layer.readout_weights[1:11].any()  # of the token itself
    assert_recites(decoder, text)


# Saturated heads read one token: integers, balls and floats agree, and near misses are refused.


LENGTH, WIDTH, HEADS, WINDOW = 40, 9, 6, 8


def drawn(seed=0, *, sequences=None):
    """Tokens with the digits of their positions, and heads as compact decoders have them."""
    rng = np.random.default_rng(seed)
    shape = (LENGTH, WIDTH) if sequences is None else (sequences, LENGTH, WIDTH)
    tokens = rng.choice([-1, 1], shape)
    tokens[..., 0] = 1
    tokens[..., -3:] = 1 - 2 * (np.arange(LENGTH)[:, None] >> np.arange(3) & 1)
    queries = 64 * rng.choice([-1, 1], (HEADS, WIDTH, 1))
    keys = 2 * WINDOW * rng.choice([-1, 1], (HEADS, WIDTH, 1))
    keys[:, 0] = 0
    keys[:, -3:, 0] = rng.choice([-1, 1], (HEADS, 3)) * 2 ** np.arange(3)
    return tokens, queries, keys


def in_balls(tokens, query, key, window):
    """The largest distance of z from a token that is read, at all positions of one head."""
    picked = picks(tokens, [query], [key], window).tokens[:, 0]
    logits = (tokens @ query) @ (tokens @ key).T
    most = arb(0)
    for place, row in enumerate(logits):
        first = max(0, place - window + 1)
        seen = row[first : place + 1]
        weights = [arb(int(logit - seen.max())).exp() for logit in seen]
        total = sum(weights, arb(0))
        for entry in range(WIDTH):
            column = tokens[first : place + 1, entry].tolist()
            z = sum((w * x for w, x in zip(weights, column, strict=True)), arb(0)) / total
            most = max(most, abs(z - int(tokens[picked[place], entry])).abs_upper())
    return most


def test_balls_agree_within_the_bound():
    tokens, queries, keys = drawn()
    ctx.prec = 400
    try:
        for head in range(HEADS):
            distance = in_balls(tokens, queries[head], keys[head], WINDOW)
            assert 0 < distance <= 2 * (WINDOW - 1) * arb(-LEAD).exp()
    finally:
        ctx.prec = 53


@pytest.mark.parametrize("window", [WINDOW, 5])
def test_float32_gives_the_tokens_bit_for_bit(window):
    tokens, queries, keys = drawn()
    picked = picks(tokens, queries, keys, window)
    weights = queries.astype(np.float32), keys.astype(np.float32)
    wanted = tokens[picked.tokens]
    for chunk in attend(
        Floats(np.float32), weights, CausalView(tokens.astype(np.float32)[np.newaxis], window)
    ):
        rows = chunk.rows[1]
        assert np.array_equal(chunk.representation[0], wanted[rows].astype(np.float32))
    assert picked.lead >= LEAD
    assert np.array_equal(read(tokens, picked.tokens)[:, WIDTH:], wanted.reshape(LENGTH, -1))


def test_several_sequences_are_read_one_by_one():
    tokens, queries, keys = drawn(sequences=3)
    together = picks(tokens, queries, keys, WINDOW)
    each = [picks(sequence, queries, keys, WINDOW) for sequence in tokens]
    assert np.array_equal(together.tokens, np.stack([part.tokens for part in each]))
    assert together.lead == min(part.lead for part in each)


def test_the_lead_is_the_least_difference_to_the_second_logit():
    tokens, queries, keys = drawn(3)
    logits = (tokens @ queries[0]) @ (tokens @ keys[0]).T
    leads = []
    for place in range(1, LENGTH):
        seen = np.sort(logits[place, max(0, place - WINDOW + 1) : place + 1])
        leads.append(int(seen[-1] - seen[-2]))
    assert picks(tokens, queries[:1], keys[:1], WINDOW).lead == min(leads)


def test_one_token_has_no_rival():
    tokens, queries, keys = drawn()
    assert picks(tokens, queries, keys, 1).lead == LEAD
    assert picks(tokens[:1], queries, keys, WINDOW).tokens.tolist() == [[0] * HEADS]


@pytest.mark.parametrize(
    ("array", "place", "change", "word"),
    [
        (0, (3, 2), lambda _: 0.0, "tokens"),
        (1, (1, 2), lambda _: 0.5, "W_Q"),
        (2, (1, 2), lambda _: np.nan, "W_K"),
        (1, ..., lambda queries: queries / 2, "lead"),
        (2, (0, slice(-3, None)), lambda _: 0.0, "lead"),  # a tie
        (1, ..., lambda queries: queries * 1024, "add up"),
    ],
)
def test_what_the_proposition_does_not_allow_is_refused(array, place, change, word):
    arrays = [each.astype(np.float64) for each in drawn()]
    arrays[array][place] = change(arrays[array][place])
    with pytest.raises(PrecisionError, match=word) as error:
        picks(*arrays, WINDOW)
    assert error.value.witness is not None


def test_shapes_and_windows_are_looked_at():
    tokens, queries, keys = drawn()
    with pytest.raises(ParameterError, match="shapes"):
        picks(tokens, queries, keys[:2], WINDOW)
    with pytest.raises(ParameterError, match="window"):
        picks(tokens, queries, keys, 0)


@pytest.mark.parametrize("first", [0, 1, 17, LENGTH - 1])
def test_positions_before_the_first_one_are_only_seen(first):
    tokens, queries, keys = drawn()
    every = picks(tokens, queries, keys, WINDOW).tokens
    assert np.array_equal(picks(tokens, queries, keys, WINDOW, first=first).tokens, every[first:])
    low = max(0, first - WINDOW + 1)
    part = picks(tokens[low:], queries, keys, WINDOW, first=first - low).tokens + low
    assert np.array_equal(part, every[first:])


def test_a_small_lead_before_the_first_position_does_not_matter():
    tokens, queries, keys = drawn()
    tokens[1] = tokens[0]  # one key twice
    with pytest.raises(PrecisionError, match="lead"):
        picks(tokens, queries, keys, 2)
    assert picks(tokens, queries, keys, 2, first=3).lead >= LEAD
    with pytest.raises(ParameterError, match="first"):
        picks(tokens, queries, keys, 2, first=LENGTH)
