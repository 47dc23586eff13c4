"""The steps of the claims about real numbers beside an oracle: where what they allow for occurs."""

import itertools
import math
from fractions import Fraction

import flint
import numpy as np
import oracle
import pytest
from checker_parts import FREE, case, layer_and_data, refused
from flint import arb

from constructive import Dataset, build_memorizer
from constructive import checker as judge

EIGHT = (6, 3, 4, 2, 5, 7, 3, 8)
"""Sizes, where nothing is done with them."""


@pytest.fixture(autouse=True)
def many_bits():
    with flint.ctx.workprec(oracle.PREC):
        yield


def fractions(array):
    return np.vectorize(Fraction, otypes=[object])(array)


# Exponentials and attention.


def test_exponentials(checker):
    rng = np.random.default_rng(0)
    places = np.concatenate([rng.uniform(-80, 700, 300), rng.uniform(-1, 1, 300), [0.0]])
    for x, found in zip(places, checker.bounds.exponentials(places), strict=True):
        true = arb(x).exp()
        assert abs(arb(found) - true) <= true * arb(2) ** -50 + arb(1e-26)


def far_from(shares, logits, seen):
    """How far shares are from softmax of logits, which are balls, in all; others should be zero."""
    true = oracle.softmax([logits[i] for i in seen]).entries()
    apart = [abs(arb(shares[i]) - share) for i, share in zip(seen, true, strict=True)]
    return sum(apart, arb(0)) + arb(float(np.delete(shares, seen).sum()))


@pytest.mark.parametrize("seed", range(60))
def test_attention_is_as_near_as_its_bound_says(checker, seed):
    """With logits off by all that is allowed, in each direction that moves attention most."""
    rng = np.random.default_rng(seed)
    size, scale = int(rng.integers(1, 7)), 10.0 ** rng.integers(-1, 3)
    high = rng.standard_normal((8, size)) * scale
    low = rng.standard_normal((8, size)) * 2.0**-54 * np.abs(high) * 2.0 ** rng.integers(0, 20)
    off = 10.0 ** rng.uniform(-18, 1) * rng.random((8, size)) * (rng.random((8, size)) < 0.8)
    hidden = None
    if rng.random() < 0.5:
        hidden = (rng.random((8, size)) < 0.3) & (np.arange(size) > 0)
        high = np.where(hidden, 1e3, high)
    with np.errstate(all="ignore"):
        shares, errors = checker.floating.enclosed(high, low, off, hidden)
    for row in np.flatnonzero(np.isfinite(errors)):
        seen = np.arange(size) if hidden is None else np.flatnonzero(~hidden[row])
        for one in seen:
            moved = np.where(np.arange(size) == one, off[row], -off[row])
            parts = zip(high[row], low[row], moved, strict=True)
            logits = [sum(map(arb, part), arb(0)) for part in parts]
            assert far_from(shares[row], logits, seen) <= arb(errors[row])


@pytest.mark.parametrize("seed", range(20))
def test_attention_that_is_known_has_a_small_bound(checker, seed):
    """Of logits without errors; and if one token leads, what is nearer is taken."""
    rng = np.random.default_rng(seed)
    for scale, most in ((1.0, 1e-13), (1e3, 1e-13)):
        high = rng.standard_normal((8, 5)) * scale
        high[:, 0] = 50 + high[:, 1:].max(axis=1)
        shares, errors = checker.floating.enclosed(high, 0.0, np.zeros((8, 5)), None)
        assert (errors < most).all()
        alone, rest = checker.floating.enclosed(high, 0.0, np.full((8, 5), 1.0), None)
        assert (alone == [1.0, 0, 0, 0, 0]).all()
        assert (rest < 1e-19).all()
        assert (np.abs(shares - alone) < 1e-19).all()


@pytest.mark.parametrize("size", [2, 300, 1 << 12])
def test_each_rounding_of_a_sum_counts(checker, size):
    """Numerators are summed, and so are averages of numbers below one."""
    high = -np.random.default_rng(0).random((1, size)) * 1e-3
    shares, errors = checker.floating.enclosed(high, 0.0, np.zeros((1, 1)), None)
    assert abs(sum(map(Fraction, shares[0].tolist())) - 1) <= Fraction(float(errors[0]))
    assert errors[0] >= 2 * size * 2.0**-53


def test_what_is_not_known_has_no_bound(checker):
    for off in (0.1, 1e6, np.inf, np.nan):
        with np.errstate(all="ignore"):
            errors = checker.floating.enclosed(np.zeros((1, 3)), 0.0, np.full((1, 3), off), None)[1]
        assert not errors[0] < 1.0


