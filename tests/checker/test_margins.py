"""The steps of margins in real arithmetic in the checker: every term of a bound, and each limit.

Models have units and smallest numbers here that are large, so that no term hides behind another.
"""

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from checker_parts import (
    COARSE,
    coarse_model,
    decoder_of,
    refused,
    saved,
    small,
)
from decoder_parts import by_hand, changed, compact
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import Text, Verdict, certify, check
from constructive.checker import INTEGER_MODELS, MODELS
from constructive.checker.float_model import (
    averaged,
    exponents,
    gamma_of,
    logit_steps,
    of_decoders,
    readout_steps,
    weighted,
)
from constructive.checker.margins import logits_of
from constructive.exact.formats import FORMATS, TF32, nearest
from constructive.recite.decoder import judged, recital

PLAIN = "float32, pairwise"


def drawn_decoder(seed, size=1.0):
    """Short tokens and heads; of the outputs, the right token has a logit of one or so."""
    rng = np.random.default_rng(seed)
    total, count, width = 6, 4, 3
    heads, inner = rng.integers(1, 4), rng.integers(1, 3)
    ids, window = rng.integers(count, size=total), [None, 3][seed % 2]
    shapes = {
        "embedding": (count, width), "positions": (total, width),
        "W_Q": (heads, width, inner), "W_K": (heads, width, inner),
    }  # fmt: skip
    weights = {name: rng.integers(-3, 4, shape) / 2 for name, shape in shapes.items()}
    x = weights["embedding"][ids] + weights["positions"]
    back = np.arange(total)[:, None] - np.arange(total)
    seen, z = (back >= 0) & (back < (window or total)), [x]
    for w_q, w_k in zip(weights["W_Q"], weights["W_K"], strict=True):
        powers = np.where(seen, np.exp((x @ w_q) @ (x @ w_k).T), 0.0)
        z.append(powers / powers.sum(axis=1, keepdims=True) @ x)
    z = np.concatenate(z, axis=1)
    u = rng.standard_normal((z.shape[1], total)).astype(np.float16).astype(float) * size
    wanted = np.eye(count + 1)[np.append(ids[1:], count)]
    wanted += rng.uniform(0.0, 0.4, wanted.shape)
    unembedding = (np.linalg.pinv(z @ u) @ wanted).T.astype(np.float16)
    text = Text(tuple(range(count)), ids, np.array([total]), 1, "ids")
    return by_hand(text, weights | {"U": u, "unembedding": unembedding}, window=window), text


# Checker and oracle bound the same, where units are large and all terms count.


def share_of(checker, decoder, text, *model, **others):
    about = decoder_of(checker, decoder, text, coarse_model(checker, *model, **others))
    return checker.margins.real_margins(about, about.model).share.max()


@pytest.mark.parametrize("name", COARSE)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [2.0**-6, 2.0**6])
def test_shares(checker, name, seed, size):
    """Never less than the formulas say, and hardly more."""
    decoder, text = drawn_decoder(seed, size)
    share = share_of(checker, decoder, text, name)
    model, view = coarse_model(checker, name), {"window": decoder.layer.window}
    wanted = oracle.largest_share(decoder.tensors, text.ids, model, **view)
    assert wanted * (1 - 1e-9) <= share <= wanted * (1 + 1e-4) < math.inf


@pytest.mark.parametrize(
    ("name", "size"),
    [("plain", 1.0), ("plain", 2.0**-9), ("any contraction", 1.0), ("stored", 1.0)],
)
def test_ranges(checker, name, size):
    """Numerators, averages, outputs and logits: beyond the largest number nothing is known."""
    problem, known = drawn_decoder(0, size), []
    for power in range(-2, 24):
        limits = {"top" if name == "stored" else "overflow": 2.0**power}
        known.append(share_of(checker, *problem, name, **limits) < math.inf)
    assert set(known) == {False, True}
    assert known == sorted(known)


