"""What Theorems 1 and 2 promise, and what must be refused: the error, its witness, what to try;
and the recipe of each head.
"""

import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    DataError,
    Dataset,
    Memorizer,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    explain,
    generators,
    heads_needed,
)
from constructive.strategies import memorizable


@settings(max_examples=40)
@given(memorizable())
def test_everything_at_the_bound_is_memorized(problem):
    """By groups of the sizes in the proof, which do not see the saturating part of their heads."""
    memorizer, data = problem.build(), problem.dataset
    outputs, record = memorizer.predict(data.contexts, data.queries), memorizer.record
    assert outputs.shape == data.targets.shape
    precise = 1e-8 * max(1.0, np.abs(data.targets).max())  # measured: below 1e-11 of that
    assert np.abs(outputs - data.targets).max() <= precise
    assert record.num_examples == record.capacity
    if data.context_size == 1:
        return
    rank = data.context_size
    if problem.construction == "saturated":
        rank = min(rank, problem.head_dim)
    sizes = [head.stop - head.start for head in record.heads]
    assert sizes == [rank] + [rank - 1] * (len(sizes) - 1)
    assert [head.rank_reached for head in record.heads] == [head.stop for head in record.heads]
    attention = memorizer.layer.attention(data.contexts, data.queries)
    for index, head in enumerate(record.heads):
        assert (attention[head.start : head.stop, index] < 0.999).all()


@settings(max_examples=25)
@given(memorizable())
def test_one_example_more_than_the_bound_is_refused(problem):
    data, count = problem.dataset, problem.dataset.num_examples
    more = data.take([*range(count), 0])
    queries = more.queries.copy()
    queries[count:] *= 2.0  # so that inputs are different
    more = Dataset(more.contexts, queries, more.targets)
    sizes = {"num_heads": problem.num_heads, "head_dim": problem.head_dim}
    with pytest.raises(CapacityError) as caught:
        build_memorizer(more, **sizes, construction=problem.construction)
    assert caught.value.witness == count + 1


@settings(max_examples=15)
@given(memorizable(), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_heads_saturate_on_the_fraction_asked_for(problem, fraction):
    sizes = {"num_heads": problem.num_heads, "head_dim": problem.head_dim}
    memorizer = build_memorizer(
        problem.dataset, **sizes, construction=problem.construction, saturated_fraction=fraction
    )
    heads = [head for head in memorizer.record.heads if head.sharpness]
    assert all(head.saturated_fraction >= fraction for head in heads)


@pytest.mark.parametrize(
    ("tokens", "width", "num_heads", "head_dim", "count"),
    [
        (1, 1, 1, 1, 1),
        (1, 4, 3, 2, 1),
        (2, 2, 1, 1, 2),
        (4, 4, 3, 4, 10),  # n = d
        (3, 5, 2, 9, 5),  # d_h > n
        (3, 5, 2, 1, 5),  # d_h = 1
        (3, 5, 6, 3, 2),  # fewer examples than heads
        (6, 6, 1, 6, 6),  # H = 1
    ],
)
@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_corners(tokens, width, num_heads, head_dim, count, make):
    data = make(num_examples=count, context_size=tokens, width=width, target_dim=2)
    memorizer = build_memorizer(data, num_heads=num_heads, head_dim=head_dim, value_dim=3)
    assert memorizer.layer.value_dim == 3
    assert memorizer.max_error(data) < 1e-9


@pytest.mark.parametrize("exponent", [-300, -40, 300])
def test_the_scale_of_tokens_and_queries_does_not_matter(exponent):
    data = generators.gaussian(num_examples=19, context_size=4, width=6)
    factor = 2.0**exponent
    for scaled in (
        Dataset(data.contexts * factor, data.queries, data.targets),
        Dataset(data.contexts, data.queries * factor, data.targets),
        Dataset(data.contexts / factor, data.queries * factor, data.targets),
    ):
        for construction in ("saturated", "rank_one"):
            memorizer = build_memorizer(scaled, num_heads=6, construction=construction)
            assert memorizer.max_error(scaled) < 1e-9


# Data and arguments which must be refused.


@pytest.fixture
def data():
    return generators.gaussian(num_examples=7, context_size=3, width=5)


def changed(data, **arrays):
    parts = {"contexts": data.contexts, "queries": data.queries, "targets": data.targets}
    parts = {name: array.copy() for name, array in parts.items()}
    for name, (index, value) in arrays.items():
        parts[name][index] = value
    return Dataset(**parts)


def test_too_many_examples_says_how_many_heads_would_do(data):
    with pytest.raises(CapacityError) as caught:
        build_memorizer(data, num_heads=2, construction="saturated")
    assert caught.value.witness == 7
    assert caught.value.suggestion == "num_heads=3; or keep 5 of the examples"
    assert build_memorizer(data, num_heads=heads_needed(7, 3, 3)).max_error(data) < 1e-9


def test_too_narrow_saturated_heads_point_to_rank_one_heads(data):
    with pytest.raises(CapacityError, match="construction='rank_one', which memorizes") as caught:
        build_memorizer(data, num_heads=3, head_dim=2, construction="saturated")
    assert "num_heads=6" in caught.value.suggestion


def test_contexts_of_one_token_hold_d_examples():
    data = generators.gaussian(num_examples=3, context_size=1, width=3)
    assert build_memorizer(data, num_heads=2).max_error(data) < 1e-9
    data = generators.gaussian(num_examples=4, context_size=1, width=3)
    with pytest.raises(CapacityError, match="memorizes 3") as caught:
        build_memorizer(data, num_heads=50)
    assert "softmax over one token is constant" in caught.value.suggestion
    with pytest.raises(CapacityError, match="softmax over one token is constant"):
        build_memorizer(data, num_heads=50, construction="saturated")


def rescaled(data, *, contexts=1.0, queries=1.0):
    return Dataset(contexts * data.contexts, queries * data.queries, data.targets)


def with_huge_sum(data):
    combination = 2 * data.contexts[6, 0] - 3 * data.contexts[6, 1]
    return rescaled(changed(data, contexts=((6, 2), combination)), contexts=1e99)


FEW = Dataset([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]], np.eye(3), [1, 2, 3])
WIDE = generators.gaussian(num_examples=2, context_size=4, width=3)

