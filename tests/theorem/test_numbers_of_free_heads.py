"""Free heads: the numbers of page 24 against exact ranks and their definitions; and fixed heads."""

import numpy as np
import pytest

from constructive import (
    Dataset,
    ParameterError,
    build_memorizer,
    capacity,
    certify,
    check,
    generators,
    upper_bound_certificate,
)
from constructive.data.dataset import different_inputs
from constructive.theory.free_heads import (
    Dimensions,
    draw_weights,
    draw_zero_point,
    equal_rank,
    factors_at,
    free_capacity,
    heads_at_load,
    measured_examples,
    most_examples,
    uniform_rank,
    zero_point,
)


@pytest.mark.parametrize("shared", [False, True])
def test_the_best_partition_is_found(shared):
    for tokens, head_dim, heads in np.ndindex(4, 4, 13):
        for differences, queries in np.ndindex(tokens + 2, 4):
            data = Dimensions(tokens + 1, differences, queries + 1, differences, shared)
            found = zero_point(heads + 1, head_dim + 1, data)
            best = [0]
            for count in range(1, heads + 2):
                best.append(
                    max(
                        best[count - size] + equal_rank(size, head_dim + 1, data) + differences
                        for size in range(1, count + 1)
                    )
                )
            ranks = [best[-1]]
            if not shared:
                ranks += [
                    best[heads + 1 - some] + uniform_rank(some, head_dim + 1, data) + differences
                    for some in range(2, min(heads + 1, differences + 1) + 1)
                ]
            assert found.rank == max(ranks) + data.tokens - differences
            assert found.uniform + sum(found.equal) == heads + 1


def test_numbers_of_usual_shapes():
    """The table of page 24."""
    for heads, width, head_dim, rank, most in (
        (4, 64, 16, 5_392, 7_424),
        (64, 64, 1, 7_498, 12_224),
        (12, 768, 64, 1_033_536, 1_139_712),
        (96, 12_288, 128, 296_728_448, 301_596_672),
    ):
        data = Dimensions(width, width, width, width)
        assert zero_point(heads, head_dim, data).rank == rank
        assert most_examples(heads, head_dim, data) == most


def data_of(total, size, width, *, shared=False, seed=0):
    make = generators.shared_context if shared else generators.uniform
    return make(num_examples=total, context_size=size, width=width, seed=seed)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("heads", "head_dim", "size", "width"),
    [(2, 4, 3, 8), (3, 2, 5, 6), (6, 1, 4, 6), (4, 5, 2, 5), (5, 3, 3, 4)],
)
def test_ranks_at_zero_points_and_elsewhere(heads, head_dim, size, width, shared):
    """Floats of 53 bits: as many rows are independent as the theorems say, and no more."""
    data = Dimensions.of_sizes(size, width, shared_context=shared)
    rng = np.random.default_rng(0)
    point = zero_point(heads, head_dim, data)
    drawn = data_of(point.rank + 3, size, width, shared=shared, seed=1)
    base = draw_zero_point(point, width, head_dim, 1, rng)
    assert not any(base.readouts[group].sum(axis=0).any() for group in base.groups)
    assert factors_at(base, drawn, rng).rank == point.rank
    most = most_examples(heads, head_dim, data)
    drawn = data_of(most + 3, size, width, shared=shared, seed=1)
    assert factors_at(draw_weights(heads, width, head_dim, 1, rng), drawn, rng).rank == most


def test_heads_at_a_load_are_the_fewest():
    data = Dimensions(61, 19, 61, 7)
    for total, m in ((1797, 1), (1797, 2), (300, 10)):
        heads = heads_at_load(total, 4, data, m=m)
        assert 0.8 * measured_examples(heads, 4, data, m=m) >= total
        assert 0.8 * measured_examples(heads - 1, 4, data, m=m) < total
    assert heads_at_load(4, 2, Dimensions(3, 0, 5, 0)) is None


def bounds(data, heads, head_dim):
    different = different_inputs(data)
    return free_capacity(data, heads, head_dim, np.random.default_rng(0), different=different)


def test_bounds_for_data():
    drawn = data_of(120, 3, 6)
    found = bounds(drawn, 2, 2)
    assert (found.at_least, found.at_most) == (30, 52)
    repeated = drawn.take([0, 1, 2, 0, 0])
    assert (bounds(repeated, 2, 2).at_least, bounds(repeated, 2, 2).at_most) == (3, 3)


