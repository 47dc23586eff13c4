"""The recipe of each head, W = W* + c u w^T, against the weights, the group and the attention."""

import numpy as np
import pytest
from hypothesis import given, settings

from constructive import Memorizer, ParameterError, build_memorizer, generators
from constructive.strategies import memorizable


def check_recipe(memorizer, data):
    layer = memorizer.layer
    for index, head in enumerate(memorizer.heads):
        w_star, saturating = head.W_star, head.sharpness * np.outer(head.u, head.w)
        weights = layer.key_weights[index] @ layer.query_weights[index].T
        assert np.abs(weights - w_star - saturating).max() <= 1e-14 * np.abs(weights).max()
        assert np.isclose(np.linalg.norm(head.w), head.sharpness > 0)
        if head.sharpness:
            assert head.examples is not None
            own = data.queries[head.examples]  # w leaves the logits of the group as they are
            sizes = np.linalg.norm(own, axis=1)
            assert (np.abs(own @ head.w) <= 1e-9 * sizes).all()


@settings(max_examples=40)
@given(memorizable())
def test_weights_are_the_sum_of_both_parts(problem):
    data, memorizer = problem.dataset, problem.build()
    check_recipe(memorizer, data)
    served = np.concatenate([head.examples for head in memorizer.heads])
    assert served.tolist() == list(range(data.num_examples))


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "paired"])
def test_the_saturating_part_alone_saturates_on_earlier_examples(construction):
    data = generators.uniform(num_examples=40, context_size=4, width=9, seed=3)
    memorizer = build_memorizer(data, num_heads=14, construction=construction)
    check_recipe(memorizer, data)
    assert sorted(np.concatenate([head.examples for head in memorizer.heads])) == [*range(40)]
    saturated, seen = 0, 0
    for head in memorizer.heads:
        others = np.setdiff1d(np.arange(40), head.examples)
        strength = head.sharpness * data.queries[others] @ head.w
        logits = (data.contexts[others] @ head.u) * strength[:, np.newaxis]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        saturated += np.count_nonzero(0.999 * shares.sum(axis=1) < 1)
        seen += len(others)
    assert saturated > 0.9 * seen  # a pair's heads share w, so half of the pair is not saturated


def test_saturated_heads_saturate_by_the_column_after_their_group():
    data = generators.uniform(num_examples=19, context_size=4, width=9, seed=3)
    memorizer = build_memorizer(data, num_heads=7, construction="saturated")
    for index, head in enumerate(memorizer.heads[1:], 1):
        column, root = len(head.examples), np.sqrt(head.sharpness)
        assert np.allclose(memorizer.layer.query_weights[index, :, column], root * head.w)
        assert np.allclose(memorizer.layer.key_weights[index, :, column], root * head.u)
        assert np.allclose(data.queries[head.examples] @ head.queries, np.eye(column))


def test_heads_without_groups_have_no_saturating_part():
    data = generators.uniform(num_examples=20, context_size=4, width=9, seed=3)
    for construction in ("generic", "tangent"):
        memorizer = build_memorizer(data, num_heads=4, construction=construction)
        check_recipe(memorizer, data)
        assert {head.sharpness for head in memorizer.heads} == {0.0}
        assert [head.examples for head in memorizer.heads] == [None] * 4


@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_files_hold_the_recipe_of_saturated_heads_alone(construction, tmp_path):
    data = generators.uniform(num_examples=19, context_size=4, width=9, seed=3)
    memorizer = build_memorizer(data, num_heads=7, construction=construction)
    memorizer.save(tmp_path / "memorizer.safetensors")
    read = Memorizer.load(tmp_path / "memorizer.safetensors")
    if construction == "saturated":
        check_recipe(read, data)
        return
    with pytest.raises(ParameterError, match="does not say which part of b is c w") as caught:
        _ = read.heads
    assert caught.value.witness == "rank_one"
