"""Arguments of `bounds`: shapes, masks, and what is refused."""

import re

import numpy as np
import pytest
from kernels_of_tests import average

from constructive.exact.formats import FORMATS, nearest
from constructive.exact.kernel_model import KERNEL_MODELS
from constructive.kernels.intervals import bounds
from constructive.support.errors import DataError, ParameterError


def simple(shape=(2, 4, 5, 8), groups=2, keys=7, value_dim=3, seed=0, name="float32"):
    random = np.random.default_rng(seed)
    batch, _, _, width = shape
    shapes = shape, (batch, groups, keys, width), (batch, groups, keys, value_dim)
    return [nearest(random.standard_normal(each), FORMATS[name]) for each in shapes]


def same(one, other):
    return np.array_equal(one.lower, other.lower) and np.array_equal(one.upper, other.upper)


def reference(q, k, v, visible=(True,), bias=0.0):
    share = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    return average(np.where(visible, logits, -np.inf), v)


def test_grouped_heads_and_pieces():
    """Also so large that there are several pieces, of pairs and of queries."""
    for shape, keys in (((2, 4, 5, 8), 7), ((3, 4, 40, 4), 600), ((1, 2, 300, 4), 1200)):
        q, k, v = simple(shape, keys=keys)
        inside = bounds(q, k, v, model="flash float32")
        inside.check(reference(q, k, v))
        assert inside.lower.shape == (*shape[:3], 3)
        assert float((inside.upper - inside.lower).max()) < 1e-3
        assert not inside.contains(reference(q, k, v[:, ::-1]))
        share = shape[1] // k.shape[1]
        repeated = bounds(q, np.repeat(k, share, 1), np.repeat(v, share, 1), model="flash float32")
        assert np.allclose(inside.lower, repeated.lower, atol=1e-6)


def test_masks_of_booleans_and_of_numbers():
    q, k, v = simple()
    visible = np.random.default_rng(0).random((2, 1, 5, 7)) < 0.5
    visible[1, 0, 2] = False
    found = bounds(q, k, v, visible, model="flash float32")
    found.check(reference(q, k, v, visible))
    assert same(found, bounds(q, k, v, np.where(visible, 0.0, -np.inf), model="flash float32"))
    assert not found.contains(reference(q, k, v))


def test_numbers_that_are_added():
    q, k, v = simple()
    bias = np.float32(np.random.default_rng(1).standard_normal((4, 5, 7)))
    right = reference(q, k, v, bias=bias.astype(float))
    for found in (
        bounds(q, k, v, bias, model="flash float32"),
        bounds(q, k, v, bias=bias, model="flash float32"),
        bounds(q, k, v, bias / 2, bias=bias / 2, model="flash float32"),
    ):
        found.check(right)
        assert not found.contains(reference(q, k, v))


@pytest.mark.parametrize("name", ["flash float32", "eager bfloat16"])
@pytest.mark.parametrize("low", [-1e4, -1e9, float(np.finfo(np.float32).min)])
def test_large_negative_numbers_hide_keys(name, low):
    """Their errors are large, and do not matter."""
    q, k, v = simple(name=KERNEL_MODELS[name].storage.name)
    visible = np.tri(5, 7, 2, dtype=bool)
    hidden = bounds(q, k, v, visible, model=name)
    found = bounds(q, k, v, np.where(visible, 0.0, low), model=name)
    found.check(nearest(reference(q, k, v, visible), KERNEL_MODELS[name].output))
    width = (found.upper - found.lower).max()
    assert width < 2.0 * (hidden.upper - hidden.lower).max()


@pytest.mark.parametrize(
    ("convention", "inside"),
    [("zeros", {0.0}), ("nan", {np.nan}), (None, {0.0, np.nan, 12345.0, -np.inf})],
)
def test_rows_without_keys_are_what_is_said(convention, inside):
    q, k, v = simple()
    visible = np.ones((5, 7), dtype=bool)
    visible[2] = False
    found = bounds(q, k, v, visible, model="flash float32", fully_masked=convention)
    assert found.judged[:, :, 2].any() == (convention is not None)
    nobody = bounds(q, k, v, ~np.ones((5, 7), bool), model="flash float32", fully_masked=convention)
    right = reference(q, k, v)
    for number in (0.0, np.nan, 12345.0, -np.inf):
        right[:, :, 2] = number
        expected = any(np.array_equal(number, each, equal_nan=True) for each in inside)
        assert found.contains(right) == expected
        assert nobody.contains(np.full((2, 4, 5, 3), number)) == expected
    if convention == "zeros":
        with pytest.raises(AssertionError, match=r"sees no key: .* is not 0"):
            nobody.check(right)
    right[:, :, 2] = min(inside)
    found.check(right)
    right[:, :, 3] = np.nan
    assert found.outside(right).sum() == 2 * 4 * 3