# What is done to the data; the error, words of it and of its suggestion, and the witness.
REFUSED = {
    "a repeated token": (
        lambda d: changed(d, contexts=((4, 2), d.contexts[4, 0])),
        AssumptionError, "context of example 4 has rank 2", "positional encoding",
        "example 4, tokens (0, 2): 1*[0] - 1*[2] = 0"),
    "dependent huge tokens": (
        with_huge_sum, AssumptionError, "example 6 has rank 2", "drop",
        "example 6, tokens (0, 1, 2): 1*[0] - 1.5*[1] - 0.5*[2] = 0"),
    "a shared context of rank 1": (
        lambda _: FEW, AssumptionError, "has rank 1", "drop",
        "example 0, tokens (0, 1): 1*[0] - 0.5*[1] = 0"),
    "more tokens than dimensions": (
        lambda _: WIDE, AssumptionError, "n=4 tokens in d=3 dimensions", "at most n=3", 4),
    "tokens below float64": (
        lambda d: rescaled(d, contexts=1e-200),
        DataError, "outside 1e-100 to 1e100", r"multiply contexts by 1e\+200", None),
    "queries of zeros": (
        lambda d: rescaled(d, queries=0.0), DataError, "outside 1e-100", "not all zero", 0.0),
    "dependent queries in a group": (
        lambda d: changed(d, queries=(2, d.queries[0] - 2 * d.queries[1])),
        AssumptionError, "one group, have rank 2", "another order", (0, 1, 2)),
    "a zero query": (
        lambda d: changed(d, queries=(5, 0.0)), AssumptionError, "one group",
        "another order", (5,)),
    "an earlier query in the span of a group": (
        lambda d: changed(d, queries=(0, d.queries[3] + d.queries[4])),
        AssumptionError, r"lie \(numerically\) in the span of a group", "another order", (0,)),
    "one input with different targets": (
        lambda d: changed(d, contexts=(5, d.contexts[1]), queries=(5, d.queries[1]),
                          targets=(5, 9.0)),
        DataError, "different targets", "", (1, 5)),
    "one input up to the order of tokens": (
        lambda d: changed(d, contexts=(5, d.contexts[1, ::-1]), queries=(5, d.queries[1])),
        DataError, "examples 1 and 5 are the same input", "", (1, 5)),
    "one input twice": (
        lambda d: d.take([0, 1, 2, 3, 4, 5, 1]),
        AssumptionError, "examples 1 and 6 are the same input", "distinct", (1, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_data_that_saturated_heads_do_not_take(data, name):
    change, error, words, suggestion, witness = REFUSED[name]
    with pytest.raises(error, match=words) as caught:
        build_memorizer(change(data), num_heads=3, construction="saturated")
    assert re.search(suggestion, caught.value.suggestion)
    assert witness in (None, caught.value.witness)


def test_a_plan_does_not_take_contexts_of_more_than_d_tokens():
    assert explain(WIDE, num_heads=1).plan.construction == "generic"


@pytest.mark.parametrize(
    "name", ["one input twice", *(name for name in REFUSED if REFUSED[name][1] is DataError)]
)
def test_data_that_no_construction_takes(data, name):
    change, error, words, _, _ = REFUSED[name]
    with pytest.raises(error, match=words):
        build_memorizer(change(data), num_heads=3)


@pytest.mark.parametrize(
    ("targets", "error"), [([0, 1, 2], DataError), ([1, 1, 1], AssumptionError)]
)
def test_equal_inputs_are_named_where_heads_are_counted(targets, error):
    data = Dataset(np.ones((3, 2, 2)), np.ones((3, 2)), targets)
    with pytest.raises(error, match="examples 0 and 1 are the same input"):
        build_memorizer(data)


def test_equal_inputs_are_named_where_different_ones_are_counted():
    """Eight heads' worth of examples and one of them again: some weights memorize all nine."""
    drawn = generators.uniform(num_examples=8, context_size=2, width=2, seed=0)
    twice = drawn.take([*range(8), 7])
    with pytest.raises(AssumptionError, match="examples 7 and 8 are the same input"):
        build_memorizer(twice, num_heads=4, construction="generic")
    assert "allow 8 of these 8 different inputs (9 examples) at most" in str(
        explain(twice, num_heads=4)
    )
    memorizer = build_memorizer(drawn, num_heads=4)
    assert certify(memorizer, twice, claims=["error"]).proved


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-1060, 5e-324])
def test_tokens_near_the_smallest_float_are_built(size):
    contexts = [[[-2.0, 0.0, 0.0], [size, 0.0, 0.0]], [[0.0, -2.0, 0.0], [-2.0, 0.0, 0.0]]]
    data = Dataset(contexts, np.eye(3)[:2], [1.0, 2.0])
    assert build_memorizer(data, num_heads=1).max_error(data) < 1e-12
    assert build_memorizer(data).max_error(data) < 1e-12


def test_a_sum_of_logits_that_cancels_is_found_to_be_rounding():
    """float64 is right to 1e-14 where it makes one error twice, and real numbers are not."""
    contexts = [[1.1, 3.3, 2.0, 1.1], [1.0, 2.2, -3.3, -1.0], [0.0, 0.0, -7e-103, 0.0]]
    queries = [[3.0, 0.0, 1.1, 3.0], [-1.1, 0.0, -1.0, 3e-236], [0.0, -2.0, 0.0, -1.0]]
    queries += [[-3.3, -2.0, 0.0, 5e-260], [0.0, 1e-107, 1.0, 0.0], [1.1, 2.2, 0.0, 3.0]]
    data = Dataset(contexts, queries, [-1.1, 1.0, 0.0, -3.0, 0.0, -3.3])
    memorizer = build_memorizer(data)
    assert certify(memorizer, data, claims=["error"]).proved


@pytest.mark.parametrize("seed", range(15, 18))
def test_entries_of_all_sizes_are_built_or_refused(seed):
    """In three parts, and without a warning of numpy."""
    rng = np.random.default_rng(seed)
    total, size, width = (int(rng.integers(*ends)) for ends in ((2, 8), (1, 4), (2, 6)))
    shapes = (total, size, width), (total, width), (total,)
    arrays = (rng.integers(-3, 4, s) * 2.0 ** rng.integers(-60, 60, s) for s in shapes)
    with suppress(ConstructiveError):
        data = Dataset(*arrays)
        build_memorizer(data, num_heads=8, construction="paired", tolerance=1e99)


def test_float64_says_when_it_cannot_carry_the_readout():
    data = generators.shared_context(num_examples=621, context_size=32, width=64)
    with pytest.raises(PrecisionError, match="float64 cannot carry this readout") as caught:
        build_memorizer(data, num_heads=20, construction="rank_one")
    assert caught.value.witness["condition"] > 1e12
    assert "precision=" in caught.value.suggestion
    assert "construction='saturated'" in caught.value.suggestion
    wide = generators.shared_context(num_examples=94, context_size=32, width=20)
    with pytest.raises(PrecisionError, match="float64 cannot carry this readout") as caught:
        build_memorizer(wide, num_heads=5)
    assert "saturated" not in caught.value.suggestion  # there are none with n > d


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"construction": "magic"}, "unknown construction='magic'"),
        ({"num_heads": 0}, "num_heads=0 is not a positive integer"),
        ({"num_heads": 2.5}, "num_heads=2.5 is not a positive integer"),
        ({"head_dim": -1}, "head_dim=-1 is not a positive integer"),
        ({"value_dim": 0}, "value_dim=0 is not a positive integer"),
        ({"saturated_fraction": 1.5}, "saturated_fraction=1.5 is not a share"),
        ({"saturated_fraction": float("nan")}, "saturated_fraction=nan is not a share"),
        ({"tolerance": 0.0}, "tolerance=0.0 is not positive"),
        ({"seed": -1}, "seed=-1 is not a non-negative integer"),
    ],
)
def test_arguments_which_make_no_sense(data, arguments, text):
    with pytest.raises(ParameterError) as caught:
        build_memorizer(data, **{"num_heads": 3, **arguments})
    assert text in str(caught.value)
    assert "  try: " in str(caught.value)


def test_data_which_no_theorem_of_groups_takes_are_built_all_the_same(data):
    """Dependent queries, dependent tokens, too many tokens: random heads ask for none of that."""
    same = Dataset(data.contexts, np.tile(data.queries[:1], (7, 1)), data.targets)
    wide = generators.gaussian(num_examples=2, context_size=4, width=3)
    for broken in (same, wide, changed(data, contexts=((4, 2), data.contexts[4, 0]))):
        memorizer = build_memorizer(broken, num_heads=3)
        assert memorizer.record.construction in ("rank_one", "generic")
        assert memorizer.max_error(broken) < 1e-6
        assert certify(memorizer, broken).proved


# The recipe of each head, W = W* + c u w^T, against the weights, the group and the attention.


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
