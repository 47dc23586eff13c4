"""The steps of margins in real arithmetic in the checker: every term of a bound, and each limit.

Models have units and smallest numbers here that are large, so that no term hides behind another.
"""

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from checker_parts import (
    COARSE,
    TWO,
    by_hand,
    coarse_models,
    decoder_of,
    refused,
    small,
    two_tokens,
)

from constructive import Text
from constructive.layers.margins import recital

PLAIN = "float32, pairwise"
NEAR = 1e-7  # what `up` may add


def coarse(checker, **others):
    """A model whose terms are all of one size."""
    model = checker.float_model.MODELS[PLAIN]
    return model._replace(unit=2.0**-7, exp=2.0**-8, small=2.0**-9, **others)


def readouts_of(checker, u, o):
    u, o = np.array(u, float), np.array(o, float)
    return checker.margins.Readouts(u, np.abs(u), o, np.abs(o))


def drawn(seed, *shape):
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape)


def attended_of(checker, sizes, heads, **others):
    """What is known of attention, of so many positions."""
    shape = len(sizes), heads
    about = {"seen": np.full(len(sizes), 5.0), "large": np.full(shape, 2.0)}
    about |= {"rest": np.full(shape, 2.0**-6), "most": 3.0, "grows": 0.25} | others
    return checker.margins.Attended(sizes=np.array(sizes, float), **about)


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


class TestBothSides:
    """Prover and checker bound the same, where units are large and all terms count."""

    def both(self, checker, decoder, text, *model, **others):
        ours, theirs = coarse_models(checker, *model, **others)
        found = recital(decoder, text, model=ours)
        least, share = checker.margins.real_margins(decoder_of(checker, decoder, text, theirs))
        assert least == pytest.approx(found.least.min(), rel=NEAR)
        # Where logits are not exact one takes exp(2 eps) - 1, and the other 2 eps + 4 eps^2.
        near = 0.02 if ours.constants or ours.merged else 1e-4
        assert share == pytest.approx(found.share.max(), rel=near)
        return share

    @pytest.mark.parametrize("name", COARSE)
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("size", [1.0, 2.0**6])
    def test_shares(self, checker, name, seed, size):
        assert self.both(checker, *drawn_decoder(seed, size), name) < math.inf