def test_memory_that_is_not_read_may_have_anything():
    q, k, v = simple()
    visible = np.ones((2, 1, 5, 7), dtype=bool)
    visible[0, ..., 4:] = False
    visible[1, :, 3] = False
    right = bounds(q, k, v, visible, model="flash float32")
    k[0, :, 4:], v[0, :, 4:], q[1, :, 3] = np.nan, np.inf, np.nan
    assert same(right, bounds(q, k, v, visible, model="flash float32"))
    with pytest.raises(DataError, match="float32"):
        bounds(q, k, v, model="flash float32")


def test_the_message_says_where_and_what_was_proved():
    q, k, v = simple()
    found = bounds(q, k, v, model="flash float32")
    out = reference(q, k, v)
    out[1, 3, 2, 0] = found.upper[1, 3, 2, 0] + 2.0**-24
    with pytest.raises(AssertionError) as caught:
        found.check(out)
    text = str(caught.value)
    assert "query 2 of head 3 of batch 1" in text
    assert "1 of 120 numbers" in text
    assert found.model.describe() in text
    number, low, high = map(float, re.search(r": (.*) is not in \[(.*), (.*)\]", text).groups())
    assert low < high < number


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"model": "fast"}, ParameterError, "flash bfloat16"),
        ({"model": "flash bfloat16"}, DataError, "not a number of bfloat16"),
        ({"q": simple()[0][0]}, DataError, "q has 3 axes"),
        ({"k": simple()[1][..., :2]}, DataError, "the d is 8 in q and 2 in k"),
        ({"v": simple()[2][:, :, :5]}, DataError, "the number of keys is 7 in k and 5 in v"),
        ({"q": simple()[0][:, :3]}, DataError, "the 3 heads of q are no multiple of the 2 heads"),
        ({"bias": [0, np.nan, *5 * [0]]}, DataError, r"bias\[1\] is nan, which is not finite"),
        ({"mask": np.ones((3, 7), dtype=bool)}, DataError, "does not broadcast"),
        ({"mask": np.ones((1, 1, 1, 1, 1), dtype=bool)}, DataError, "does not broadcast"),
        # it may hide keys, or be added
        ({"mask": np.ones((5, 7), dtype=np.int64)}, DataError, r"integers(.|\n)*int64"),
        ({"v": np.full((2, 2, 7, 3), 2**53 + 1)}, ParameterError, "numbers that float64 lacks"),
        ({"sinks": [1.0]}, DataError, "sinks"),
        ({"scale": 0.0}, ParameterError, "scale"),
        ({"softcap": -1.0}, ParameterError, "softcap"),
        ({"depth": 0}, ParameterError, "depth"),
        ({"block": 0}, ParameterError, "block"),
        ({"fully_masked": "mean"}, ParameterError, "fully_masked"),
    ],
)
def test_what_makes_no_sense_is_refused(given, error, words):
    whole = dict(zip("qkv", simple(), strict=True)) | {"model": "flash float32"}
    with pytest.raises(error, match=words):
        bounds(**whole | given)


def test_logits_that_may_overflow_are_refused():
    """Raw logits of 66,000 are infinite in float16, though scaled ones are small."""
    q = np.full((1, 1, 2, 64), 32.0)
    k, v = np.full((1, 1, 3, 64), 32.25), np.ones((1, 1, 3, 4))
    with pytest.raises(ParameterError, match="overflow") as caught:
        bounds(q, k, v, model="eager float16")
    assert caught.value.witness > 65504
    assert bounds(q, k, v, model="flash float16").contains(np.ones((1, 1, 2, 4)))
    assert bounds(q / 2, k, v, model="eager float16").contains(np.ones((1, 1, 2, 4)))
    with pytest.raises(ParameterError, match="overflow"):
        bounds(2.0**80 * q, 2.0**80 * k, v, model="flash bfloat16")
