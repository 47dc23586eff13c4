"""Nobody else can write to the arrays of data sets and layers: what was checked stays as it was."""

import copy
import dataclasses
import pickle
import tracemalloc
from array import array
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    ExtendedLayer,
    ParameterError,
    RationalDataset,
    RationalLayer,
    SequenceDataset,
    assumptions,
    build_memorizer,
    generators,
    token_mixing,
)
from constructive.data.dataset import owning
from constructive.support.arrays import frozen, private


def layer():
    rng = np.random.default_rng(0)
    shapes = (2, 3, 2), (2, 3, 2), (2, 3, 1), (2, 1), (1, 1)
    return AttentionLayer(*map(rng.standard_normal, shapes))


MADE = {
    "Dataset": lambda: Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7]),
    "AttentionLayer": layer,
    "ExtendedLayer": lambda: ExtendedLayer(layer(), np.zeros((1, 2, 3, 1)), 106),
    "RationalDataset": lambda: RationalDataset([[1, 0], [1, 1]], [[2, 3]], [Fraction(1, 3)]),
    "RationalLayer": lambda: RationalLayer(*[np.full((1, 1, 1), Fraction(1))] * 2, np.eye(1)),
    "Memorizer": lambda: build_memorizer(
        generators.uniform(num_examples=7, context_size=3, width=5), num_heads=3
    ),
    "SequenceDataset": lambda: SequenceDataset.of(["ab", "bc"], [1, 2]),
    "Regrouping": lambda: assumptions.regroup(
        generators.uniform(num_examples=7, context_size=3, width=5), 3
    ),
}
COPIES = {
    "itself": lambda thing: thing,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),  # noqa: S301 - our own
    "first pickle": lambda thing: pickle.loads(pickle.dumps(thing, protocol=0)),  # noqa: S301
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
}


def arrays(thing):
    """All arrays which a thing has, those of its parts too."""
    for value in vars(thing).values():
        if isinstance(value, np.ndarray):
            yield value
        elif dataclasses.is_dataclass(value) and isinstance(value, AttentionLayer):
            yield from arrays(value)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", MADE)
def test_arrays_are_read_only_and_stay_so(name, way):
    thing = MADE[name]()
    found = COPIES[way](thing)
    assert type(found) is type(thing)
    assert list(arrays(found))
    for kept, original in zip(arrays(found), arrays(thing), strict=True):
        assert (kept == original).all()
        assert kept.dtype == original.dtype
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept.flags.writeable = True
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept[:1].flags.writeable = True
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(found, next(iter(vars(found))), 0)


