"""A token that moves: no point of the box is above the maximum, and one attains it."""

import itertools

import numpy as np
import pytest
from drawn_networks import corners, points

from constructive import ParameterError
from constructive.instances import Box
from constructive.instances.moving import MovingToken, _HeadInBalls, sum_of_maxima


def drawn(seed, *, tokens=4, dim=3, key=1.0, readout=1.0, radius=1.0):
    rng = np.random.default_rng(seed)
    sizes = (tokens, 1.0), (tokens, 1.0), (dim, key), (dim, readout)
    arrays = [(scale * rng.normal(size=size)).astype(np.float32) for size, scale in sizes]
    middle = rng.normal(size=dim)
    box = Box((middle - radius).astype(np.float32), (middle + radius).astype(np.float32))
    return MovingToken(*arrays), box


def on_faces(box, rng, number=2000):
    """Points of the box, and as many on its faces of all dimensions."""
    shape = number, len(box.lower)
    inside = points(box, rng, number)
    edges = np.where(rng.random(shape) < 0.8, np.round(rng.random(shape)), 0.5)
    return np.vstack([inside, box.lower + edges * box.widths])


SHAPES = [
    {"dim": dim, "key": key, "readout": readout, "radius": radius, "tokens": tokens}
    for dim, tokens in ((1, 2), (3, 4), (8, 5))
    for key, readout in ((1.0, 1.0), (10.0, 0.3), (0.1, 5.0), (300.0, 1.0))
    for radius in (0.01, 1.0, 5.0)
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_point_is_above_the_maximum_and_one_attains_it(shape):
    for seed in range(4):
        token, box = drawn(seed, **shape)
        bound, point = token.maximum(box)
        assert box.contains(point)
        size = 1e-9 * max(1.0, abs(bound), shape["key"])
        assert token(on_faces(box, np.random.default_rng(seed))).max() <= bound + size
        assert token(point[np.newaxis])[0] >= bound - size


def test_the_maximum_may_be_inside_of_an_edge():
    """Without stationary points the bound is too low, and a point of the box is above it."""
    interior = 0
    for seed in range(40):
        token, box = drawn(seed, dim=2, key=1.0, readout=1.0, radius=4.0)
        bound, point = token.maximum(box)
        inside = ((point > box.lower) & (point < box.upper)).any()
        vertices = token._boundary(box)
        head = _HeadInBalls(token)
        at_vertices = max(float(head.at(v.logit, v.value)) for v in vertices)
        if inside:
            interior += 1
            assert token(point[np.newaxis])[0] > at_vertices
        else:
            assert at_vertices == pytest.approx(bound, abs=1e-12)
    assert interior > 5


def test_the_boundary_is_the_upper_one():
    """Vertices are corners, by rising logit, and the line is concave; no corner is above it."""
    token, box = drawn(1, dim=6)
    vertices = token._boundary(box)
    logits = [v.logit for v in vertices]
    assert logits == sorted(logits)
    slopes = [(b.value - a.value) / (b.logit - a.logit) for a, b in itertools.pairwise(vertices)]
    assert slopes == sorted(slopes, reverse=True)
    for corner in corners(box):
        s, y = np.dot(corner, token.key), np.dot(corner, token.readout)
        line = np.interp(s, [float(x) for x in logits], [float(v.value) for v in vertices])
        assert y <= line + 1e-9


def test_entries_that_do_not_move_the_logit():
    token = MovingToken([0.0, 1.0], [1.0, -1.0], [0.0, 0.0], [1.0, -2.0])
    bound, point = token.maximum(Box([-1.0, -1.0], [1.0, 1.0]))
    assert point.tolist() == [1.0, -1.0]
    assert bound == pytest.approx((4.0 - np.e) / (1.0 + np.e), abs=1e-12)


def test_a_sum_is_at_most_the_sum_of_the_maxima():
    tokens, (_, box) = [drawn(seed)[0] for seed in range(3)], drawn(0)
    inputs = on_faces(box, np.random.default_rng(0))
    attained = sum(token(inputs) for token in tokens).max()
    assert attained <= sum_of_maxima(tokens, box)
    assert sum_of_maxima(tokens[:1], box) == pytest.approx(tokens[0].maximum(box)[0])


def test_shapes_that_do_not_fit_are_refused():
    token, _ = drawn(0)
    with pytest.raises(ParameterError, match="entries"):
        token.maximum(Box([0.0], [1.0]))
    for sizes in ((3, 2, 4, 4), (3, 3, 4, 5), (1, 1, 4, 4)):
        with pytest.raises(ParameterError, match="lengths"):
            MovingToken(*(np.ones(size) for size in sizes))
