"""Bounds of networks: by weighted means and intervals, of rounding and gradients; unsound ones."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_parts import drawn_network, float32, points_of

from constructive import ParameterError
from constructive.instances import Answer, Atom, Box, Head, Network, Property, make, planted
from constructive.instances.refutations import (
    BallHead,
    FloatHead,
    HeadBound,
    Slab,
    Slabs,
    attention_ranges,
    reach,
)
from constructive.instances.rounding import gradient_bound, output_rounding


@st.composite
def softmax_networks(draw, max_inputs=3, max_tokens=4, max_heads=3, outputs=1, largest=64):
    """Small networks whose entries are multiples of 1/8."""
    inputs, tokens = draw(st.integers(1, max_inputs)), draw(st.integers(2, max_tokens))
    entries = st.integers(-8 * largest, 8 * largest)

    def array(*shape):
        count = int(np.prod(shape))
        drawn = draw(st.lists(entries, min_size=count, max_size=count))
        return np.array(drawn, dtype=np.float64).reshape(shape) / 8.0

    count = draw(st.integers(1, max_heads))
    heads = (
        Head(array(tokens, inputs), array(tokens), array(tokens, outputs)) for _ in range(count)
    )
    return Network(tuple(heads))


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
    points = points_of(box, np.random.default_rng(0))
    at = points @ np.array(direction)
    for a, b in ((first, middle), (middle, last)):
        total = ball.exponents(given_bound, direction, a, b)
        inside = (at >= float(a)) & (at <= float(b))
        if total is not None and total <= 1 and inside.any():
            assert network(points[inside]).max() <= bound / 8 + 1e-9


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


@given(softmax_networks(outputs=2, max_tokens=6))
def test_float32_stays_within_its_bound(network):
    box = unit_box(network)
    points = np.float32(points_of(box, np.random.default_rng(0))).astype(np.float64)
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
    points = points_of(unit_box(network), np.random.default_rng(0), 50)
    total = 0.0
    for i in range(network.input_dim):
        ahead = points.copy()
        ahead[:, i] += step
        total = total + np.abs((network(ahead) - network(points)) @ np.array(weights)) / step
    assert np.max(total) <= bound * (1.0 + 1e-6) + 1e-6


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


# The interval form: no point of the box is above it, at any scale, and no greedy choice below.


def drawn(seed, *, heads=2, tokens=5, dim=3, outputs=2, scale=1.0, width=1.0):
    """A network and a box around a point, of float32 numbers."""
    rng = np.random.default_rng(seed)
    sizes = {"heads": heads, "tokens": tokens, "dim": dim, "outputs": outputs}
    network = drawn_network(rng, **sizes, scale=scale)
    middle = rng.normal(size=dim)
    return network, Box(float32(middle - width), float32(middle + width))


def weights_of(outputs):
    """All w that conditions have."""
    unit = np.eye(outputs)
    yield from unit
    yield from -unit
    for i, j in itertools.permutations(range(outputs), 2):
        yield unit[i] - unit[j]


SHAPES = [
    {"scale": scale, "width": width, "dim": dim, "tokens": tokens, "heads": heads}
    for scale, width in ((1.0, 0.1), (30.0, 1.0), (3000.0, 1.0), (1e-20, 1e-20), (1e15, 1e-10))
    for dim, tokens, heads in ((1, 1, 1), (3, 5, 2), (8, 12, 4))
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_point_is_above_the_bound(shape):
    network, box = drawn(3, **shape)
    ranges = attention_ranges(network, box)
    inputs = points_of(box, np.random.default_rng(1))
    outputs = network(inputs)
    for weights in weights_of(network.output_dim):
        bound = ranges.upper_bound(weights)
        assert bound >= (outputs @ weights).max() - 1e-12
        assert bound <= sum((head.values @ weights).max() for head in network.heads) + 1e-12


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0, 1e6])
def test_balls_at_a_point_are_below_the_bound_of_that_point(scale):
    """A box of radius zero: nothing but rounding is between the bound and the value."""
    network, box = drawn(5, scale=scale, width=0.0)
    outputs = network.enclosed(box.lower)
    ranges = attention_ranges(network, box)
    for weights in weights_of(network.output_dim):
        value = sum((int(w) * y for w, y in zip(weights, outputs, strict=True)), arb(0))
        assert value <= arb(ranges.upper_bound(weights))
        size = max(1.0, scale)
        assert value >= arb(ranges.upper_bound(weights) - 1e-8 * size)


@pytest.mark.parametrize("spread", [100.0, 710.0, 800.0, 1e5])
def test_logits_beyond_what_exponentials_hold_keep_the_bound(spread):
    """Each token's logit reaches far above and far below the other's."""
    head = Head([[1.0], [0.0]], [0.0, -spread / 2], [[1.0], [0.0]])
    box = Box([-spread], [0.0])
    ranges = attention_ranges(Network((head,)), box)
    assert ranges.upper_bound(np.ones(1)) >= 1.0 - 1e-15
    assert ranges.upper_bound(-np.ones(1)) >= -1e-20


# Bounds of softmax that were released and are wrong: planted instances expose each.
#
# A claim is false if a bound of outputs is below the threshold of a *sat* instance. Three numbers
# that guard against zeros are tried: 1e-12 added to a sum of exponentials, 1e-30 as the least sum,
# and 1e-8 in a logarithm. None of them matters until logits are far apart.


def logit_ranges(head, box):
    middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0
    centre, spread = head.slopes @ middle + head.offsets, np.abs(head.slopes) @ radius
    return centre - spread, centre + spread


def upper_bound(network, box, ranges):
    """Interval arithmetic: each weight by itself, then products with values."""
    total = 0.0
    for head in network.heads:
        least, most = ranges(*logit_ranges(head, box))
        values = head.values[:, 0]
        total += np.where(values > 0.0, values * most, values * least).sum()
    return total


def sums(least, most):
    """Exponentials less the largest upper bound, and the least sum with each token at its most."""
    low, high = np.exp(least - most.max()), np.exp(most - most.max())
    return low, high, low.sum() - low + high, high.sum() - high + low


def sound(least, most):
    with np.errstate(over="ignore"):
        apart = least[np.newaxis] - most[:, np.newaxis]
        np.fill_diagonal(apart, 0.0)
        wide = most[np.newaxis] - least[:, np.newaxis]
        np.fill_diagonal(wide, 0.0)
        return 1.0 / np.exp(wide).sum(axis=1), 1.0 / np.exp(apart).sum(axis=1)


def with_a_number_added(least, most):
    low, high, smallest, largest = sums(least, most)
    return low / (largest + 1e-12), high / (smallest + 1e-12)


def linear_bound(instance, small):
    """Bound two heads of two tokens each, whose first logits are functions of one number, by lines.

    The weight of a first token is exp(z), z = ln sigma(l). As z is concave, it is below its tangent
    at the least l, and exp(z) is below its chord; `small` is added to weights before logarithms.
    """
    box, ends = instance.property.box, []
    for head in instance.network.heads:
        low, high = (x[0] - x[1] for x in logit_ranges(head, box))
        least, most = (1.0 / (1.0 + np.exp(-x)) for x in (low, high))
        left, right = np.log(least + small), np.log(most + small)
        slope = (most - least) / (right - left)
        start = -np.logaddexp(0.0, -low)
        z = np.array([start, start + (1.0 - least) * (high - low)])
        ends.append(head.values[0, 0] * (least + slope * (z - left)))
    rising, falling = ends
    return (rising + falling[::-1]).max()


def threshold(instance):
    return instance.property.disjuncts[0][0].threshold


def claims(instances, ranges):
    """The names of instances that a bound calls unsat."""
    return {
        each.name: each.answer
        for each in instances
        if upper_bound(each.network, each.property.box, ranges) < threshold(each)
    }


@pytest.fixture(scope="module")
def planted_set():
    return make(60, kinds=("needle", "corner", "shadow"))


def test_the_planted_set_exposes_unsound_bounds(planted_set):
    claimed = claims(planted_set, with_a_number_added)
    false = [name for name, answer in claimed.items() if answer is Answer.SAT]
    assert len(false) >= 3


def test_shadows_expose_a_number_added_in_a_logarithm(planted_set):
    shadows = [each for each in planted_set if each.family == "shadow"]
    false = [
        each
        for each in shadows
        if each.answer is Answer.SAT and linear_bound(each, 1e-8) < threshold(each)
    ]
    assert len(false) >= 3
    for each in shadows:
        assert each.answer is Answer.UNSAT or linear_bound(each, 0.0) >= threshold(each)


def test_sound_bounds_claim_nothing_false(planted_set):
    assert Answer.SAT not in claims(planted_set, sound).values()
    for each in planted_set:
        ours = attention_ranges(each.network, each.property.box).upper_bound(np.ones(1))
        assert ours >= threshold(each) or each.answer is Answer.UNSAT
