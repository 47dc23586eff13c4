"""Saturated heads read one token: integers, balls and floats agree, and near misses are refused."""

import numpy as np
import pytest
from flint import arb, ctx

from constructive import ParameterError, PrecisionError
from constructive.exact.arithmetics import Floats
from constructive.layers.attend import Causal, attend
from constructive.layers.causal import LEAD, picks, read

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
        Floats(np.float32), weights, Causal(tokens.astype(np.float32)[np.newaxis], window)
    ):
        rows = chunk.rows[1]
        assert np.array_equal(chunk.representation[0], wanted[rows].astype(np.float32))
    assert picked.lead >= LEAD
    assert np.array_equal(read(tokens, picked.tokens)[:, WIDTH:], wanted.reshape(LENGTH, -1))


def test_positions_see_their_window_only():
    tokens, queries, keys = drawn()
    places = np.arange(LENGTH)[:, np.newaxis]
    found = picks(tokens, queries, keys, WINDOW).tokens
    assert ((found <= places) & (found > places - WINDOW)).all()
    assert (found[WINDOW:] != places[WINDOW:]).any()


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
