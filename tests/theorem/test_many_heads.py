"""Far too many heads: an error that says what they would take, or an answer at once."""

import numpy as np
import pytest

from constructive import (
    Dataset,
    ParameterError,
    Text,
    Verdict,
    assumptions,
    build_decoder,
    build_memorizer,
    check,
    exact_capacity,
    generators,
    upper_bound_certificate,
)
from constructive.theory import bounds
from constructive.theory.context_capacity import context_capacity

OWN = generators.uniform(num_examples=7, context_size=3, width=5)
SHARED = generators.shared_context(num_examples=8, context_size=3, width=5)
ONE = Dataset(np.ones((3, 1, 2)), np.eye(3, 2), np.zeros(3))
MANY = [10**6, 10**9, 10**12, 2**63, 10**18, 10**25, 10**400, 10**5000]


@pytest.mark.parametrize("heads", MANY, ids=lambda heads: f"{heads.bit_length()} bits")
@pytest.mark.parametrize("data", [OWN, SHARED, ONE], ids=["own", "shared", "n = 1"])
def test_builders_say_what_it_would_take(data, heads):
    for build in (
        lambda: build_memorizer(data, num_heads=heads),
        lambda: exact_capacity(data, heads),
        lambda: assumptions.regroup(data, heads),
        lambda: assumptions.check(data, heads),
    ):
        with pytest.raises(ParameterError, match="GB and") as caught:
            build()
        assert f"at most {data.num_examples} heads" in caught.value.suggestion


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "generic", "paired"])
def test_whatever_is_built(construction):
    with pytest.raises(ParameterError, match="GB"):
        build_memorizer(OWN, num_heads=10**7, construction=construction)
    with pytest.raises(ParameterError, match="GB") as caught:
        build_memorizer(OWN, num_heads=3, head_dim=10**12, construction=construction)
    assert "smaller dimensions" in caught.value.suggestion


def test_memory_counts_and_what_fits_is_built(monkeypatch):
    assert exact_capacity(OWN, 8).exact  # one more than examples
    assert build_memorizer(OWN, num_heads=8).max_error(OWN) < 1e-9
    monkeypatch.setattr(bounds, "physical_memory", lambda: 8 * 4 * 100.0)
    bounds.require_heads(10, 20, 10)
    with pytest.raises(ParameterError, match="1 GB") as caught:
        bounds.require_heads(11, 20, 10)
    assert caught.value.witness == 11
    bounds.require_heads(bounds.MOST, 7, 0)
    bounds.require_heads(bounds.MOST + 1, bounds.MOST + 1, 0)
    with pytest.raises(ParameterError, match="minutes"):
        bounds.require_heads(bounds.MOST + 1, bounds.MOST, 0)


@pytest.mark.parametrize("heads", [4, 10**6, 10**12, 10**18, 10**25])
def test_upper_bounds_hold_for_any_number_of_heads(heads):
    for data in (OWN, SHARED):
        claim = upper_bound_certificate(data, heads)["impossible"]
        assert claim.verdict is Verdict.UNDECIDED
    certificate = upper_bound_certificate(ONE, heads)  # n = 1: all heads agree
    assert f"H = {heads} heads rank Z <= 1 on 3" in certificate["impossible"].statement
    assert certificate["impossible"].verdict is Verdict.PROVED
    assert check(certificate, None, ONE).proved


@pytest.mark.parametrize("seed", range(12))
def test_more_heads_than_examples_change_nothing(seed):
    rng = np.random.default_rng(seed)
    size, width = rng.integers(1, 4, 2).tolist()
    tokens = rng.integers(-1, 2, (6, size, width)).astype(float)
    same = rng.random(6) < 0.3
    tokens[same] = tokens[same, :1]  # contexts of one token
    data = Dataset(tokens, rng.standard_normal((6, width)), np.zeros(6))
    found = [context_capacity(data, heads, np.random.default_rng(0)) for heads in (6, 7, 30, 10**9)]
    assert len({(each.lower, each.upper) for each in found}) == 1
    assert all(each.exact for each in found)


@pytest.mark.parametrize("many", [10**9, 10**12, 10**25, 10**400])
def test_decoders_say_so(many):
    text = Text.words("one two three")
    for sizes in ({"width": many}, {"width": 8, "num_heads": many}):
        with pytest.raises(ParameterError, match="GB and"):
            build_decoder(text, **sizes)