# Logits without rounding: sums on the way to them, in units of their own.


def short_decoder(rng, exponent=0, inner=2, width=4):
    """Integers, times a power of two in W_Q and W_K."""
    shapes = {
        "embedding": (3, width), "positions": (5, width),
        "W_Q": (2, width, inner), "W_K": (2, width, inner),
    }  # fmt: skip
    weights = {name: rng.integers(-9, 10, shape).astype(float) for name, shape in shapes.items()}
    for name in ("W_Q", "W_K"):
        weights[name] *= 2.0**exponent
    text = Text((0, 1, 2), rng.integers(3, size=5), np.array([5]), 1, "ids")
    return by_hand(
        text, weights | {"U": np.zeros((3 * width, 1)), "unembedding": np.eye(4, 1)}
    ), text


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(-12, 12), st.integers(1, 5))
def test_partial_sums_are_never_larger_than_said(seed, exponent, inner):
    """In random orders; and all are multiples of their units."""
    rng = np.random.default_rng(seed)
    decoder, text = short_decoder(rng, exponent, inner)
    about = judged(decoder, text)
    logits, sizes, _ = logits_of(about)
    tokens = decoder.embedded(text.ids[None])[0].astype(float)
    *_, matrix, keys, asked, turned, absorbed = logits.sums
    (x_stored, e_stored, keys_stored, asked_stored), paths = (
        logits.stored,
        logits.reach(about.model),
    )
    for head, (w_q, w_k) in enumerate(
        zip(*(decoder.tensors[name].astype(float) for name in ("W_Q", "W_K")), strict=True)
    ):

        def check(sums, terms, head=head):
            unit, bounds = np.broadcast_to(sums[0], 2)[head], np.asarray(sums[1], float)
            most = bounds.max() if bounds.ndim == 1 else bounds[head].max()
            partial = np.cumsum(rng.permutation(np.ravel(terms)))
            assert np.abs(partial).max() <= most
            assert (partial / 2.0**unit == np.round(partial / 2.0**unit)).all()

        e, x = tokens[rng.integers(5)], tokens[rng.integers(5)]
        product = w_q @ w_k.T
        for column in range(inner):
            check(asked, e * w_q[:, column])
            check(keys, x * w_k[:, column])
        check(asked_stored, e @ w_q[:, :1])
        check(keys_stored, x @ w_k[:, :1])
        check(x_stored, x[:1])
        check(e_stored, e[:1])
        for k in range(len(x)):
            check(absorbed, e * product[:, k])
            check(turned, product[k] * x)
            check(matrix, w_q[k] * w_k[0])
        whole = logits.units, sizes
        check(whole, (e @ w_q) * (x @ w_k))
        check(whole, (e @ product) * x)
        assert np.abs(e * x * np.abs(product).max()).sum() <= paths


@pytest.mark.parametrize(
    ("scale", "exact"),
    [(1.0, {"float32", "bfloat16", "float16"}), (1000.0, {"float32"}), (1.0 + 2.0**-20, set())],
)
def test_which_logits_are_exact_where(scale, exact):
    """With tokens of 10 bits more queries have more than bfloat16 has."""
    decoder, text = short_decoder(np.random.default_rng(0))
    wider = changed(decoder, "embedding", array=decoder.embedding * np.float32(scale))
    wider = changed(wider, "positions", array=decoder.positions * np.float32(scale))
    logits = logits_of(judged(wider, text))[0]
    models = {name: MODELS[f"{name}, pairwise"] for name in ("float32", "bfloat16", "float16")}
    assert {name for name, model in models.items() if logits.exact(model).all()} == exact
    assert not logits.exact(MODELS["float32, scaled"]).any()


