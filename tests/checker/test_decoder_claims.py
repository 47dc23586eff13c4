"""What certify says of decoders: proved, refuted, undecided; and margins against the oracle."""

import dataclasses
import re
from fractions import Fraction

import numpy as np
import oracle
import pytest
from checker_parts import small
from decoder_parts import TWO, TWO_ROWS, by_hand, two_tokens

from constructive import (
    DataError,
    ParameterError,
    Text,
    Verdict,
    build_decoder,
    certify,
)
from constructive.checker import MODELS
from constructive.recite.decoder import recital

PROVED, REFUTED, UNDECIDED = Verdict.PROVED, Verdict.REFUTED, Verdict.UNDECIDED
EXACT = "do not add exactly"
UNBOUNDED = "nothing bounds rounding"


def verdicts(decoder, text):
    certificate = certify(decoder, text)
    return [certificate[name].verdict for name in ("rank", "recites", "executed")]


# What holds.


def test_a_text_is_proved():
    decoder, text = small()
    certificate = certify(decoder, text)
    assert certificate.verdict is PROVED
    assert certificate["rank"].statement.startswith("rank Z = R = 12 on the different contexts")
    assert certificate["recites"].statement.startswith("at all 12 positions of S = 1 texts")
    statement = certificate["executed"].statement
    assert "model 'float32, pairwise': each logit of a head computed once; products" in statement
    detail = certificate["executed"].detail
    shown = re.fullmatch(r"rounding takes ([0-9.]+)% of a margin at most, after token .*", detail)
    largest = 100 * Fraction(float(recital(decoder, text).share.max()))
    assert 0 <= Fraction(shown[1]) - largest < Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (Text.bytes("abracadabra"), {}),
        (Text.bytes("abracadabra", "bbrasive", "ac", prompt=2), {}),
        (Text.bytes("abracadabra", "xbrasive", prompt=1), {"window": 4}),
        (Text.bytes("abracadabra"), {"window": 1}),
        (Text.of([5] * 9), {}),
        (Text.of([7]), {}),
        (Text.of([1], [2, 1], [3, 3, 3]), {}),
    ],
    ids=str,
)
def test_texts_of_all_kinds_are_proved(text, options):
    decoder = build_decoder(text, width=12, **options)
    assert verdicts(decoder, text) == [PROVED] * 3
    assert decoder.recites(text)


# What does not hold.


def test_another_continuation_is_refuted_with_its_place():
    decoder, text = small()
    ids = text.ids.copy()
    ids[5] = (ids[5] + 1) % len(text.vocabulary)
    other = dataclasses.replace(text, ids=ids)
    claim = certify(decoder, other)["recites"]
    assert claim.verdict is REFUTED
    least = recital(decoder, other).most.argmin()
    assert claim.witness == (0, int(least))
    assert "another logit is as large, or larger by up to" in claim.detail
    assert claim.evidence == {}
    executed = certify(decoder, other)["executed"]
    assert executed.verdict is UNDECIDED
    assert UNBOUNDED in executed.detail


def test_more_positions_than_columns_are_refuted():
    text = Text.of([0, 1] * 4)
    weights = two_tokens(positions=np.zeros((8, 3)))
    claim = certify(by_hand(text, weights), text, claims=["rank"])["rank"]
    assert (claim.verdict, claim.witness) == (REFUTED, 6)
    assert claim.detail == "Z has 6 columns, fewer than 8 contexts"


def test_equal_rows_are_undecided():
    text = Text.of([0, 0])
    weights = two_tokens(embedding=[[1.0, 1.0, 1.0]], unembedding=TWO_ROWS[1:])
    claim = certify(by_hand(text, weights), text, claims=["rank"])["rank"]
    assert claim.verdict is UNDECIDED
    assert "rank Z >= 1, and probably equal" in claim.detail


# What an enemy brought. Each had been proved.


