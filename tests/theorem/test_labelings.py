"""Labelings that readouts attain, against sign vectors decided one by one in exact arithmetic.

Datasets have contexts of a small vocabulary, which may be dependent, equal or collinear. Softmax
takes powers of 2 in the place of exp(1), so that Z is rational; logits are integers. Each of the
2^T sign vectors is decided with fractions: it is attained if the vertices (sign vectors of the Z u
that are zero on as many independent rows as there can be) that do not contradict it have its signs
everywhere, as it is then their sum, and as a region is spanned by its vertices.

No draw of queries and heads may attain more than the theorem says, and one has to attain as many.
"""

from fractions import Fraction
from itertools import combinations

import flint
import numpy as np
import pytest

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    generators,
    label_capacity,
    labelings,
)
from constructive.theory.capacity import fixed_capacity, subset_dimensions
from constructive.theory.labelings import cover


def with_contexts(contexts):
    """A dataset with these contexts, and inputs that differ."""
    contexts = np.asarray(contexts, dtype=float)
    apart = np.arange(len(contexts))[:, None] * np.ones(contexts.shape[2])
    return Dataset(contexts, apart, np.zeros(len(contexts)))


def rows_of_z(contexts, queries, weights):
    """Rows of Z times their denominators, with 2 in the place of exp(1): lists of integers."""
    rows = []
    for context, query in zip(contexts, queries, strict=True):
        parts, denominator = [], 1
        for weight in weights:
            logits = [int(x) for x in context @ weight @ query]
            powers = [1 << (logit - min(logits)) for logit in logits]
            columns = context.T.tolist()
            parts.append((sum(powers), [sum(map(int.__mul__, powers, c)) for c in columns]))
            denominator *= sum(powers)
        rows.append([denominator // total * x for total, part in parts for x in part])
    return rows


def attained(rows):
    """How many sign vectors of rows (T, N) without a zero are attained."""
    total = len(rows)
    signs = np.arange(1 << total)  # bit t: the sign of row t is positive
    covered = np.zeros_like(signs)
    for positive, negative in vertices_of(independent_columns(rows)):
        agrees = ((signs & negative) == 0) & ((signs & positive) == positive)
        covered[agrees] |= positive | negative
    return int((covered == (1 << total) - 1).sum())


def independent_columns(rows):
    """As many columns as the rank, with all dependencies of rows."""
    matrix = flint.fmpz_mat(rows)
    echelon, _, rank = matrix.rref()
    table = echelon.tolist()
    pivots = [next(j for j, x in enumerate(row) if x) for row in table[:rank]]
    return [[row[j] for j in pivots] for row in rows]


def signed(entries):
    """Bits of the positive entries, and of the negative ones; and with signs changed."""
    positive = sum(1 << t for t, x in enumerate(entries) if x > 0)
    negative = sum(1 << t for t, x in enumerate(entries) if x < 0)
    return {(positive, negative), (negative, positive)}


def vertices_of(matrix):
    """Sign vectors of the Z u that vanish on rank - 1 independent rows."""
    rank, found = len(matrix[0]), set()
    if not rank:
        return found
    whole = flint.fmpz_mat(matrix)
    for chosen in combinations(matrix, rank - 1):
        some = flint.fmpz_mat(rank - 1, rank, [x for row in chosen for x in row])
        kernel, nullity = some.nullspace()
        if nullity == 1:
            u = flint.fmpz_mat([[kernel[i, 0]] for i in range(rank)])
            found |= signed([row[0] for row in (whole * u).tolist()])
    return found


def drawn_contexts(rng, most):
    """Contexts of a small vocabulary (T, n, d), often with many dependencies."""
    total, size, width = int(rng.integers(1, most + 1)), *rng.integers(1, 4, 2).tolist()
    vocabulary = rng.integers(-2, 3, (int(rng.integers(2, 6)), width))
    if rng.random() < 0.3:
        vocabulary[:, 0] = 1
    return vocabulary[rng.integers(0, len(vocabulary), (total, size))]


def compare(rng, most, draws=4):
    """Numbers of one dataset: the theorem's, and those of some queries and heads."""
    contexts, heads = drawn_contexts(rng, most), int(rng.integers(1, 4))
    total, _, width = contexts.shape
    weights = rng.integers(-5, 6, (draws, heads, width, width))
    queries = rng.integers(-400, 401, (draws, total, width))
    queries[-1] = queries[-1, :1]  # one query for all, of which the theorem says "no more"
    counted = labelings(with_contexts(contexts), heads)
    found = [attained(rows_of_z(contexts, *each)) for each in zip(queries, weights, strict=True)]
    return counted, found


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
    assert found.rank == fixed_capacity(data, heads).at_most
    assert (found.share == 1) == (found.rank == 9)
    assert label_capacity(heads, **sizes, probability=1) == label_capacity(heads, **sizes) // 2


def test_ranks_that_are_less_modulo_the_prime():
    """The determinant of the tokens is 2^61 - 1, so they are dependent modulo that."""
    context = np.array([[2.0**31, 1.0], [1.0, 2.0**30]])
    for part, found in zip(((0, 2), (0, 1)), subset_dimensions(context[np.newaxis]), strict=True):
        assert tuple(found) == part
    apart = context[:, np.newaxis]
    assert subset_dimensions(apart)[0].tolist() == [0, 1, 1, 2]
    assert labelings(with_contexts([*apart, [[1.0, 1.0]]]), 1).count == 6


def test_the_largest_number_of_examples_is_the_largest():
    for columns, chance in ((3, 0.9), (12, 0.5), (40, 0.01), (5, Fraction(1, 3))):
        most = label_capacity(columns, width=1, context_size=2, probability=chance)
        assert Fraction(cover(most, columns), 2**most) >= Fraction(chance)
        assert Fraction(cover(most + 1, columns), 2 ** (most + 1)) < Fraction(chance)


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
