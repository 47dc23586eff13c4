"""Random heads hold what contexts hold, equal queries and dependent tokens included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    CapacityError,
    DataError,
    Dataset,
    Memorizer,
    build_memorizer,
    certify,
    check,
    exact_capacity,
    generators,
)


def build(data, heads, **options):
    return build_memorizer(data, num_heads=heads, construction="generic", **options)


@pytest.mark.parametrize("head_dim", [None, 2, 7])
@pytest.mark.parametrize("make", [generators.uniform, generators.gaussian])
def test_generic_contexts_hold_h_d(make, head_dim, tmp_path):
    data = make(num_examples=64, context_size=8, width=16, target_dim=2)
    memorizer = build(data, 4, head_dim=head_dim, value_dim=3)
    assert memorizer.max_error(data) < 1e-10
    assert memorizer.record.capacity == 64
    assert memorizer.layer.head_dim == (head_dim or 1)
    memorizer.save(tmp_path / "m.safetensors")
    loaded = Memorizer.load(tmp_path / "m.safetensors")
    certificate = certify(loaded, data)
    assert [claim.name for claim in certificate.claims] == ["rank", "error"]
    assert check(certificate, loaded, data).proved
    assert "generic heads" in str(memorizer)


@pytest.mark.parametrize(
    ("size", "width", "heads", "total"), [(9, 4, 5, 20), (2, 1, 6, 6), (1, 5, 3, 5), (3, 5, 1, 5)]
)
def test_nothing_is_asked_of_sizes(size, width, heads, total):
    """More tokens than entries, one entry, one token, one head."""
    data = generators.gaussian(num_examples=total, context_size=size, width=width)
    memorizer = build(data, heads, tolerance=1e99)  # d = 1 is beyond float64
    assert certify(memorizer, data, claims=["rank"]).proved
    more = generators.gaussian(num_examples=total + 1, context_size=size, width=width)
    with pytest.raises(CapacityError, match=f"allow {total} at most") as caught:
        build(more, heads)
    needs_tokens = size == 1
    assert ("n >= 2" in caught.value.suggestion) == needs_tokens


def test_one_query_for_all():
    own = generators.gaussian(num_examples=20, context_size=3, width=4)
    data = Dataset(own.contexts, np.ones((20, 4)), own.targets)
    memorizer = build(data, 5)
    assert memorizer.max_error(data) < 1e-8
    assert certify(memorizer, data, claims=["rank"]).proved


def test_the_last_token_as_query_over_a_vocabulary():
    rng = np.random.default_rng(0)
    words = rng.standard_normal((12, 6))
    ids = np.unique(rng.integers(0, 12, (40, 3)), axis=0)[:30]
    _, first = np.unique(
        np.column_stack([np.sort(ids, axis=1), ids[:, -1]]), axis=0, return_index=True
    )
    ids = ids[np.sort(first)][:24]
    data = Dataset(words[ids], words[ids[:, -1]], rng.random(24))
    memorizer = build(data, 5)
    assert certify(memorizer, data, claims=["rank"]).proved


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_what_is_built_is_proved_and_what_is_not_says_why(seed, heads, size, width):
    rng = np.random.default_rng(seed)
    total = int(rng.integers(1, heads * width + 2))
    contexts = rng.integers(-1, 2, (total, size, width))
    data = Dataset(contexts, rng.standard_normal((total, width)), rng.random(total))
    if not contexts.any():
        with pytest.raises((DataError, CapacityError), match=r"allow|outside 1e-100"):
            build(data, heads)
    elif exact_capacity(data, heads).upper < total:
        with pytest.raises(CapacityError, match="allow"):
            build(data, heads, tolerance=1e99, seed=seed)
    else:
        memorizer = build(data, heads, tolerance=1e99, seed=seed)
        assert certify(memorizer, data, claims=["rank"]).proved


def test_contexts_which_hold_less_are_named():
    own = generators.gaussian(num_examples=12, context_size=3, width=6)
    contexts = own.contexts.copy()
    contexts[:9] = contexts[0]  # nine queries for one context, which holds 2 (3 - 1) + 1
    data = Dataset(contexts, own.queries, own.targets)
    with pytest.raises(
        CapacityError, match="rank 8 < T = 12: these contexts allow 8 at most"
    ) as caught:
        build(data, 2)
    assert caught.value.witness == {"rank": 8, "capacity": 8}
    assert caught.value.suggestion == "num_heads=4"
    assert build(data, 4).max_error(data) < 1e-8


def test_queries_which_hold_less_are_named():
    rng = np.random.default_rng(0)
    contexts = rng.integers(-9, 10, (4, 3)) + rng.integers(-9, 10, (9, 1, 3))
    data = Dataset(contexts, np.ones((9, 3)), np.arange(9.0))
    with pytest.raises(CapacityError, match="but not with these") as caught:
        build(data, 5)
    assert "more heads may not help" in caught.value.suggestion


def test_tokens_which_are_all_equal_hold_d():
    rng = np.random.default_rng(0)
    contexts = np.repeat(rng.standard_normal((7, 1, 4)), 3, axis=1)
    data = Dataset(contexts, rng.standard_normal((7, 4)), np.arange(7.0))
    with pytest.raises(CapacityError, match="these contexts allow 4 at most") as caught:
        build(data, 3)
    assert caught.value.suggestion == "other contexts: no number of heads can memorize these"


def test_a_rank_which_only_floats_see_is_refused():
    """Equal targets could be met by a singular Z; any others could not."""
    rng = np.random.default_rng(3)
    contexts = rng.standard_normal((14, 4, 5))
    contexts[:, :, 0] = 1.0  # so c(E; 3) = 2 * 4 + 5
    data = Dataset(contexts, rng.standard_normal((14, 5)), np.ones(14))
    with pytest.raises(CapacityError, match="rank 13 < T = 14") as caught:
        build_memorizer(data, num_heads=3, construction="generic")
    assert caught.value.witness == {"rank": 13, "capacity": 13}
