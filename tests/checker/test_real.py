"""The claims about real numbers, step by step: how digits are chosen, and what they show."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from checker_parts import FREE, MATRIX, evaluated, layer_and_data, refused

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
@pytest.mark.parametrize(
    ("chunk", "most"),
    [(1, 0), (1, 2_000_000), (100, 139), (100, 140), (1 << 18, 0), (1 << 18, 2_000_000)],
)
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
@pytest.mark.parametrize("worse", [0, 1])
def test_errors_of_z_count(checker, as_if, most, worse):
    """Two entries of a row of R off by 1/64 each take 1/32 of a right inverse of norm 1."""
    as_if("real", LARGEST=most)
    digits = np.zeros((2, 4, 1, 4))
    digits[:, 0] = np.eye(2, 4)[:, None]

    def of(error):
        parts = [checker.bounds.Fixed(x, -60, 0) for x in digits]
        parts[worse] = parts[worse]._replace(error=error)
        return checker.real.right_inverse_bound(parts, 12)

    assert 1 <= of(0) < 1 + 1e-8
    assert 1 / (1 - 2 * 2.0**-6) <= of(1 << 54) <= 1.07
    assert of(1 << 57) is None


def test_rounding_counts(checker, as_if):
    """Sums of 4 products and what comes after them, of rows whose entries and sums are one."""
    as_if("real", gamma=lambda terms: 1e-3 * terms)
    found = kappa_of(checker, np.eye(2, 4))
    least = 1 / (1 - 2 * 6e-3)
    assert least <= found <= least * (1 + 1e-6)


# What the checker shows in float64 of *error* and *readout*, beside arithmetic of 60 digits.


def shown(checker, weights, data, *, keep=True):
    """Bounds of residuals, scales, Z and its error."""
    readout = checker.real.readout_of(weights, checker.floating.DIGITS)
    return checker.real.residuals_in_floats(weights, data, readout, keep, FREE)


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


def ways(checker, weights, data, few=1.0):
    """How attention of heads on examples is had: alone, in floats, or to digits."""
    view = checker.attend.Examples(data, [slice(None)])
    floating = checker.floating
    counts = {"alone": 0, "floats": 0, "digits": 0}
    numbers = floating.Bounded(weights)
    heads = checker.attend.Heads(numbers, weights)
    for *_, (attention, error, unknown) in checker.attend.attend(numbers, heads, view):
        alone = error == 2.0 * attention.shape[2] * floating.LEFT
        digits = unknown.sum() if unknown.sum() <= few * unknown.size else 0
        counts["alone"] += int(alone.sum())
        counts["digits"] += int(digits)
        counts["floats"] += int(alone.size - alone.sum() - digits)
    return counts


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("scale", [0, -400, 300])
def test_bounds_hold(checker, as_if, shared, outputs, parts, chunk, scale):
    """All ways to have attention, at any scale, with one example at a time or all at once."""
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    weights = cancelling(sharpened(weights, [1.0, 0.0, 30.0, 1e5, 1.0]), 4)
    weights["W_K"] = np.ldexp(weights["W_K"], -scale)
    data["contexts"] = np.ldexp(data["contexts"], scale)
    data["targets"] = np.ldexp(data["targets"], scale)
    as_if("real", CHUNK=chunk, FEW=0.5)
    with mpmath.workdps(60):
        z, distances, scales = true_of(weights, data)
        bounds, found_scales, found, z_error = shown(checker, weights, data)
        assert (found_scales == scales).all()
        assert (MATRIX(bounds) >= distances).all()
        assert (MATRIX(bounds) <= distances * (1 + 1e-8) + 1e-9).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()
        assert z_error < 1e-11
        assert shown(checker, weights, data, keep=False)[2] is None
    assert min(ways(checker, weights, data).values()) > 0


@pytest.mark.parametrize(("few", "refined"), [(0.0, 0), (0.19, 0), (0.2, 7), (1.0, 7)])
def test_as_much_in_fixed_point_as_is_few(checker, as_if, few, refined):
    """One head of five has logits that are known to few digits, on 7 examples."""
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    weights = cancelling(sharpened(weights, [0.1] * 5), 2)
    as_if("real", FEW=few)
    with mpmath.workdps(60):
        z, distances, _ = true_of(weights, data)
        bounds, _, found, z_error = shown(checker, weights, data)
        assert (MATRIX(bounds) >= distances).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()
        assert (z_error < 1e-11) == (refined > 0)
    assert ways(checker, weights, data, few)["digits"] == refined


@pytest.mark.parametrize("name", ["contexts", "queries", "targets", "W_Q", "W_K", "W_V", "W_D"])
@pytest.mark.parametrize("power", [-1060, 1000])
def test_what_leaves_the_range_of_floats_shows_nothing_false(checker, name, power):
    rng = np.random.default_rng(1)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0, total=2)
    holder = data if name in data else weights
    holder[name] = np.ldexp(holder[name], power)
    worst, scaled, _ = checker.real.in_floats(weights, data, keep=False, work=FREE)
    with mpmath.workdps(700):
        _, distances, scales = true_of(weights, data)
        powers = np.array([mpmath.mpf(2) ** int(s) for s in scales])[:, np.newaxis]
        for bound, truth in ((worst, (distances * powers).max()), (scaled, distances.max())):
            assert bound is None or mpmath.mpf(bound.numerator) / bound.denominator >= truth


def test_the_largest_distance_is_told_at_its_own_scale(checker, monkeypatch):
    """Examples have scales of their own, and the worst need not be where the scaled one is."""
    part = checker.real
    rows = np.array([[2.0, 1.0], [3.0, 0.0], [0.5, 8.0]]), np.array([9, 1, -1])
    monkeypatch.setattr(checker.real, "readout_of", lambda *_: None)
    monkeypatch.setattr(part, "residuals_in_floats", lambda *_: (*rows, None, 0.0))
    found = checker.real.in_floats({}, {}, keep=False, work=FREE)
    assert found == (Fraction(1024), Fraction(8), None)
    for bad in (np.inf, np.nan):
        rows[0][1, 1] = bad
        found = checker.real.in_floats({}, {}, keep=False, work=FREE)
        assert found == (None, None, None)


@pytest.mark.parametrize("most", [0, 100])
@pytest.mark.parametrize("seed", range(3))
def test_tokens_beyond_a_length_do_not_count(checker, seed, most):
    """In floats, alone, and to digits: attention is that of a context without them."""
    rng, lengths = np.random.default_rng(seed), [5, 2, 1, 4]
    weights = {name: rng.standard_normal((3, 4, 2)) for name in ("W_Q", "W_K")}
    weights = cancelling(sharpened(weights, [1.0, 1e4, 1.0]), 2)
    data = {"contexts": rng.standard_normal((4, 5, 4)), "queries": rng.standard_normal((4, 4))}
    data["contexts"][1, 2:] = 10.0 * data["contexts"][1, :1]

    def of(**arrays):
        view = checker.attend.Examples(data | arrays, [slice(None)])
        ((_, _, *found),) = checker.floating.attended(weights, view, most)
        return found

    attention, error = of(lengths=np.array(lengths))
    for k, length in enumerate(lengths):
        assert (attention[k, :, length:] == 0.0).all()
        tokens, query = data["contexts"][k : k + 1, :length], data["queries"][k : k + 1]
        wanted, off = of(contexts=tokens, queries=query)
        apart = np.abs(attention[k, :, :length] - wanted[0]).sum(axis=1)
        assert (apart <= error[k] + off[0]).all()
        assert most == 0 or error[k].max() < 1e-9


@pytest.mark.parametrize("count", range(1, 20))
def test_sums_by_halves(checker, count):
    """Each term is in few sums: units in the last place show through."""
    rng = np.random.default_rng(count)
    parts = rng.integers(-9, 9, (count, 2, 3)).astype(float)
    assert (checker.real.added(parts) == parts.sum(axis=0)).all()


# Bounds term by term: what rounding does to random layers is far less than what it may do.


def close(found, expected):
    return np.allclose(np.asarray(found), expected, rtol=1e-8, atol=0)


@pytest.fixture
def attended(checker):
    """Attention for logits of one head on one example, off by so much."""

    def attended(logits, off):
        numbers = checker.floating.Bounded({"W_Q": np.zeros((1, 1, 1))})
        numbers.gamma = 1.0
        logits = checker.floating.Sized(np.array([[logits]]), np.array([[[off]]]))
        with np.errstate(all="ignore"):
            attention, error, unknown = numbers.softmax(logits, None)
        return attention[0, 0], error[0, 0], bool(unknown[0, 0])

    return attended


def test_bounds_of_logits_count_all_products(checker):
    rng, floating, gamma = np.random.default_rng(0), checker.floating, checker.bounds.gamma
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    read = np.einsum("td,hdi->thi", abs(data["queries"]), abs(weights["W_Q"]))
    most = abs(data["contexts"]).max(axis=1)
    sizes = np.einsum("thi,hei,te->th", read, abs(weights["W_K"]), most)
    numbers, found = floating.Bounded(weights), []
    numbers.softmax = lambda logits, _: found.append(logits)
    view = checker.attend.Examples(data, [slice(None)])
    list(checker.attend.attend(numbers, checker.attend.Heads(numbers, weights), view))
    assert close(found[0].sizes[..., 0], sizes)
    assert (found[0].sizes[..., 0] >= sizes).all()
    width, inner = weights["W_Q"].shape[1:]
    assert numbers.gamma >= gamma(2 * width + inner)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 3), (1, 100, 40)])
def test_each_rounding_of_a_logit_counts(checker, shape):
    """Sums over d, d_h and d entries, one after the other."""
    found = checker.floating.Bounded({"W_Q": np.zeros(shape)}).gamma
    steps = 2 * shape[1] + shape[2]
    assert checker.bounds.gamma(steps) <= found <= checker.bounds.gamma(steps + 16)


@pytest.mark.parametrize("size", [2, 300, 5000])
def test_each_rounding_of_a_sum_counts(checker, attended, size):
    """Numerators are summed, and so are averages."""
    attention, error, unknown = attended([0.0] * size, 0.0)
    assert error >= 2 * checker.bounds.gamma(size)
    assert (attention == 1 / size).all()
    assert not unknown


@pytest.mark.parametrize("off", [0.0, 2.0**-45, 2.0**-41])
def test_bounds_of_attention_have_all_parts(checker, attended, off):
    attention, error, unknown = attended([0.0, -1.0, -70.0], off)
    assert not unknown
    assert attention[2] == 0
    # A relative 2^-45 and what 2^-47 in logits does; sums, quotients, and products with tokens.
    assert error >= off + 2.0**-45 + 2.0**-47 + 2 * checker.bounds.gamma(3)
    assert close(error, off + 2.0**-44 + 2 * checker.bounds.gamma(11))


@pytest.mark.parametrize("off", [2.0**-40 * (1 + 2.0**-52), 1.0, 1e6, np.inf, np.nan])
def test_attention_of_logits_which_are_not_known_is_had_in_digits(attended, off):
    assert attended([0.0, -1.0, -2.0], off)[2]


@pytest.mark.parametrize("off", [0.0, 2.0**-41, 1.0, 0.999e6])
def test_a_lead_has_to_be_above_what_both_logits_are_off_by(checker, attended, off):
    least = 45.0 + 2 * off
    one, error, unknown = attended([-least * (1 + 1e-8), 0.0, -3 * least], off)
    assert (list(one), unknown) == ([0.0, 1.0, 0.0], False)
    assert close(error, 2 * 3 * checker.floating.LEFT)
    for lead in (least, least * (1 - 1e-8)):
        _, error, unknown = attended([-lead, 0.0, -3 * least], off)
        assert unknown == (off > 2.0**-40)
        assert error > 1e-17


@pytest.mark.parametrize("off", [1e6, np.inf, np.nan])
def test_no_lead_is_enough_where_nothing_is_known(attended, off):
    for logits in ([0.0, -1e300], [0.0, -np.inf], [0.0, np.nan], [np.nan, 0.0], [np.inf, 0.0]):
        assert attended(logits, off)[2]


def test_what_is_left_out_is_less_than_its_bound(checker):
    assert mpmath.exp(-checker.floating.NATS) < checker.floating.LEFT


@pytest.mark.parametrize("heads", [1, 4, 5])
def test_bounds_of_outputs_count_rounding_attention_and_readout(checker, monkeypatch, heads):
    """Where targets are what is found, so that nothing but what that is off by is left."""
    part, rng = checker.real, np.random.default_rng(heads)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    weights = {name: x[:heads] for name, x in weights.items() if name in ("W_Q", "W_K", "W_V")}
    total, size, width = data["contexts"].shape
    tokens = data["contexts"] = rng.integers(4, 8, (total, size, width)).astype(float)
    readout = rng.integers(-9, 9, (heads * width, 2)).astype(float)
    chosen = np.eye(size)[rng.integers(size, size=(total, heads))]
    z = (chosen @ (tokens / 8)).reshape(total, -1)
    data["targets"] = 8 * (z @ readout)
    sums, sizes = np.abs(readout).reshape(heads, width, 2).sum(axis=1), z @ np.abs(readout)
    counted = checker.bounds.gamma(width + heads.bit_length() + 4) * sizes
    for offs, u_error in ((0.0, 0.0), (1e-3, 0.0), (0.0, 1.0), (1e-3, 1.0)):
        off = np.full((total, heads), offs)
        group = next(checker.attend.Examples(data, [slice(0, total)]).groups())
        known = group, tokens, chosen, off
        monkeypatch.setattr(part, "attended", lambda *given, known=known: [given[-1](*known)])
        monkeypatch.setattr(part, "floats", lambda _, e=u_error: (readout, e))
        bounds, _, found, z_error = part.residuals_in_floats(
            weights, data, None, keep=True, work=FREE
        )
        assert (found == z).all()
        assert z_error == offs
        read = z.sum(axis=1) + width * off.sum(axis=1)
        assert close(bounds, counted + off @ sums + read[:, None] * u_error)


@pytest.mark.parametrize(("axes", "longest"), [((1, 2), 20), ((0, 1), 9), ((2,), 30)])
def test_longer_sums_are_left_to_digits(checker, as_if, axes, longest):
    """Columns of Z, tokens, or what a query is multiplied by, whichever are most."""
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=True, outputs=2, parts=0)
    if axes == (0, 1):  # tokens, with few columns
        weights = {name: x[:1] for name, x in weights.items()}
        weights["W_O"], weights["W_D"] = np.ones((3, 1)), np.ones((1, 2))
        data["contexts"] = rng.standard_normal((9, 4))
    if axes == (2,):
        weights |= {name: rng.standard_normal((5, 4, 30)) for name in ("W_Q", "W_K")}
    assert max(5 * 4 if axes != (0, 1) else 4, len(data["contexts"])) <= longest
    as_if("real", FEW=1.0)
    for most, found in ((longest, True), (longest - 1, False)):
        as_if("real", LONGEST=most)
        assert (shown(checker, weights, data) is not None) == found
