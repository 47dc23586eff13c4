"""The interval form: no point of the box is above it, at any scale, and no greedy choice below."""

import itertools

import numpy as np
import pytest
from drawn_networks import drawn_network, float32, points
from flint import arb

from constructive import ParameterError
from constructive.instances.network import Head, Network
from constructive.instances.properties import Box
from constructive.instances.refutations import attention_ranges


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
    inputs = points(box, np.random.default_rng(1))
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


def exact_greedy(least, most, values):
    """The largest v . p over the simplex in [P-, P+], as sorting finds it."""
    shares, left = least.copy(), 1.0 - least.sum()
    for i in np.argsort(-values):
        step = min(left, most[i] - shares[i])
        shares[i], left = shares[i] + step, left - step
    return shares @ values


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_is_what_a_greedy_choice_attains(seed):
    network, box = drawn(seed, scale=2.0, width=0.3, tokens=9)
    ranges = attention_ranges(network, box)
    for weights in weights_of(network.output_dim):
        for h, bound in enumerate(ranges.upper_bounds(weights)):
            values = network.heads[h].values @ weights
            best = exact_greedy(ranges.least[h], ranges.most[h], values)
            assert best <= bound <= best + 1e-7


def test_a_corner_attains_the_bound_of_two_tokens():
    head = Head([[3.0, -1.0], [0.0, 0.0]], [0.5, 0.0], [[2.0], [0.0]])
    ranges = attention_ranges(Network((head,)), Box([-1.0, 0.0], [0.25, 0.5]))
    attained = 2.0 / (1.0 + np.exp(-(3.0 * 0.25 + 0.5)))
    assert attained <= ranges.upper_bound(np.ones(1)) <= attained * (1 + 1e-8)


def test_a_smaller_box_has_a_bound_that_the_larger_box_exceeds():
    """The comparison above can fail: a bound of half the box is no bound of the box."""
    network, box = drawn(3, scale=1.0, width=1.0)
    middle, half = (box.lower + box.upper) / 2, (box.upper - box.lower) / 20
    small = attention_ranges(network, Box(float32(middle - half), float32(middle + half)))
    outputs = network(points(box, np.random.default_rng(1)))
    assert any(small.upper_bound(w) < (outputs @ w).max() for w in weights_of(2))


@pytest.mark.parametrize("spread", [100.0, 710.0, 800.0, 1e5])
def test_logits_beyond_what_exponentials_hold_keep_the_bound(spread):
    """Each token's logit reaches far above and far below the other's."""
    head = Head([[1.0], [0.0]], [0.0, -spread / 2], [[1.0], [0.0]])
    box = Box([-spread], [0.0])
    ranges = attention_ranges(Network((head,)), box)
    assert ranges.upper_bound(np.ones(1)) >= 1.0 - 1e-15
    assert ranges.upper_bound(-np.ones(1)) >= -1e-20


def test_a_box_of_other_dimension_is_refused():
    network, _ = drawn(0)
    with pytest.raises(ParameterError, match="inputs"):
        attention_ranges(network, Box([0.0], [1.0]))
