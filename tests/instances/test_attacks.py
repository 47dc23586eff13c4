"""Searches: gradients are those of the slack, budgets are kept, and easy witnesses are found."""

import numpy as np
import pytest
from drawn_networks import drawn_network

from constructive import ParameterError, instances
from constructive.instances.difficulty import STEPS, _Ascent, search
from constructive.instances.network import Head, Network
from constructive.instances.properties import Atom, Box, Property


def network_of(seed):
    return drawn_network(np.random.default_rng(seed), heads=3, tokens=6, dim=4, outputs=3)


def wanted_of(threshold=0.25):
    """Three disjuncts, of one atom and of two."""
    first = Atom([1.0, 0.0, 0.0], threshold)
    second = (Atom([-1.0, 1.0, 0.0], 0.0), Atom([0.0, -1.0, 0.0], threshold))
    third = Atom([0.0, 0.0, -1.0], threshold)
    return Property(Box([-1.0] * 4, [1.0] * 4), ((first,), second, (third,)))


def test_gradients_are_those_of_the_atom_that_is_raised():
    ascent = _Ascent(network := network_of(0), wanted_of())
    inputs = np.random.default_rng(1).uniform(-1, 1, (30, 4))
    slacks, gradients = ascent(inputs, gradients=True)
    raised = ascent._raised(network(inputs))
    assert np.array_equal(np.unique(raised[0::3], axis=0), [[1.0, 0.0, 0.0]])
    for axis, unit in enumerate(1e-6 * np.eye(4)):
        rise = (network(inputs + unit) - network(inputs - unit)) / 2e-6
        assert np.allclose((rise * raised).sum(axis=1), gradients[:, axis], atol=1e-7)
    assert np.allclose(slacks, wanted_of().least_slack(network(inputs)))


@pytest.mark.parametrize("method", STEPS)
def test_a_point_that_is_found_meets_the_property(method):
    network, wanted = network_of(2), wanted_of()
    attempt = search(network, wanted, method, budget=5000)
    assert attempt.slack >= 0
    assert wanted.box.contains(attempt.point)
    assert wanted.least_slack(network(attempt.point[np.newaxis]))[0] == pytest.approx(attempt.slack)


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("budget", [1, 999, 2345])
def test_budgets_are_spent_and_kept(method, budget):
    attempt = search(network_of(2), wanted_of(threshold=100.0), method, budget=budget)
    assert attempt.evaluations == budget
    assert attempt.slack < 0


def test_gradients_find_more_than_random_points():
    """In ten dimensions the best of 20,000 random points is far from the best corner."""
    rng = np.random.default_rng(0)
    slopes = np.vstack([rng.normal(size=10), np.zeros(10)]).astype(np.float32)
    network = Network((Head(slopes, [0.0, 0.0], [[1.0], [0.0]]),))
    box = Box([-1.0] * 10, [1.0] * 10)
    attained = 1 / (1 + np.exp(-np.abs(slopes[0]).sum()))
    wanted = Property(box, ((Atom([1.0], np.float32(attained - 1e-5)),),))
    found = {method: search(network, wanted, method).slack >= 0 for method in STEPS}
    assert found == {"random": False, "sign": True, "adam": True}


def test_searches_find_no_more_than_is_promised():
    """Needles of which random points find a tenth at most, and searches that enter few of them."""
    seeds, budget = 12, 20_000
    promised, found = np.zeros(2), dict.fromkeys(STEPS, 0)
    for seed in range(seeds):
        sat = instances.planted(dim=4, scale=128.0, seed=seed).sat
        assert None not in sat.hardness
        promised += np.minimum(1.0, np.array(sat.hardness) * budget)
        for method in ("random", "sign"):
            found[method] += search(sat.network, sat.property, method, budget=budget).slack >= 0
    assert found["random"] <= promised[0] + 4 * np.sqrt(promised[0])
    assert found["sign"] <= promised[1] + 4 * np.sqrt(promised[1])
    assert promised[0] < 1


def test_needles_without_a_decoy_are_found():
    """Gradients lead to them, so that the comparison above can fail."""
    family = instances.FAMILIES["needle"]()
    found = 0
    for seed in range(4):
        pair = family.make(4, seed=seed, scale=128.0, decoy=0.0)
        (sat,) = (each for each in pair if each.answer is instances.Answer.SAT)
        found += search(sat.network, sat.property, "sign", budget=20_000).slack >= 0
    assert found == 4


def test_a_method_that_is_not_there_is_refused():
    with pytest.raises(ParameterError, match="random"):
        search(network_of(0), wanted_of(), "luck")
    with pytest.raises(ParameterError, match="budget"):
        search(network_of(0), wanted_of(), "sign", budget=0)
