"""What the checker shows in float64 of *error* and *readout*, beside arithmetic of 60 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from real_parts import FREE, MATRIX, evaluated, layer_and_data


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


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_of_random_layers(checker, as_if, seed):
    rng = np.random.default_rng(seed)
    weights, data = layer_and_data(rng, shared=bool(seed % 2), outputs=2, parts=0)
    weights = sharpened(weights, 10.0 ** rng.uniform(-3, 7, 5))
    as_if("real", FEW=1.0)
    with mpmath.workdps(60):
        z, distances, _ = true_of(weights, data)
        bounds, _, found, z_error = shown(checker, weights, data)
        assert (MATRIX(bounds) >= distances).all()
        assert (np.abs(MATRIX(found) - z) <= z_error).all()


@pytest.mark.parametrize("lead", [44.0, 44.9, 45.1, 46.0])
def test_a_token_is_alone_from_a_lead_on(checker, lead):
    """Below it, its share is had to digits which say so."""
    data = {"contexts": np.array([[[1.0], [0.0]]]), "queries": np.ones((1, 1))}
    weights = {"W_Q": np.array([[[lead]]]), "W_K": np.ones((1, 1, 1))}
    view = checker.attend.Examples(data, [slice(None)])
    ((*_, attention, error),) = checker.floating.attended(weights, view, 1, FREE)
    assert ways(checker, weights, data)["alone"] == (lead > 45)
    with mpmath.workdps(60):
        off = abs(1 / (1 + mpmath.exp(-mpmath.mpf(lead))) - mpmath.mpf(float(attention[0, 0, 0])))
        assert 2 * off <= float(error[0, 0])


def test_contexts_of_one_token(checker):
    rng = np.random.default_rng(0)
    weights, data = layer_and_data(rng, shared=False, outputs=2, parts=0)
    data["contexts"] = data["contexts"][:, :1]
    with mpmath.workdps(60):
        bounds, distances = shown(checker, weights, data)[0], true_of(weights, data)[1]
        assert (MATRIX(bounds) >= distances).all()
    assert ways(checker, weights, data) == {"alone": 35, "floats": 0, "digits": 0}


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
        ((_, _, *found),) = checker.floating.attended(weights, view, most, FREE)
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
        monkeypatch.setattr(part, "attended", lambda *_, known=known: [known])
        monkeypatch.setattr(part, "floats", lambda _, e=u_error: (readout, e))
        bounds, _, found, z_error = part.residuals_in_floats(weights, data, None, keep=True, work=FREE)
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