def test_the_examples_to_blame_are_found_among_others():
    """40 examples have two tokens on one line, and are too many; 10 others are not."""
    drawn = data_of(50, 2, 5)
    contexts = np.array(drawn.contexts)
    contexts[10:] = np.outer([1.0, 3.0], np.ones(5))
    found = bounds(Dataset(contexts, drawn.queries, np.zeros(50)), 2, 1)
    assert found.blamed.tolist() == list(range(10, 50))
    # 10 others; 2 heads with r (delta + q - r) = 1 (1 + 5 - 1), k = 1 and delta = 1
    assert found.at_most == 10 + 2 * 5 + 1 + 1
    assert found.at_least <= found.at_most


def test_several_outputs():
    drawn = data_of(20, 4, 6)
    targets = np.zeros((20, 2))
    found = bounds(Dataset(drawn.contexts, drawn.queries, targets), 3, 2)
    assert found.at_least == 20
    apart = bounds(Dataset(drawn.contexts, drawn.queries, np.zeros((20, 12))), 12, 1)
    assert apart.at_least >= 6  # each output has one head, which has k by its readout
    assert apart.at_most >= apart.at_least


def test_outputs_that_attention_does_not_move():
    """One head moves an output within the span of the differences of two tokens: one dimension."""
    drawn = data_of(9, 2, 4)
    found = bounds(Dataset(drawn.contexts, drawn.queries, np.zeros((9, 2))), 1, 4)
    assert found.at_most == 8  # (9 + 2 x 4) / 2
    assert (
        capacity(num_heads=1, head_dim=4, context_size=2, width=4, target_dim=2).free.at_most == 8
    )


def test_fixed_heads_are_free_heads():
    drawn = data_of(50, 3, 6)
    different = different_inputs(drawn)
    found = free_capacity(drawn, 2, 2, np.random.default_rng(0), different=different, fixed=45)
    assert (found.at_least, found.why_at_least) == (45, "fixed heads")


# The public function, for sizes and for data.


def numbers(found):
    return [(some.at_least, some.at_most) for some in (found.fixed, found.free)]


def test_what_fixed_heads_memorize_whole_is_not_searched_again():
    data = generators.uniform(num_examples=7, context_size=3, width=5, target_dim=4)
    twice = Dataset(*(np.concatenate([part, part]) for part in (
        data.contexts, data.queries, data.targets
    )))  # fmt: skip
    found = capacity(twice, num_heads=2, head_dim=2)
    assert (found.fixed.at_least, found.free.at_least, found.free.at_most) == (7, 7, 7)
    assert found.free.why_at_least == "fixed heads"


def test_capacity_of_sizes_and_of_data_agree():
    sizes = capacity(num_heads=3, head_dim=2, context_size=4, width=6)
    assert numbers(sizes) == [(18, 18), (44, 78)]
    drawn = data_of(90, 4, 6)
    assert numbers(capacity(drawn, num_heads=3, head_dim=2)) == [(18, 18), (44, 78)]
    few = capacity(drawn.take(range(30)), num_heads=3, head_dim=2)
    assert numbers(few) == [(18, 18), (30, 30)]
    assert "free heads, all" in str(few)


def test_capacity_of_one_head_and_of_one_token():
    alone = capacity(num_heads=1, head_dim=3, context_size=4, width=6)
    assert numbers(alone) == [(6, 6), (6, 33)]
    single = capacity(num_heads=5, head_dim=3, context_size=1, width=6)
    assert numbers(single) == [(6, 6), (6, 6)]


def test_capacity_of_several_outputs_is_below_that_of_one():
    shape = {"num_heads": 4, "head_dim": 3, "context_size": 5, "width": 12}
    found = [numbers(capacity(**shape, target_dim=m))[1] for m in (1, 2, 3, 40, 200)]
    assert all(low <= high for low, high in found)
    assert found == sorted(found, reverse=True)
    assert found[2][0] == 48  # H d d_h / 3, by Theorem 40 (b), and H d
    assert found[-1][0] == 48  # fixed heads


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_heads": 0, "head_dim": 1}, "num_heads=0"),
        ({"num_heads": 2, "head_dim": 1}, "neither a dataset nor its sizes"),
        ({"num_heads": 2, "head_dim": 1, "width": 3}, "neither a dataset nor its sizes"),
        ({"num_heads": 10**30, "head_dim": 1, "width": 3, "context_size": 2}, "is too large"),
        ({"num_heads": 2, "head_dim": 1, "width": 0, "context_size": 2}, "width=0"),
    ],
)
def test_capacity_of_what_makes_no_sense(options, words):
    with pytest.raises(ParameterError, match=words):
        capacity(**options)


def test_capacity_has_data_or_sizes():
    for sizes in ({"width": 3}, {"target_dim": 1}, {"shared_context": True}):
        with pytest.raises(ParameterError, match=f"own sizes, and {next(iter(sizes))}="):
            capacity(data_of(4, 3, 3), num_heads=1, head_dim=1, **sizes)
    with pytest.raises(ParameterError, match="seed=-1"):
        capacity(data_of(4, 3, 3), num_heads=1, head_dim=1, seed=-1)