class Tensor:
    """Converts itself, to the same memory each time, whatever it is asked for."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def relocked(values):
    """A read-only array which its owner makes writable again."""
    values.flags.writeable = False
    return values


def unlock(values):
    values.flags.writeable = True
    return values


WAYS = {
    "array": (lambda values: values, lambda values: values),
    "view": (lambda values: values[:], lambda values: values),
    "read-only": (relocked, unlock),
    "read-only view": (lambda values: relocked(values[:]), lambda values: values),
    "Fortran": (np.asfortranarray, None),
    "tensor": (torch.from_numpy, lambda values: values),
    "converts itself": (Tensor, lambda values: values),
    "memory": (memoryview, lambda values: values),
    "subclass": (lambda values: values.view(np.ma.MaskedArray), lambda values: values),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_happens_to_the_original_changes_nothing(way):
    give, reach = WAYS[way]
    contexts, queries, targets = np.array([np.eye(2)] * 2), np.eye(2), np.array([1.0, 2.0])
    given = [give(values) for values in (contexts, queries, targets)]
    data = Dataset(*given)
    originals = given if reach is None else map(reach, (contexts, queries, targets))
    for values in originals:
        values[...] = np.nan
    assert (data.contexts == np.eye(2)).all()
    assert data.queries.tolist() == [[1, 0], [0, 1]]
    assert data.targets.tolist() == [1, 2]
    assert np.isfinite(build_memorizer(data, num_heads=2).max_error(data))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_for_weights(way):
    give, reach = WAYS[way]
    made = [weights.copy() for weights in layer().tensors.values()]
    given = [give(weights) for weights in made]
    kept = AttentionLayer(*given)
    corrections = np.zeros((1, 2, 3, 1))
    extended = ExtendedLayer(kept, give(corrections), 106)
    for weights in given if reach is None else map(reach, [*made, corrections]):
        weights[...] = np.nan
    assert all(np.isfinite(weights).all() for weights in kept.tensors.values())
    assert (extended.corrections == 0).all()


def test_other_things_which_are_arrays():
    numbers = array("d", [1, 2])
    data = Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], numbers)
    numbers[0] = float("nan")
    assert data.targets.tolist() == [1, 2]
    rows = [[2.0, 3.0], [4.0, 6.0]]
    data = Dataset([[1, 0], [1, 1]], rows, [5, 7])
    rows[0][0] = float("nan")
    assert data.queries[0, 0] == 2
    large = np.ones((100, 4))
    data = Dataset(large[::50, ::2], large[::50, 1::2], large[::50, 0])
    assert data.queries.base.nbytes == 32  # not the large one
    weights = [[[1.0], [0.0]]], [[[1.0], [0.0]]], [[[1.0], [0.0]]], [[1.0]], [[1.0]]
    assert AttentionLayer(*weights).num_parameters == 8


def test_weights_which_are_no_arrays():
    weights = list(layer().tensors.values())
    weights[1] = [[torch.ones(2, requires_grad=True)] * 3] * 2
    with pytest.raises(ParameterError) as caught:
        AttentionLayer(*weights)
    assert str(caught.value).startswith("key_weights is not an array: Can't call numpy() on Tensor")
    assert "torch.stack" in caught.value.suggestion


def test_weights_with_gradients_are_copied():
    weights = list(layer().tensors.values())
    weights[1] = torch.ones((2, 3, 2), dtype=torch.float64, requires_grad=True)
    kept = AttentionLayer(*weights)
    with torch.no_grad():
        weights[1] *= 2.0
    assert (kept.key_weights == 1.0).all()
    with pytest.raises(ParameterError, match="corrections is not an array"):
        ExtendedLayer(layer(), [[1], [1, 2]], 106)


def spoilt(pickled, number):
    """The pickle with another number in the place of 12345."""
    before, after = (np.float64(x).tobytes() for x in (12345, number))
    assert pickled.count(before) == 1
    return pickled.replace(before, after)


def test_what_is_unpickled_is_checked():
    data = Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 12345])
    assert pickle.loads(spoilt(pickle.dumps(data), 6.0)).targets[1] == 6.0  # noqa: S301
    with pytest.raises(DataError, match=r"targets\[1\] is nan"):
        pickle.loads(spoilt(pickle.dumps(data), np.nan))  # noqa: S301
    weights = layer().tensors
    kept = AttentionLayer(*weights.values()).__reduce__()[1]
    kept = AttentionLayer(*kept[:-1], np.array([[12345.0]]))
    with pytest.raises(ParameterError, match=r"W_D\[0, 0\] is inf"):
        pickle.loads(spoilt(pickle.dumps(kept), np.inf))  # noqa: S301


def seen(thing):
    """What another process has of it, sent back."""
    return [kept.flags.writeable for kept in arrays(thing)], thing


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1) as processes:
        yield processes


@pytest.mark.parametrize("name", MADE)
def test_other_processes(pool, name):
    thing = MADE[name]()
    writable, back = pool.submit(seen, thing).result()
    assert not any(writable)
    for kept, original in zip(arrays(back), arrays(thing), strict=True):
        assert not kept.flags.writeable
        assert (kept == original).all()


def test_what_is_taken_over_is_not_copied_and_read_only():
    contexts, queries, targets = np.ones((2, 3, 4)), np.ones((2, 4)), np.ones(2)
    data = owning(contexts, queries.reshape(4, 2).T.reshape(2, 4), targets)
    assert np.shares_memory(data.contexts, contexts)
    assert np.shares_memory(data.targets, targets)
    assert not contexts.flags.writeable
    for kept in (data.contexts, data.queries, data.targets):
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept.flags.writeable = True
    with pytest.raises(DataError, match=r"targets\[1\] is nan"):
        owning(contexts, queries, np.array([1, np.nan]))
    with pytest.raises(DataError, match="2 queries have 3 targets"):
        owning(contexts, queries, np.ones(3))


def test_bases_of_views_are_frozen_too():
    base = np.zeros(6)
    view = frozen(base.reshape(2, 3)[:1])
    assert not base.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    assert private("it", [1, 2]).tolist() == [1, 2]


SIZES = {"num_examples": 2000, "context_size": 20, "width": 20}
NUM_BYTES = 8 * (2000 * 20 * 20 + 2000 * 20 + 2000)


def peak(function):
    """The largest share of the data that it takes beside what it returns, and what it returns."""
    tracemalloc.start()
    try:
        found = function()
        current, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (most - current) / NUM_BYTES, current / NUM_BYTES, found


MAKERS = {
    "uniform": lambda _: generators.uniform(**SIZES),
    "gaussian": lambda _: generators.gaussian(**SIZES),
    "moment_curve": lambda _: generators.moment_curve(**SIZES),
    "take": lambda data: data.take(np.arange(2000)[::-1]),
    "with_constant": lambda data: data.with_constant(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_here_is_not_copied_again(name):
    data = generators.uniform(**SIZES)
    beside, kept, _ = peak(lambda: MAKERS[name](data))
    assert beside < 0.3  # a mask of finite entries is an eighth
    assert kept < 1.2


def test_a_file_is_read_once(tmp_path):
    generators.uniform(**SIZES).save(tmp_path / "data.npz")
    beside, kept, data = peak(lambda: Dataset.load(tmp_path / "data.npz"))
    assert beside < 0.3
    assert kept < 1.1
    beside, kept, _ = peak(lambda: Dataset(data.contexts, data.queries, data.targets))
    assert beside < 0.3
    assert 0.9 < kept < 1.1  # while what comes from elsewhere is copied, once


def test_mixing_copies_nothing_more():
    data = generators.uniform(**SIZES)
    assert np.shares_memory(token_mixing(data).targets, data.targets)