@pytest.mark.parametrize("seed", range(40))
def test_products_in_twice_the_precision(checker, seed):
    """Of vectors that are sums of two floats, with cancellation: near, as bounds tell."""
    rng = np.random.default_rng(seed)
    width, size = int(rng.integers(1, 40)), 10.0 ** rng.integers(0, 12)
    matrices, vectors = rng.standard_normal((3, 2, width)), rng.standard_normal((3, width))
    matrices[..., : width // 2] *= size
    if width > 3:
        matrices[..., 0] = -(matrices[..., 1] * vectors[:, None, 1]) / vectors[:, None, 0]
    low, wide = vectors * 2.0**-54 * rng.random((3, width)), np.abs(vectors) * 2.0**-100
    exact = fractions(vectors)
    for found, true in (
        (checker.floating.products(matrices, vectors), exact),
        (
            checker.floating.times_sum(matrices, vectors, low, wide),
            exact + fractions(low) + fractions(wide),
        ),
    ):
        high, rest, off = map(fractions, found)
        products = (fractions(matrices) * true[:, None]).sum(axis=-1)
        assert (abs(high + rest - products) <= off).all()
        sizes = np.abs(matrices * vectors[:, None]).sum(axis=-1)
        assert (found[2] <= 2.0**-80 * width * sizes + 2.0**-900).all()


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_logits_hold_and_count_all_products(checker, seed):
    """Logits of tokens in any order of products: 2 d + d_h roundings of what they are sums of."""
    rng = np.random.default_rng(seed)
    shape = heads, width, inner = 2, int(rng.integers(2, 30)), 2
    weights = {name: rng.standard_normal(shape) for name in ("W_Q", "W_K")}
    data = {
        "contexts": rng.standard_normal((3, 4, width)),
        "queries": rng.standard_normal((3, width)),
    }
    seen, numbers = [], checker.floating.Bounded(weights)
    numbers.softmax = lambda logits, _: seen.append(logits)
    view = checker.attend.Examples(data, [slice(None)])
    list(checker.attend.attend(numbers, checker.attend.Heads(numbers, weights), view))
    ((values, sizes),) = seen
    read = np.einsum("te,hei->thi", np.abs(data["queries"]), np.abs(weights["W_Q"]))
    largest = np.abs(data["contexts"]).max(axis=1)
    most = np.einsum("thi,hei,te->th", read, np.abs(weights["W_K"]), largest)[..., None]
    assert (sizes >= most).all()
    assert np.allclose(sizes, most, rtol=1e-8, atol=0)
    assert numbers.gamma >= checker.bounds.gamma(2 * width + inner)
    for t in range(3):
        x, e = oracle.matrix(data["contexts"][t]), oracle.matrix(data["queries"][t][:, None])
        for h in range(heads):
            w = oracle.matrix(weights["W_K"][h]) * oracle.matrix(weights["W_Q"][h]).transpose()
            for found, true in zip(values[t, h], (x * w * e).entries(), strict=True):
                assert abs(arb(found) - true) <= arb(numbers.gamma * sizes[t, h, 0])


def test_the_bound_of_logits_is_what_attention_is_given(checker, monkeypatch):
    """Each head on each example has its own."""
    rng, given = np.random.default_rng(0), []
    weights, _ = layer_and_data(rng, shared=False, outputs=2, parts=0)
    numbers = checker.floating.Bounded(weights)
    logits = checker.floating.Sized(rng.standard_normal((2, 3, 4)), rng.random((2, 3, 1)) + 1.0)
    monkeypatch.setattr(checker.floating, "enclosed", lambda *parts: given.append(parts))
    numbers.softmax(logits, None)
    ((high, _, off, _),) = given
    assert (high == logits.values).all()
    assert (off >= numbers.gamma * logits.sizes).all()


# Outputs in float64.


def cancelling(weights, head):
    """The logits of one head are small differences of large products, so that rounding counts."""
    w_q, w_k = weights["W_Q"].copy(), weights["W_K"].copy()
    w_q[head, :, 1] = w_q[head, :, 0]
    w_k[head, :, 1] = -(2.0**20) * w_k[head, :, 0]
    w_k[head, :, 0] *= 2.0**20 + 1.0
    return weights | {"W_Q": w_q, "W_K": w_k}


def require_near(found, weights, data, most=math.inf):
    """What float64 has of outputs is off by its bounds at most, and these are small."""
    truth = oracle.outputs(weights, data)
    assert truth
    for t, row in enumerate(truth):
        unit = arb(2) ** int(found.scales[t])
        for k, output in enumerate(row):
            apart = abs(output - arb(float(found.outputs[t, k])) * unit)
            assert apart <= arb(float(found.off[t, k])) * unit
    assert found.off.max() <= most


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("scale", [0, -400, 300])
def test_outputs_are_as_near_as_their_bounds_say(
    checker, as_if, shared, outputs, parts, chunk, scale
):
    """Sharp heads, heads whose logits cancel, any scale, one example at a time or all at once."""
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    sharpness = np.array([1.0, 0.0, 30.0, 1e5, 1.0])[:, None, None]
    weights = cancelling(weights | {"W_Q": weights["W_Q"] * sharpness}, 4)
    weights["W_K"] = np.ldexp(weights["W_K"], -scale)
    data["contexts"] = np.ldexp(data["contexts"], scale)
    as_if("error", CHUNK=chunk)
    found = checker.error.in_floats(weights, data, FREE.tell)
    require_near(found, weights, data, most=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_what_stands_beyond_a_length_is_not_seen(seed):
    rng = np.random.default_rng(seed)
    contexts = [rng.standard_normal((length, 6)) for length in rng.integers(1, 5, 6)]
    data = Dataset(contexts, rng.standard_normal((6, 6)), rng.standard_normal(6))
    weights, arrays = build_memorizer(data, num_heads=4).layer.tensors, dict(data.arrays)
    arrays["contexts"] = arrays["contexts"].copy()
    beyond = np.arange(arrays["contexts"].shape[1]) >= arrays["lengths"][:, None]
    arrays["contexts"][beyond] = 1e5
    require_near(judge.layer(weights, arrays).floats, weights, arrays, most=1e-9)


@pytest.mark.parametrize("heads", [1, 4, 5])
def test_bounds_of_outputs_count_rounding_attention_and_readout(checker, monkeypatch, heads):
    """Where attention is off by so much, and readouts: each term, as nothing else is left."""
    part, rng = checker.error, np.random.default_rng(heads)
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
    group = next(checker.attend.Examples(data, [slice(0, total)]).groups())
    for offs, u_error in ((0.0, 0.0), (1e-3, 0.0), (0.0, 1.0), (1e-3, 1.0)):
        off = np.full((total, heads), offs)
        known = group, tokens, chosen, off
        monkeypatch.setattr(part, "attended", lambda *given, known=known: [given[-1](*known)])
        monkeypatch.setattr(part, "floats", lambda *_: (readout, 0.0))
        found = part.residuals_in_floats(
            weights, data, checker.bounds.Fixed(None, 0, int(u_error)), FREE.tell
        )
        assert (found.outputs == z @ readout).all()
        assert (found.far == 0).all()
        read = z.sum(axis=1) + width * off.sum(axis=1)
        least = counted + off @ sums + read[:, None] * u_error
        assert (found.off >= least).all()
        assert np.allclose(found.off, least + 2.0**-49 * sizes, rtol=1e-6, atol=0)


@pytest.mark.parametrize("seed", range(10))
def test_readouts_that_cancel_are_off_by_what_they_are_sums_of(checker, seed):
    """W_V W_O W_D is small beside its terms, and beside what it multiplies."""
    rng = np.random.default_rng(seed)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    weights["W_O"][1::3] = -weights["W_O"][::3] * (1 + 2.0**-30)
    weights["W_V"][..., 1] = weights["W_V"][..., 0]
    weights["W_V"] *= 2.0**40
    found = checker.error.in_floats(weights, data, FREE.tell)
    require_near(found, weights, data)


@pytest.mark.parametrize("count", range(1, 20))
def test_sums_by_halves(checker, count):
    """Each term is in few sums: units in the last place show through."""
    parts = np.random.default_rng(count).integers(-9, 9, (count, 2, 3)).astype(float)
    assert (checker.error.added(parts) == parts.sum(axis=0)).all()


@pytest.mark.parametrize("name", ["contexts", "queries", "targets", "W_Q", "W_K", "W_V", "W_D"])
@pytest.mark.parametrize("power", [-1060, 1000])
def test_what_leaves_the_range_of_floats_shows_nothing_false(name, power):
    weights, data = layer_and_data(
        np.random.default_rng(1), shared=False, outputs=2, parts=0, total=2
    )
    holder = data if name in data else weights
    holder[name] = np.ldexp(holder[name], power)
    truth, about = oracle.outputs(weights, data), judge.layer(weights, data)
    worst = max(
        abs(output - arb(float(y)))
        for row, targets in zip(truth, data["targets"], strict=True)
        for output, y in zip(row, targets, strict=True)
    )
    for found in itertools.islice(about.residuals(), 3):
        most, least = (arb(flint.fmpq(x.numerator, x.denominator)) for x in found[:2])
        assert not worst < least
        assert not worst > most


def test_the_largest_distance_is_told_at_its_own_scale(checker):
    """Examples have scales of their own, and the worst need not be where the scaled one is."""
    far, scales = np.array([[2.0, 1.0], [3.0, 0.0], [0.5, 8.0]]), np.array([9, 1, -1])
    found = checker.error.InFloats(far, np.zeros_like(far), scales, far)
    residuals = checker.error.of_floats(found)
    assert residuals.place == (0, 0)
    assert 1024 <= residuals.most <= 1024 * (1 + Fraction(1, 2**20))
    assert 1024 * (1 - Fraction(1, 2**20)) <= residuals.least <= 1024


def test_outputs_that_are_not_finite_show_nothing(checker, monkeypatch):
    monkeypatch.setattr(checker.error, "readout_of", lambda *_: None)
    for bad in (np.inf, np.nan):
        parts = np.array([[1.0, bad]]), np.zeros((1, 2)), np.zeros(1, np.int64), np.ones((1, 2))
        found = checker.error.InFloats(*parts)
        monkeypatch.setattr(checker.error, "residuals_in_floats", lambda *_, found=found: found)
        assert checker.error.in_floats({}, {}, FREE.tell) is None


@pytest.mark.parametrize(("axes", "longest"), [("columns", 20), ("tokens", 9), ("inner", 30)])
def test_longer_sums_are_left_to_digits(checker, as_if, axes, longest):
    """Columns of Z, tokens, or what a query is multiplied by, whichever are most."""
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=True, outputs=2, parts=0)
    if axes == "tokens":
        weights = {name: x[:1] for name, x in weights.items()}
        weights["W_O"], weights["W_D"] = np.ones((3, 1)), np.ones((1, 2))
        data["contexts"] = rng.standard_normal((9, 4))
    if axes == "inner":
        weights |= {name: rng.standard_normal((5, 4, 30)) for name in ("W_Q", "W_K")}
    for most, found in ((longest, True), (longest - 1, False)):
        as_if("error", LONGEST=most)
        assert (checker.error.in_floats(weights, data, FREE.tell) is not None) == found


# Outputs in fixed point.


@pytest.mark.parametrize("seed", range(20))
def test_products_of_digits(checker, seed):
    """With errors of both factors: as much as these may do, and a unit."""
    rng, bounds = np.random.default_rng(seed), checker.bounds
    factors = []
    for count in (2, 3):
        drawn_at = rng.standard_normal((3, 3)) * 2.0 ** rng.integers(-9, 9, (3, 3))
        found = bounds.fixed([drawn_at], count)
        factors.append(found._replace(error=int(rng.integers(0, 1000))))
    out = bounds.multiply(*factors, 2)
    x, y, z = (
        fractions(bounds.integers(each.digits)) * Fraction(2) ** each.last
        for each in (*factors, out)
    )
    e, g = (each.error * Fraction(2) ** each.last for each in factors)
    unit = Fraction(2) ** out.last
    worst = (abs(x) + e) @ (abs(y) + g) - abs(x) @ abs(y)
    assert (abs(x @ y - z) <= out.error * unit).all()
    assert worst.max() <= (out.error + 1) * unit


def test_exponentials_cost_what_they_take(checker):
    """They are counted as they come, and more than a minute of them is refused."""
    part = checker.error
    logits = checker.bounds.fixed([np.array([[[0.0, 0.5, -3.0], [0.0, -1e9, -1e9]]])], 24)
    work = part.Work(3 * checker.floating.exponential(12))
    checker.floating.softmax(logits, 12, work)
    assert work.spent == work.allowed  # of three tokens: the other head has one alone
    with refused("not shown with the digits which a minute allows"):
        checker.floating.softmax(logits, 12, part.Work(2.99 * checker.floating.exponential(12)))
    held, operations = part.digits_needed(EIGHT, 5)
    exponentials = checker.floating.exponential(5) * 6 * 3 * 5
    assert part.first_needs(EIGHT) == (held, operations + exponentials)
    one = (6, 1, *EIGHT[2:])
    assert part.first_needs(one) == part.digits_needed(one, 5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("outputs", "parts"), [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
def test_residuals_in_digits(checker, as_if, shared, outputs, parts, chunk):
    rng = np.random.default_rng(outputs + parts)
    weights, data = layer_and_data(rng, shared=shared, outputs=outputs, parts=parts)
    data["targets"] *= 2.0**-30
    weights["W_D"] *= 2.0**-30
    as_if("error", CHUNK=chunk)
    targets = data["targets"].reshape(len(data["queries"]), -1)
    worst = max(
        abs(output - arb(float(y)))
        for row, ys in zip(oracle.outputs(weights, data), targets, strict=True)
        for output, y in zip(row, ys, strict=True)
    )
    found = checker.error.residuals(weights, data, 7, FREE)
    most, least = (arb(flint.fmpq(x.numerator, x.denominator)) for x in found[:2])
    assert least <= worst <= most
    assert most - least <= arb(1e-20)


@pytest.mark.parametrize("count", [5, 6, 9])
def test_shares_of_tokens_which_are_far_behind(checker, count):
    """Beyond what so many digits hold a share counts as zero; not before, by half a digit."""
    unit = 20 * (count - 1) * math.log(2)
    behind = np.array([0.0, unit / 2, unit - 8, unit - 1, unit + 1, 2 * unit, 1000.0])
    logits = checker.bounds.fixed([-behind[None, None]], 2 * count)
    found = checker.floating.softmax(logits, count, FREE)
    shares = checker.bounds.integers(found.digits).ravel().tolist()
    power = arb(2) ** found.last
    for share, true in zip(
        shares, oracle.softmax([arb(-x) for x in behind]).entries(), strict=True
    ):
        assert abs(share * power - true) <= found.error * power
    assert all(share > 0 for share in shares[:3])
    assert shares[5:] == [0, 0]
    assert found.error < 1000


def test_logits_which_are_not_known_well_enough(checker):
    """An error of a hundredth is too much to say anything; less counts, and is carried on."""
    digits, unit = np.zeros((5, 1, 1, 2)), 20 * 4
    for error in (1 << unit, (1 << unit) // 99):
        with refused("more digits", OverflowError):
            checker.floating.softmax(checker.bounds.Fixed(digits, -unit, error), 5, FREE)
    error = (1 << unit) // 101
    found = checker.floating.softmax(checker.bounds.Fixed(digits, -unit, error), 5, FREE)
    assert 2.1 * error * 2.0**-unit <= found.error * 2.0**found.last <= 4 * error * 2.0**-unit


# The claims: just below and above the truth.


def verdict(name, bound, about):
    return judge.verify(name, {"bound": float(bound).hex()}, about).verdict


@pytest.mark.parametrize("number", range(60))
def test_errors_and_leads_at_the_edge(number):
    memorizer, data = case(number)
    weights, targets = memorizer.layer.tensors, data.target_matrix
    about, truth = judge.layer(weights, data.arrays), oracle.outputs(weights, data.arrays)
    if not truth:
        pytest.skip("outputs are beyond any ball")
    worst = max(
        abs(output - arb(float(y)))
        for row, ys in zip(truth, targets, strict=True)
        for output, y in zip(row, ys, strict=True)
    )
    for part in (0.5, 1 - 1e-9, 1 - 1e-15, 1.0, 1 + 1e-15, 1 + 1e-9, 2):
        bound = float(worst.mid()) * part
        if 0 < bound < 1e300:
            said = verdict("error", bound, about)
            assert said in ("REFUTED" if worst > arb(bound) else "PROVED", "UNDECIDED")
            assert said != "UNDECIDED" or abs(part - 1) < 1e-9 or bound < 1e-300
    hot = np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all()
    if not hot or targets.shape[1] == 1:
        return
    own = targets.argmax(axis=1)
    lead = min(row[i] - x for row, i in zip(truth, own, strict=True) for x in np.delete(row, i))
    for bound in (float(lead.mid()) * (1 + 1e-9), float(lead.mid()) * (1 - 1e-9), 1e-300):
        said = verdict("labels", max(bound, 1e-300), about)
        assert said != "PROVED" or lead > arb(bound)
        assert said != "REFUTED" or lead < 0
        assert said != "UNDECIDED" or bound > float(lead.mid()) or about.floats.off.max() > 1e-9
