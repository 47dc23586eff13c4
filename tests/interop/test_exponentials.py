"""Exponentials of the libraries which evaluate a decoder, by the program which goes through all."""

import runpy
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parent.parent / "benchmarks" / "exponentials.py"
PROGRAM = runpy.run_path(str(PATH))


@pytest.mark.slow
def test_all_are_as_assumed():
    worst, count = PROGRAM["measured"](PROGRAM["backends"](), 499)
    assert count > 2_000_000
    for name, each in worst.items():
        assert each.holds, (name, each.ulps, each.place, each.low, each.low_place)
        assert each.ulps > 0.4, name  # none is exact


def test_the_numbers_are_all_there_are():
    some = np.concatenate([part.ravel() for part in PROGRAM["numbers"](9973)])
    assert some[0] == 0.0
    assert np.signbit(some[0])
    inside = some[some >= -104.0]
    assert np.array_equal(inside, np.unique(inside)[::-1])  # each once, in order
    assert len(inside) == -(-(0xC2D00001 - 0x80000000) // 9973)
    assert some.min() == -np.inf
    assert ((some < -104.0) & (some > -np.inf)).sum() > 50


SMALLEST = np.float32(2.0**-126)
WRONG = {
    "relative error": lambda values: np.exp(values) * np.float32(1.0 + 2.0**-17),
    "flushed too early": lambda values: np.where(
        np.exp(values) < 5.0 * SMALLEST, np.float32(0.0), np.exp(values)
    ),
    "never small": lambda values: np.maximum(np.exp(values), 4.0 * SMALLEST),
    "nan": lambda values: np.where(np.isinf(values), np.float32(np.nan), np.exp(values)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_would_be_seen(name):
    functions = {"wrong": WRONG[name], "right": np.exp, "softmax": PROGRAM["ratios"](softmax)}
    worst, _ = PROGRAM["measured"](functions, 9973)
    assert worst["right"].holds
    assert worst["softmax"].holds
    assert not worst["wrong"].holds


def softmax(rows):
    weights = np.exp(rows - rows.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
