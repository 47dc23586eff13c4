"""Z modulo p against Python's integers, and what its rank says of the real Z."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from constructive import AttentionLayer, Dataset, build_memorizer, generators, strategies
from constructive.exact import modular
from constructive.exact.arithmetics.residues import Point, VanishingDenominatorError
from constructive.exact.modular.small import as_flint
from constructive.layers import residues

PRIME = next(modular.safe_primes())


def units(array):
    """A float array as Python integers in units of its least exponent."""
    exponent = modular.least_exponent(array)
    integers = [int(Fraction(x) / Fraction(2) ** exponent) for x in array.ravel().tolist()]
    return np.array(integers, dtype=object).reshape(array.shape)


def reference(layer, dataset, point):
    """Z(a) modulo p by Python's integers, one entry at a time."""
    contexts, queries = units(dataset.contexts), units(dataset.queries)
    w_q, w_k = units(layer.query_weights), units(layer.key_weights)
    rows = []
    for t, query in enumerate(queries):
        context = contexts if dataset.shared_context else contexts[t]
        row = []
        for head in range(layer.num_heads):
            logits = context @ (w_k[head] @ (w_q[head].T @ query))
            powers = [pow(point.value, k % (point.prime - 1), point.prime) for k in logits]
            inverse = pow(sum(powers), -1, point.prime)
            row += [x * inverse % point.prime for x in np.array(powers, dtype=object) @ context]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_agrees_with_integers(make, dtype, construction):
    data = make(num_examples=7, context_size=3, width=5)
    layer = build_memorizer(data, num_heads=3, construction=construction).astype(dtype).layer
    point = Point(PRIME, 123456)
    columns = np.array([14, 0, 7, 3])
    found = residues.intermediate(layer, data, point, columns, chunk_bytes=1000)
    assert ((found - reference(layer, data, point)[:, columns]) % PRIME == 0).all()


@settings(max_examples=60)
@given(strategies.memorizable())
def test_what_is_built_at_the_bound_has_exact_rank(problem):
    memorizer = problem.build()
    found = residues.search(memorizer.layer, problem.dataset, np.random.default_rng(0))
    assert found.rank == problem.dataset.num_examples
    every = np.arange(memorizer.layer.num_heads * memorizer.layer.width)
    z = residues.intermediate(memorizer.layer, problem.dataset, found.point, every)
    assert as_flint(z, found.point.prime).rank() == found.rank


def test_a_vanishing_denominator_is_seen():
    odd = 1 + 2**-52  # an odd number of units, so that (-1)^logit = -1 and 1 + (-1)^logit = 0
    weights = np.full((1, 1, 1), odd)
    layer = AttentionLayer.from_effective_readout(weights, weights, np.ones((1, 1)))
    data = Dataset([[[0.0], [odd]]], [[odd]], [0.0])
    with pytest.raises(VanishingDenominatorError):
        residues.intermediate(layer, data, Point(PRIME, PRIME - 1), np.array([0]))
    assert residues.search(layer, data, np.random.default_rng(0)).rank == 1


def test_huge_logits_cost_nothing():
    data = generators.uniform(num_examples=5, context_size=3, width=4)
    layer = build_memorizer(data, num_heads=2).layer
    sharp = AttentionLayer(layer.query_weights * 1e30, *list(vars(layer).values())[1:])
    assert np.isfinite(sharp.intermediate(data.contexts, data.queries)).all()
    found = residues.search(sharp, data, np.random.default_rng(0))
    assert found.rank == 5


def test_equal_rows_stay_equal():
    data = generators.uniform(num_examples=5, context_size=3, width=4)
    layer = build_memorizer(data, num_heads=2).layer
    found = residues.search(layer, data.take([0, 1, 1, 2]), np.random.default_rng(0))
    assert (found.rank, found.tried) == (3, 3 * 2)
