"""What "auto" takes, and why."""

import numpy as np
import pytest

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    build_memorizer,
    explain,
    generators,
)
from constructive.constructions.planning import CHEAP_BYTES, CHEAP_OPERATIONS


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
    ],
)
def test_dense_where_that_is_cheap(total, heads, shared, chosen):
    found = explain(shapes(total, 32, 64, shared=shared), num_heads=heads)
    assert found.plan.construction == found.chosen.construction == chosen
    dense = found.options[0]
    cheap = dense.operations <= CHEAP_OPERATIONS and dense.memory <= CHEAP_BYTES
    assert cheap == (chosen == "saturated")
    assert f"->  {chosen}" in str(found)


@pytest.mark.parametrize(
    "data",
    [shapes(6201, 32, 40), shapes(6201, 32, 64, shared=True)],  # 2(n - 1) > d - 1; no own contexts
)
def test_dense_where_nothing_else_applies(data):
    assert explain(data, num_heads=200).plan.construction == "saturated"


def test_what_no_theorem_of_groups_holds_random_heads_do():
    assert explain(shapes(8, 3, 9), num_heads=3).plan.construction == "rank_one"
    assert explain(shapes(25, 3, 9), num_heads=3).plan.construction == "rank_one"
    assert explain(shapes(26, 3, 9), num_heads=3).plan.construction == "generic"
    assert explain(shapes(27, 3, 9), num_heads=3).plan.construction == "generic"
    found = explain(shapes(28, 3, 9), num_heads=3)
    with pytest.raises(
        CapacityError, match="28 examples are too many for 3 heads, whatever"
    ) as caught:
        _ = found.plan
    assert caught.value.suggestion == "num_heads=4"
    assert "too many" in str(found)


def test_arguments_which_make_no_sense():
    data = shapes(7, 3, 5)
    with pytest.raises(ParameterError, match="unknown construction='fast'") as caught:
        explain(data, num_heads=3, construction="fast")
    assert "'generic', 'narrow_values', 'paired'" in str(caught.value)
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
    ("construction", "heads"), [("saturated", 7), ("rank_one", 4), ("generic", 4), ("paired", 6)]
)
def test_heads_nobody_asked_for_are_those_which_the_construction_needs(construction, heads):
    data = generators.uniform(num_examples=22, context_size=4, width=8, seed=0)
    explained = explain(data, construction=construction)
    assert explained.num_heads == heads
    memorizer = build_memorizer(data, construction=construction)
    assert memorizer.layer.num_heads == heads
    with pytest.raises(CapacityError):
        build_memorizer(data, construction=construction, num_heads=2)


def test_no_heads_hold_what_a_construction_never_does():
    data = generators.shared_context(num_examples=5, context_size=1, width=4)
    with pytest.raises(CapacityError):
        build_memorizer(data, construction="saturated")
