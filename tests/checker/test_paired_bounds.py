"""Numbers, layers and claims of paired heads in the checker; its steps are test_paired_steps.py."""

import math

import mpmath
import numpy as np
import pytest

# Numbers.


def test_constants(checker):
    with mpmath.workprec(200):
        first, rest = map(mpmath.mpf, checker.bounds.LN2)
        assert int(first * 2**32) == first * 2**32
        assert abs(first + rest - mpmath.log(2)) < mpmath.mpf(2) ** -85
        assert mpmath.exp(-checker.paired.NATS) < checker.paired.LEFT < 1e-17


@pytest.mark.parametrize("x", [-60.5, -60.0, -37.2, -1e-300, 0.0, 0.3, 1.0, 88.8, 699.9])
def test_exponentials_of_any_size(checker, x):
    (found,) = checker.bounds.exponentials(np.array([x]))
    with mpmath.workprec(120):
        truth = mpmath.exp(mpmath.mpf(x))
        assert abs(mpmath.mpf(float(found)) - truth) <= 2.0**-46 * truth + 1e-26


def test_exponentials_of_what_is_too_large_are_no_numbers(checker):
    found = checker.bounds.exponentials(np.array([700.0, 1e300, np.inf, np.nan, -np.inf]))
    assert np.isnan(found[:4]).all()
    assert found[4] == 0


@pytest.mark.parametrize("spread", [0, 60, 110, 400])
@pytest.mark.parametrize("width", [1, 2, 40])
def test_products_of_mixed_scales(checker, spread, width):
    """Within the bound, which is about 2^-90 |x| |y| for each entry."""
    rng = np.random.default_rng(spread)
    x, y = rng.uniform(-1, 1, (2, 20, width)) * 2.0 ** -rng.integers(0, spread + 1, (2, 20, width))
    high, low, bound = checker.paired.precisely(x, y)
    with mpmath.workprec(2000):
        for k in range(20):
            truth = mpmath.fdot(map(mpmath.mpf, x[k].tolist()), map(mpmath.mpf, y[k].tolist()))
            assert abs(truth - float(high[k]) - mpmath.mpf(float(low[k]))) <= bound
    size = float(np.abs(x).max() * np.abs(y).max())
    assert bound <= width * size * 2.0**-70
    several = checker.paired.precisely(x.reshape(4, 5, width), y.reshape(4, 5, width))
    assert several[2] == bound
    assert (several[0].ravel() == high).all()
    assert checker.paired.precisely(x[:, None], np.stack([y, y], axis=1))[2] == bound


def test_digits_are_those_of_the_number(checker):
    x = np.array([1.0, -0.75, 2.0**-70, 1 / 3, 2.0**-300, 2.0**-70 / 3, 2.0**-66 / 7])
    digits, top, left = checker.paired.split(x)
    with mpmath.workprec(500):
        for k, value in enumerate(x.tolist()):
            parts = [mpmath.ldexp(d[k], top - 20 * i) for i, d in enumerate(digits)]
            assert abs(mpmath.fsum(parts) - mpmath.mpf(value)) <= left
    assert np.abs(digits).max() <= 2**20
    assert left <= 2.0 ** (2 - 100)


# Layers which these proofs are about.


def small_layer(**changes):
    """Five heads of d_h = 2 on three examples, where nothing is wrong."""
    rng = np.random.default_rng(0)
    w_q = np.zeros((5, 4, 2))
    w_q[:, :, 0] = rng.standard_normal((5, 4))
    weights = {
        "W_Q": w_q,
        "W_K": np.broadcast_to(rng.standard_normal((1, 4, 2)), (5, 4, 2)).copy(),
        "W_V": np.concatenate([rng.standard_normal((4, 4, 1)), np.zeros((1, 4, 1))]),
        "W_O": np.ones((5, 1)),
        "W_D": np.ones((1, 1)),
    }
    data = {
        "contexts": rng.standard_normal((3, 2, 4)),
        "queries": rng.standard_normal((3, 4)),
        "targets": rng.standard_normal(3),
    }
    for name, (place, value) in changes.items():
        (weights if name in weights else data)[name][place] = value
    return weights, data


def layer_of(checker, weights, data):
    return checker.paired.Layer(weights, data, np.arange(3), np.array([2, 3]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"W_V": ((4, 1, 0), 1e-9)}, "a head without a partner reads"),
        ({"W_O": ((4, 0), 0.0)}, "does not copy"),
        ({"W_D": ((0, 0), 3.0)}, "do not copy"),
        ({"W_D": ((0, 0), 2.0**-1074)}, "do not copy"),
        ({"W_D": ((0, 0), 2.0**1023), "W_O": ((4, 0), 2.0)}, "do not copy"),
        ({"W_Q": ((3, 2, 1), 1e-9)}, "not of rank one"),
        ({"W_Q": ((0, 0, 1), 1e-9)}, "not of rank one"),
        ({"W_K": ((3, 2, 0), 1e-9)}, "one key direction"),
        ({"W_K": ((0, 2, 0), 1e-9)}, "one key direction"),
        ({"W_Q": ((1, 1, 0), 1e30)}, "too large for float64"),
    ],
)
def test_layers_which_are_others(checker, changes, words):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=words):
        layer_of(checker, *small_layer(**changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"W_Q": ((4, 1, 1), 5.0)}, {"W_K": ((4, 1, 0), 5.0)}, {"W_K": ((1, 1, 1), 5.0)}],
)
def test_layers_as_they_may_be(checker, changes):
    """A head without a partner may look anywhere, and keys may have columns nobody asks."""
    layer = layer_of(checker, *small_layer(**changes))
    assert layer.heads.shape == (2, 2, 4)


@pytest.mark.parametrize("scale", [-300, -5, 0, 7, 300])
def test_layers_are_brought_to_size_one_exactly(checker, scale):
    weights, data = small_layer()
    power = 2.0**scale
    plain = layer_of(checker, weights, data)
    moved = layer_of(
        checker,
        weights | {"W_Q": weights["W_Q"] * power, "W_V": weights["W_V"] * power},
        data | {"contexts": data["contexts"] / power, "targets": data["targets"] / power},
    )
    assert moved.a == plain.a - scale
    for layer, times in ((plain, 1.0), (moved, power)):
        largest = np.abs(data["targets"]).max() / times, np.abs(weights["W_V"]).max() * times
        exponents = [math.frexp(x)[1] for x in largest]
        assert layer.c == max(exponents[0], exponents[1] + layer.a)
    assert (moved.heads == plain.heads).all()
    everyone = np.arange(3)
    scores = [checker.paired.Tokens(layer, everyone).scores for layer in (moved, plain)]
    assert (scores[0] == scores[1]).all()
    for layer, given in ((plain, data["targets"]), (moved, data["targets"] / power)):
        assert (np.ldexp(layer.targets[:, 0], layer.c) == given).all()
        assert np.abs(layer.targets).max() < 1
        assert np.abs(layer.first).max() < 1
        assert np.abs(layer.queries).max() < 1
        assert 0.5 <= np.abs(layer.contexts * 2.0**-layer.a).max() < 1
    pairs = weights["W_V"][:4, :, :1].reshape(2, 2, 4, 1)
    assert (np.ldexp(plain.first, plain.c - plain.a) == pairs[:, 0]).all()
    assert (np.ldexp(plain.both, plain.c - plain.a) == pairs.sum(axis=1)).all()


# What is proved.
