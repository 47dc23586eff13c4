"""Boxes around memorized examples, and searches: no point and no search contradicts an answer."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from instance_parts import check_family, corners, drawn_network

from constructive import ParameterError, build_memorizer, generators
from constructive.instances import FAMILIES, Property
from constructive.instances.memorized import STEPS, _Ascent, outward, robust, search
from constructive.instances.network import Head, Network, network_of
from constructive.instances.properties import TOLERANCE, Atom, Box


@pytest.mark.parametrize("size", [TOLERANCE, 0.25])  # 2.25 is a number of float32
def test_bounds_are_the_nearest_float32_numbers_outside(size):
    ends = np.array([0.1, -0.3, 0.0, 2.0]), np.array([0.2, -0.1, 0.0, 2.0])
    box, step = outward(*ends, size), Fraction(size)
    for sign, bounds, given in ((-1, box.lower, ends[0]), (1, box.upper, ends[1])):
        for bound, exact in zip(bounds.tolist(), given.tolist(), strict=True):
            reached = sign * Fraction(exact) + step
            inward = float(np.nextafter(np.float32(bound), np.float32(-sign * np.inf)))
            assert sign * Fraction(inward) < reached <= sign * Fraction(bound)


def thresholds(instance):
    disjuncts = instance.property.disjuncts
    return [[(*atom.coefficients, atom.threshold) for atom in atoms] for atoms in disjuncts]


def test_readout_keeps_the_laws():
    check_family(FAMILIES["readout"]())


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_no_corner_and_no_search_contradicts_unsat(dim):
    sat, unsat = FAMILIES["readout"]().make(dim, seed=5)
    wide = outward(unsat.property.box.lower, unsat.property.box.upper, TOLERANCE)
    slacks = unsat.property.least_slack(unsat.network(corners(wide)))
    assert slacks.max() < -unsat.rounding
    outside = replace(unsat.property, box=wide)
    for method in STEPS:
        assert search(unsat.network, outside, method, budget=4000)[1] < 0
    assert (sat.property.box.lower <= unsat.property.box.lower).all()
    assert (sat.property.box.upper >= unsat.property.box.upper).all()
    assert thresholds(sat) == thresholds(unsat)


def test_weighted_means_widen_the_box():
    """For a seed where the interval form alone proves less: its own box is not refuted by it."""
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction="saturated")
    unsat = robust(memorizer, data, example=1, epsilon=0.06).unsat
    assert {part.kind for part in unsat.proof.parts} >= {"slabs"}


@pytest.mark.parametrize("construction", ["generic", "saturated", "rank_one"])
def test_memorizers_of_your_own(construction):
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction=construction)
    for example in range(3):
        twins = robust(memorizer, data, example=example, epsilon=0.06)
        box, query = twins.unsat.property.box, data.queries[example]
        assert ((box.lower <= query) & (query <= box.upper)).all()
        output = twins.unsat.network(query[np.newaxis])[0]
        assert abs(output - data.targets[example]).max() < 1e-4


def test_what_is_not_an_example_is_refused():
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction="generic")
    with pytest.raises(ParameterError, match="example 7"):
        robust(memorizer, data, example=7)
    with pytest.raises(ParameterError, match="epsilon"):
        robust(memorizer, data, epsilon=0.0)
    with pytest.raises(ParameterError, match="epsilon"):
        robust(memorizer, data, epsilon="0.1")
    with pytest.raises(ParameterError, match="not a Dataset"):
        robust(data, memorizer)
    with pytest.raises(ParameterError, match="no box"):
        robust(memorizer, data, epsilon=1e-9)
    with pytest.raises(ParameterError, match="context"):
        network_of(memorizer.layer, data.contexts[0][:, :4])


# Searches: gradients are those of the slack, budgets are kept, and easy witnesses are found.


def drawn_of(seed):
    return drawn_network(np.random.default_rng(seed), heads=3, tokens=6, dim=4, outputs=3)


def wanted_of(threshold=0.25):
    """Three disjuncts, of one atom and of two."""
    first = Atom([1.0, 0.0, 0.0], threshold)
    second = (Atom([-1.0, 1.0, 0.0], 0.0), Atom([0.0, -1.0, 0.0], threshold))
    third = Atom([0.0, 0.0, -1.0], threshold)
    return Property(Box([-1.0] * 4, [1.0] * 4), ((first,), second, (third,)))


def test_gradients_are_those_of_the_atom_that_is_raised():
    ascent = _Ascent(network := drawn_of(0), wanted_of())
    inputs = np.random.default_rng(1).uniform(-1, 1, (30, 4))
    slacks, gradients = ascent(inputs)
    raised = ascent._raised(network(inputs))
    assert np.array_equal(np.unique(raised[0::3], axis=0), [[1.0, 0.0, 0.0]])
    for axis, unit in enumerate(1e-6 * np.eye(4)):
        rise = (network(inputs + unit) - network(inputs - unit)) / 2e-6
        assert np.allclose((rise * raised).sum(axis=1), gradients[:, axis], atol=1e-7)
    assert np.allclose(slacks, wanted_of().least_slack(network(inputs)))


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("budget", [1, 999, 2345])
def test_budgets_are_spent_and_kept(method, budget, monkeypatch):
    rows, ascend = [], _Ascent.__call__
    monkeypatch.setattr(
        _Ascent, "__call__", lambda self, inputs: rows.append(len(inputs)) or ascend(self, inputs)
    )
    _, slack = search(drawn_of(2), wanted_of(threshold=100.0), method, budget=budget)
    assert sum(rows) == budget
    assert slack < 0


def best_of_random(network, wanted, budget, seed=0):
    """The largest slack of random points of the box."""
    box = wanted.box
    points = np.random.default_rng(seed).uniform(box.lower, box.upper, (budget, len(box.lower)))
    return wanted.least_slack(network(points)).max()


def test_gradients_find_more_than_random_points():
    """In ten dimensions the best of 20,000 random points is far from the best corner."""
    rng = np.random.default_rng(0)
    slopes = np.vstack([rng.normal(size=10), np.zeros(10)]).astype(np.float32)
    network = Network((Head(slopes, [0.0, 0.0], [[1.0], [0.0]]),))
    box = Box([-1.0] * 10, [1.0] * 10)
    attained = 1 / (1 + np.exp(-np.abs(slopes[0]).sum()))
    wanted = Property(box, ((Atom([1.0], np.float32(attained - 1e-5)),),))
    assert best_of_random(network, wanted, 20_000) < 0
    assert all(search(network, wanted, method)[1] >= 0 for method in STEPS)
