"""The claims about real numbers, step by step: how digits are chosen, and what they show."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from real_parts import FREE, MATRIX, evaluated, layer_and_data

EIGHT = (6, 3, 4, 2, 5, 7, 3, 8)
"""Sizes, where nothing is done with them."""


class Steps:
    """What more and more digits find: distances with their scaled ones, and kappa or None."""

    def __init__(self, found, kappas=()):
        self.found, self.kappas, self.asked = list(found), list(kappas), []

    def residuals(self, weights, data, count, keep, work):
        assert (weights, data, work.spent) == ("weights", "data", 0)
        self.asked.append((count, keep))
        found = self.found[len(self.asked) - 1]
        if found is None:
            raise OverflowError("logits need more digits")
        return Fraction(found[0]), Fraction(found[1]), ["z"] * keep

    def right_inverse_bound(self, z_all, count):
        assert z_all == ["z"]
        assert count == self.asked[-1][0]
        return self.kappas.pop(0)


@pytest.fixture
def run(checker, monkeypatch):
    """Check bounds by such steps: what was asked of them, or the words of the refusal."""
    part = checker.real_claims

    def run(bounds, found, kappas=(), floats=(None, None, None)):
        steps = Steps(found, kappas)
        monkeypatch.setattr(part, "in_floats", lambda *_: floats)
        monkeypatch.setattr(part, "residuals", steps.residuals)
        monkeypatch.setattr(part, "right_inverse_bound", steps.right_inverse_bound)

        def affordable(shapes, keep, most, work):
            assert (shapes, keep, most) == (EIGHT, "readout" in bounds, 1e9)
            assert work.allowed == part.first(EIGHT, keep)[1] + part.MINUTE
            yield from range(10, 10 + len(found))

        monkeypatch.setattr(part, "affordable", affordable)
        try:
            part.check_real(bounds, "weights", "data", EIGHT, 1e9)
        except ValueError as failure:
            return str(failure)
        assert not steps.kappas
        return [keep for _, keep in steps.asked]

    return run


STALLED = "error: it is not shown to be within 1.0"
FAR = "readout: no exact one is shown to be so near"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([(0.5, 9)], [False]),
        ([(1, 9), (0, 0)], [False]),
        ([(3, 9), (1, 1)], [False] * 2),
        ([(3, 9), (2.96, 8.8), (0.5, 0.5)], [False] * 3),  # less than 1 % better in one of two
        ([(3, 9), (2.9, 8.99), (0.5, 0.5)], [False] * 3),
        ([(3, 9), (2.98, 8.99), (0.5, 0.5)], STALLED),
        ([(3, 9), (2.98, 9.5), (0.5, 0.5)], STALLED),
        ([None, (3, 9), None, (0.5, 9)], [False] * 4),
        ([(3, 9), None, (2.98, 8.99), (0, 0)], STALLED),
        ([(300, 900), (297, 891), (0.5, 0.5)], [False] * 3),  # exactly 1 %
        ([(300, 900), (297, 899), (0.5, 0.5)], [False] * 3),
        ([(300, 900), (299, 891), (0.5, 0.5)], [False] * 3),
        ([(9, 9), (5, 5)], "error: not shown with the digits which a minute allows"),
        ([], "error: not shown with the digits which a minute allows"),
    ],
)
def test_digits_for_an_error(run, found, said):
    assert run({"error": 1.0}, found) == said


@pytest.mark.parametrize(
    ("bounds", "found", "kappas", "said"),
    [
        ({"readout": 1.0}, [(9, 0.25)], [3], [True]),
        ({"readout": 1.0}, [(9, 0.25), (0, 0)], [4], [True]),
        ({"readout": 1.0}, [(9, 0.25), (9, 0.125)], [5], [True, False]),
        ({"readout": 1.0}, [(9, 0.25), (8.99, 0.249)], [5], FAR),
        ({"readout": 1.0}, [(9, 0.25), (8.99, 0.249)], [None, 1], [True, True]),
        ({"readout": 1.0}, [(9, 0.25), (9, 0.25), (9, 0.25)], [None, None, 1], [True] * 3),
        ({"readout": 1.0}, [(9, 0.25), None, (9, 0.1)], [None, 1], [True] * 3),
        ({"readout": 1.0}, [(9, 9)], [None], "readout: not shown with the digits which a minute"),
        ({"readout": 1.0, "error": 1.0}, [(0.5, 0.25)], [3], [True]),
        ({"readout": 1.0, "error": 1.0}, [(1.5, 0.25), (0.5, 0.1)], [3], [True, False]),
        ({"readout": 1.0, "error": 1.0}, [(1.5, 0.25), (1.49, 0.249)], [3], STALLED),
        ({"readout": 1.0, "error": 1.0}, [(0.5, 0.25), (0.499, 0.2499)], [9], FAR),
        ({"readout": 1.0, "error": 1.0}, [(0.5, 0.25), (0.1, 0.1)], [9], [True, False]),
    ],
)
def test_digits_for_a_readout(run, bounds, found, kappas, said):
    answer = run(bounds, found, kappas)
    assert answer == said or (type(said) is str and answer.startswith(said))


@pytest.mark.parametrize(
    ("bounds", "floats", "decide"),
    [
        ({"error": 1.0}, (1, 9, None), True),
        ({"error": 1.0}, (1.01, 0, None), False),
        ({"error": 1.0}, (None, None, None), False),
        ({"readout": 1.0}, (9, 0.25, 4), True),
        ({"readout": 1.0}, (9, 0.25, 4.01), False),
        ({"readout": 1.0}, (9, 0.25, None), False),
        ({"readout": 1.0}, (None, None, None), False),
        ({"readout": 1.0, "error": 1.0}, (1, 0.25, 4), True),
        ({"readout": 1.0, "error": 1.0}, (1.01, 0.25, 4), False),
        ({"readout": 1.0, "error": 1.0}, (1, 0.25, 4.01), False),
        ({"error": 0.0}, (0, 0, None), True),
    ],
)
def test_digits_are_for_what_floats_do_not_decide(run, bounds, floats, decide):
    invert = "readout" in bounds and floats[2] is None
    found = run(bounds, [(0, 0)], [0] * (invert and not decide), floats)
    assert found == ([] if decide else [invert])


def test_an_inverse_which_floats_show_is_kept(run):
    bounds = {"readout": 1.0}
    assert run(bounds, [(9, 0.5), (9, 0.25)], floats=(9, 9, 4)) == [False, False]
    assert run(bounds, [(9, 0.5), (9, 0.499)], floats=(9, 9, 4)) == FAR


def test_exponentials_cost_what_they_take(checker):
    """They are counted as they come, and more than a minute of them is refused."""
    part = checker.real_claims
    logits = checker.fixed.fixed([np.array([[[0.0, 0.5, -3.0], [0.0, -1e9, -1e9]]])], 24)
    work = part.Work(3 * checker.digits.exponential(12))
    checker.digits.softmax(logits, 12, work)
    assert work.spent == work.allowed  # of three tokens: the other head has one alone
    with pytest.raises(ValueError, match="not shown with the digits which a minute allows"):
        checker.digits.softmax(logits, 12, part.Work(2.99 * checker.digits.exponential(12)))
    plain = part.needs(EIGHT, 5, keep=True)
    assert part.first(EIGHT, keep=True) == (
        plain[0],
        plain[1] + checker.digits.exponential(5) * 6 * 3 * 5,
    )
    one = (6, 1, *EIGHT[2:])
    assert part.first(one, keep=True) == part.needs(one, 5, keep=True)


# Residuals.


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("most", [0, 139, 140, 2_000_000])
def test_residuals_and_what_is_kept_of_z(checker, monkeypatch, shared, outputs, parts, chunk, most):
    """Z is kept whole or in parts; with a few digits, within what they allow."""
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    data["targets"] *= 2.0**-30
    weights["W_D"] *= 2.0**-30
    part = checker.real_claims
    monkeypatch.setattr(part, "CHUNK", chunk)
    monkeypatch.setattr(part, "LARGEST", most)
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
            whole = checker.fixed.integers(some.digits).tolist()
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
    logits = checker.fixed.fixed([-behind[None, None]], 2 * count)
    found = checker.digits.softmax(logits, count, FREE)
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
    return checker.fixed.integers(x.digits).ravel()


def test_logits_which_are_not_known_well_enough(checker):
    """An error of a hundredth is too much to say anything; less counts, and is carried on."""
    digits = np.zeros((5, 1, 1, 2))
    unit = 20 * 4
    for error, refused in (
        (1 << unit, True),
        ((1 << unit) // 99, True),
        ((1 << unit) // 101, False),
    ):
        logits = checker.fixed.Fixed(digits, -unit, error)
        if refused:
            with pytest.raises(OverflowError, match="more digits"):
                checker.digits.softmax(logits, 5, FREE)
        else:
            found = checker.digits.softmax(logits, 5, FREE)
            assert found.error * 2.0**found.last >= 2.1 * error * 2.0**-unit
            assert found.error * 2.0**found.last <= 4 * error * 2.0**-unit


# The right inverse.


def kappa_of(checker, z, count=12, split=1):
    parts = [checker.fixed.fixed([rows], count) for rows in np.array_split(z, split)]
    return checker.inverse.right_inverse_bound(parts, count)


@pytest.mark.parametrize("split", [1, 2, 5])
def test_all_parts_of_z_count(checker, monkeypatch, split):
    z = np.random.default_rng(1).standard_normal((5, 9))
    one = kappa_of(checker, z)
    assert abs(kappa_of(checker, z, split=split) / one - 1) < 1e-6
    twice = np.concatenate([z, z[:1]])
    assert kappa_of(checker, twice) is None
    monkeypatch.setattr(checker.inverse, "LARGEST", 0)  # in floats only
    assert kappa_of(checker, twice, split=split) is None


@pytest.mark.parametrize("worse", [0, 1, 2])
def test_the_largest_error_of_all_parts_counts(checker, monkeypatch, worse):
    """Two entries of a row of R off by 1/64 each; other parts are exact."""
    monkeypatch.setattr(checker.inverse, "LARGEST", 0)
    digits = np.zeros((3, 4, 1, 4))
    digits[:, 0] = np.eye(3, 4)[:, None]
    parts = [checker.fixed.Fixed(x, -60, 0) for x in digits]
    parts[worse] = parts[worse]._replace(error=1 << 54)
    found = checker.inverse.right_inverse_bound(parts, 12)
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

    monkeypatch.setattr(checker.inverse, "guess", guess)


def test_a_right_inverse_which_is_not_exact_counts_as_it_may_be(checker, monkeypatch):
    """R = 0.92 of the true one has q = 0.08, and may stand for it: |R| / (1 - q)."""
    z = np.random.default_rng(1).standard_normal((5, 9))
    truth = np.abs(np.linalg.pinv(z)).sum(axis=1).max()
    in_fixed_point(checker, monkeypatch, short=0.08)
    assert truth * (1 - 1e-9) <= kappa_of(checker, z) <= truth * (1 + 1e-6)


def test_errors_of_what_is_put_out_as_floats_count(checker, monkeypatch):
    z = np.random.default_rng(1).standard_normal((5, 9))
    in_fixed_point(checker, monkeypatch)
    plain, floats = kappa_of(checker, z), checker.inverse.floats

    def worse(x, top=None):
        values, error = floats(x) if top is None else floats(x, top)
        return values, error + 1e-3 * (values.shape != (5, 5))

    monkeypatch.setattr(checker.inverse, "floats", worse)
    in_fixed_point(checker, monkeypatch)
    assert kappa_of(checker, z) > plain * (1 + Fraction(1, 10**4))


@pytest.mark.parametrize(("off", "works"), [(0.0, True), (0.3, True), (3.0, False)])
def test_newtons_iteration_mends_what_is_near(checker, monkeypatch, off, works):
    z = np.random.default_rng(1).standard_normal((4, 6))
    noise = np.random.default_rng(2).standard_normal((4, 4))
    noise *= off / np.abs(noise).sum(axis=1).max()
    truth = kappa_of(checker, z)
    part = checker.inverse
    monkeypatch.setattr(part, "LARGEST", 0)
    monkeypatch.setattr(part, "guess", lambda gram: np.linalg.inv(gram) @ (np.eye(4) + noise))
    found = kappa_of(checker, z)
    assert (found is not None and found < 1.1 * truth) == works


@pytest.mark.parametrize("most", [0, 2_000_000])
def test_errors_of_z_count(checker, monkeypatch, most):
    """Two entries of a row of R off by 1/64 each take 1/32 of a right inverse of norm 1."""
    monkeypatch.setattr(checker.inverse, "LARGEST", most)
    digits = np.zeros((4, 2, 4))
    digits[0] = np.eye(2, 4)
    exact, near, far = (
        checker.inverse.right_inverse_bound([checker.fixed.Fixed(digits, -60, error)], 12)
        for error in (0, 1 << 54, 1 << 57)
    )
    assert 1 <= exact < 1 + 1e-8
    assert 1 / (1 - 2 * 2.0**-6) <= near <= 1.07
    assert far is None


def test_rounding_counts(checker, monkeypatch):
    """Sums of 4 products and what comes after them, of rows whose entries and sums are one."""
    monkeypatch.setattr(checker.inverse, "gamma", lambda terms: 1e-3 * terms)
    found = kappa_of(checker, np.eye(2, 4))
    least = 1 / (1 - 2 * 6e-3)
    assert least <= found <= least * (1 + 1e-6)
