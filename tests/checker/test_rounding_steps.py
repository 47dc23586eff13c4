"""The steps of rounding in the checker: exact logits, what others are off by, and averages."""

import math

import mpmath
import numpy as np
import pytest
from checker_parts import COARSE, coarse_models

PLAIN = "float32, pairwise"
ANY = "float32, any contraction"
NEAR = 1e-7  # what `up` may add


def logits_of(checker, tokens=1.0, queries=1.0, w_q=1.0, w_k=1.0):
    """Of one token, one query, and heads of two entries, of which each has one number or more."""
    shapes = {"W_Q": (1, 2, 2), "W_K": (1, 2, 2)}
    weights = {
        name: np.ones(shape) * np.reshape(entry, (-1, 1, 1))
        for (name, shape), entry in zip(shapes.items(), (w_q, w_k), strict=True)
    }
    heads = max(map(len, weights.values()))
    weights = {name: np.repeat(w, heads // len(w), axis=0) for name, w in weights.items()}
    data = {"contexts": np.full((1, 1, 2), tokens), "queries": np.full((1, 2), queries)}
    return checker.executed.logits_of(weights, data)


FACTORS = ("tokens", "queries", "w_q", "w_k")


class TestExact:
    """Which heads have exact logits, in a model."""

    @pytest.mark.parametrize("factor", FACTORS)
    def test_any_factors_first(self, checker, factor):
        """The sum over all three indices, eight terms, has to be below 2^24."""
        model = checker.float_model.MODELS[ANY]
        for entry, exact in ((2.0**21 - 1, True), (2.0**21 + 1, False)):
            assert logits_of(checker, **{factor: entry}).exact(model).tolist() == [exact]

    def test_each_head(self, checker):
        model = checker.float_model.MODELS[ANY]
        for factor in ("w_q", "w_k"):
            logits = logits_of(checker, **{factor: [1.0, 2.0**21 + 1, 3.0]})
            assert logits.exact(model).tolist() == [True, False, True]
        logits = logits_of(checker, w_q=[1.0, 2.0**24 + 1, 3.0])
        plain = checker.float_model.MODELS[PLAIN]
        assert logits.exact(plain).tolist() == [True, False, True]

    @pytest.mark.parametrize(
        ("units", "exact"),
        [
            ((-63, -63, 0, 0), True),
            ((-64, -63, 0, 0), False),
            ((-64, -63, 0, 1), False),  # logits are multiples of 2^-126, but not all of two
            ((-63, -63, 0, 1), True),
            ((-40, -43, -43, 0), True),
            ((1, -63, -63, 0), True),
        ],
    )
    def test_units_below_the_normal_ones(self, checker, units, exact):
        numbers = {name: 2.0**unit for name, unit in zip(FACTORS, units, strict=True)}
        model = checker.float_model.MODELS[ANY]
        assert logits_of(checker, **numbers).exact(model).tolist() == [exact]

    @pytest.mark.parametrize("others", [{"constants": 1}, {"merged": True}])
    def test_models_that_scale_or_merge(self, checker, others):
        model = checker.float_model.MODELS[PLAIN]
        assert logits_of(checker).exact(model).all()
        assert not logits_of(checker).exact(model._replace(**others)).any()

    @pytest.mark.parametrize(
        ("storage", "numbers", "exact"),
        [
            ("bfloat16", {"tokens": 127.0}, True),
            ("bfloat16", {"tokens": 129.0}, False),  # keys of 258, where bits count, not sizes
            ("bfloat16", {"tokens": 257.0}, False),
            ("bfloat16", {"queries": 127.0}, True),
            ("bfloat16", {"queries": 257.0}, False),
            ("bfloat16", {"tokens": 7.0, "w_k": 17.0}, True),
            ("bfloat16", {"tokens": 7.0, "w_k": 19.0}, False),
            ("bfloat16", {"queries": 7.0, "w_q": 19.0}, False),
            ("bfloat16", {"w_q": 127.0, "w_k": 127.0}, True),  # their product is not stored
            ("float16", {"tokens": 2.0**-14}, True),
            ("float16", {"tokens": 2.0**-15, "w_k": 2.0}, False),
            ("float16", {"queries": 2.0**-15, "w_q": 2.0}, False),
            ("float16", {"tokens": 2.0**-14, "w_k": 2.0**-1}, False),
        ],
    )
    def test_what_is_stored(self, checker, storage, numbers, exact):
        plain = checker.float_model.MODELS[PLAIN]
        model = checker.float_model.MODELS[f"{storage}, pairwise"]
        assert logits_of(checker, **numbers).exact(plain).all()
        assert logits_of(checker, **numbers).exact(model).tolist() == [exact]


class TestHeld:
    """What a format holds: multiples of a unit, up to a size."""

    @pytest.mark.parametrize(
        ("unit", "size", "known"),
        [
            (0, 2.0**24 - 1, True),
            (0, 2.0**24, False),
            (3, 2.0**27 - 8, True),
            (3, 2.0**27, False),
            (-126, 2.0**-126, True),
            (-127, 2.0**-126, False),
            (110, (2.0 - 2.0**-23) * 2.0**127, True),
            (110, 2.0**128, False),
            (0, 0.0, True),
        ],
    )
    def test_limits(self, checker, unit, size, known):
        assert bool(checker.float_model.held(unit, np.float64(size))) == known

    def test_integers_of_float64(self, checker):
        held, form = checker.float_model.held, checker.float_model.INTEGERS
        for unit, size, known in (
            (0, 2.0**52 - 1, True), (0, 2.0**52, False), (-900, 2.0**-900, True),
            (-901, 2.0**-900, False), (870, 2.0**900, True), (870, 2.0**901, False),
        ):  # fmt: skip
            assert bool(held(unit, np.float64(size), form)) == known


class TestOff:
    """By how much logits are off that are not exact."""

    def test_reach(self, checker):
        """All paths, d^2 d_h = 8 of them, and never less than one of their factors."""
        for numbers, wanted in (
            ({"tokens": 3.0, "queries": 5.0, "w_q": 7.0, "w_k": 11.0}, 8 * 1155.0),
            ({"tokens": 0.5, "queries": 5.0, "w_q": 7.0, "w_k": 11.0}, 8 * 385.0),
            ({"tokens": 3.0, "queries": 0.5, "w_q": 7.0, "w_k": 0.25}, 8 * 21.0),
            ({"tokens": 3.0, "queries": 5.0, "w_q": 0.5, "w_k": 11.0}, 8 * 165.0),
        ):
            logits = logits_of(checker, **numbers)
            for name, more in ((PLAIN, 1.0), ("float32, scaled", 2.0**16)):
                found = logits.reach(checker.float_model.MODELS[name])
                assert wanted * more <= found <= wanted * more * (1 + NEAR)

    @pytest.mark.parametrize("ours", [0.0, 0.25])
    @pytest.mark.parametrize("name", [PLAIN, "float32, scaled"])
    def test_all_terms(self, checker, name, ours):
        models = checker.float_model
        model = models.MODELS[name]._replace(unit=2.0**-12, exp=2.0**-9)
        logits, sizes = logits_of(checker, w_q=2.0**60, w_k=2.0**60), np.array([[0.0, 1.0, 8.0]])
        steps = models.gamma_of(model, models.logit_steps(model, 2, 2))
        lost = 2.0**-120 * (logits.reach(model) + 7) + models.exponents(model, 7)
        wanted = (steps + ours) * sizes + lost
        found = logits.off(model, sizes, 7, *([ours] if ours else []))
        assert lost > 1.0
        assert (wanted <= found).all()
        assert (found <= wanted * (1 + NEAR)).all()

    def test_underflow_of_many_tokens(self, checker):
        model, seen = checker.float_model.MODELS[PLAIN], 2.0**50
        found = logits_of(checker).off(model, np.zeros(1), seen)
        assert 2.0**-70 <= found[0] <= 2.0**-70 * (1 + NEAR)


class TestExponentials:
    """Bounds of exp, from below and above, and of exp - 1."""

    @pytest.mark.parametrize("x", [0.0, 2.0**-30, 0.3, 1.0, 20.0, 300.0, 700.0])
    def test_both_sides(self, checker, x):
        least, most = (float(bound) for bound in checker.float_model.exponential(np.array(x)))
        with mpmath.workdps(40):
            true = mpmath.exp(mpmath.mpf(x))
            part = x**3 * 2.0**-40 + 2.0**-28
            assert true * (1 - part) <= least <= true <= most <= true * (1 + part)

    def test_beyond_the_series(self, checker):
        """Where too much is left out, nothing is known from above."""
        with np.errstate(over="ignore"):
            most = checker.float_model.exponential(np.array([17000.0, 18000.0]))[1]
        assert most.tolist() == [math.inf, math.inf]

    @pytest.mark.parametrize("x", [2.0**-40, 0.001, 2.0**-6, 2.0**-6 + 2.0**-20, 0.1, 1.0, 100.0])
    def test_growth(self, checker, x):
        found = float(checker.float_model.growth(np.array(x)))
        with mpmath.workdps(40):
            true = mpmath.expm1(mpmath.mpf(x))
            room = 2.0**-28 / min(1.0, x) if x > 2.0**-6 else x * x / 2
            assert true <= found <= true * (1 + room + x**3 * 2.0**-40 + 2.0**-29)

    def test_softmax(self, checker):
        logits = np.array([[[0.0, 3.0, -800.0], [-2.0, 1.0, 1.0]]])
        with np.errstate(over="ignore"):
            found = checker.float_model.softmax(logits)
        true = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
        assert (true <= found).all()
        assert (found <= true * (1 + 2.0**-26) + 2.0**-900).all()


class TestMoved:
    """How far outputs move where attention does, which sums to one before and after."""

    @pytest.mark.parametrize("eps", [1e-4, 0.01, 0.5, 4.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_no_choice_of_weights_moves_them_further(self, checker, seed, eps):
        """Each token may weigh exp(eps) times as much or as little: two heads, five tokens."""
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((1, 2, 5, 1))
        attention = rng.dirichlet(np.ones(5), (1, 2))
        grows = np.full((1, 2), np.expm1(2 * eps))
        found = checker.executed.apart_by_head(attention, grows, values)
        worst = 0.0
        for head in range(2):
            a, v = attention[0, head], values[0, head, :, 0]
            signs = 2.0 * (np.arange(32)[:, None] >> np.arange(5) & 1) - 1.0
            moved = a * np.exp(eps * signs)
            worst += np.abs((moved @ v) / moved.sum(axis=1) - a @ v).max()
        assert worst <= found[0, 0]
        if eps <= 0.01:
            assert found[0, 0] <= 2.2 * worst
        spread = (values.max(axis=2) - values.min(axis=2)).sum()
        assert found[0, 0] <= spread * (1 + NEAR)


class TestUnderflow:
    """What underflow takes from an output, as long as all products are in range."""

    def given(self, **others):
        shapes = {"W_V": (2, 3, 5), "W_O": (10, 7), "W_D": (7, 1)}
        weights = {name: np.full(shape, 0.5) for name, shape in shapes.items()}
        data = {"contexts": np.full((4, 6, 3), 0.5)}
        for name, entry in others.items():
            (weights if name in weights else data)[name].reshape(-1)[-1] = entry
        return weights, data

    @pytest.mark.parametrize("name", [None, "W_V", "W_O", "W_D", "contexts"])
    def test_all_paths(self, checker, name):
        """H d d_v d_o of them, each of factors that are never taken to be below one."""
        others = {name: -8.0} if name else {}
        found = checker.executed.underflow(*self.given(**others), 2.0**-100)
        wanted = (2.0**-100 + 2.0**-120) * 2 * 3 * 5 * 7 * (8.0 if name else 1.0)
        assert wanted <= found <= wanted * (1 + NEAR)

    @pytest.mark.parametrize("name", ["W_V", "W_O", "W_D", "contexts"])
    def test_range(self, checker, name):
        """Numerators are sums of n outputs, of which blocks may double."""
        most = (2.0 - 2.0**-23) * 2.0**127 / (2 * 6 * 2 * 3 * 5 * 7)
        for entry, known in ((most * (1 - NEAR), True), (most * (1 + NEAR), False)):
            found = checker.executed.underflow(*self.given(**{name: entry}), 0.0)
            assert (found < math.inf) == known


# Every term of what averages are off by, in a model.


def model_of(checker, name, **others):
    return checker.float_model.MODELS[name]._replace(**others)


class TestShares:
    """t / (1 - t), as long as it is below one and sums are not too long."""

    @pytest.mark.parametrize(
        ("share", "count", "known"),
        [
            (0.25, 4, True),
            (0.5 - 2.0**-53, 4, True),
            (0.5, 4, False),
            (0.25, 1 << 20, True),
            (0.25, (1 << 20) + 1, False),
            (math.nan, 4, False),
        ],
    )
    def test_limits(self, checker, share, count, known):
        found = float(checker.float_model.small(np.float64(share), count))
        assert (found < math.inf) == known
        if known:
            assert share / (1 - share) <= found <= share / (1 - share) * (1 + NEAR)

    def test_roundings(self, checker):
        model = model_of(checker, "float32, pairwise", unit=2.0**-6)
        found = checker.float_model.gamma_of(model, 8)
        assert 1 / 7 <= found <= 1 / 7 * (1 + NEAR)
        assert checker.float_model.gamma_of(model, 32) == math.inf


class TestAverages:
    """The formulas of `float_model`, with units, smallest numbers and blocks that all count."""

    @pytest.mark.parametrize("name", COARSE)
    @pytest.mark.parametrize("unit", [2.0**-11, 2.0**-14])
    @pytest.mark.parametrize(
        ("seen", "large", "rest"),
        [(40, 40, math.inf), (40, 40, 1.0), (40, 3, 2.0**-9), (1, 1, 0.0), (17, 2, 0.0)],
    )
    def test_both_sides(self, checker, name, unit, seen, large, rest):
        """As the prover has them, who counts what underflows apart."""
        ours, theirs = coarse_models(checker, name, unit=unit, exp_error=unit / 2, smallest=1e-3)
        zeta, added = checker.float_model.weighted(theirs, np.float64(seen), large, rest)
        one, more = ours.weighted(seen, large, rest)
        assert 0.0 < zeta < math.inf
        assert zeta == pytest.approx(float(one), rel=NEAR)
        assert added == pytest.approx(float(more + ours.flushed(seen) * (1.0 + one)), rel=NEAR)
        found = checker.float_model.exponents(theirs, seen)
        assert found == pytest.approx(float(ours.exponents(seen)), rel=NEAR)

    def test_no_bound_of_large_errors(self, checker):
        model = model_of(checker, "float32, pairwise", exp=0.125, unit=2.0**-30)
        for exp, known in ((0.15, True), (0.17, False)):  # t / (1 - t) with t of two of them
            zeta = checker.float_model.averaged(model._replace(exp=exp), np.float64(2))[0]
            assert (zeta < math.inf) == known
