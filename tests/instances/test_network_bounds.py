"""Bounds of networks: by weighted means and intervals, of rounding and gradients; unsound ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_parts import drawn_network, float32, points_of
from network_balls import enclosed

from constructive import ParameterError
from constructive.instances import (
    Answer,
    Atom,
    Box,
    Head,
    Network,
    Property,
    make,
    planted,
)
from constructive.instances.refutations import (
    FloatHead,
    attention_ranges,
    needed_margin,
)


def unit_box(network):
    size = np.ones(network.input_dim)
    return Box(-size, size)


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


def test_the_margin_that_is_needed():
    """Twice what programs round, which onnxruntime stays below, and what scorers allow."""
    twin = planted(dim=5, scale=200.0).sat
    network, box = twin.network, twin.property.box
    wanted = twin.property
    assert 1e-5 < twin.rounding < 1e-3
    least = needed_margin(network, wanted, beyond=False)
    assert least == pytest.approx(2.0 * twin.rounding)
    assert needed_margin(network, wanted) > 1e-3 + 1e-4 * 0.25 * 100.0
    wide = Property(Box(box.lower - 64.0, box.upper + 64.0), wanted.disjuncts)
    assert needed_margin(network, wide, beyond=False) > 10.0 * least
    steep = Network((replace(network.heads[0], slopes=network.heads[0].slopes * 2.0**110),))
    assert needed_margin(steep, wanted) == np.inf


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
    outputs = enclosed(network, box.lower)
    ranges = attention_ranges(network, box)
    for weights in weights_of(network.output_dim):
        value = sum((int(w) * y for w, y in zip(weights, outputs, strict=True)), arb(0))
        assert abs(float(value.mid()) - ranges.upper_bound(weights)) < 1e-8 * max(1.0, scale)


@pytest.mark.parametrize("spread", [100.0, 710.0, 800.0, 1e5])
def test_logits_beyond_what_exponentials_hold_keep_the_bound(spread):
    """Each token's logit reaches far above and far below the other's."""
    head = Head([[1.0], [0.0]], [0.0, -spread / 2], [[1.0], [0.0]])
    box = Box([-spread], [0.0])
    ranges = attention_ranges(Network((head,)), box)
    assert ranges.upper_bound(np.ones(1)) >= 1.0 - 1e-15
    assert ranges.upper_bound(-np.ones(1)) >= -1e-20


# A bound of softmax that was released and is wrong: shadows expose it. It adds 1e-8 in a logarithm,
# which does not matter until logits are far apart. (docs/how-to/test-your-verifier.md has another.)


def logit_ranges(head, box):
    middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0
    centre, spread = head.slopes @ middle + head.offsets, np.abs(head.slopes) @ radius
    return centre - spread, centre + spread


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


def test_shadows_expose_a_number_added_in_a_logarithm():
    shadows = make(20, kinds="shadow")
    sat = [each for each in shadows if each.answer is Answer.SAT]
    assert sum(linear_bound(each, 1e-8) < threshold(each) for each in sat) >= 3
    assert all(linear_bound(each, 0.0) >= threshold(each) for each in sat)