class TestTerms:
    """Where attention moves by a quarter, which no drawn decoder has; and where ranges end."""

    @pytest.mark.parametrize("others", [{}, {"stored": 0.25, "tiny": 0.5}, {"tiny": 4.0}])
    def test_terms_of_logits(self, checker, others):
        model, u, o = coarse(checker, **others), np.ones((4, 2)), drawn(1, 2, 3)
        reach, errors = drawn(2, 4, 2), drawn(3, 4, 2)
        found = checker.margins.logit_errors(model, readouts_of(checker, u, -o), reach, errors)
        part = 2 * model.unit / (1 - 2 * model.unit)
        for at in range(4):
            computed = reach[at] + errors[at]
            lost = 8 * 2 * model.small * (1 + computed.max())
            for token in range(3):
                whole = sum(computed * o[:, token])
                bound = sum((part * computed + errors[at]) * o[:, token])
                wanted = bound + lost + model.stored * (whole + bound) + model.tiny
                assert wanted <= found[at, token] <= wanted * (1 + NEAR)

    @pytest.mark.parametrize("others", [{}, {"grows": 0.0}, {"rest": np.full((3, 2), 0.0)}])
    def test_terms_of_outputs(self, checker, others):
        model, u, sizes = coarse(checker), drawn(1, 6, 2), drawn(2, 3, 6)
        attended = attended_of(checker, sizes, 2, **others)
        spread = drawn(4, 3, 2)
        found = checker.margins.output_errors(
            model, readouts_of(checker, -u, [[1.0]]), spread, attended
        )
        part = 6 * model.unit / (1 - 6 * model.unit)
        for at in range(3):
            moved = np.zeros(4)
            for head in range(2):
                grows, rest = attended.grows, attended.rest[at, head] * (1 + attended.grows)
                seen, large = attended.seen[at], attended.large[at, head]
                zeta, added = checker.float_model.weighted(model, seen, large, rest)
                zeta = (1 + zeta) * (1 + grows) - 1
                here = slice(2 * head, 2 * head + 2)
                moved[here] = sizes[at, 2:][here] * zeta + added * attended.most
            for k in range(2):
                lost = 8 * 6 * model.small * (u[:, k].sum() + 1) * attended.most
                wanted = (1 + part) * (moved @ u[2:, k] + lost) + part * spread[at, k]
                assert wanted <= found[at, k] <= wanted * (1 + NEAR)

    @pytest.mark.parametrize("token", [0, 1])
    def test_logits(self, checker, token):
        """A logit that may leave the range takes all of its position with it."""
        o = np.ones((1, 2))
        o[0, token] = 8.0
        readouts, reach, errors = readouts_of(checker, [[1.0]], o), np.array([[4.0], [1.0]]), 0.0
        model = coarse(checker, top=2.0**5 + 1.0)
        whole = 32.0 * (1.0 + model.unit / (1.0 - model.unit)) + 8.0 * model.small * 5.0
        for top, fits in ((whole * (1 + NEAR), True), (whole * (1 - NEAR), False)):
            limited = model._replace(top=top)
            found = checker.margins.logit_errors(limited, readouts, reach, errors + 0 * reach)
            assert np.isfinite(found).all(axis=1).tolist() == [fits, True]

    @pytest.mark.parametrize("limit", ["top", "overflow"])
    def test_outputs(self, checker, limit):
        """Averages are numbers, and so are their numerators: n times as large."""
        model, sizes = coarse(checker), np.ones((2, 4))
        attended = attended_of(checker, sizes, 1, most=3.0)
        attended.rest[:] = [[0.0], [2.0**-4]]
        readouts, spread = readouts_of(checker, np.ones((4, 1)), [[1.0]]), np.ones((2, 1))
        rest = attended.rest[1, 0] * (1 + attended.grows)
        zeta, added = checker.float_model.weighted(model, 5.0, 2.0, rest)
        whole = 3.0 * ((1 + zeta) * (1 + attended.grows) + added)
        whole *= 5.0 if limit == "overflow" else 1.0
        for most, fits in ((whole * (1 + NEAR), True), (whole * (1 - NEAR), False)):
            limited = model._replace(**{limit: most})
            found = checker.margins.output_errors(limited, readouts, spread, attended)
            assert np.isfinite(found[:, 0]).tolist() == [True, fits]

    def test_what_is_not_bounded_times_zero(self, checker):
        attended = attended_of(checker, np.zeros((1, 4)), 1, grows=math.inf)
        for rest in (0.0, 1.0):
            attended.rest[:] = rest
            readouts = readouts_of(checker, np.zeros((4, 1)), [[1.0]])
            model = coarse(checker)
            with np.errstate(invalid="ignore"):
                found = checker.margins.output_errors(model, readouts, np.zeros((1, 1)), attended)
            assert found.tolist() == [[math.inf]]


class TestPaths:
    """What underflow takes where any arrays may be multiplied first."""

    @pytest.mark.parametrize(("u", "o"), [(4.0, 0.5), (0.5, 8.0), (2.0, 2.0)])
    def test_all_factors(self, checker, u, o):
        model = coarse(checker, free=True)
        attended = attended_of(checker, np.ones((2, 4)), 1, seen=np.array([5.0, 7.0]))
        readouts = readouts_of(checker, np.full((4, 3), -u), np.full((3, 2), o))
        reach = 3.0 * max(1.0, u) * max(1.0, o) * (attended.seen * 4 * 3 + 2)
        for most, fits in ((reach[0] * (1 + NEAR), [True, False]), (1e9, [True, True])):
            limited = model._replace(overflow=most)
            found = checker.margins.lost_in_paths(limited, readouts, attended)[:, 0]
            wanted = np.where(fits, 8 * model.small * reach, np.inf)
            assert (wanted <= found).all()
            assert (found <= wanted * (1 + NEAR)).all()


