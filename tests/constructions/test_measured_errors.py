"""The error on record is that of the layer as it is evaluated, and no layer is far from its own.

`drawn(seed)` are data of any kind; `nearly_equal(seed)` have two tokens in a context which differ
by 1e-16 to 1e-7 of their size, as after two roundings.
"""

from collections import Counter

import numpy as np
import pytest

from constructive import (
    ConstructiveError,
    Dataset,
    PrecisionError,
    build_memorizer,
    certify,
    generators,
)
from constructive.constructions import NAMES

ASKED = ("auto", *NAMES)


def drawn(seed):
    """Data of a kind that a construction may take, and how many heads are asked for."""
    rng = np.random.default_rng(seed)
    size, width, heads = int(rng.integers(2, 6)), int(rng.integers(2, 9)), int(rng.integers(1, 7))
    kinds = generators.uniform, generators.gaussian, generators.shared_context
    total = int(rng.integers(1, heads * (size - 1) + 2))
    width, outputs = max(size, width), int(rng.integers(1, 4))
    data = kinds[seed % 3](
        num_examples=total, context_size=size, width=width, target_dim=outputs, seed=seed
    )
    scale = 10.0 ** rng.integers(-4, 5)
    return Dataset(data.contexts * scale, data.queries / scale, data.targets), heads


def nearly_equal(seed):
    """Six examples for four heads, the first with two tokens that are one but for rounding."""
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    contexts = rng.normal(size=(6, size, width))
    apart = 10.0 ** -rng.integers(7, 17)
    contexts[0, 1] = contexts[0, 0] * (1.0 + apart * rng.normal(size=width))
    if seed % 3 == 2:
        contexts = contexts[0]
    return Dataset(contexts, rng.normal(size=(6, width)), rng.normal(size=(6, 2))), 4


def outcome(data, heads, construction, **options):
    """How a build ends, in a word; raises AssertionError where what is on record is wrong."""
    try:
        memorizer = build_memorizer(data, num_heads=heads, construction=construction, **options)
    except ConstructiveError as error:
        return type(error).__name__
    record = memorizer.built
    assert record.max_error == memorizer.max_error(data)
    assert record.max_error <= 1e-6 * record.largest_target
    verdict = certify(memorizer, data, claims=["error"]).verdict.name
    assert verdict == "PROVED", (construction, record.max_error)
    return record.construction


def outcomes(examples, **options):
    found = Counter()
    for data, heads in examples:
        for construction in ASKED:
            found[construction, outcome(data, heads, construction, **options)] += 1
    return found


def test_the_error_on_record_is_that_of_the_layer():
    found = outcomes(map(drawn, range(40)))
    assert {built for _, built in found} >= set(NAMES)


def test_heads_that_rounding_eats_are_not_handed_out():
    own = [data for data in map(nearly_equal, range(30)) if not data[0].shared_context]
    found = outcomes(own)
    assert found["rank_one", "PrecisionError"]  # asked for by name
    assert found["auto", "generic"]
    assert {word for asked, word in found if asked == "auto"} <= set(NAMES)


def test_the_sharpness_is_named():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(6, 2, 3))
    contexts[0, 1] = contexts[0, 0] * (1.0 + 1e-11 * rng.normal(size=3))
    data = Dataset(contexts, rng.normal(size=(6, 3)), rng.normal(size=6))
    with pytest.raises(PrecisionError, match="other rounding of logits") as caught:
        build_memorizer(data, num_heads=5, construction="rank_one")
    assert caught.value.witness["sharpness"] > 1e11


def test_more_bits_are_measured_with_all_of_them():
    found = outcomes(map(nearly_equal, range(4)), precision=106)
    assert found["rank_one", "rank_one"]


@pytest.mark.slow
def test_the_error_on_record_is_that_of_the_layer_for_hundreds():
    found = outcomes(map(drawn, range(600))) + outcomes(map(nearly_equal, range(100)))
    assert {built for _, built in found} >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_all_heads_are_evaluated_unless_that_takes_longer_than_the_build(name, monkeypatch):
    monkeypatch.setattr("constructive.constructions.choice.QUICK", 0.0)
    data = generators.gaussian(num_examples=60, context_size=16, width=32, seed=0)
    memorizer = build_memorizer(data, num_heads=16, construction=name)
    assert memorizer.built.own_heads == (name == "paired")
    if name != "paired":
        assert memorizer.built.max_error == memorizer.max_error(data)
    else:
        assert "(own heads)" in str(memorizer)
        assert memorizer.max_error(data) < 1e-6
