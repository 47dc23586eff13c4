"""Balls hold the truth, as mpmath finds it at sixty digits."""

import flint
import mpmath
import numpy as np
import pytest
import reference
from flint import arb
from hypothesis import given

from constructive import AttentionLayer, Dataset, build_memorizer, generators, strategies
from constructive.exact import balls, verified
from constructive.exact.balls import relevant_tokens
from constructive.exact.float_enclosure import Bounded
from constructive.layers import extended


def holds(enclosure, truth):
    """Whether a ball holds an mpf, up to the digits of the mpf."""
    with flint.ctx.workprec(300):
        truth = arb(mpmath.nstr(truth, 50))
        return enclosure.overlaps(truth + arb(0, 1e-45) * (1 + abs(truth)))


def bounded_logits(layer, data):
    floats = Bounded()
    weights = floats.weights(layer.query_weights, layer.key_weights)
    return floats.logits(weights, data.queries, data.contexts_of(slice(None)))


@pytest.mark.parametrize("prec", [40, 53, 128, 200])
@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_the_layer_is_enclosed(prec, make, construction):
    data = make(num_examples=7, context_size=3, width=5, target_dim=2)
    layer = build_memorizer(data, num_heads=3, construction=construction, value_dim=3).layer
    truth = reference.outputs(layer, data, range(7))
    for row in extended.enclose(layer, prec)(data):
        for entry, exact in zip(row.output.entries(), truth[row.example], strict=True):
            assert holds(entry, exact)
            assert float(entry.rad()) < 2.0 ** (20 - prec)


def test_random_weights_without_any_saturation_are_enclosed():
    rng = np.random.default_rng(0)
    data = generators.gaussian(num_examples=4, context_size=5, width=6)
    for scale in (0.1, 3.0, 1000.0):
        weights = [scale * rng.standard_normal((3, 6, 2)) for _ in range(2)]
        layer = AttentionLayer(
            *weights,
            rng.standard_normal((3, 6, 2)),
            rng.standard_normal((6, 2)),
            rng.standard_normal((2, 1)),
        )
        truth = reference.outputs(layer, data, range(4))
        for row in extended.enclose(layer, 100)(data):
            assert holds(row.output[0, 0], truth[row.example][0])


def test_more_bits_give_narrower_balls():
    data = generators.uniform(num_examples=3, context_size=3, width=5)
    layer = build_memorizer(data, num_heads=2).layer
    radii = [
        max(float(row.output[0, 0].rad()) for row in extended.enclose(layer, prec)(data))
        for prec in (50, 100, 200)
    ]
    assert radii[0] > 1e6 * radii[1] > 1e12 * radii[2]


def test_precision_is_not_left_behind():
    before = flint.ctx.prec
    data = generators.uniform(num_examples=2, context_size=2, width=3)
    rows = extended.enclose(build_memorizer(data, num_heads=2).layer, 333)(data)
    next(rows)
    assert flint.ctx.prec == before


@pytest.mark.parametrize("gap", [0.0, 1e-300, 1.0, 30.0, 88.0, 89.0, 1e5, 1e300])
def test_gaps_between_logits_of_any_size(gap):
    weights = np.full((1, 1, 1), 1.0)
    layer = AttentionLayer.from_effective_readout(weights, weights, np.ones((1, 1)))
    data = Dataset([[[0.0], [gap]]], [[1.0]], [0.0])
    (row,) = extended.enclose(layer, 128)(data)
    exact = reference.outputs(layer, data, [0])[0][0]
    assert holds(row.output[0, 0] / max(gap, 1.0), exact / max(gap, 1.0))


def test_overflowing_logits_are_no_reason_to_guess():
    weights = np.full((1, 1, 1), 1e200)
    layer = AttentionLayer.from_effective_readout(weights, weights, np.ones((1, 1)))
    data = Dataset([[[1.0], [2.0]]], [[1.0]], [0.0])
    relevant = relevant_tokens(bounded_logits(layer, data), 128)
    assert relevant.all()
    (row,) = extended.enclose(layer, 128)(data)
    assert row.output[0, 0].overlaps(arb(2))


@given(strategies.memorizable())
def test_dropped_tokens_are_light(problem):
    layer, data = problem.build().layer, problem.dataset
    relevant = relevant_tokens(bounded_logits(layer, data), 20)
    assert relevant.any(axis=2).all()
    attention = layer.attention(data.contexts, data.queries)
    assert (attention[~relevant] <= 2.0**-20).all()


def test_the_largest_entry_of_a_matrix_is_nan_where_one_is():
    assert float(balls.largest(flint.arb_mat([[1, -3], [2, 0]]))) == 3
    assert not balls.largest(flint.arb_mat([[1, arb("nan")], [2, 0]])).is_finite()


def test_solutions_and_right_inverses_in_balls():
    rng = np.random.default_rng(0)
    matrix, targets = rng.standard_normal((6, 6)), rng.standard_normal((6, 2))
    matrix[5] = matrix[0] + 1e-15 * matrix[5]
    square, right = balls.exact_matrix(matrix), balls.exact_matrix(targets)
    assert balls.solve(square, right, 20) is None  # too few bits to tell: no guess
    found = balls.solve(square, right, 200)
    with flint.ctx.workprec(200):
        assert (square * found).contains(right)
        assert (square * found - right).tolist()[0][0].rad() < 1e-25
    assert balls.right_inverse_bound(square, 20) == np.inf
    bound = balls.right_inverse_bound(square, 200)
    exact = flint.fmpq_mat(6, 6, [flint.fmpq(*x.as_integer_ratio()) for x in matrix.ravel()]).inv()
    truth = max(float(sum(abs(arb(x)) for x in row)) for row in exact.tolist())
    assert truth * (1 - 1e-12) <= bound <= truth * (1 + 1e-12)
    assert balls.solve(flint.arb_mat(2, 2), flint.arb_mat(2, 1), 100) is None


def test_right_inverse_bounds_are_above_the_truth_and_near_it():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 40):
        z = rng.standard_normal((size, 2 * size))
        bound = verified.right_inverse_bound(z, 0.0)
        truth = np.abs(np.linalg.pinv(z)).sum(axis=1).max()
        assert truth * (1 - 1e-10) <= bound <= truth * (1 + 1e-6)
        assert bound < verified.right_inverse_bound(z, 1e-6) < np.inf


def test_right_inverse_bounds_prove_nothing_of_what_may_be_singular():
    nearly = np.eye(3) + 0.0
    nearly[2] = nearly[0] + nearly[1]
    nearly[2, 2] = 1e-9
    assert verified.right_inverse_bound(nearly, 1e-8) == np.inf
    assert verified.right_inverse_bound(np.ones((2, 3)), 0.0) == np.inf
    assert verified.right_inverse_bound(np.zeros((2, 2)), 0.0) == np.inf
    assert verified.right_inverse_bound(np.eye(2), np.inf) == np.inf
    assert verified.right_inverse_bound(np.full((2, 2), np.nan), 0.0) == np.inf