class TestJudge:
    """Margins in real arithmetic, and shares of them."""

    def test_range_of_outputs(self, checker):
        """In any of them, at any position."""
        parts, z = checker.margins, np.ones((2, 4))
        u, o = np.array([[1.0, 2.0]] * 4), np.array([[1.0, 0.5], [0.0, 0.0]]) / 64.0
        attended, readouts = attended_of(checker, z, 1), readouts_of(checker, u, o)
        model = coarse(checker)
        theirs = parts.output_errors(model, readouts, z @ u, attended)
        most = (z @ u + theirs).max()
        for top, fits in ((most * (1 + NEAR), True), (most * (1 - NEAR), False)):
            right = np.zeros(2, int)
            share = parts.judge(readouts, model._replace(top=top), z, right, attended)[1]
            assert (share < math.inf) == fits

    def test_margins_are_below_the_exact_ones(self, checker):
        """Also where sums cancel, and float64 says more."""
        parts, model = checker.margins, checker.float_model.MODELS[PLAIN]
        rng, above = np.random.default_rng(5), 0
        for _ in range(40):
            z = rng.standard_normal((1, 4))
            u = rng.standard_normal((4, 2)) * 2.0**20
            o = rng.standard_normal((2, 2))
            logits = [
                sum(
                    Fraction(z[0, i]) * Fraction(u[i, k]) * Fraction(o[k, v])
                    for i in range(4)
                    for k in range(2)
                )
                for v in range(2)
            ]
            margin, readouts = logits[0] - logits[1], readouts_of(checker, u, o)
            attended = attended_of(checker, np.abs(z), 1, rest=np.zeros((1, 1)), grows=0.0)
            least = parts.judge(readouts, model, z, np.array([0]), attended)[0]
            assert Fraction(least) < margin
            assert float(margin) - least < 2.0**-40 * 2.0**20
            ahead = z @ u @ o
            above += Fraction(ahead[0, 0]) - Fraction(ahead[0, 1]) > margin
        assert above > 5

    def test_what_is_not_a_number(self, checker):
        z = np.ones((1, 2))
        readouts = readouts_of(checker, [[1.0], [math.inf]], [[0.0, 1.0]])
        attended = attended_of(checker, z, 1, grows=0.0)
        with np.errstate(all="ignore"):
            least, share = checker.margins.judge(
                readouts, checker.float_model.MODELS[PLAIN], z, np.array([1]), attended
            )
        assert least == -math.inf
        assert share == math.inf

    @pytest.mark.parametrize(("margin", "known"), [(1.0, True), (0.5, True), (0.0, False)])
    def test_small_margins(self, checker, margin, known):
        z, model = np.array([[1.0, 0.0]]), checker.float_model.MODELS[PLAIN]
        readouts = readouts_of(checker, [[1.0], [0.0]], [[margin, 0.0]])
        attended = attended_of(checker, z, 1, rest=np.zeros((1, 1)), grows=0.0, most=1.0)
        least, share = checker.margins.judge(readouts, model, z, np.array([0]), attended)
        assert (0.0 < least <= margin) == known
        assert (share < 1.0) == known
        assert known or share == math.inf


