"""Boxes around memorized examples, and searches: no point and no search contradicts an answer."""

from dataclasses import replace

import numpy as np
import pytest
from instance_parts import check_family, corners, drawn_network

from constructive import Dataset, ParameterError, build_memorizer, generators, instances
from constructive.instances import FAMILIES, Answer, Property, Refutations
from constructive.instances.difficulty import STEPS, _Ascent, search
from constructive.instances.memorized import (
    around,
    largest_proved,
    leaves,
    overtaken,
    refuted,
    robust,
    widened,
)
from constructive.instances.network import Head, Network, network_of, network_of_token
from constructive.instances.properties import TOLERANCE, Atom, Box
from constructive.instances.refutations import Interval

KINDS = ["robust", "classes", "token", "readout"]


def twins_of(kind, dim, seed, **options):
    """The sat instance, and the unsat one."""
    pair = FAMILIES[kind]().make(dim, seed=seed, **options)
    return sorted(pair, key=lambda each: each.answer is Answer.UNSAT)


def thresholds(instance):
    disjuncts = instance.property.disjuncts
    return [[(*atom.coefficients, atom.threshold) for atom in atoms] for atoms in disjuncts]


@pytest.mark.parametrize("kind", KINDS)
def test_families_keep_the_laws(kind):
    check_family(FAMILIES[kind]())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_no_corner_and_no_search_contradicts_unsat(kind, dim):
    sat, unsat = twins_of(kind, dim, 5)
    wide = widened(unsat.property.box)
    slacks = unsat.property.least_slack(unsat.network(corners(wide)))
    assert slacks.max() < -unsat.rounding
    outside = replace(unsat.property, box=wide)
    for method in STEPS:
        assert search(unsat.network, outside, method, budget=4000).slack < 0
    assert (sat.property.box.lower <= unsat.property.box.lower).all()
    assert (sat.property.box.upper >= unsat.property.box.upper).all()
    assert thresholds(sat) == thresholds(unsat)


@pytest.mark.parametrize("kind", KINDS)
def test_the_proof_of_a_box_is_not_one_of_the_box_with_the_witness(kind):
    sat, unsat = twins_of(kind, 4, 1)
    with pytest.raises(ParameterError, match="no proof"):
        replace(unsat, property=sat.property)
    with pytest.raises(ParameterError, match="no proof"):
        replace(sat, property=unsat.property)


def test_weighted_means_widen_the_box():
    """For a seed where the interval form alone proves less."""
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction="saturated")
    network, bad = network_of(memorizer.layer, data.contexts[1]), leaves(data.targets[1:2], 0.06)
    wanted, _ = largest_proved(network, data.queries[1], bad)
    smaller = around(data.queries[1], float(wanted.box.widths.max()) / 2.6)
    assert refuted(network, wanted, dual=False) is None
    assert refuted(network, replace(wanted, box=smaller), dual=False) is None


@pytest.mark.parametrize("construction", ["generic", "saturated", "rank_one"])
def test_memorizers_of_your_own(construction):
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction=construction)
    for example in range(3):
        twins = robust(memorizer, data, example=example, epsilon=0.06)
        assert twins.unsat.property.box.contains(data.queries[example])
        output = twins.unsat.network(data.queries[example][np.newaxis])[0]
        assert abs(output - data.targets[example]).max() < 1e-4


def test_several_outputs_and_a_shared_context():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(4, 6)), rng.normal(size=(5, 6)), rng.normal(size=(5, 3)))
    twins = robust(build_memorizer(data, num_heads=4), data, example=2, epsilon=0.2)
    assert len(twins.unsat.property.disjuncts) == 6
    assert twins.unsat.property.output_dim == 3


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


def test_the_network_of_a_token_is_the_layer_with_that_token():
    """Its input moves the token, and the layer computes the same of the context with it."""
    data = generators.uniform(num_examples=7, context_size=3, width=6, seed=2)
    layer = build_memorizer(data, num_heads=3, construction="generic").layer
    context, query = np.array(data.contexts[1]), data.queries[1]
    values = np.concatenate([*layer.readouts()], axis=1)
    basis = np.linalg.svd(values)[0][:, 3:]
    network = network_of_token(layer, context, query)
    assert network.input_dim == 3
    assert all(np.flatnonzero(h.slopes.any(axis=1)).tolist() == [0] for h in network.heads)
    for z in np.random.default_rng(0).normal(size=(5, 3)):
        moved = context.copy()
        moved[0] += basis @ z
        expected = layer(moved[np.newaxis], query[np.newaxis])
        assert network(z[np.newaxis]) == pytest.approx(expected, abs=1e-4)
        assert abs(expected - data.targets[1]).max() > 1e-3


def test_tokens_that_cannot_move_are_refused():
    data = generators.uniform(num_examples=7, context_size=3, width=3, seed=2)
    layer = build_memorizer(data, num_heads=3, construction="generic").layer
    with pytest.raises(ParameterError, match="direction"):
        network_of_token(layer, data.contexts[0], data.queries[0])


@pytest.mark.parametrize("radius", [1e-6, 0.1, 3.0])
def test_boxes_are_rounded_outward(radius):
    point = np.random.default_rng(0).normal(size=50)
    box = around(point, radius)
    assert box.contains(point)
    assert all(abs(x - p) >= radius for p, x in zip(point, box.upper, strict=True))
    wide = widened(box)
    assert (wide.lower <= box.lower - TOLERANCE).all()
    assert (wide.upper >= box.upper + TOLERANCE).all()
    assert (wide.widths < box.widths + 3 * TOLERANCE).all()


def test_a_box_that_is_not_proved_has_no_proof():
    """Beyond the radius the interval form fails, and its margin says so."""
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3, construction="generic")
    network, bad = network_of(memorizer.layer, data.contexts[0]), leaves(data.targets[:1], 0.05)
    far = Property(around(data.queries[0], 2.0), bad)
    assert refuted(network, far, dual=True) is None
    assert Refutations((Interval(0), Interval(0))).margin(network, far) < 0


def test_every_other_class_has_a_disjunct():
    atoms = [atoms[0] for atoms in overtaken(2, 4)]
    assert [int(np.argmax(atom.coefficients)) for atom in atoms] == [0, 1, 3]
    assert all(atom.coefficients[2] == -1.0 for atom in atoms)


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
    slacks, gradients = ascent(inputs, gradients=True)
    raised = ascent._raised(network(inputs))
    assert np.array_equal(np.unique(raised[0::3], axis=0), [[1.0, 0.0, 0.0]])
    for axis, unit in enumerate(1e-6 * np.eye(4)):
        rise = (network(inputs + unit) - network(inputs - unit)) / 2e-6
        assert np.allclose((rise * raised).sum(axis=1), gradients[:, axis], atol=1e-7)
    assert np.allclose(slacks, wanted_of().least_slack(network(inputs)))


@pytest.mark.parametrize("method", STEPS)
def test_a_point_that_is_found_meets_the_property(method):
    network, wanted = drawn_of(2), wanted_of()
    attempt = search(network, wanted, method, budget=5000)
    assert attempt.slack >= 0
    assert wanted.box.contains(attempt.point)
    assert wanted.least_slack(network(attempt.point[np.newaxis]))[0] == pytest.approx(attempt.slack)


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.parametrize("budget", [1, 999, 2345])
def test_budgets_are_spent_and_kept(method, budget):
    attempt = search(drawn_of(2), wanted_of(threshold=100.0), method, budget=budget)
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
        search(drawn_of(0), wanted_of(), "luck")
    with pytest.raises(ParameterError, match="budget"):
        search(drawn_of(0), wanted_of(), "sign", budget=0)
