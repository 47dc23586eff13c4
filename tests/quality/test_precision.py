"""The accuracy that the documentation states, at the sizes of the paper's experiments."""

import numpy as np
import pytest

from constructive import build_memorizer, generators
from constructive.constructions.multihead import readout

SIZES = {"num_examples": 1861, "context_size": 32, "width": 64}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "largest_error"),
    [
        (generators.uniform, 1e-10),
        (generators.gaussian, 1e-10),
        (generators.bag_of_tokens, 1e-10),
        (generators.moment_curve, 1e-10),
        (generators.shared_context, 1e-6),
    ],
)
def test_saturated_heads_at_1861_examples(make, largest_error):
    data = make(**SIZES, seed=1)
    memorizer = build_memorizer(data, num_heads=60, head_dim=64)
    assert memorizer.record.construction == "saturated"
    assert memorizer.max_error(data) <= largest_error
    assert min(head.saturated_fraction for head in memorizer.record.heads) >= 0.99
    assert memorizer.record.heads[-1].rank_reached == 1861


@pytest.mark.slow
@pytest.mark.parametrize("shared_keys", [False, True])
def test_rank_one_heads_at_1861_examples(shared_keys):
    data = generators.uniform(**SIZES, seed=1)
    memorizer = build_memorizer(
        data, num_heads=60, construction="rank_one", shared_keys=shared_keys
    )
    assert memorizer.layer.head_dim == 1
    assert memorizer.max_error(data) <= 1e-10


@pytest.mark.parametrize("tokens", [2, 4, 8, 12])
def test_rank_one_heads_on_a_shared_context(tokens):
    data = generators.shared_context(
        num_examples=20 * (tokens - 1) + 1, context_size=tokens, width=32
    )
    memorizer = build_memorizer(data, num_heads=20, construction="rank_one")
    assert memorizer.max_error(data) <= 1e-6


def test_the_stated_error_is_the_error_of_the_layer():
    data = generators.shared_context(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20, construction="rank_one")
    assert memorizer.max_error(data) <= 10 * memorizer.record.max_error + 1e-15


def test_the_condition_estimate_is_near_the_condition_number():
    data = generators.uniform(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20)
    singular = np.linalg.svd(
        memorizer.layer.intermediate(data.contexts, data.queries), compute_uv=False
    )
    exact = singular[0] / singular[-1]
    assert exact / 20 <= memorizer.record.condition <= 20 * exact


def test_a_singular_intermediate_representation_is_not_called_independent():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((6, 8))
    z[4] = z[0] + z[1]
    solution = readout.solve(z, rng.standard_normal((6, 1)), np.array([3, 6]))
    assert solution.ranks == (3, 5)
    assert solution.condition > 1e12
    assert solution.residuals[0] > 1e-3


def test_float32_weights_lose_some_digits_but_not_the_targets():
    data = generators.gaussian(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20)
    assert memorizer.astype(np.float32).max_error(data) < 1e-2
