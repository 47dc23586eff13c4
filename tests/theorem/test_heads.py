"""How many heads data take: exactly, and with room for float64."""

import numpy as np
import pytest

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    RationalDataset,
    build_memorizer,
    exact_capacity,
    explain,
    fewest_heads,
    generators,
    upper_bound_certificate,
)


@pytest.mark.parametrize(
    ("total", "least", "heads"),
    [(1, 1, 1), (5, 1, 1), (6, 2, 2), (8, 2, 3), (10, 2, 3), (11, 3, 3)],
)
def test_generic_contexts(total, least, heads):
    """Hd examples; a head more where less than half of one is left."""
    data = generators.gaussian(num_examples=total, context_size=3, width=5)
    found = fewest_heads(data)
    assert (found.least, found.heads) == (least, heads)
    assert exact_capacity(data, least).lower == total
    if least > 1:
        assert upper_bound_certificate(data, least - 1).proved
        assert f"allow {5 * (least - 1)} of {total} examples with {least - 1} h" in found.reason
    assert build_memorizer(data).layer.num_heads == heads
    assert "contexts allow" in str(explain(data))


def test_one_context_and_a_vocabulary():
    shared = generators.shared_context(num_examples=8, context_size=3, width=9)
    assert fewest_heads(shared).least == 4  # 3 (3 - 1) + 1 = 7
    rng = np.random.default_rng(0)
    words = np.eye(4)[np.array([rng.permutation(4)[:3] for _ in range(20)])]
    data = Dataset(words, np.random.default_rng(1).standard_normal((20, 4)), np.zeros(20))
    least = fewest_heads(data).least
    assert exact_capacity(data, least).lower == 20
    assert exact_capacity(data, least - 1).upper < 20


def test_a_part_of_the_examples_may_need_the_heads():
    own = generators.gaussian(num_examples=12, context_size=3, width=9)
    contexts = own.contexts.copy()
    contexts[:9] = contexts[0]
    data = Dataset(contexts, own.queries, own.targets)
    found = fewest_heads(data)
    assert found.least == 4
    assert found.heads == 5
    assert found.reason == "contexts allow 7 of 9 examples with 3 heads, and 11 with 5"


def test_what_is_there_by_a_hair_is_not_counted_on():
    """Tokens in three dimensions, but for rounding: exact ranks see eight, and float64 does not."""
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((30, 4, 3)) @ rng.standard_normal((3, 8))
    data = Dataset(contexts, rng.standard_normal((30, 8)), rng.random(30))
    found = fewest_heads(data)
    assert (found.least, found.heads) == (4, 10)
    assert "float64 sees tokens in 3 dimensions and differences in 3" in found.reason
    assert build_memorizer(data, num_heads=12).max_error(data) < 1e-6


def test_scale_does_not_matter():
    data = generators.gaussian(num_examples=11, context_size=3, width=5)
    for factor in (1e-80, 1e80):
        scaled = Dataset(data.contexts * factor, data.queries, data.targets)
        assert fewest_heads(scaled) == fewest_heads(data)


def test_examples_which_no_heads_hold():
    rng = np.random.default_rng(0)
    contexts = np.repeat(rng.standard_normal((6, 1, 4)), 3, axis=1)
    data = Dataset(contexts, rng.standard_normal((6, 4)), np.zeros(6))
    with pytest.raises(CapacityError, match="6 have equal tokens in each context") as caught:
        fewest_heads(data)
    assert caught.value.witness == (0, 1, 2, 3, 4, 5)
    with pytest.raises(CapacityError, match="no number of heads"):
        build_memorizer(data)


def test_arguments_which_make_no_sense():
    data = generators.gaussian(num_examples=3, context_size=3, width=5)
    with pytest.raises(ParameterError, match="seed=-1"):
        fewest_heads(data, seed=-1)
    integers = generators.integers(num_examples=3, context_size=2, width=3)
    exact = RationalDataset(integers.contexts, integers.queries, integers.targets)
    with pytest.raises(ParameterError, match="known of a Dataset only"):
        build_memorizer(exact, arithmetic="rational")