def test_a_sum_which_only_float64_calls_exact_is_none():
    """2^60 + 8 is 2^60 in float32 and, but for 8, in float64: real heads see those 8."""
    weights = two_tokens(
        2.0**60,
        positions=[[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        W_Q=[[[0.0], [2.0**-60], [0.0]]],
        W_K=[[[1.0], [0.0], [0.0]]],
    )
    decoder = by_hand(TWO, weights)
    weights["positions"] = [[2.0**30, 0.0, 0.0], [0.0, 0.0, 0.0]]
    for inexact in (decoder, by_hand(TWO, weights)):
        certificate = certify(inexact, TWO, claims=["recites", "executed"])
        assert [claim.verdict for claim in certificate.claims] == [UNDECIDED] * 2
        assert EXACT in certificate["recites"].detail


def test_what_fills_up_shorter_texts_may_not_overflow():
    text = Text.of([0], [1, 1])
    weights = two_tokens(2.0**120, 2.0**20)
    weights["positions"][1] = 3e38
    weights["embedding"][0] = 3e38
    weights["embedding"][1] = 0
    assert certify(by_hand(text, weights), text)["rank"].verdict is UNDECIDED


def test_exponentials_end_where_float64_has_zeros():
    """Logits are 0 and 2048, in units of 512: the smaller one has exp(-2048), not exp(-512)."""
    weights = {
        "embedding": [[0, 1], [2, 0]],
        "positions": np.zeros((2, 2)),
        "W_Q": [[[16], [0]]],
        "W_K": [[[32], [0]]],
        "U": [[0, 0], [1, 0], [0, 0], [0, 1]],
        "unembedding": [[0, 1], [5, 1], [-10, 2]],
    }
    decoder = by_hand(TWO, weights)
    assert certify(decoder, TWO)["recites"].verdict is UNDECIDED
    known = recital(decoder, TWO)
    assert known.least[1] <= np.exp(-2048.0) <= known.most[1] < 1e-30


ROWS_16 = [[0.0, 0.125], [0.25, 1.0], [-1.0, -1.0]]
UNREAD = [[[0.0], [2.0**63], [0.0]]]
FIRST, SECOND = np.eye(3)[None, :, :1], np.eye(3)[None, :, 1:2]
"""Heads which read the first entry of a token, or the second one."""


def edited(weights, name, index, value):
    """The same weights, but for some entries of one array."""
    array = np.array(weights[name])
    array[index] = value
    return weights | {name: array}


def small_codes(position):
    """Tokens are normal numbers, and one of the two that are added is not."""
    weights = two_tokens(2.0**-103, 2.0**-3, W_Q=UNREAD, W_K=UNREAD)
    weights = edited(weights, "embedding", np.s_[:, :2], (2.0**-126 - position, 0.0))
    return edited(weights, "positions", np.s_[:, 0], position)


EDGES = {
    "a sum of two numerators of 2^127 is beyond float32, and its product with 0 is none": (
        lambda top: edited(two_tokens(2.0**118, 2.0**20), "embedding", np.s_[:, 0], top),
        2.0**125, 2.0**127, "float32, pairwise",
    ),
    "weights in float16 may add up to more than one, and 65504 is the largest number": (
        lambda top: edited(
            two_tokens(32.0, unembedding=ROWS_16), "embedding", np.s_[:, 0], top
        ),
        64.0, 65504.0, "float16, pairwise",
    ),
    "outputs beyond float16 have infinite bounds, NaN where the unembedding is zero": (
        lambda out: two_tokens(8.0, out, unembedding=[[0, 0], [0, 3], [-1, 0]]),
        2.0**8, 2.0**17, "float16, pairwise",
    ),
    "who reads zeros for subnormal weights of queries has other logits": (
        lambda size: two_tokens(
            2.0**20, W_Q=size * SECOND, W_K=[[[0.0], [0.0], [-(2.0**-40) / size]]],
            unembedding=[[-2.0, 0.875], [0.25, 1.0], [-1.0, -1.0]],
        ),
        2.0**-120, 2.0**-140, "float32, pairwise",
    ),
    "the same of keys, where logits are the same for both": (
        lambda size: two_tokens(
            2.0**20, W_Q=[[[0.0], [0.0], [-(2.0**-40) / size]]], W_K=size * SECOND
        ),
        2.0**-120, 2.0**-140, "float32, pairwise",
    ),
    "one of two that are added is subnormal": (
        small_codes, 0.0, -(2.0**-127), "float32, pairwise"
    ),
    "an entry that all tokens lack has rows of W_Q W_K^T whose product with a key overflows": (
        lambda size: edited(
            two_tokens(W_Q=size * SECOND, W_K=[[[2.0**64], [0.0], [2.0**64]]]),
            "embedding", np.s_[:, 1], 0.0,
        ),
        2.0**60, 2.0**63, "float32, pairwise",
    ),
    "logits have 24 bits, or one more": (
        lambda key: two_tokens(W_Q=FIRST, W_K=[[[key], [1.0], [0.0]]]),
        2.0**22, 2.0**23, "float32, pairwise",
    ),
    "bfloat16 has the unembedding": (
        lambda part: two_tokens(unembedding=np.array(ROWS_16) * (1 + part)),
        0.0, 2.0**-10, "bfloat16, pairwise",
    ),
    "keys have 8 bits, or one more, though bfloat16 has their factors": (
        lambda key: two_tokens(W_Q=FIRST, W_K=[[[key], [1.0], [0.0]]], unembedding=ROWS_16),
        128.0, 256.0, "bfloat16, pairwise",
    ),
    "the same of queries": (
        lambda query: two_tokens(W_Q=[[[query], [1.0], [0.0]]], W_K=FIRST, unembedding=ROWS_16),
        128.0, 256.0, "bfloat16, pairwise",
    ),
    "logits are 4, and factors that are multiplied first may be beyond all floats": (
        lambda size: two_tokens(2.0**36, W_Q=size * FIRST, W_K=2.0**-70 / size * FIRST),
        2.0**50, 2.0**56, "float32, any contraction",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_rounding_is_bounded_up_to_an_edge(name):
    """In real arithmetic margins are positive on both sides of it."""
    make, within, beyond, model = EDGES[name]
    for value, verdict in ((within, PROVED), (beyond, UNDECIDED)):
        decoder = by_hand(TWO, make(value), storage=MODELS[model].kept)
        found = certify(decoder, TWO, model=model)
        assert (found["recites"].verdict, found["executed"].verdict) == (PROVED, verdict)
    assert "vacuous" in found["executed"].detail or "rounding may take" in found["executed"].detail


def test_logits_too_fine_for_a_table_bound_nothing():
    weights = two_tokens(W_Q=[[[1.0], [0.0], [0.0]]], W_K=[[[1.0], [2.0**-24], [0.0]]])
    found = certify(by_hand(TWO, weights), TWO, claims=["recites", "executed"])
    assert all(claim.verdict is UNDECIDED for claim in found.claims)
    assert "table" in found["recites"].detail


# Margins, in balls.


def random_decoder(rng):
    """Weights of all sizes, so that margins are as they come."""
    width, heads, inner, outputs = (int(rng.integers(1, 4)) for _ in range(4))
    lengths = rng.integers(1, 6, size=rng.integers(1, 4))
    text = Text.of(*[rng.integers(3, size=n).tolist() for n in lengths])
    count, unit = len(text.vocabulary), 2.0 ** int(rng.choice([-60, -1, 0, 0, 40]))
    step = 2.0 ** int(rng.choice([-3, 0, 5, 9]))
    ints = {
        "embedding": (count, width),
        "positions": (int(lengths.max()), width),
        "W_Q": (heads, width, inner),
        "W_K": (heads, width, inner),
    }
    weights = {name: rng.integers(-3, 4, size=shape) * 1.0 for name, shape in ints.items()}
    weights["embedding"] *= unit
    weights["positions"] *= unit
    weights["W_Q"] *= step / unit
    weights["W_K"] /= unit
    sizes = 10.0 ** rng.choice([-40, -30, -3, 0, 0, 25], size=2)
    weights["U"] = rng.normal(size=((heads + 1) * width, outputs)) * sizes[0]
    weights["unembedding"] = rng.normal(size=(count + 1, outputs)) * sizes[1]
    if rng.random() < 0.2:
        weights["unembedding"][-1] = weights["unembedding"][0]
    window = None if rng.random() < 0.6 else int(rng.integers(1, 7))
    return by_hand(text, weights, window=window), text


def test_margins_enclose_the_true_ones():
    rng, tight = np.random.default_rng(3), 0
    for _ in range(60):
        decoder, text = random_decoder(rng)
        found = recital(decoder, text)
        texts = np.split(text.ids, text.starts[1:])
        true = oracle.margins(decoder.tensors, texts, window=decoder.layer.window)
        assert found.places.tolist() == list(range(len(text)))
        for margins, least, most in zip(true, found.least, found.most, strict=True):
            assert any(not margin > most for margin in margins)
            assert all(margin > least for margin in margins)
            tight += least > 0 and most < least * (1 + 1e-6)
    assert tight > 20  # bounds which say nothing would pass, too


# What makes no sense.


def test_options_which_decoders_have_not_are_refused():
    decoder, text = small()
    for options in ({"epsilon": 1e-6}, {"max_prec": 64}):
        (name,) = options
        with pytest.raises(ParameterError, match=f"does not take {name}="):
            certify(decoder, text, **options)
    with pytest.raises(ParameterError, match="take epsilon= and max_prec="):
        certify(decoder, text, epsilon=1.0, max_prec=64)
    with pytest.raises(ParameterError, match="are not claims about decoders"):
        certify(decoder, text, claims=["error"])
    assert certify(decoder, text, seed=5, claims="rank")["rank"].verdict is PROVED


def test_texts_of_others_are_refused():
    decoder, text = small()
    with pytest.raises(DataError, match="the text has other tokens than the decoder"):
        certify(decoder, Text.words("a cat"))
    longer = dataclasses.replace(text, ids=np.tile(text.ids, 2), lengths=2 * text.lengths)
    with pytest.raises(DataError, match="the text has 24 tokens, and the decoder 12 positions"):
        certify(decoder, longer)
    with pytest.raises(DataError, match="goes on with"):
        certify(decoder, Text(text.vocabulary, np.array([0, 1, 0, 2]), np.array([2, 2])))