class TestExactLogits:
    """Units and differences of logits, which a table needs."""

    def on(self, seed, *, period=None, scale=1.0):
        rng = np.random.default_rng(seed)
        shapes = {"embedding": (3, 4), "positions": (4, 4), "W_Q": (2, 4, 2), "W_K": (2, 4, 2)}
        weights = {
            name: (rng.integers(-3, 4, shape) / 4 * scale).astype(np.float32)
            for name, shape in shapes.items()
        }
        texts = [rng.integers(3, size=4), rng.integers(3, size=3 if period is None else 9)]
        return SimpleNamespace(weights=weights, texts=texts, period=period)

    @pytest.mark.parametrize("period", [None, 4])
    @pytest.mark.parametrize("entries", [1, 1 << 22])
    @pytest.mark.parametrize("seed", range(4))
    def test_they_hold(self, checker, as_if, seed, period, entries):
        as_if("margins", ENTRIES=entries)
        on, logits = self.on(seed, period=period), []
        unit, widest, grows = checker.margins.exact_logits(on, checker.float_model.MODELS[PLAIN])
        for ids in on.texts:
            rows = np.arange(len(ids)) % (period or len(ids))
            x = on.weights["embedding"][ids] + on.weights["positions"][rows]
            q, k = (np.einsum("nd,hdk->hnk", x, on.weights[name]) for name in ("W_Q", "W_K"))
            logits.append(np.einsum("hik,hjk->hij", q, k))
        assert all((each / unit == np.rint(each / unit)).all() for each in logits)
        spans = [(each.max(axis=2) - each.min(axis=2)).max() for each in logits]
        assert max(spans) <= widest < 20 * max(spans)
        assert grows == 0.0

    def test_logits_of_53_bits(self, checker):
        """Sums of at most 2^52, in their unit, are what float64 holds with their differences."""
        on, model = self.on(0), checker.float_model.MODELS[PLAIN]
        for name in on.weights:
            on.weights[name][:] = 0.0
        on.weights["embedding"][:, 0] = 1.0
        on.weights["W_Q"][0, 0, 0] = 1.0
        for most, known in ((2.0**50, True), (2.0**52, False)):
            on.weights["W_K"][0, :, 0] = [most, 0.0, 0.0, 1.0]
            on.weights["W_K"][0, 3, 0] = 1.0
            with refused(None if known else "short integers"):
                assert checker.margins.exact_logits(on, model)[:2] == (1.0, pytest.approx(2 * most))

    @pytest.mark.parametrize("name", [PLAIN, "float32, any contraction"])
    @pytest.mark.parametrize(("size", "in_range"), [(2.0**50, True), (2.0**56, False)])
    def test_products_in_range(self, checker, name, size, in_range):
        """Logits are 4, and exact; what any factors make in some order may be beyond all floats."""
        first = np.array([[[1.0], [0.0], [0.0]]])
        weights = two_tokens(2.0**36, W_Q=size * first, W_K=2.0**-70 / size * first)
        on = SimpleNamespace(texts=[TWO.ids], period=None, weights={})
        on.weights = {key: np.float32(array) for key, array in weights.items()}
        grows = checker.margins.exact_logits(on, checker.float_model.MODELS[name])[2]
        assert grows == (0.0 if name == PLAIN or in_range else math.inf)

    @pytest.mark.parametrize(("entry", "exact"), [(2.0**11, True), (2.0**12 - 1, False)])
    def test_differences_of_logits(self, checker, entry, exact):
        """Twice a logit is held, or attention moves: by anything where numbers have 8 bits."""
        on, first = self.on(0), np.zeros((2, 4, 2), np.float32)
        first[0, 0, 0] = 1.0
        on.weights |= {"W_Q": first, "W_K": first}
        on.weights |= {name: 0 * on.weights[name] for name in ("embedding", "positions")}
        on.weights["embedding"][:, 0] = entry
        for name, most in ((PLAIN, 1e300), ("bfloat16, pairwise", math.inf)):
            grows = checker.margins.exact_logits(on, checker.float_model.MODELS[name])[2]
            assert grows == 0.0 if exact else 0.0 < grows <= most
            assert exact or (grows == math.inf) == (most == math.inf)

    def test_tokens_are_met_where_they_are(self, checker):
        """The largest token is a code and a position that only come together."""
        first = np.array([[[1.0], [0.0], [0.0], [0.0]]], np.float32)
        weights = {"W_Q": first, "W_K": first}
        weights["embedding"], weights["positions"] = np.zeros((2, 2, 4), np.float32)
        weights["positions"] = np.zeros((4, 4), np.float32)
        weights["embedding"][1, 0] = weights["positions"][2, 0] = 4.0
        model = checker.float_model.MODELS[PLAIN]
        for place, most in ((2, 64.0), (1, 16.0)):
            text = np.zeros(4, int)
            text[place] = 1
            on = SimpleNamespace(weights=weights, texts=[text], period=None)
            widest = checker.margins.exact_logits(on, model)[1]
            assert 2 * most <= widest <= 2 * most * (1 + NEAR)


