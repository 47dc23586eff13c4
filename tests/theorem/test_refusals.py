"""Data and arguments which must be refused: the error, its witness, and what it says to try."""

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    CapacityError,
    DataError,
    Dataset,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    generators,
    heads_needed,
)


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
    assert str(caught.value) == (
        "7 examples are too many for 2 saturated heads: the theorem allows "
        "H(min(n, d_h) - 1) + 1 = 5 (n=3, d_h=3)\n"
        "  witness: 7\n"
        "  try: num_heads=3; or keep 5 of the examples"
    )
    assert build_memorizer(data, num_heads=heads_needed(7, 3, 3)).max_error(data) < 1e-9


def test_too_narrow_saturated_heads_point_to_rank_one_heads(data):
    with pytest.raises(CapacityError, match="construction='rank_one', which memorizes") as caught:
        build_memorizer(data, num_heads=3, head_dim=2, construction="saturated")
    assert "num_heads=6" in caught.value.suggestion


def test_contexts_of_one_token_hold_d_examples():
    data = generators.gaussian(num_examples=3, context_size=1, width=3)
    assert build_memorizer(data, num_heads=2).max_error(data) < 1e-9
    data = generators.gaussian(num_examples=4, context_size=1, width=3)
    with pytest.raises(CapacityError, match="allow 3 at most") as caught:
        build_memorizer(data, num_heads=50)
    assert "softmax over one token is constant" in caught.value.suggestion
    with pytest.raises(CapacityError, match="softmax over one token is constant"):
        build_memorizer(data, num_heads=50, construction="saturated")


def test_repeated_token(data):
    broken = changed(data, contexts=((4, 2), data.contexts[4, 0]))
    with pytest.raises(AssumptionError, match="context of example 4 has rank 2") as caught:
        build_memorizer(broken, num_heads=3, construction="saturated")
    assert caught.value.witness == "example 4, tokens (0, 2): 1*[0] - 1*[2] = 0"
    assert "positional encoding" in caught.value.suggestion


@pytest.mark.parametrize("factor", [1.0, 1e-99, 1e99])
def test_dependent_tokens_of_any_scale(data, factor):
    combination = 2 * data.contexts[6, 0] - 3 * data.contexts[6, 1]
    broken = changed(data, contexts=((6, 2), combination))
    broken = Dataset(broken.contexts * factor, broken.queries, broken.targets)
    with pytest.raises(AssumptionError, match="context of example 6 has rank 2"):
        build_memorizer(broken, num_heads=3, construction="saturated")


@pytest.mark.parametrize(
    ("factor", "text"),
    [(1e200, "multiply contexts by 1e-200"), (1e-200, "multiply contexts by 1e+200")],
)
def test_numbers_whose_products_leave_float64(data, factor, text):
    scaled = Dataset(data.contexts * factor, data.queries, data.targets)
    with pytest.raises(DataError, match="outside 1e-100 to 1e100") as caught:
        build_memorizer(scaled, num_heads=3)
    assert text in caught.value.suggestion


def test_all_queries_zero(data):
    with pytest.raises(DataError, match="not all zero"):
        build_memorizer(Dataset(data.contexts, 0 * data.queries, data.targets), num_heads=3)


def test_each_entry_of_the_targets_has_to_be_within_its_own_tolerance():
    data = generators.shared_context(num_examples=301, context_size=16, width=64, target_dim=2)
    factors = np.array([1e9, 1.0])
    mixed = Dataset(data.contexts, data.queries, data.targets * factors)
    memorizer = build_memorizer(mixed, num_heads=20, construction="rank_one")
    errors = memorizer.predict(mixed.contexts, mixed.queries) - mixed.targets
    assert (np.abs(errors).max(axis=0) <= 1e-6 * factors).all()
    with pytest.raises(PrecisionError):
        build_memorizer(mixed, num_heads=20, construction="rank_one", tolerance=1e-12)


