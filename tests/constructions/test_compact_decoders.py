"""Compact decoders recite in float32 and in integers; saturated heads read one token."""

from pathlib import Path

import numpy as np
import pytest
from test_decoder import TEXTS

from constructive import ParameterError, PrecisionError, Text, build_decoder, certify
from constructive.exact.softmax import Floats
from constructive.layers.attention import CausalView, attend
from constructive.recite.causal import LEAD, picks, read_tokens
from constructive.recite.compact_readout import nearest_plane, polished, solve_cells
from constructive.recite.compact_tokens import base_of, cells_of, points_of
from constructive.support import errors

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
    decoder = build_decoder(text, parameters="few")
    assert_recites(decoder, text)
    assert decoder.record.share == 0.0  # sums of such small integers have no error
    assert "rounding takes 0% of a margin" in certify(decoder, text)["executed"].detail


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


def test_texts_whose_equations_do_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr(errors, "physical_memory", lambda: 30 * 300**2 - 1)
    build_decoder(english(299), parameters="few")
    with pytest.raises(ParameterError, match="the equations of 300 positions"):
        build_decoder(english(300), parameters="few")


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
    exact = np.linalg.lstsq(rows, cells.lower * spacing, rcond=None)[0]
    start = np.rint(exact) + rng.integers(-1, 2, 60)
    assert cells.room(rows @ start, spacing).min() < needed
    found = polished(rows, start, cells, spacing, needed)
    assert np.array_equal(found, np.rint(found))
    assert cells.room(rows @ found, spacing).min() >= needed
    assert polished(rows, start, cells, 4.0, 1.9) is None


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
    assert np.array_equal(read_tokens(tokens, picked.tokens)[:, WIDTH:], wanted.reshape(LENGTH, -1))


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