@pytest.mark.parametrize(("largest", "free"), [(33.0, True), (4097.0, False)])
def test_any_contraction_needs_more(largest, free):
    """Sums over fewer indices are of larger products in smaller units."""
    text = Text.of([0, 1])
    weights = {
        "embedding": [[largest, 0.0], [0.0, largest]], "positions": np.zeros((2, 2)),
        "W_Q": np.ones((1, 2, 1)), "W_K": np.ones((1, 2, 1)),
        "U": np.zeros((4, 1)), "unembedding": np.eye(3, 1),
    }  # fmt: skip
    logits = logits_of(judged(by_hand(text, weights), text))[0]
    assert logits.exact(MODELS[PLAIN]).all()
    assert logits.exact(MODELS["float32, any contraction"]).all() == free


# Steps of the checker: margins in real arithmetic, and shares of them.


def attended_of(checker, sizes, **others):
    """What is known of the attention of one head, at so many positions."""
    about = {"seen": np.full(len(sizes), 5.0), "large": np.full((len(sizes), 1), 2.0)}
    about |= {"rest": np.zeros((len(sizes), 1)), "most": 3.0, "grows": 0.0} | others
    return checker.margins.Attended(sizes=np.array(sizes, float), **about)


def readouts_of(checker, u, o):
    u, o = np.array(u, float), np.array(o, float)
    return checker.margins.Readouts(u, np.abs(u), o, np.abs(o))


def test_what_is_not_bounded_times_zero(checker):
    readouts = readouts_of(checker, np.zeros((4, 1)), [[1.0]])
    model = checker.float_model.MODELS[PLAIN]
    for rest in (0.0, 1.0):
        attended = attended_of(
            checker, np.zeros((1, 4)), grows=math.inf, rest=np.full((1, 1), rest)
        )
        with np.errstate(invalid="ignore"):
            found = checker.margins.output_errors(model, readouts, np.zeros((1, 1)), attended)
        assert found.tolist() == [[math.inf]]


def test_margins_are_below_the_exact_ones(checker):
    """Also where sums cancel, and float64 says more."""
    model, rng, above = checker.float_model.MODELS[PLAIN], np.random.default_rng(5), 0
    exact = np.vectorize(Fraction, otypes=[object])
    for _ in range(40):
        z, o = rng.standard_normal((1, 4)), rng.standard_normal((2, 2))
        u = rng.standard_normal((4, 2)) * 2.0**20
        ((one, other),) = exact(z) @ exact(u) @ exact(o)
        known = readouts_of(checker, u, o), model, z, np.array([0]), attended_of(checker, np.abs(z))
        ((least,), (most,), *_) = checker.margins.judge(*known)
        assert Fraction(least) < one - other < Fraction(most)
        assert float(one - other) - least < 2.0**-40 * 2.0**20
        ((float_one, float_other),) = z @ u @ o
        above += Fraction(float_one) - Fraction(float_other) > one - other
    assert above > 5


@pytest.mark.parametrize(("margin", "known"), [(1.0, True), (0.5, True), (0.0, False)])
def test_small_margins(checker, margin, known):
    z, model = np.array([[1.0, 0.0]]), checker.float_model.MODELS[PLAIN]
    readouts = readouts_of(checker, [[1.0], [0.0]], [[margin, 0.0]])
    attended = attended_of(checker, z, most=1.0)
    least, _, _, share = checker.margins.judge(readouts, model, z, np.array([0]), attended)
    assert (0.0 < least <= margin) == known
    assert (share < 1.0) == known
    assert known or share == math.inf


def test_logits_of_53_bits(checker):
    """Sums of at most 2^52, in their unit, are what float64 holds with their differences."""
    shapes = {"embedding": (3, 4), "positions": (4, 4), "W_Q": (2, 4, 2), "W_K": (2, 4, 2)}
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    weights["embedding"][:, 0] = weights["W_Q"][0, 0, 0] = weights["W_K"][0, 3, 0] = 1.0
    on = SimpleNamespace(weights=weights, texts=[np.array([0, 1, 2, 0])], period=None)
    for most, known in ((2.0**50, True), (2.0**52, False)):
        weights["W_K"][0, 0, 0] = most
        with refused(None if known else "short integers"):
            found = checker.margins.exact_logits(on, checker.float_model.MODELS[PLAIN])
            assert found[:2] == (1.0, pytest.approx(2 * most))


