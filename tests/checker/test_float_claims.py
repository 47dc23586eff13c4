"""What the checker shows in float64 of *error* and *readout*, beside arithmetic of 60 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from real_parts import FREE, MATRIX, evaluated, layer_and_data

WAYS = "alone", "floats", "digits"


def shown(checker, weights, data, *, keep=True):
    """Bounds of residuals, scales, Z and its error."""
    readout = checker.real_claims.readout_of(weights, checker.float_claims.DIGITS)
    return checker.float_claims.residuals(weights, data, readout, keep, FREE)


def true_of(weights, data):
    """Z 2^-s and |f - y| 2^-s in 60 digits, and s."""
    z, f = evaluated(weights, data)
    tokens = np.abs(data["contexts"]).max(axis=(-2, -1))
    scales = np.broadcast_to([math.frexp(x)[1] for x in tokens.reshape(-1)], len(f))
    powers = np.array([mpmath.mpf(2) ** -int(s) for s in scales])[:, np.newaxis]
    return z * powers, np.abs(f - MATRIX(data["targets"]).reshape(len(f), -1)) * powers, scales


def sharpened(weights, factors):
    """Heads whose logits are so many times as large."""
    return weights | {"W_Q": weights["W_Q"] * np.array(factors)[:, np.newaxis, np.newaxis]}


def cancelling(weights, head):
    """The logits of one head are small differences of large products, so that rounding counts."""
    w_q, w_k = weights["W_Q"].copy(), weights["W_K"].copy()
    w_q[head, :, 1] = w_q[head, :, 0]
    w_k[head, :, 1] = -(2.0**20) * w_k[head, :, 0]
    w_k[head, :, 0] *= 2.0**20 + 1.0
    return weights | {"W_Q": w_q, "W_K": w_k}


@pytest.fixture
def ways(checker, monkeypatch):
    """How attention was had: counts by name."""
    counts, part = dict.fromkeys(WAYS, 0), checker.float_claims
    attend = part.attend

    def watched(*arguments):
        attention, error, precise = attend(*arguments)
        alone = int((error == 2.0 * attention.shape[2] * part.LEFT).sum())
        parts = alone, attention.shape[0] * attention.shape[1] - alone - precise, precise
        for name, count in zip(WAYS, parts, strict=True):
            counts[name] += count
        return attention, error, precise

    monkeypatch.setattr(part, "attend", watched)
    return counts


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("scale", [0, -400, 300])
def test_bounds_hold(checker, monkeypatch, ways, shared, outputs, parts, chunk, scale):
    """All ways to have attention, at any scale, with one example at a time or all at once."""
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    weights = cancelling(sharpened(weights, [1.0, 0.0, 30.0, 1e5, 1.0]), 4)
    weights["W_K"] = np.ldexp(weights["W_K"], -scale)
    data["contexts"] = np.ldexp(data["contexts"], scale)
    data["targets"] = np.ldexp(data["targets"], scale)
    monkeypatch.setattr(checker.float_claims, "CHUNK", chunk)
    monkeypatch.setattr(checker.float_claims, "FEW", 0.5)
    with mpmath.workdps(60):
        z, distances, scales = true_of(weights, data)
        bounds, found_scales, found, z_error = shown(checker, weights, data)
        assert (found_scales == scales).all()
        assert (MATRIX(bounds) >= distances).all()
        assert (MATRIX(bounds) <= distances * (1 + 1e-8) + 1e-9).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()
        assert z_error < 1e-11
        assert shown(checker, weights, data, keep=False)[2] is None
    assert min(ways.values()) > 0


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_of_random_layers(checker, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    weights, data = layer_and_data(rng, shared=bool(seed % 2), outputs=2, parts=0)
    weights = sharpened(weights, 10.0 ** rng.uniform(-3, 7, 5))
    monkeypatch.setattr(checker.float_claims, "FEW", 1.0)
    with mpmath.workdps(60):
        z, distances, _ = true_of(weights, data)
        bounds, _, found, z_error = shown(checker, weights, data)
        assert (MATRIX(bounds) >= distances).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()


@pytest.mark.parametrize("lead", [44.0, 44.9, 45.1, 46.0])
def test_a_token_is_alone_from_a_lead_on(checker, ways, lead):
    """Below it, its share is had to digits which say so."""
    tokens = np.array([[[1.0], [0.0]]])
    weights = {"W_Q": np.array([[[lead]]]), "W_K": np.ones((1, 1, 1))}
    attention, error, _ = checker.float_claims.attend(weights, tokens, np.ones((1, 1)), 1, FREE)
    assert ways["alone"] == (lead > 45)
    with mpmath.workdps(60):
        off = abs(1 / (1 + mpmath.exp(-mpmath.mpf(lead))) - mpmath.mpf(float(attention[0, 0, 0])))
        assert 2 * off <= float(error[0, 0])


def test_contexts_of_one_token(checker, ways):
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    data["contexts"] = data["contexts"][:, :1]
    with mpmath.workdps(60):
        bounds, distances = shown(checker, weights, data)[0], true_of(weights, data)[1]
        assert (MATRIX(bounds) >= distances).all()
    assert ways == {"alone": 35, "floats": 0, "digits": 0}


@pytest.mark.parametrize(("few", "refined"), [(0.0, 0), (0.19, 0), (0.2, 7), (1.0, 7)])
def test_as_much_in_fixed_point_as_is_few(checker, monkeypatch, ways, few, refined):
    """One head of five has logits which are known to few digits, on 7 examples."""
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    weights = cancelling(sharpened(weights, [0.1] * 5), 2)
    monkeypatch.setattr(checker.float_claims, "FEW", few)
    with mpmath.workdps(60):
        z, distances, _ = true_of(weights, data)
        bounds, _, found, z_error = shown(checker, weights, data)
        assert (MATRIX(bounds) >= distances).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()
        assert (z_error < 1e-11) == (refined > 0)
    assert ways["digits"] == refined


@pytest.mark.parametrize("name", ["contexts", "queries", "targets", "W_Q", "W_K", "W_V", "W_D"])
@pytest.mark.parametrize("power", [-1060, 1000])
def test_what_leaves_the_range_of_floats_shows_nothing_false(checker, name, power):
    rng = np.random.default_rng(1)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    holder = data if name in data else weights
    holder[name] = np.ldexp(holder[name], power)
    worst, scaled, _ = checker.real_claims.in_floats(weights, data, keep=False, work=FREE)
    with mpmath.workdps(700):
        _, distances, scales = true_of(weights, data)
        powers = np.array([mpmath.mpf(2) ** int(s) for s in scales])[:, np.newaxis]
        for bound, truth in ((worst, (distances * powers).max()), (scaled, distances.max())):
            assert bound is None or mpmath.mpf(bound.numerator) / bound.denominator >= truth


def test_the_largest_distance_is_told_at_its_own_scale(checker, monkeypatch):
    """Examples have scales of their own, and the worst need not be where the scaled one is."""
    part = checker.float_claims
    rows = np.array([[2.0, 1.0], [3.0, 0.0], [0.5, 8.0]]), np.array([9, 1, -1])
    monkeypatch.setattr(checker.real_claims, "readout_of", lambda *_: None)
    monkeypatch.setattr(part, "residuals", lambda *_: (*rows, None, 0.0))
    found = checker.real_claims.in_floats({}, {}, keep=False, work=FREE)
    assert found == (Fraction(1024), Fraction(8), None)
    for bad in (np.inf, np.nan):
        rows[0][1, 1] = bad
        found = checker.real_claims.in_floats({}, {}, keep=False, work=FREE)
        assert found == (None, None, None)


@pytest.mark.parametrize("count", range(1, 20))
def test_sums_by_halves(checker, count):
    """Each term is in few sums: units in the last place show through."""
    rng = np.random.default_rng(count)
    parts = rng.integers(-9, 9, (count, 2, 3)).astype(float)
    assert (checker.float_claims.added(parts) == parts.sum(axis=0)).all()
