"""Shares of attention, against softmax of true logits anywhere within what these may be off by."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive.exact.float_enclosure import differences, shares

CASES = st.tuples(
    st.lists(st.floats(-60, 60), min_size=1, max_size=6),
    st.floats(-20, -1),
    st.integers(0, 2**32 - 1),
)


def true_shares(logits):
    with mpmath.workdps(60):
        top = max(logits)
        weights = [mpmath.exp(logit - top) for logit in logits]
        total = sum(weights)
        return [weight / total for weight in weights]


def of(high, low, errors):
    top = high.argmax(axis=-1)[..., np.newaxis]
    return shares(*differences(high, low, errors, top), top)


@given(CASES)
def test_true_shares_are_within_the_bound(case):
    logits, exponent, seed = case
    rng = np.random.default_rng(seed)
    high = np.array(logits)
    errors = 10.0**exponent * rng.random(len(high)) * (1 + np.abs(high))
    low = 1e-3 * errors * rng.standard_normal(len(high))
    attention, bound = of(high, low, errors)
    signs = rng.choice([-1.0, 0.0, 1.0], size=len(high))
    with mpmath.workdps(60):
        moved = [
            mpmath.mpf(h) + mpmath.mpf(r) + mpmath.mpf(e) * s
            for h, r, e, s in zip(high, low, errors, signs, strict=True)
        ]
        pairs = zip(attention, true_shares(moved), strict=True)
        off = sum(abs(mpmath.mpf(a) - t) for a, t in pairs)
        assert off <= bound


def test_a_bound_is_no_more_than_a_few_times_what_can_happen():
    high, errors = np.array([1.0, 0.5, 0.0]), np.full(3, 1e-9)
    attention, bound = of(high, np.zeros(3), errors)
    moved = true_shares(high + np.array([1e-9, -1e-9, -1e-9]))
    off = float(sum(abs(a - t) for a, t in zip(attention, moved, strict=True)))
    assert off <= bound < 10 * off


def test_one_token_alone_has_everything():
    attention, bound = of(np.array([100.0, 0.0, -1e5]), np.zeros(3), np.array([1.0, 1.0, 1e4]))
    assert attention.tolist() == [1.0, 0.0, 0.0]
    assert 2e-43 < bound < 1e-42  # 2 exp(-98)


def test_the_only_token_has_everything_exactly():
    attention, bound = of(np.array([[3.0]]), np.zeros((1, 1)), np.full((1, 1), np.inf))
    assert (attention.tolist(), bound[0] < 1e-290) == ([[1.0]], True)


@pytest.mark.parametrize("error", [1.0, 1e3, np.inf, np.nan])
def test_nothing_is_known_of_logits_which_may_be_anything(error):
    _, bound = of(np.array([0.0, -0.5]), np.zeros(2), np.full(2, error))
    assert not bound < 1.0


def test_equal_logits_of_which_neither_is_known_are_no_half_each():
    _, bound = of(np.zeros(2), np.zeros(2), np.full(2, 1e-3))
    assert bound >= 1e-3  # one may be ahead by 2e-3, and has exp(2e-3) times the weight