@pytest.mark.parametrize(
    ("made", "room", "judge"),
    [(small, "margins", "real_margins"), (compact, "integers", "integer_margins")],
)
def test_margins_count_from_the_prompt_on(checker, made, room, judge):
    decoder, text = made()
    every = getattr(checker, room), judge
    on = decoder_of(checker, decoder, text, PLAIN)
    whole = getattr(*every)(on, on.model)
    assert whole.places.tolist() == list(range(len(text)))
    for prompt in range(1, len(text) + 1):
        on = decoder_of(checker, decoder, text, PLAIN, prompt)
        found = getattr(*every)(on, on.model)
        for all_of_them, some in zip(whole, found, strict=True):
            np.testing.assert_allclose(some, all_of_them[prompt - 1 :], rtol=1e-9)


def test_heads_a_few_positions_at_a_time(checker, as_if):
    on = decoder_of(checker, *small(), PLAIN)
    found = checker.margins.real_margins(on, on.model)
    for entries in (1, 8):
        as_if("margins", "decoders", ENTRIES=entries)
        np.testing.assert_allclose(checker.margins.real_margins(on, on.model), found, rtol=1e-9)


@pytest.mark.parametrize(
    ("entry", "known"),
    [(0.0, True), (2.0**-126, True), (-(2.0**-126), True), (2.0**-127, False), (-1e-45, False)],
)
def test_normal_numbers(checker, entry, known):
    assert checker.margins.normal(np.float32([1.0, entry])) == known


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
def test_weights_which_are_stored(checker, storage):
    form = FORMATS[storage]
    for entry in (*(1.0 + 2.0**-k for k in range(6, 24)), 65504.0, 65536.0, 2.0**-24, 2.0**-25):
        found = checker.margins.stored_in(np.float32([1.0, entry]), storage)
        assert found == (nearest(np.array([entry]), form) == entry).all()


# Recites and executed of decoders of integers: what holds, what does not, and each limit.


CLAIMS = ("recites", "executed")
LIMIT = 2**24


@pytest.fixture(scope="module")
def made():
    return compact()


def in_checker(checker, decoder, text, model=PLAIN):
    """The least margin, and the largest share. Raises ValueError where integers decide nothing."""
    on = decoder_of(checker, decoder, text, model)
    if not checker.integers.are_integers(on.weights):
        raise ValueError("not integers")
    margins = checker.integers.integer_margins(on, on.model)
    return margins.least.min(), margins.share.max()


# What holds is proved.


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("model", ["float32, pairwise", *INTEGER_MODELS])
def test_it_is_proved_and_checked(tmp_path, outputs, model):
    decoder, text = compact(outputs=outputs)
    certificate = certify(decoder, text, claims=CLAIMS, model=model)
    assert certificate.proved
    assert check(*saved(tmp_path, decoder, text, certificate)).proved
    window, period = decoder.layer.window, len(decoder.positions)
    true = oracle.margins(decoder.tensors, [text.ids], window=window, period=period)
    margins = recital(decoder, text, model=model)
    for ahead, least, most in zip(true, margins.least, margins.most, strict=True):
        assert least <= min(map(float, ahead)) <= most <= least * (1 + 1e-9)


# What does not hold is not: that decoders which are false are refused, the campaign tries.


def sum_of(total):
    """A sum of the readout is so large."""

    def change(decoder):
        u, width = np.array(decoder.layer.readout_weights), decoder.layer.width
        u[width, 0] = 0.0
        u[width, 0] = total - int(np.abs(u[:, 0]).sum())
        return changed(decoder, "U", array=u)

    return change