# Exact ranks on small datasets, generic and in special position, against the numbers.


def special(rng, total, width):
    """Contexts of few words, with constants, lines, grids or translates, and any queries."""
    kind, words = int(rng.integers(5)), rng.integers(-2, 3, (5, width))
    if kind == 1:
        words[:, 0] = 1
    if kind == 2:
        words = np.outer(np.arange(-2, 3), rng.integers(-2, 3, width))
    contexts = words[rng.integers(0, 5, (total, 4))]
    if kind == 3:
        steps = rng.integers(-2, 3, (3, total, width))
        contexts = np.stack([steps[2], steps[2] + steps[0], steps[2] + steps[1], steps.sum(0)], 1)
    if kind == 4:
        contexts = contexts[:1] + rng.integers(-2, 3, (total, 1, width))
    some = rng.integers(-1, 2, (3, width))[rng.integers(0, 3, total)]
    queries = rng.integers(-99, 100, (total, width)) if rng.random() < 0.5 else some
    return Dataset(contexts.astype(float), queries.astype(float), np.zeros(total))


@pytest.mark.slow
def test_numbers_against_exact_ranks_on_small_data_sets():
    """400 datasets: never above c_1, and at most the number of a zero point for generic data.

    Chance is about a prime of 22 bits: a rank that is found may be one less in one of 10,000.
    """
    counts = {"below": 0, "reached": 0}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        width, heads, head_dim, total = (int(x) for x in rng.integers((1, 1, 1, 4), (5, 5, 5, 40)))
        data = special(rng, total, width)
        data = data.take(different_inputs(data))
        found = free_capacity(data, heads, head_dim, rng, different=np.arange(data.num_examples))
        assert 0 <= found.at_least <= found.at_most <= data.num_examples
        shape = (width, head_dim, 1, rng)
        spanned = Dimensions.of_data(data)
        point = zero_point(heads, head_dim, spanned)
        assert factors_at(draw_zero_point(point, *shape), data, rng).rank <= found.at_most
        at_random = factors_at(draw_weights(heads, *shape), data, rng).rank
        assert at_random <= found.at_most
        counts["reached" if at_random == found.at_most else "below"] += 1
    assert counts["reached"] > 300, counts


@pytest.mark.slow
def test_zero_points_reach_their_numbers_on_generic_data():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        width, heads, head_dim, size = (int(x) for x in rng.integers((1, 1, 1, 2), (6, 7, 6, 6)))
        shared = bool(rng.integers(2))
        data = Dimensions.of_sizes(size, width, shared_context=shared)
        point = zero_point(heads, head_dim, data)
        drawn = data_of(point.rank + 2, size, width, shared=shared, seed=seed)
        base = draw_zero_point(point, width, head_dim, 1, rng)
        assert factors_at(base, drawn, rng).rank == point.rank, (point, width, head_dim, size)


# Heads that are chosen before the targets, and heads that depend on them: both claims are true.


SOME = generators.gaussian(num_examples=64, context_size=8, width=16, seed=5)  # c(E; 2) = 32
README = generators.uniform(num_examples=20, context_size=3, width=5, seed=0)


@pytest.mark.parametrize(("data", "head_dim", "holds"), [(SOME, 8, 32), (README, 3, 10)])
def test_free_heads_memorize_what_no_fixed_heads_do_and_the_statements_do_not_contradict(
    data, head_dim, holds
):
    heads, total = 2, data.num_examples
    fixed = upper_bound_certificate(data, heads)
    assert fixed.proved
    assert check(fixed, None, data).proved
    # For all W_Q and W_K there are targets without a readout: the heads come before the targets.
    assert fixed["impossible"].statement == (
        f"for all W_Q and W_K of H = 2 heads rank Z <= {holds} on {total} different examples: "
        "whichever are chosen, some targets have no readout"
    )
    for seed in range(3):  # whatever the targets are, there are some weights
        targets = np.random.default_rng(seed).standard_normal(total)
        drawn = Dataset(data.contexts, data.queries, targets)
        sizes = {"num_heads": heads, "head_dim": head_dim}
        memorizer = build_memorizer(drawn, construction="tangent", **sizes)
        free = certify(memorizer, drawn, claims=["error", "rank"], epsilon=1e-6)
        assert free["error"].verdict.name == "PROVED"
        assert free["rank"].verdict.name == "REFUTED"  # these heads have no readout for others
        alone = certify(memorizer, drawn, claims="error", epsilon=1e-6)
        assert check(alone, memorizer, drawn).proved
