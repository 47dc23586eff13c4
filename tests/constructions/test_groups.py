"""Heads with groups of examples, in pairs or of rank one; random heads; and what "auto" takes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    AssumptionError,
    CapacityError,
    DataError,
    Dataset,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    explain,
    generators,
)
from constructive.constructions import generic
from constructive.constructions.choice import CHEAP_BYTES, CHEAP_OPERATIONS, options
from constructive.theory.bounds import paired_capacity
from constructive.theory.capacity import fixed_capacity

# Own contexts: heads in pairs, and a small system for each.


@settings(max_examples=30)
@given(
    st.integers(2, 9),
    st.integers(2, 5),
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 99),
    st.data(),
)
def test_generic_data_up_to_the_capacity_are_memorized(heads, size, extra, wide, seed, data):
    width = size + 1 + extra
    bound = paired_capacity(heads, width)
    count = data.draw(st.sampled_from([bound, data.draw(st.integers(1, bound))]))
    dataset = generators.gaussian(num_examples=count, context_size=size, width=width, seed=seed)
    try:
        memorizer = build_memorizer(
            dataset,
            num_heads=heads,
            head_dim=width + 1 if wide else None,
            construction="paired",
            tolerance=1e-4,
            seed=seed,
        )
    except PrecisionError:
        assert count > (heads // 2) * (width - 2)  # only where no angle is left to choose
        return
    assert memorizer.max_error(dataset) < 1e-3
    assert sorted(memorizer.record.order) == list(range(count))


@pytest.mark.parametrize("head_dim", [1, 17])  # whose other columns are zero
def test_the_bound_of_the_theorems_is_reached(head_dim):
    data = generators.uniform(
        num_examples=20 * 7 + 1, context_size=8, width=16, target_dim=2, seed=1
    )
    memorizer = build_memorizer(data, num_heads=21, head_dim=head_dim, construction="paired")
    assert memorizer.record.max_error < 1e-8
    assert memorizer.max_error(data) < 1e-8
    assert memorizer.record.heads[-2].stop == data.num_examples - 1  # one example is the extra one
    assert not memorizer.layer.query_weights[20].any()  # a head without a partner stays idle
    assert memorizer.record.heads[20].start == memorizer.record.heads[20].stop


def test_one_pair_holds_d_examples():
    data = generators.gaussian(num_examples=6, context_size=3, width=6)
    memorizer = build_memorizer(data, num_heads=2, construction="paired")
    heads = memorizer.record.heads
    assert [head.stop for head in heads] == [3, 5]  # the last one is the extra one
    assert [head.rank_reached for head in heads] == [3, 5]


def test_what_does_not_apply_says_what_to_use():
    shared = generators.shared_context(num_examples=7, context_size=3, width=5)
    with pytest.raises(ParameterError, match="needs own contexts") as caught:
        build_memorizer(shared, num_heads=3, construction="paired")
    assert "construction='saturated'" in str(caught.value)
    with pytest.raises(ParameterError, match="n >= 2"):
        build_memorizer(
            Dataset([[[1.0, 0.0]]], [[2.0, 1.0]], [3.0]), num_heads=4, construction="paired"
        )
    narrow = generators.uniform(num_examples=8, context_size=4, width=4)  # 2(n - 1) > d - 1
    with pytest.raises(CapacityError, match=r"at most d - 1 = 3") as caught:
        build_memorizer(narrow, num_heads=4, construction="paired")
    assert "num_heads=6" in str(caught.value)
    assert "construction='saturated', which memorizes 13" in str(caught.value)
    build_memorizer(narrow, num_heads=6, construction="paired")
    with pytest.raises(CapacityError, match="none: one head is not a pair"):
        build_memorizer(narrow, num_heads=1, construction="paired")


def test_dependent_queries_in_a_pair_are_named():
    data = generators.gaussian(num_examples=12, context_size=3, width=6, seed=1)
    queries = data.queries.copy()
    queries[3:] = queries[:3].T[:, :1].T * np.arange(1, 10)[:, np.newaxis]  # multiples of one
    with pytest.raises(AssumptionError, match="one pair of heads, have rank") as caught:
        build_memorizer(
            Dataset(data.contexts, queries, data.targets), num_heads=6, construction="paired"
        )
    assert "construction='saturated'" in str(caught.value)


def test_a_context_of_dependent_tokens_is_named():
    data = generators.gaussian(num_examples=12, context_size=3, width=6, seed=1)
    contexts = data.contexts.copy()
    contexts[7, 2] = contexts[7, 0] + contexts[7, 1]
    with pytest.raises(AssumptionError, match="the context of example 7 has rank 2"):
        build_memorizer(
            Dataset(contexts, data.queries, data.targets), num_heads=6, construction="paired"
        )


@pytest.mark.parametrize("near", [1e-7, 1e-9])
def test_saturated_heads_take_tokens_that_are_nearly_dependent(near):
    """A Gram matrix of these is singular in float64, which rounds logits so sharp away."""
    data = generators.gaussian(num_examples=13, context_size=4, width=6, seed=1)
    contexts = data.contexts.copy()
    contexts[:, 3] = contexts[:, 0] + near * contexts[:, 3]
    data = Dataset(contexts, data.queries, data.targets)
    options = {"num_heads": 4, "construction": "saturated"}
    with pytest.raises(PrecisionError, match="other rounding of logits"):
        build_memorizer(data, **options)
    memorizer = build_memorizer(data, **options, precision="auto")
    assert memorizer.max_error(data) < 1e-12
    assert certify(memorizer, data, claims=["error"]).proved


def test_contexts_which_coincide_are_refused():
    data = generators.gaussian(num_examples=21, context_size=3, width=12, seed=1)
    same = Dataset(np.repeat(data.contexts[:1], 21, axis=0), data.queries, data.targets)
    with pytest.raises(PrecisionError, match=r"singular|cannot carry"):
        build_memorizer(same, num_heads=4, construction="paired")


@pytest.mark.parametrize("power", [-150, -300, -308])
def test_a_context_whose_products_underflow_is_told_by_an_error_of_ours(power):
    """A Gram matrix of zeros says nothing of its rank, and is not to be solved with."""
    data = generators.gaussian(num_examples=17, context_size=3, width=8, seed=0)
    contexts = data.contexts.copy()
    contexts[5] *= 10.0**power
    spoilt = Dataset(contexts, data.queries, data.targets)
    refused = pytest.raises(PrecisionError, match="too far apart for float64")
    with refused, np.errstate(all="ignore"):  # numpy warns of the overflow on the way
        build_memorizer(spoilt, num_heads=8, construction="paired")


# What "auto" takes, and why.


def shapes(total, size, width, *, shared=False):
    """Data of these shapes, which take no memory."""
    tokens = (size, width) if shared else (total, size, width)
    return Dataset(
        np.broadcast_to(1.0, tokens),
        np.broadcast_to(1.0, (total, width)),
        np.broadcast_to(1.0, total),
    )


@pytest.mark.parametrize(
    ("total", "heads", "shared", "chosen"),
    [
        (1861, 60, False, "saturated"),
        (1861, 60, True, "saturated"),
        (6201, 200, False, "paired"),
        (10, 250_000, False, "paired"),  # few operations, and more than a gibibyte
    ],
)
def test_dense_where_that_is_cheap(total, heads, shared, chosen):
    found = explain(shapes(total, 32, 64, shared=shared), num_heads=heads)
    assert found.plan.construction == found.chosen.construction == chosen
    dense = found.options[0]
    cheap = dense.operations <= CHEAP_OPERATIONS and dense.memory <= CHEAP_BYTES
    assert cheap == (chosen == "saturated")
    assert f"->  {chosen}" in str(found)


def test_what_auto_goes_on_to():
    """The later constructions with the shortest readout; after a named one nothing.

    Tangent heads come last, and only if fixed heads hold too few examples.
    """
    data, tried = shapes(8, 3, 9), ["saturated", "rank_one", "generic"]
    too_many = CapacityError("too many", suggestion="more heads")
    for asked, names in (("auto", tried), *((name, [name]) for name in tried)):
        found = options(data, 4, None, asked, [])
        assert [option.construction for option in found] == names
        found = options(data, 4, None, asked, [too_many])
        free = ["tangent"] * (asked == "auto")
        assert [option.construction for option in found] == names + free
        rounding = [too_many, PrecisionError("rounding", suggestion="more heads")]
        found = options(data, 4, None, asked, rounding)
        assert [option.construction for option in found] == names


def test_what_no_theorem_of_groups_holds_random_heads_do():
    assert explain(shapes(7, 3, 9), num_heads=3).plan.construction == "saturated"
    assert explain(shapes(8, 3, 9), num_heads=3).plan.construction == "generic"
    assert explain(shapes(27, 3, 9), num_heads=3).plan.construction == "generic"
    assert explain(shapes(28, 3, 9), num_heads=3).plan.construction == "tangent"
    found = explain(shapes(28, 3, 9), num_heads=3, construction="generic")
    with pytest.raises(
        CapacityError, match="28 examples are too many for 3 heads chosen before"
    ) as caught:
        _ = found.plan
    assert caught.value.suggestion == "num_heads=4 or more"
    assert "too many" in str(found)


def test_arguments_which_make_no_sense():
    data = shapes(7, 3, 5)
    with pytest.raises(ParameterError, match="unknown construction='fast'") as caught:
        explain(data, num_heads=3, construction="fast")
    assert "'generic', 'paired'" in str(caught.value)
    for arguments in ({"num_heads": 0}, {"num_heads": 3, "head_dim": 0}):
        with pytest.raises(ParameterError, match="not a positive integer"):
            explain(data, **arguments)


def test_a_table_says_what_these_very_contexts_allow():
    contexts = np.ones((9, 3, 4))
    contexts[:, :, 0] = np.arange(27).reshape(9, 3)  # k = 2, delta = 1
    data = Dataset(contexts, np.eye(9, 4) + 1.0, np.zeros(9))
    assert "Contexts allow 4 of these 9 examples at most" in str(explain(data, num_heads=3))
    uniform = generators.uniform(num_examples=9, context_size=3, width=4)
    assert "Contexts allow 9 of these 9 examples" in str(explain(uniform, num_heads=3))


@pytest.mark.parametrize(
    ("construction", "heads"), [("saturated", 7), ("rank_one", 7), ("generic", 4), ("paired", 6)]
)
def test_heads_nobody_asked_for_are_those_which_the_construction_needs(construction, heads):
    data = generators.uniform(num_examples=22, context_size=4, width=8, seed=0)
    explained = explain(data, construction=construction)
    assert explained.num_heads == heads
    memorizer = build_memorizer(data, construction=construction)
    assert memorizer.layer.num_heads == heads
    with pytest.raises(CapacityError):
        build_memorizer(data, construction=construction, num_heads=2)


# Random heads hold what contexts hold.


def build(data, heads, **options):
    return build_memorizer(data, num_heads=heads, construction="generic", **options)


@pytest.mark.parametrize("head_dim", [None, 7])
def test_generic_contexts_hold_h_d(head_dim):
    data = generators.uniform(num_examples=64, context_size=8, width=16, target_dim=2)
    memorizer = build(data, 4, head_dim=head_dim, value_dim=3)
    assert memorizer.max_error(data) < 1e-10
    assert memorizer.record.capacity == 64
    assert memorizer.layer.head_dim == (head_dim or 1)
    assert memorizer.layer.value_dim == 3


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
    elif fixed_capacity(data, heads).at_most < total:
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


def test_the_best_conditioned_draw_is_taken(monkeypatch):
    tried = [
        generators.gaussian(num_examples=16, context_size=3, width=4, seed=s) for s in range(4)
    ]
    best = [build(data, 4) for data in tried]
    monkeypatch.setattr(generic, "trials", lambda *_: (3.0,))  # the first draw of those
    first = [build(data, 4) for data in tried]
    pairs = [(a.record.condition, b.record.condition) for a, b in zip(best, first, strict=True)]
    assert all(a <= b for a, b in pairs)
    assert any(a < b for a, b in pairs)


@pytest.mark.parametrize("plan", [build_memorizer, explain])
def test_values_have_an_entry_for_each_of_targets(plan):
    data = generators.gaussian(num_examples=9, context_size=3, width=7, target_dim=2)
    with pytest.raises(ParameterError, match="value_dim=1 is less than the d_out=2") as caught:
        plan(data, num_heads=5, value_dim=1)
    assert caught.value.suggestion == "value_dim=2 or more"
