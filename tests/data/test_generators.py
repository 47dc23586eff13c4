"""The generators do what their names say, and the same again for the same seed."""

import itertools

import flint
import numpy as np
import pytest

from constructive import DataError, ParameterError, generators

ALL = [
    generators.uniform,
    generators.shared_context,
    generators.gaussian,
    generators.bag_of_tokens,
    generators.moment_curve,
    generators.integers,
]


@pytest.mark.parametrize("make", ALL)
def test_shapes_and_seeds(make):
    sizes = {"num_examples": 6, "context_size": 3, "width": 5}
    data = make(**sizes, target_dim=2, seed=1)
    shape = (3, 5) if make is generators.shared_context else (6, 3, 5)
    assert (data.contexts.shape, data.queries.shape) == (shape, (6, 5))
    assert (data.targets.shape, make(**sizes).targets.shape) == ((6, 2), (6,))
    again, other = make(**sizes, target_dim=2, seed=1), make(**sizes, target_dim=2, seed=2)
    assert (data.contexts == again.contexts).all()
    assert (data.contexts != other.contexts).any()


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("value", [0, -1, 2.0, True, None, "3"])
@pytest.mark.parametrize("name", ["num_examples", "context_size", "width", "target_dim", "seed"])
def test_counts_and_seeds_which_make_no_sense(make, name, value):
    options = {"num_examples": 6, "context_size": 3, "width": 5, name: value}
    if (name, value) in {("target_dim", None), ("seed", 0)}:
        assert make(**options).num_examples == 6
        return
    kind = "non-negative" if name == "seed" else "positive"
    with pytest.raises(ParameterError) as caught:
        make(**options)
    assert caught.value.problem == f"{name}={value!r} is not a {kind} integer"
    assert caught.value.witness == value


@pytest.mark.parametrize("largest", [-1, 1.5, 2**63, None])
def test_largest_entries_which_make_no_sense(largest):
    with pytest.raises(ParameterError, match=f"largest={largest} is not an integer from 0") as it:
        generators.integers(num_examples=2, context_size=3, width=5, largest=largest)
    assert it.value.witness == largest


@pytest.mark.parametrize("largest", [0, 2**63 - 1, np.uint8(7)])
def test_largest_entries_of_any_integer(largest):
    data = generators.integers(num_examples=9, context_size=3, width=5, largest=largest)
    same = generators.integers(num_examples=9, context_size=3, width=5, largest=int(largest))
    assert (data.contexts == same.contexts).all()
    assert np.abs(data.contexts).max() <= largest


@pytest.mark.parametrize("nodes", [[], [-1, 0], [3, 1, 3]])
def test_nodes_which_are_no_points_of_the_moment_curve(nodes):
    with pytest.raises(DataError, match="nodes are not different integers of 0 or more") as caught:
        generators.moment_curve_points(np.array(nodes, dtype=np.int64), 3)
    assert caught.value.witness == str(nodes)
    with pytest.raises(ParameterError, match="width=0"):
        generators.moment_curve_points(np.arange(3), 0)


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_uniform_is_in_the_unit_interval(make):
    data = make(num_examples=200, context_size=3, width=5)
    for array in (data.contexts, data.queries, data.targets):
        assert array.min() >= 0
        assert array.max() < 1


def test_contexts_from_a_bag_hold_different_tokens_of_it():
    data = generators.bag_of_tokens(num_examples=50, context_size=6, width=4, bag_size=9)
    tokens = data.contexts.reshape(-1, 4)
    assert len(np.unique(tokens, axis=0)) == 9
    assert all(len(np.unique(context, axis=0)) == 6 for context in data.contexts)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (3, "bag_size=3 is less than context_size=4"),
        (-1, "bag_size=-1 is not a positive integer"),
        (9.5, "bag_size=9.5 is not a positive integer"),
    ],
)
def test_a_bag_which_is_too_small(size, words):
    with pytest.raises(ParameterError, match=words):
        generators.bag_of_tokens(num_examples=2, context_size=4, width=5, bag_size=size)


@pytest.mark.parametrize(("count", "width"), [(7, 3), (6, 4), (5, 5), (3, 6)])
def test_moment_curve_has_its_kruskal_rank_exactly(count, width):
    queries = generators.moment_curve(num_examples=count, context_size=1, width=width).queries
    size = min(count, width)
    for chosen in itertools.combinations(range(count), size):
        matrix = flint.fmpz_mat([[int(x) for x in queries[i]] for i in chosen])
        assert matrix.rank() == size


def test_integers_are_integers():
    data = generators.integers(num_examples=50, context_size=3, width=5, largest=4)
    for array in (data.contexts, data.queries, data.targets):
        assert (array == np.round(array)).all()
        assert np.abs(array).max() == 4