def test_zero_token(data):
    with pytest.raises(AssumptionError, match=r"tokens \(1,\)"):
        build_memorizer(
            changed(data, contexts=((2, 1), 0.0)), num_heads=3, construction="saturated"
        )


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_nearly_equal_tokens_are_not_called_dependent(data, distance, construction):
    nearly = data.contexts[4, 0] + distance * data.contexts[5, 1]
    close = changed(data, contexts=((4, 2), nearly))
    memorizer = build_memorizer(close, num_heads=3, construction=construction)
    assert memorizer.max_error(close) < 1e-6


def test_rank_deficient_shared_context():
    data = Dataset([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]], np.eye(3), [1, 2, 3])
    with pytest.raises(AssumptionError, match="has rank 1"):
        build_memorizer(data, num_heads=2, construction="saturated")


def test_more_tokens_than_dimensions():
    data = generators.gaussian(num_examples=2, context_size=4, width=3)
    with pytest.raises(AssumptionError, match="n=4 tokens in d=3 dimensions"):
        build_memorizer(data, num_heads=3, construction="saturated")


def test_dependent_queries_in_a_group(data):
    broken = changed(data, queries=(2, data.queries[0] - 2 * data.queries[1]))
    with pytest.raises(AssumptionError, match="one group, have rank 2") as caught:
        build_memorizer(broken, num_heads=3, construction="saturated")
    assert caught.value.witness == (0, 1, 2)


def test_parallel_queries_in_a_group_are_named(data):
    broken = changed(data, queries=(4, -3 * data.queries[3]))
    with pytest.raises(AssumptionError) as caught:
        build_memorizer(broken, num_heads=3, construction="saturated")
    assert caught.value.witness == (3, 4)


def test_zero_query(data):
    with pytest.raises(AssumptionError) as caught:
        build_memorizer(changed(data, queries=(5, 0.0)), num_heads=3, construction="saturated")
    assert caught.value.witness == (5,)


def test_a_later_query_may_be_in_the_span_of_a_group(data):
    """The groups are 0 to 2, 3 to 4 and 5 to 6, and the induction looks back only."""
    allowed = changed(data, queries=(6, data.queries[3] + data.queries[4]))
    assert build_memorizer(allowed, num_heads=3).max_error(allowed) < 1e-9


def test_an_earlier_query_in_the_span_of_a_group(data):
    broken = changed(data, queries=(0, data.queries[3] + data.queries[4]))
    with pytest.raises(
        AssumptionError, match=r"lie \(numerically\) in the span of a group"
    ) as caught:
        build_memorizer(broken, num_heads=3, construction="saturated")
    assert caught.value.witness == (0,)


def test_the_same_input_with_different_targets(data):
    broken = changed(
        data, contexts=(5, data.contexts[1]), queries=(5, data.queries[1]), targets=(5, 9.0)
    )
    with pytest.raises(DataError, match="different targets") as caught:
        build_memorizer(broken, num_heads=3)
    assert caught.value.witness == (1, 5)


def test_the_same_input_up_to_the_order_of_tokens(data):
    broken = changed(data, contexts=(5, data.contexts[1, ::-1]), queries=(5, data.queries[1]))
    with pytest.raises(DataError, match="examples 1 and 5 are the same input"):
        build_memorizer(broken, num_heads=3)


def test_the_same_input_twice_with_one_target(data):
    broken = data.take([0, 1, 2, 3, 4, 5, 1])
    with pytest.raises(AssumptionError, match="examples 1 and 6 are the same input"):
        build_memorizer(broken, num_heads=3)


def test_equal_queries_with_different_contexts_are_not_the_same_input(data):
    # Groups of one: a query of another group in the span is allowed for by the fraction.
    equal = changed(data, queries=(5, data.queries[1]))
    memorizer = build_memorizer(equal, num_heads=7, saturated_fraction=0.5)
    assert memorizer.max_error(equal) < 1e-6


def test_float64_says_when_it_cannot_carry_the_readout():
    data = generators.shared_context(num_examples=621, context_size=32, width=64)
    with pytest.raises(PrecisionError, match="float64 cannot carry this readout") as caught:
        build_memorizer(data, num_heads=20, construction="rank_one")
    assert caught.value.witness["condition"] > 1e12
    assert "precision=" in caught.value.suggestion
    assert "construction='saturated'" in caught.value.suggestion


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
