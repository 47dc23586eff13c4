"""Labelings that readouts attain, against sign vectors decided one by one in exact arithmetic."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from benchmarks.labelings import attained, compare, rows_of_z

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    exact_capacity,
    generators,
    label_capacity,
    labelings,
)
from constructive.theory.context_capacity import subset_dimensions
from constructive.theory.labelings import cover


def with_contexts(contexts):
    """A data set with these contexts, and inputs that differ."""
    contexts = np.asarray(contexts, dtype=float)
    apart = np.arange(len(contexts))[:, None] * np.ones(contexts.shape[2])
    return Dataset(contexts, apart, np.zeros(len(contexts)))


@pytest.mark.parametrize("seed", range(25))
def test_as_many_are_attained_as_the_theorem_counts(seed):
    counted, found = compare(np.random.default_rng([7, seed]), most=7)
    assert max(found) == counted.count


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_so_they_are_for_ten_examples(seed):
    counted, found = compare(np.random.default_rng([8, seed]), most=10)
    assert max(found) == counted.count


def test_brute_force_would_see_a_wrong_number():
    """It tells rows in general position from rows with one dependency more."""
    square = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    plane = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    assert (attained(square), attained(plane)) == (14, 12)
    assert attained([[1], [0]]) == 0  # no sign at a row of zeros
    assert attained([[2, 3]] * 4) == 2  # equal rows, equal signs


def test_a_head_that_is_there_twice_attains_fewer():
    rng = np.random.default_rng(0)
    contexts, queries = rng.integers(-9, 10, (7, 2, 2)), rng.integers(-99, 100, (7, 2))
    weight = rng.integers(-5, 6, (1, 2, 2))
    counted = labelings(with_contexts(contexts), 2).count
    assert counted == cover(7, 4)
    assert attained(rows_of_z(contexts, queries, np.repeat(weight, 2, axis=0))) == cover(7, 2)


@pytest.mark.parametrize(("size", "width", "heads"), [(2, 3, 2), (3, 2, 1), (1, 3, 2), (4, 3, 3)])
@pytest.mark.parametrize("shared", [False, True])
def test_sizes_are_those_of_drawn_contexts(size, width, heads, shared):
    rng = np.random.default_rng(size)
    contexts = rng.standard_normal((size, width) if shared else (9, size, width))
    data = Dataset(contexts, rng.standard_normal((9, width)), np.zeros(9))
    sizes = {"width": width, "context_size": size, "shared_context": shared}
    found = labelings(data, heads)
    assert found == labelings(9, heads, **sizes)
    assert found.rank == exact_capacity(data, heads).upper
    assert (found.share == 1) == (found.rank == 9)
    assert label_capacity(heads, **sizes, probability=1) == label_capacity(heads, **sizes) // 2


def test_examples_in_no_dependency_double_the_number():
    """Four examples on a line, one of the plane and two of their own."""
    line = [[[1.0, 0, 0, 0]], [[2.0, 0, 0, 0]], [[3.0, 0, 0, 0]], [[-1.0, 0, 0, 0]]]
    others = [[[1.0, 1, 0, 0]], [[0, 0, 1.0, 0]], [[0, 0, 0, 1.0]]]
    assert labelings(with_contexts(line), 1).count == 2
    assert labelings(with_contexts(line + others), 1).count == 2 * 8
    repeated = with_contexts(line + others)
    assert labelings(repeated.take([0, 1, 1, 0, 6]), 1).count == 4  # inputs count once
    assert labelings(with_contexts([[[0.0, 0.0]]] * 3), 1).count == 0


def test_ranks_that_are_less_modulo_the_prime():
    """The determinant of the tokens is 2^61 - 1, so they are dependent modulo that."""
    context = np.array([[2.0**31, 1.0], [1.0, 2.0**30]])
    for part, found in zip(((0, 2), (0, 1)), subset_dimensions(context[np.newaxis]), strict=True):
        assert tuple(found) == part
    apart = context[:, np.newaxis]
    assert subset_dimensions(apart)[0].tolist() == [0, 1, 1, 2]
    assert labelings(with_contexts([*apart, [[1.0, 1.0]]]), 1).count == 6


def test_many_examples_of_contexts_that_all_span_the_same():
    data = generators.uniform(num_examples=100, context_size=5, width=4)
    found = labelings(data, 3)
    assert found.count == 2 * sum(comb(99, k) for k in range(12))
    assert found.rank == 12


def test_the_largest_number_of_examples_is_the_largest():
    for columns, chance in ((3, 0.9), (12, 0.5), (40, 0.01), (5, Fraction(1, 3))):
        most = label_capacity(columns, width=1, context_size=2, probability=chance)
        assert Fraction(cover(most, columns), 2**most) >= Fraction(chance)
        assert Fraction(cover(most + 1, columns), 2 ** (most + 1)) < Fraction(chance)


@pytest.mark.parametrize("total", [63, 64, 200])
def test_integers_of_numpy_are_integers(total):
    """In their own arithmetic 2^63 is negative, and 2^64 zero."""
    plain = labelings(total, 2, width=5, context_size=4)
    found = labelings(np.int64(total), np.int8(2), width=np.int8(5), context_size=np.int8(4))
    assert (found, found.share) == (plain, plain.share)
    assert label_capacity(np.int8(40), width=np.int8(5), context_size=4) == 2 * 200
    data = with_contexts(np.random.default_rng(0).integers(-9, 10, (9, 2, 3)))
    assert labelings(data, np.int8(100)) == labelings(data, 100)


def test_what_is_refused():
    data = generators.uniform(num_examples=30, context_size=2, width=8)
    with pytest.raises(CapacityError, match=r"their 2\^30 sets are too many") as refused:
        labelings(data, 2)
    assert refused.value.witness == 30
    assert "18" in refused.value.suggestion
    with pytest.raises(ParameterError, match="has its sizes"):
        labelings(data, 2, width=8)
    with pytest.raises(ParameterError, match="says nothing of their contexts"):
        labelings(30, 2, width=8)
    for chance in (0, 1.5, float("nan"), True, "half"):
        with pytest.raises(ParameterError, match="is not a number above 0 and at most 1"):
            label_capacity(2, width=3, context_size=4, probability=chance)