class TestPositions:
    """All of `real_margins`: which positions count, and which weights."""

    def on(self, checker, decoder, text, prompt=None):
        return decoder_of(checker, decoder, text, checker.float_model.MODELS[PLAIN], prompt)

    def test_margins_count_from_the_prompt_on(self, checker):
        decoder, text = small()
        seen = []
        for prompt in range(1, len(text) + 1):
            wanted = recital(decoder, dataclasses.replace(text, prompt=prompt)).least.min()
            least = checker.margins.real_margins(self.on(checker, decoder, text, prompt))[0]
            assert least == pytest.approx(wanted, rel=1e-6)
            seen.append(least)
        assert len(set(seen)) > 4

    def test_heads_a_few_positions_at_a_time(self, checker, as_if):
        decoder, text = small()
        found = checker.margins.real_margins(self.on(checker, decoder, text))
        for entries in (1, 8):
            as_if("margins", "decoders", ENTRIES=entries)
            again = checker.margins.real_margins(self.on(checker, decoder, text))
            assert again == pytest.approx(found, rel=1e-9)

    @pytest.mark.parametrize("name", ["embedding", "positions", "W_Q", "W_K"])
    def test_subnormal_weights_are_zeros_elsewhere(self, checker, name):
        """An entry that nothing reads, so that nothing else is wrong with it."""
        on = self.on(checker, by_hand(TWO, two_tokens(2.0**-100)), TWO)
        on.weights["embedding"] = on.weights["embedding"] * np.float32([0.0, 1.0, 1.0])
        for size, known in ((2.0**-126, True), (2.0**-127, False)):
            on.weights[name] = on.weights[name].copy()
            on.weights[name].reshape(-1)[0] = size
            share = checker.margins.real_margins(on)[1]
            assert share < 1.0 if known else share == math.inf

    @pytest.mark.parametrize("name", ["U", "unembedding"])
    def test_weights_that_are_not_stored_so(self, checker, name):
        on = self.on(checker, by_hand(TWO, two_tokens(positions=np.zeros((2, 3)))), TWO)
        on.weights["unembedding"] = np.float32([[0.0, 0.125], [0.25, 1.0], [-1.0, -1.0]])
        on.storage, on.model = "float16", checker.float_model.MODELS["float16, pairwise"]
        assert checker.margins.real_margins(on)[1] < 1.0
        on.weights[name] = on.weights[name] * np.float32(1.0 + 2.0**-11)
        assert checker.margins.real_margins(on)[1] == math.inf


class TestFormats:
    """Which weights are normal, and stored in a format."""

    @pytest.mark.parametrize(
        ("entry", "known"),
        [(0.0, True), (2.0**-126, True), (-(2.0**-126), True), (2.0**-127, False), (-1e-45, False)],
    )
    def test_normal_numbers(self, checker, entry, known):
        assert checker.margins.normal(np.float32([1.0, entry])) == known

    @pytest.mark.parametrize(
        ("storage", "entry", "known"),
        [
            ("float32", 1.0 + 2.0**-23, True),
            ("bfloat16", 1.0 + 2.0**-7, True),
            ("bfloat16", 1.0 + 2.0**-8, False),
            ("bfloat16", 1.0 + 2.0**-23, False),
            ("float16", 1.0 + 2.0**-10, True),
            ("float16", 1.0 + 2.0**-11, False),
            ("float16", 65504.0, True),
            ("float16", 65536.0, False),
            ("float16", 2.0**-24, True),
            ("float16", 2.0**-25, False),
        ],
    )
    def test_storage(self, checker, storage, entry, known):
        assert checker.margins.stored_in(np.float32([1.0, entry]), storage) == known