def leads(scale):
    """Keys are so many times as large."""
    return lambda decoder: changed(
        decoder, "W_K", array=decoder.layer.key_weights * np.float32(scale)
    )


def logits(exponent):
    """Keys are as large as logits may be below 2^24 for, or twice that."""

    def change(decoder):
        sizes = [np.abs(w[:, :, 0]).sum(axis=1) for w in list(decoder.layer.tensors.values())[:2]]
        most = 2 * float((sizes[0] * sizes[1]).max())
        return leads(2.0 ** (np.floor(np.log2(LIMIT / most)) + exponent))(decoder)

    return change


def token(entry):
    return lambda decoder: changed(decoder, "embedding", (2, 1), entry)


NOT_SHOWN = {
    "a sum of the readout": (sum_of(LIMIT), PLAIN, "readout"),
    "leads of 126": (leads(63 / 64), PLAIN, "lead"),
    "logits of 24 bits": (logits(1), PLAIN, "logits"),
    "a token of 3": (token(3.0), PLAIN, "signs"),
    "a token of 0": (token(0.0), PLAIN, "signs"),
    "merged": (lambda d: d, "float32, scaled", "merges"),
    "any contraction": (lambda d: d, "float32, any contraction", "merges"),
}
"""What the checker says of it."""


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_what_integers_do_not_show(made, checker, name):
    change, model, words = NOT_SHOWN[name]
    decoder, text = change(made[0]), made[1]
    with refused(words):
        in_checker(checker, decoder, text, model)


def test_what_integers_show_up_to_their_limits(made, checker):
    """No order of a sum of 2^24 - 1 is rounded, though it says another token."""
    decoder, text = logits(0)(made[0]), made[1]
    assert in_checker(checker, decoder, text)[0] > 0.0
    decoder = sum_of(LIMIT - 1)(made[0])
    assert in_checker(checker, decoder, text)[0] < 0.0


@pytest.mark.parametrize(("apart", "proved"), [(1.0, False), (64.0, True)])
def test_what_the_last_product_may_round_counts(tmp_path, apart, proved):
    """A token has the point of the last one, but for a little: logits are 2^24 or more there."""
    decoder, text = compact(spacing=400_001)
    one = len(text.vocabulary) - 1
    text = dataclasses.replace(text, prompt=text.ids.tolist().index(one))
    other = next(v for v in range(one) if v not in text.ids[text.prompt :])
    row = decoder.unembedding[one] - np.float32([0.0, apart])
    near = changed(decoder, "unembedding", other, row)
    seen = recital(near, text)
    assert seen.least.min() == pytest.approx(apart)
    assert seen.error.max() > 1.0
    assert (seen.share.max() < 1.0) == proved
    certificate = certify(near, text, claims=CLAIMS)
    assert certificate["recites"].verdict is Verdict.PROVED
    assert (certificate["executed"].verdict is Verdict.PROVED) == proved
    if proved:
        assert check(*saved(tmp_path, near, text, certificate)).proved


@pytest.mark.parametrize("model", INTEGER_MODELS)
def test_what_a_format_holds(checker, model):
    """As rounding to nearest has it, which the checker does not do."""
    theirs = INTEGER_MODELS[model].factors
    form = TF32 if theirs[0] == "TF32" else FORMATS[theirs[0]]
    whole = np.concatenate([np.arange(-5000, 5001), 2 ** np.arange(24), [65504, 65536, 65520]])
    exact = nearest(whole.astype(float), form) == whole
    assert (checker.integers.held(whole, theirs) == exact).all()


