"""Z modulo p, and what its rank says of the real Z."""

import numpy as np
import pytest
from hypothesis import given, settings

from constructive import AttentionLayer, build_memorizer, generators, strategies
from constructive.exact import modular
from constructive.exact.arithmetics import Point, VanishingDenominatorError
from constructive.exact.modular import as_flint
from constructive.layers import residues

POINT = Point(next(modular.safe_primes()), 123456)


@settings(max_examples=30)
@given(strategies.memorizable())
def test_what_is_built_at_the_bound_has_exact_rank(problem):
    memorizer = problem.build()
    found = residues.search(memorizer.layer, problem.dataset, np.random.default_rng(0))
    assert found.rank == problem.dataset.num_examples
    every = np.arange(memorizer.layer.num_heads * memorizer.layer.width)
    z = residues.intermediate(memorizer.layer, problem.dataset, found.point, every)
    assert as_flint(z, found.point.prime).rank() == found.rank


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_columns_are_chosen_and_rows_come_in_chunks(make):
    data = make(num_examples=7, context_size=3, width=5)
    layer = build_memorizer(data, num_heads=3).layer
    every, columns = np.arange(15), np.array([14, 0, 7, 3])
    whole = residues.intermediate(layer, data, POINT, every)
    some = residues.intermediate(layer, data, POINT, columns, dtype=np.float32, chunk_bytes=1000)
    assert some.dtype == np.float32
    assert ((some - whole[:, columns]) % POINT.prime == 0).all()


def test_another_point_is_tried_where_a_denominator_vanishes(monkeypatch):
    data = generators.uniform(num_examples=5, context_size=3, width=4)
    layer = build_memorizer(data, num_heads=2).layer
    honest, failures = residues.intermediate, iter([True, True, False])

    def intermediate(*args, **options):
        if next(failures, False):
            raise VanishingDenominatorError
        return honest(*args, **options)

    monkeypatch.setattr(residues, "intermediate", intermediate)
    found = residues.search(layer, data, np.random.default_rng(0))
    assert (found.rank, found.retries) == (5, 2)


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
