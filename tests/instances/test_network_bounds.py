"""Bounds of networks: by weighted means, of rounding and gradients; the layer of a network."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import ParameterError
from constructive.exact.directed import upper
from constructive.instances import Atom, Box, Head, Network, Property, planted
from constructive.instances.refutations import (
    BallHead,
    FloatHead,
    HeadBound,
    Slab,
    Slabs,
    reach,
    refute_by_heads,
    refute_by_slabs,
)
from constructive.instances.rounding import gradient_bound, needed_margin, output_rounding
from constructive.strategies import softmax_networks, twins


def points_of(box, count=300, seed=0):
    random = np.random.default_rng(seed)
    points = random.uniform(box.lower, box.upper, (count, len(box.lower)))
    corners = random.choice([0.0, 1.0], (count, len(box.lower)))
    return np.vstack([points, box.lower + corners * box.widths])


def unit_box(network):
    size = np.ones(network.input_dim)
    return Box(-size, size)


@given(
    softmax_networks(max_heads=1, largest=6),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
    st.lists(st.integers(-40, 40), min_size=4, max_size=4),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    st.integers(-40, 40),
    st.floats(0.0, 1.0),
)
def test_any_weights_and_tilts_are_a_proof(network, weights, tilts, direction, bound, share):
    """Whatever they are: where the sum is at most 1, no point of the slab is above the bound."""
    box, (head,) = unit_box(network), network.heads
    direction = [float(g) for g in direction[: network.input_dim]]
    first, last = reach(box, direction)
    middle = first + Fraction(share) * (last - first)
    tokens = network.num_tokens
    given_bound = HeadBound(
        Fraction(bound, 8),
        np.array(weights[:tokens], np.int64),
        np.array(tilts[:tokens], np.float64) / 4.0,
    )
    ball = BallHead(head, Atom([1.0], 0.0), box)
    points = points_of(box)
    at = points @ np.array(direction)
    for a, b in ((first, middle), (middle, last)):
        total = ball.exponents(given_bound, direction, a, b)
        inside = (at >= float(a)) & (at <= float(b))
        if total is not None and total <= 1 and inside.any():
            assert network(points[inside]).max() <= bound / 8 + 1e-9


@given(softmax_networks(max_heads=2, largest=4))
@settings(max_examples=20)
def test_maxima_of_heads_are_bounds_and_near_for_one_high_token(network):
    box, atom = unit_box(network), Atom([1.0], 100.0)
    slabs = refute_by_heads(network, box, [atom], tolerance=1e-4)
    margin = slabs.margin(network, box, atom)
    highest = network(points_of(box)).max()
    assert np.isfinite(margin)
    assert highest <= 100.0 - margin


@given(st.integers(0, 1000), st.integers(1, 3))
@settings(max_examples=15)
def test_the_bound_of_one_high_token_is_its_maximum(seed, dim):
    """Duality of geometric programs: no gap where one token is above all others."""
    random = np.random.default_rng(seed)
    slopes = np.round(8 * random.standard_normal((4, dim))) / 4
    network = Network((Head(slopes, np.zeros(4), np.array([[1.0], [0.0], [0.0], [0.0]])),))
    box = unit_box(network)
    bound = FloatHead.of(network.heads[0], Atom([1.0], 0.0)).maximum(box, 1e-7)
    best, spread = np.zeros(dim), 1.0
    for _ in range(40):  # a search around the best point so far
        points = np.clip(best + spread * random.uniform(-1.0, 1.0, (400, dim)), -1.0, 1.0)
        points[0] = best
        best, spread = points[network(points)[:, 0].argmax()], 0.7 * spread
    assert -1e-9 <= float(bound.bound) - network([best])[0, 0] <= 1e-4


@given(softmax_networks(outputs=2))
@settings(max_examples=30)
def test_balls_contain_values(network):
    for point in points_of(unit_box(network), 3):
        exact = network.enclosed(point.tolist())
        found = network([point])[0]
        assert all(abs(upper(ball - float(y))) < 1e-9 for ball, y in zip(exact, found, strict=True))
        assert all(ball.rad() < 1e-40 for ball in exact)


@given(softmax_networks(outputs=2, max_tokens=6))
def test_float32_stays_within_its_bound(network):
    box = unit_box(network)
    points = np.float32(points_of(box)).astype(np.float64)
    off = np.abs(network(points, np.float32).astype(np.float64) - network(points)).max(axis=0)
    assert (off <= output_rounding(network, box) + 1e-9).all()


def test_the_bound_of_rounding_is_not_far_above_what_happens():
    network = planted(dim=5, scale=200.0).sat.network
    box = planted(dim=5, scale=200.0).sat.property.box
    bound = output_rounding(network, box)[0]
    assert 1e-5 < bound < 1e-3
    wide = output_rounding(network, Box(box.lower - 64.0, box.upper + 64.0))[0]
    assert wide > 10.0 * bound
    steep = Network((replace(network.heads[0], slopes=network.heads[0].slopes * 2.0**110),))
    assert output_rounding(steep, box)[0] == np.inf


@given(softmax_networks(outputs=2), st.sampled_from([(1.0, 0.0), (-1.0, 0.0), (-1.0, 1.0)]))
@settings(max_examples=30)
def test_the_bound_of_gradients(network, weights):
    bound, step = gradient_bound(network, Atom(list(weights), 0.0)), 2.0**-14
    points = points_of(unit_box(network), 50)
    total = 0.0
    for i in range(network.input_dim):
        ahead = points.copy()
        ahead[:, i] += step
        total = total + np.abs((network(ahead) - network(points)) @ np.array(weights)) / step
    assert np.max(total) <= bound * (1.0 + 1e-6) + 1e-6


def test_margins_grow_with_gradients_and_rounding():
    gentle, steep = (
        needed_margin(each.network, each.property)
        for each in (planted(dim=4, scale=scale).sat for scale in (16.0, 256.0))
    )
    assert 1e-3 < gentle < steep
    assert steep == pytest.approx(1e-3 + 1e-4 * (256 / 4 + 0.5 * 0.5 * 4 / 4), rel=1e-6)


@given(twins(max_inputs=5))
@settings(max_examples=12)
def test_twins(pair):
    low, high = (each.property.disjuncts[0][0].threshold for each in pair)
    assert low < high
    values = pair.sat.network(points_of(pair.sat.property.box))
    assert values.max() <= high - pair.unsat.margin + 1e-9


def proof_of_twins():
    twin = planted(dim=4, scale=32.0, seed=9).unsat
    (slabs,) = twin.proof.parts
    return twin, slabs


def changed_head(slabs, which, head, **fields):
    slab = slabs.slabs[which]
    heads = list(slab.heads)
    heads[head] = replace(heads[head], **fields)
    parts = list(slabs.slabs)
    parts[which] = replace(slab, heads=tuple(heads))
    return replace(slabs, slabs=tuple(parts))


def test_changed_proofs_prove_nothing():
    twin, slabs = proof_of_twins()
    network, box, atom = twin.network, twin.property.box, twin.property.disjuncts[0][0]

    def margin(proof):
        return proof.margin(network, box, atom)

    assert margin(slabs) == twin.margin > 0.0
    count = len(slabs.slabs)
    assert count > 1
    forged = [replace(slabs, slabs=slabs.slabs[:i] + slabs.slabs[i + 1 :]) for i in range(count)]
    for i, slab in enumerate(slabs.slabs):
        width = slab.end - slab.start
        for change in ({"start": slab.start + width / 64}, {"end": slab.end - width / 64}):
            parts = list(slabs.slabs)
            parts[i] = replace(slab, **change)
            forged.append(replace(slabs, slabs=tuple(parts)))
    forged += [
        replace(slabs, direction=slabs.direction[:-1]),
        replace(slabs, direction=-slabs.direction),
        replace(slabs, slabs=(replace(slabs.slabs[0], heads=slabs.slabs[0].heads[:1]),)),
    ]
    none, fewer = np.zeros(network.num_tokens, np.int64), np.zeros(network.num_tokens - 1)
    for which, slab in enumerate(slabs.slabs):
        for head, bound in enumerate(slab.heads):
            if max(network.heads[head].values) <= bound.bound:
                continue
            forged += [
                changed_head(slabs, which, head, weights=none),
                changed_head(slabs, which, head, weights=bound.weights[:-1]),
                changed_head(slabs, which, head, tilts=fewer),
            ]
            if head:  # bounds of the decoy are attained
                less = bound.bound - Fraction(1, 1024)
                forged.append(changed_head(slabs, which, head, bound=less))
    assert len(forged) > 20
    assert [margin(proof) for proof in forged] == [-np.inf] * len(forged)


def test_a_slab_of_another_network_is_not_a_proof():
    _, slabs = proof_of_twins()
    other = planted(dim=5, scale=32.0).unsat
    atom = other.property.disjuncts[0][0]
    assert slabs.margin(other.network, other.property.box, atom) == -np.inf


def test_slabs_are_not_found_below_the_maximum():
    twin, _ = proof_of_twins()
    found = refute_by_slabs(
        twin.network,
        twin.property.box,
        twin.property.disjuncts[0][0],
        planted(dim=4, scale=32.0, seed=9).sat.property.disjuncts[0][0].threshold,
        direction=np.ones(4),
        centre=np.zeros(4),
    )
    assert found is None


def test_the_whole_box_in_one_slab():
    head = Head([[1.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]])
    network, box = Network((head,)), Box([-1.0], [0.0])
    above = Fraction(1, 2) + Fraction(1, 2**40)
    bound = HeadBound(above, np.array([0, 1]), np.zeros(2))
    whole = Slabs(0, np.zeros(1), (Slab(Fraction(0), Fraction(0), (bound,)),))
    assert whole.margin(network, box, Atom([1.0], 0.75)) == 0.25 - 2.0**-40
    assert whole.margin(network, Box([-1.0], [2.0**-20]), Atom([1.0], 0.75)) == -np.inf


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Head([[0.1]], [0.0], [[0.0]]), "float32"),
        (lambda: Head([[1e39]], [0.0], [[0.0]]), "float32"),
        (lambda: Head([[np.nan]], [0.0], [[0.0]]), "float32"),
        (lambda: Head([1.0], [0.0], [[0.0]]), "axes"),
        (lambda: Head([[1.0]], [0.0, 0.0], [[0.0]]), "tokens"),
        (lambda: Head(np.zeros((0, 1)), [], np.zeros((0, 1))), "axes"),
        (lambda: Head([["x"]], [0.0], [[0.0]]), "axes"),
        (lambda: Network(()), "one head"),
        (lambda: Box([0.0], [-1.0]), "bounds"),
        (lambda: Box([0.0], [1.0, 2.0]), "bounds"),
        (lambda: Atom([0.5], 0.0), "forms"),
        (lambda: Atom([1.0, 1.0], 0.0), "forms"),
        (lambda: Atom([1.0, -1.0], 0.5), "forms"),
        (lambda: Atom([0.0], 0.5), "forms"),
        (lambda: Atom([1.0], 0.1), "float32"),
        (lambda: Property(Box([0.0], [1.0]), ()), "disjunct"),
        (lambda: Property(Box([0.0], [1.0]), ((),)), "disjunct"),
        (
            lambda: Property(Box([0.0], [1.0]), ((Atom([1.0], 0.0), Atom([1.0, 0.0], 0.0)),)),
            "disjunct",
        ),
    ],
)
def test_what_is_not_a_network_or_a_property_is_refused(make, word):
    with pytest.raises(ParameterError, match=word):
        make()


def test_heads_of_different_shapes_are_refused():
    one = Head([[1.0]], [0.0], [[0.0]])
    two = Head([[1.0], [1.0]], [0.0, 0.0], [[0.0], [0.0]])
    with pytest.raises(ParameterError, match="same shapes"):
        Network((one, two))
    with pytest.raises(ParameterError, match="entries"):
        Network((one,)).enclosed([0.0, 0.0])