def test_storage_in_float16_where_it_holds(tmp_path):
    """Two tokens, and outputs below 65,504: they may be rounded to 11 bits."""
    text = Text.of([0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    decoder, _ = compact(text, spacing=301, period=8, heads=6)
    stored = decoder.stored_as("float16")
    assert (stored.layer.readout_weights == decoder.layer.readout_weights).all()
    certificate = certify(stored, text, claims=CLAIMS)
    assert certificate.proved
    assert check(*saved(tmp_path, stored, text, certificate)).proved


# The steps in the checker: what each limit lets pass, and what it stops.


def layer(**others):
    """Weights of one head, of tokens with one entry."""
    weights = {"embedding": [[1]], "positions": [[0]], "unembedding": [[1], [0]]}
    weights |= {"W_Q": [[[1]]], "W_K": [[[128]]], "U": [[0], [0]]} | others
    return {name: np.array(array, np.int64) for name, array in weights.items()}


HELD = LIMIT - 65536, 32640, 32512, 64, 257
"""Integers that bfloat16 holds, the last one in two parts. With 63 they make 2^24."""
HALF, TWICE = "float16, pairwise", "float32, float16 products"
BRAIN = "float32, bfloat16 products"
LARGE = 2**23
SUMS = [
    (PLAIN, {"W_K": [[[LARGE - 1]]]}, {"W_K": [[[LARGE]]]}, "differences"),
    (PLAIN, {"W_Q": [[[1], [-1]]], "W_K": [[[LARGE // 4], [1 - LARGE // 4]]]},
     {"W_K": [[[LARGE // 4], [-LARGE // 4]]]}, "differences"),
    (PLAIN, {"W_Q": [[[1, -1]]], "W_K": [[[LARGE // 2, LARGE // 2 - 1]]]},
     {"W_K": [[[LARGE // 2, LARGE // 2]]]}, "differences"),
    (PLAIN, {"W_Q": [[[1]], [[1]]], "W_K": [[[1]], [[LARGE - 1]]]},
     {"W_K": [[[1]], [[LARGE]]]}, "differences"),
    (PLAIN, {"U": np.zeros((2, 4096))}, {"U": np.zeros((2, 4097))}, "columns"),
    (PLAIN, {"U": [[LIMIT - 2, 3], [1, 4]]}, {"U": [[3, LIMIT - 2], [4, -2]]}, "sums of the"),
    (BRAIN, {}, {"U": [[LIMIT - 1], [0]]}, "sums of the readout"),
    (BRAIN, {"U": [[n] for n in (*HELD, 62)]}, {"U": [[n] for n in (*HELD, 63)]}, "sums of the"),
    (BRAIN, {"U": [[257], [128 * 255 + 1]]}, {"U": [[128 * 257 + 1], [0]]}, "hold"),
    (TWICE, {"U": [[65504], [0]]}, {"U": [[65536], [0]]}, "hold"),
    *((BRAIN, {name: [[[256]]]}, {name: [[[257]]]}, "hold") for name in ("W_Q", "W_K")),
    *((HALF, {name: 2048 * whole}, {name: 2049 * whole}, "stored") for name, whole in (
        ("embedding", np.eye(1)), ("unembedding", np.eye(2, 1)), ("U", np.eye(2, 1)),
        ("W_K", np.eye(1)[None]),
    )),
]  # fmt: skip
"""Weights that `require_sums` lets pass, and what it refuses beside them."""


@pytest.mark.parametrize(("name", "within", "beyond", "word"), SUMS)
def test_sums_of_weights(checker, name, within, beyond, word):
    models = checker.float_model
    model = (models.MODELS | models.INTEGER_MODELS)[name]
    checker.integers.require_sums(layer(**within), model)
    with refused(word):
        checker.integers.require_sums(layer(**within | beyond), model)


@pytest.mark.parametrize(
    ("entry", "whole"),
    [(LIMIT - 1.0, True), (1.0 - LIMIT, True), (LIMIT, False), (-LIMIT, False), (0.5, False)],
)
def test_integers(checker, entry, whole):
    weights = {"U": np.float32([[1.0], [2.0]]), "W_Q": np.float32([[3.0, entry]])}
    assert checker.integers.are_integers(weights) == whole


def test_heads_a_few_at_a_time(checker, as_if, made):
    found = in_checker(checker, *made)
    as_if("integers", ENTRIES=1)
    assert in_checker(checker, *made) == found


@pytest.mark.parametrize("name", [TWICE, HALF])
@pytest.mark.parametrize(("wide", "narrow"), [("W_Q", "W_K"), ("W_K", "W_Q")])
def test_queries_and_keys_are_held(checker, name, wide, narrow):
    """One of two may be wide, whichever it is: up to 2,047, which has 11 bits."""
    models = checker.float_model
    x, model = np.array([[1, 1]]), (models.MODELS | models.INTEGER_MODELS)[name]
    for entry, fits in ((2046, True), (2048, False)):
        weights = layer(U=np.zeros((4, 1)), **{wide: [[[entry], [1]]], narrow: [[[1], [0]]]})
        with refused(None if fits else "queries or keys"):
            checker.integers.read_out(weights, x, None, model)


@pytest.mark.parametrize(("lead", "proved"), [(128, True), (127, False)])
def test_leads(checker, lead, proved):
    weights = layer(W_Q=[[[lead], [0]]], W_K=[[[0], [1]]], U=np.arange(1, 5)[:, None])
    x = np.array([[1, 0], [1, 1]])  # logits: 0; then 0 and the lead
    with refused(None if proved else "lead"):
        outputs = checker.integers.read_out(weights, x, None, checker.float_model.MODELS[PLAIN])
        assert outputs.tolist() == [[1 + 3], [1 + 2 + 3 + 4]]


@pytest.mark.parametrize(("length", "word"), [(1 << 20, "signs"), ((1 << 20) + 1, "too many")])
def test_tokens_that_a_position_sees(checker, length, word):
    weights, model = layer(embedding=[[2]]), checker.float_model.MODELS[PLAIN]
    on = SimpleNamespace(weights=weights, window=None, period=1, prompt=1, tell=print)
    on.texts = [np.zeros(length, np.int64)]
    with refused(word):
        checker.integers.integer_margins(on, model)


# Margins and shares of given outputs.


def integers_judged(checker, name, outputs, unembedding, right, moved=2.0**-160):
    moved = np.full(len(unembedding), moved)
    given = map(np.array, (outputs, unembedding, right))
    least, most, _, share = checker.integers.judge(checker.float_model.MODELS[name], *given, moved)
    return least.min(), share.max(), most.min()


@pytest.mark.parametrize(
    ("outputs", "unembedding", "right", "margin"),
    [
        ([[3, -2]], [[1, 0], [0, -1], [5, 7]], [0], 1.0),
        ([[3, 3]], [[1, 0], [0, 1]], [0], 0.0),
        ([[4], [-9], [2]], [[1], [-1], [0]], [0, 1, 0], 2.0),
        ([[4], [-9], [2]], [[1], [-1], [0]], [0, 1, 1], -4.0),
    ],
)
def test_integers_lose_nothing(checker, outputs, unembedding, right, margin):
    """The least margin of several counts, and one of zero is lost."""
    least, share, most = integers_judged(checker, PLAIN, outputs, unembedding, right)
    assert margin - 1e-9 < least < margin < most < margin + 1e-9
    assert share < 2.0**-900 if margin > 0.0 else share == math.inf


def test_what_averages_move_counts_on_both_sides(checker):
    least, *_ = integers_judged(checker, PLAIN, [[8]], [[1], [0]], [0], moved=2.0**-10)
    assert 8.0 - 2.0**-9 - 1e-9 < least <= 8.0 - 2.0**-9


@pytest.mark.parametrize(
    ("outputs", "unembedding", "held"),
    [
        ([[32000]], [[1], [0]], True),
        ([[65480]], [[1], [0]], False),  # 2^-11 more is beyond 65,504
        ([[40000]], [[2], [0]], False),
        ([[32740]], [[2], [0]], False),  # 65,480, and rounding
        ([[65480, 1]], [[0, 1], [0, 0]], False),
        ([[32000, 32000]], [[1, -1], [2, -2]], False),  # products, though their sum is 0
    ],
)
def test_range_of_storage(checker, outputs, unembedding, held):
    share = integers_judged(checker, HALF, outputs, unembedding, [0])[1]
    assert (share < math.inf) == held


def test_logits_of_52_bits(checker):
    integers_judged(checker, PLAIN, [[1 << 28]], [[(1 << 24) - 1], [0]], [0])
    with refused("too large"):
        integers_judged(checker, PLAIN, [[1 << 28]], [[1 << 24], [0]], [0])


# Models of programs: bounds of what rounding does, against what it does, and their sentences.


IN_HALF = MODELS["float16, pairwise"]._asdict()

# Bounds of what rounding does, against what it does: float32 by brute force.


FLOAT32, SCALED, ANY = (
    MODELS[f"float32, {name}"] for name in ("pairwise", "scaled", "any contraction")
)
BLOCK = FLOAT32.block


def zeta_of(model, count):
    """The bound of averages where all weight may be on any tokens."""
    return averaged(model, np.float64(count))[0]


def both_of(model, count, large, rest):
    """zeta and what comes on top, where all but some large tokens have little weight."""
    return weighted(model, *map(np.float64, (count, large, rest)))


def test_no_bound_where_a_relative_error_is_none():
    coarse = FLOAT32._replace(unit=2.0**-10)
    assert np.isinf(gamma_of(coarse, 512))
    assert np.isfinite(gamma_of(coarse, 511))
    assert np.isinf(zeta_of(coarse, 400))  # beta beyond a half before gamma is
    loose = FLOAT32._replace(exp=0.25)
    assert np.isfinite(gamma_of(loose, 100))
    assert np.isinf(zeta_of(loose, 2 * BLOCK))


def test_models_are_ordered_by_what_they_allow():
    """More programs have larger bounds."""
    count = np.array([1, 2, 100, 5000])
    small = MODELS["float32, pairwise, blocks of 16"]
    for one, other in ((FLOAT32, small), (small, SCALED), (small, ANY)):
        assert (zeta_of(one, count) <= zeta_of(other, count)).all()
        assert (both_of(one, count, 1, 1e-9)[0] <= both_of(other, count, 1, 1e-9)[0]).all()
        assert logit_steps(one, 5, 3) <= logit_steps(other, 5, 3)
        paths = [sum(readout_steps(model, 7, 5, 3)) for model in (one, other)]
        assert paths[0] <= paths[1]
        assert all(exponents(one, k) <= exponents(other, k) for k in count)
    assert exponents(FLOAT32, 5000) == 0.0 < exponents(SCALED, 1)


def test_the_sentence_says_the_numbers():
    """Another number in a row is another sentence."""
    for change, words in (
        ({"block": 64}, "blocks of 64 tokens"),
        ({"exp": 2.0**-21}, "at most 4 units"),
        ({"small": 2.0**-100}, "it is 2^-99 or more"),
        ({"constants": 3}, "in 3 roundings"),
        ({"merged": True}, "logsumexp"),
        ({"free": True}, "any number of indices"),
        (IN_HALF, "stored in float16, where underflow is gradual"),
    ):
        assert words in of_decoders(FLOAT32._replace(**change))
        assert words not in of_decoders(FLOAT32)


def test_the_table_of_the_docs_has_these_rows():
    page = Path(__file__).parents[2] / "docs" / "claims.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    found = {row[0].split("`")[1]: row[1:] for row in rows if len(row) == 6 and "`" in row[0]}
    for name, model in MODELS.items():
        contraction = "any" if model.free else "pairwise"
        merged = "yes" if model.merged else "no"
        numbers = [str(model.block), str(model.constants)]
        assert found[name] == [contraction, *numbers, merged, model.kept]
