"""The steps of models of float32 in the checker: every term of what averages are off by."""

import math

import numpy as np
import pytest

NEAR = 1e-7  # what `up` may add


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

    COARSE = {"unit": 2.0**-11, "exp": 2.0**-12, "small": 2.0**-10}  # noqa: RUF012

    @pytest.mark.parametrize("merged", [False, True])
    @pytest.mark.parametrize("stored", [(0.0, 0.0), (2.0**-8, 2.0**-9)])
    @pytest.mark.parametrize(
        ("seen", "large", "rest"), [(40, 40, math.inf), (40, 3, 2.0**-9), (1, 1, 0.0), (17, 2, 0.0)]
    )
    def test_all_terms(self, checker, merged, stored, seen, large, rest):
        s, tiny = stored
        model = model_of(
            checker,
            "float32, pairwise",
            block=16,
            merged=merged,
            stored=s,
            tiny=tiny,
            **self.COARSE,
        )
        zeta, added = checker.float_model.weighted(model, np.float64(seen), large, rest)
        u, nested = model.unit, 1 + merged
        blocks = 1 + merged + math.ceil((seen - 1) / 16)
        t = nested * blocks * (model.exp + u)
        eta = t / (1 - t)
        sums = nested * seen * u / (1 - nested * seen * u)
        few = (1 + sums) * nested * large * u
        others = (1 + sums) * (1 + nested * seen * u) * nested * rest
        if few + others >= sums:
            few, others = sums, 0.0
        beta = (1 + eta) * (1 + few) - 1
        below = (1 + eta) * (1 + few + others) - 1
        rho = (1 + nested * u) ** 2 * (1 + s) ** 2 / (1 - s) - 1
        wanted = (below + rho + beta * (1 + rho)) / (1 - below)
        assert 0.0 < wanted < 1.0
        assert wanted <= zeta <= wanted * (1 + 2 * NEAR)
        lost = 32 * seen * blocks * model.small + (3 * seen + 1) * tiny
        more = (1 + rho) * (1 + eta) * others / (1 - below) + lost * (1 + wanted)
        assert more <= added <= more * (1 + 2 * NEAR)

    def test_of_all_tokens(self, checker):
        """`averaged` counts each of them."""
        model = model_of(checker, "float32, pairwise", **self.COARSE)
        parts = checker.float_model
        found = parts.averaged(model, np.float64(40))
        assert found == parts.weighted(model, np.float64(40), 40, 1.0)

    def test_no_bound_of_large_errors(self, checker):
        model = model_of(checker, "float32, pairwise", exp=0.125, unit=2.0**-30)
        for exp, known in ((0.15, True), (0.17, False)):  # t / (1 - t) with t of two of them
            zeta = checker.float_model.averaged(model._replace(exp=exp), np.float64(2))[0]
            assert (zeta < math.inf) == known

    @pytest.mark.parametrize(("seen", "logs"), [(0.0, 0.0), (1.0, 0.0), (1000.0, math.log(1000))])
    def test_exponents_of_merged_parts(self, checker, seen, logs):
        model = model_of(checker, "float32, scaled", unit=2.0**-6, exp=2.0**-5)
        found = checker.float_model.exponents(model, seen)
        wanted = 5 * model.unit * logs + 2 * model.exp * (1 + logs)
        assert wanted <= found <= wanted * (1 + NEAR)
        assert checker.float_model.exponents(model._replace(merged=False), seen) == 0.0
