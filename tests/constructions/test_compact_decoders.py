"""Compact decoders: every one recites in float32 and in integers, and what cannot be is refused."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from test_decoder_defaults import TEXTS

from constructive import ParameterError, PrecisionError, Text, build_decoder, certify
from constructive.constructions import compact
from constructive.constructions.compact_readout import nearest_plane, polished, solve_cells
from constructive.constructions.compact_tokens import Layout, base_of, cells_of, order_of, points_of
from constructive.layers.causal import picks

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
