"""The claims about real numbers, step by step: how digits are chosen, and what they show."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from real_parts import FREE, MATRIX, evaluated, layer_and_data
from refusals import refused

EIGHT = (6, 3, 4, 2, 5, 7, 3, 8)
"""Sizes, where nothing is done with them."""


def test_exponentials_cost_what_they_take(checker):
    """They are counted as they come, and more than a minute of them is refused."""
    part = checker.real
    logits = checker.bounds.fixed([np.array([[[0.0, 0.5, -3.0], [0.0, -1e9, -1e9]]])], 24)
    work = part.Work(3 * checker.floating.exponential(12))
    checker.floating.softmax(logits, 12, work)
    assert work.spent == work.allowed  # of three tokens: the other head has one alone
    with refused("not shown with the digits which a minute allows"):
        checker.floating.softmax(logits, 12, part.Work(2.99 * checker.floating.exponential(12)))
    plain = part.digits_needed(EIGHT, 5, keep=True)
    assert part.first_needs(EIGHT, keep=True) == (
        plain[0],
        plain[1] + checker.floating.exponential(5) * 6 * 3 * 5,
    )
    one = (6, 1, *EIGHT[2:])
    assert part.first_needs(one, keep=True) == part.digits_needed(one, 5, keep=True)


# Residuals.


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("most", [0, 139, 140, 2_000_000])
def test_residuals_and_what_is_kept_of_z(checker, as_if, shared, outputs, parts, chunk, most):
    """Z is kept whole or in parts; with a few digits, within what they allow."""
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    data["targets"] *= 2.0**-30
    weights["W_D"] *= 2.0**-30
    part = checker.real
    as_if("real", CHUNK=chunk, LARGEST=most)
    with mpmath.workdps(60):
        z, f = evaluated(weights, data)
        distances = np.abs(f - MATRIX(data["targets"]).reshape(len(f), -1)).max(axis=1)
        tokens = np.abs(data["contexts"]).reshape(1 if shared else len(f), -1).max(axis=1)
        scales = np.broadcast_to([math.frexp(x)[1] for x in tokens], len(f))
        powers = [mpmath.mpf(2) ** -int(x) for x in scales]
        truths = max(distances), max(d * power for d, power in zip(distances, powers, strict=True))
        for keep in (False, True):
            *bounds, kept = part.residuals(weights, data, 7, keep, FREE)
            for bound, truth in zip(bounds, truths, strict=True):
                assert truth <= mpmath.mpf(bound.numerator) / bound.denominator <= truth + 1e-20
            assert keep or not kept
        rows, errors = [], []
        for some in kept:
            whole = checker.bounds.integers(some.digits).tolist()
            unit = mpmath.mpf(2) ** some.last
            rows += [[unit * x for x in row] for row in whole]
            errors += [unit * some.error] * len(whole)
        off = np.abs(np.array(rows) - z * np.array(powers)[:, None]).max(axis=1)
        assert (off <= errors).all()
        assert off.max() > 0
        assert max(errors) < 1e-20
    if most >= 7 * 5 * 4 or chunk > 100:
        assert len(kept) == 1
    elif chunk == 1:
        assert len(kept) == 7


@pytest.mark.parametrize("count", [5, 6, 9])
def test_shares_of_tokens_which_are_far_behind(checker, count):
    """Beyond what so many digits hold a share counts as zero; not before, by half a digit."""
    unit = 20 * (count - 1) * math.log(2)
    behind = np.array([0.0, unit / 2, unit - 8, unit - 1, unit + 1, 2 * unit, 1000.0])
    logits = checker.bounds.fixed([-behind[None, None]], 2 * count)
    found = checker.floating.softmax(logits, count, FREE)
    shares = [Fraction(int(d)) * Fraction(2) ** found.last for d in _whole(checker, found)]
    with mpmath.workdps(100):
        powers = [mpmath.exp(-mpmath.mpf(x)) for x in behind.tolist()]
        for share, power in zip(shares, powers, strict=True):
            off = abs(mpmath.mpf(share.numerator) / share.denominator - power / sum(powers))
            assert off <= found.error * mpmath.mpf(2) ** found.last
    assert all(share > 0 for share in shares[:3])
    assert shares[5:] == [0, 0]
    assert found.error < 1000


def _whole(checker, x):
    return checker.bounds.integers(x.digits).ravel()


def test_logits_which_are_not_known_well_enough(checker):
    """An error of a hundredth is too much to say anything; less counts, and is carried on."""
    digits = np.zeros((5, 1, 1, 2))
    unit = 20 * 4
    for error, words in ((1 << unit, "more digits"), ((1 << unit) // 99, "more digits")):
        with refused(words, OverflowError):
            checker.floating.softmax(checker.bounds.Fixed(digits, -unit, error), 5, FREE)
    error = (1 << unit) // 101
    found = checker.floating.softmax(checker.bounds.Fixed(digits, -unit, error), 5, FREE)
    assert 2.1 * error * 2.0**-unit <= found.error * 2.0**found.last <= 4 * error * 2.0**-unit


# The right inverse.


def kappa_of(checker, z, count=12, split=1):
    parts = [checker.bounds.fixed([rows], count) for rows in np.array_split(z, split)]
    return checker.real.right_inverse_bound(parts, count)


@pytest.mark.parametrize("split", [1, 2, 5])
def test_all_parts_of_z_count(checker, as_if, split):
    z = np.random.default_rng(1).standard_normal((5, 9))
    one = kappa_of(checker, z)
    assert abs(kappa_of(checker, z, split=split) / one - 1) < 1e-6
    twice = np.concatenate([z, z[:1]])
    assert kappa_of(checker, twice) is None
    as_if("real", LARGEST=0)  # in floats only
    assert kappa_of(checker, twice, split=split) is None


@pytest.mark.parametrize("worse", [0, 1, 2])
def test_the_largest_error_of_all_parts_counts(checker, as_if, worse):
    """Two entries of a row of R off by 1/64 each; other parts are exact."""
    as_if("real", LARGEST=0)
    digits = np.zeros((3, 4, 1, 4))
    digits[:, 0] = np.eye(3, 4)[:, None]
    parts = [checker.bounds.Fixed(x, -60, 0) for x in digits]
    parts[worse] = parts[worse]._replace(error=1 << 54)
    found = checker.real.right_inverse_bound(parts, 12)
    assert 1 / (1 - 3 * 2.0**-6) <= found <= 1.07


@pytest.mark.parametrize("scale", [-900, -70, 0, 70, 900])
def test_a_right_inverse_at_any_scale(checker, scale):
    z = np.random.default_rng(1).standard_normal((5, 9))
    found = kappa_of(checker, z * 2.0**scale) * Fraction(2) ** scale
    assert abs(found / kappa_of(checker, z) - 1) < 1e-6


@pytest.mark.parametrize("scale", [-900, -70, 70, 900])
def test_a_right_inverse_in_fixed_point_at_any_scale(checker, scale):
    """Where float64 sees a singular matrix."""
    z = np.random.default_rng(1).standard_normal((5, 9))
    z[-1] = z[0] + 2.0**-44 * z[-1]
    truth = kappa_of(checker, z)
    assert truth > 2**42
    found = kappa_of(checker, z * 2.0**scale) * Fraction(2) ** scale
    assert abs(found / truth - 1) < 0.15  # R is another


def in_fixed_point(checker, monkeypatch, short=0.0):
    """Floats find nothing, and what fixed point begins with is too short by this part."""
    calls = []

    def guess(gram):
        calls.append(gram)
        return np.linalg.inv(gram) * (1 - short) if len(calls) > 1 else np.zeros_like(gram)

    monkeypatch.setattr(checker.real, "guess", guess)


def test_a_right_inverse_which_is_not_exact_counts_as_it_may_be(checker, monkeypatch):
    """R = 0.92 of the true one has q = 0.08, and may stand for it: |R| / (1 - q)."""
    z = np.random.default_rng(1).standard_normal((5, 9))
    truth = np.abs(np.linalg.pinv(z)).sum(axis=1).max()
    in_fixed_point(checker, monkeypatch, short=0.08)
    assert truth * (1 - 1e-9) <= kappa_of(checker, z) <= truth * (1 + 1e-6)


def test_errors_of_what_is_put_out_as_floats_count(checker, monkeypatch):
    z = np.random.default_rng(1).standard_normal((5, 9))
    in_fixed_point(checker, monkeypatch)
    plain, floats = kappa_of(checker, z), checker.real.floats

    def worse(x, top=None):
        values, error = floats(x) if top is None else floats(x, top)
        return values, error + 1e-3 * (values.shape != (5, 5))

    monkeypatch.setattr(checker.real, "floats", worse)
    in_fixed_point(checker, monkeypatch)
    assert kappa_of(checker, z) > plain * (1 + Fraction(1, 10**4))


@pytest.mark.parametrize(("off", "works"), [(0.0, True), (0.3, True), (3.0, False)])
def test_newtons_iteration_mends_what_is_near(checker, as_if, monkeypatch, off, works):
    z = np.random.default_rng(1).standard_normal((4, 6))
    noise = np.random.default_rng(2).standard_normal((4, 4))
    noise *= off / np.abs(noise).sum(axis=1).max()
    truth = kappa_of(checker, z)
    part = checker.real
    as_if("real", LARGEST=0)
    monkeypatch.setattr(part, "guess", lambda gram: np.linalg.inv(gram) @ (np.eye(4) + noise))
    found = kappa_of(checker, z)
    assert (found is not None and found < 1.1 * truth) == works


@pytest.mark.parametrize("most", [0, 2_000_000])
def test_errors_of_z_count(checker, as_if, most):
    """Two entries of a row of R off by 1/64 each take 1/32 of a right inverse of norm 1."""
    as_if("real", LARGEST=most)
    digits = np.zeros((4, 2, 4))
    digits[0] = np.eye(2, 4)
    exact, near, far = (
        checker.real.right_inverse_bound([checker.bounds.Fixed(digits, -60, error)], 12)
        for error in (0, 1 << 54, 1 << 57)
    )
    assert 1 <= exact < 1 + 1e-8
    assert 1 / (1 - 2 * 2.0**-6) <= near <= 1.07
    assert far is None


def test_rounding_counts(checker, as_if):
    """Sums of 4 products and what comes after them, of rows whose entries and sums are one."""
    as_if("real", gamma=lambda terms: 1e-3 * terms)
    found = kappa_of(checker, np.eye(2, 4))
    least = 1 / (1 - 2 * 6e-3)
    assert least <= found <= least * (1 + 1e-6)
