"""Contexts in folders, read as they are asked for; arrays in memory, which nobody else changes."""

import copy
import dataclasses
import hashlib
import os
import pickle
import tracemalloc
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytorch import torch

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    ExtendedLayer,
    FormatError,
    OutputError,
    ParameterError,
    RationalDataset,
    RationalLayer,
    SequenceDataset,
    build_memorizer,
    certify,
    generators,
    token_mixing,
    upper_bound_certificate,
)
from constructive.constructions.multihead.assumptions import repeated
from constructive.data import generators as drawn
from constructive.data.dataset import repeated_inputs
from constructive.data.stored import StoredContexts
from constructive.support.tensors import fingerprint

ARRAYS = "contexts", "queries", "targets"


@pytest.fixture
def data():
    return generators.gaussian(num_examples=61, context_size=4, width=12, dtype="f4", seed=4)


@pytest.fixture
def stored(data, tmp_path):
    data.save_folder(tmp_path / "data")
    return Dataset.open(tmp_path / "data")


def same(one, other):
    """By names, dtypes, shapes and bytes of the arrays, read as they are asked for."""
    assert fingerprint(one.arrays) == fingerprint(other.arrays)


# It is the dataset that was saved.


def test_what_is_known_without_reading_contexts(data, stored, rows_read):
    assert repr(stored) == repr(data)
    assert stored.context_shape == data.context_shape == (61, 4, 12)
    assert stored.context_dtype == data.context_dtype == np.float32
    assert stored.largest_token_entry == data.largest_token_entry == np.abs(data.contexts).max()
    assert stored.fingerprint() == data.fingerprint()
    assert stored == data == stored
    assert len({stored, data}) == 1
    assert stored != data.take(range(60))
    assert not stored.shared_context
    assert not rows_read
    same(stored, data)
    assert not stored.contexts.flags.writeable
    assert type(stored.contexts_of(slice(3))) is np.ndarray


def test_an_archive_is_opened_as_ever(data, tmp_path):
    data.save(tmp_path / "data.npz")
    same(Dataset.open(tmp_path / "data.npz"), data)
    with pytest.raises(FileNotFoundError):
        Dataset.open(tmp_path / "nothing")
    data.save_folder(tmp_path / "data")
    with pytest.raises(FormatError, match="folder") as caught:
        Dataset.load(tmp_path / "data")
    assert caught.value.suggestion.startswith("Dataset.open")


def test_integers_and_other_layouts_of_what_is_small(tmp_path):
    np.save(tmp_path / "contexts.npy", np.ones((3, 2, 4)))
    np.save(tmp_path / "queries.npy", np.asfortranarray(np.eye(3, 4, dtype=">f8")))
    np.save(tmp_path / "targets.npy", np.array([1, 2, 3]))
    opened = Dataset.open(tmp_path)
    assert opened.targets.dtype == np.float64
    assert (opened.queries == np.eye(3, 4)).all()
    assert opened.fingerprint() == Dataset(*(getattr(opened, x) for x in ARRAYS)).fingerprint()


@given(
    st.builds(slice, *[st.none() | st.integers(-12, 12)] * 2, st.sampled_from([None, 1, 2, -1]))
    | st.lists(st.integers(-9, 8), max_size=20).map(lambda rows: np.array(rows, dtype=np.int64))
    | st.lists(st.integers(0, 8), max_size=20).map(lambda rows: np.array(rows, dtype=np.uint8))
    | st.lists(st.booleans(), min_size=9, max_size=9).map(np.array)
)
def test_rows_are_those_of_numpy(tmp_path_factory, index):
    path = tmp_path_factory.mktemp("rows") / "x.npy"
    array = np.arange(9 * 6.0).reshape(9, 3, 2)
    np.save(path, array)
    found = StoredContexts.at(path).rows(index)
    assert found.shape == array[index].shape
    assert (found == array[index]).all()
    for beyond in ([9], [-10], [0, 99]):
        with pytest.raises(IndexError):
            StoredContexts.at(path).rows(np.array(beyond))


def test_chunks_blocks_and_what_is_taken(data, stored, rows_read):
    chunks = list(stored.context_chunks(chunk_bytes=8 * 4 * 12 * 7))
    assert [rows.stop - rows.start for rows, _ in chunks] == [7] * 8 + [5]
    assert (np.concatenate([contexts for _, contexts in chunks]) == data.contexts).all()
    assert (np.concatenate([block for _, block in stored.blocks()]) == data.contexts).all()
    assert np.concatenate(rows_read).tolist() == 2 * list(range(61))
    same(stored.take([3, -1, 0]), data.take([3, -1, 0]))
    same(stored.take(np.arange(61) % 7 == 0), data.take(np.arange(0, 61, 7)))
    assert stored.contexts_of(np.array([5, 2])).dtype == np.float64
    same(stored.with_constant(), data.with_constant())


def unpickled(dataset):
    return pickle.loads(pickle.dumps(dataset))  # noqa: S301 - our own


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, unpickled])
def test_copies_read_the_same_file(stored, again, rows_read):
    made = again(stored)
    assert made.on_disk == stored.on_disk
    assert not rows_read
    assert not made.queries.flags.writeable
    assert len(pickle.dumps(stored)) < 61 * 4 * 12 * 4  # a path, and not the contexts
    same(made, stored)


# Builds and certificates are the same, and pairs never hold the contexts.


@pytest.mark.parametrize(("heads", "construction"), [(12, "paired"), (20, "auto")])
def test_weights_and_certificates_are_the_same_bits(data, stored, heads, construction):
    memorizers = [
        build_memorizer(x, num_heads=heads, construction=construction) for x in (data, stored)
    ]
    assert memorizers[0].record == memorizers[1].record
    first, second = (memorizer.layer.tensors for memorizer in memorizers)
    assert all((first[name] == second[name]).all() for name in first)
    assert memorizers[0].max_error(data) == pytest.approx(memorizers[1].max_error(stored))
    assert certify(memorizers[0], data) == certify(memorizers[1], stored)


def test_few_contexts_are_read_at_a_time(tmp_path, monkeypatch, rows_read):
    """By all that a build, a certificate and a prediction do."""
    sizes = {"num_examples": 2000, "context_size": 32, "width": 32}
    data = generators.gaussian(**sizes, folder=tmp_path / "data", dtype="f4")
    monkeypatch.setattr(StoredContexts.blocks, "__defaults__", (1 << 20,))
    rows_read.clear()
    memorizer = build_memorizer(data, num_heads=136, construction="paired")
    # The assumptions and gaps, the own part of the heads, and what they read; five evaluations, as
    # the layer is and with inputs moved by their last bits; and some rows anew.
    assert 8.0 <= sum(map(len, rows_read)) / 2000 < 8.1 + memorizer.record.coupled / 2000
    assert certify(memorizer, data).proved
    assert memorizer.max_error(Dataset.open(tmp_path / "data")) < 1e-6
    assert max(map(len, rows_read)) * 4 * 32 * 32 <= 2 << 20 < 2000 * 4 * 32 * 32


def test_equal_inputs_are_found(tmp_path):
    contexts = np.random.default_rng(0).standard_normal((6, 3, 4))
    contexts[4] = contexts[1][::-1]
    queries = np.ones((6, 4))
    for order, found in ((contexts, (1, 4)), (contexts[:4], None)):
        data = Dataset(order, queries[: len(order)], np.arange(len(order)))
        data.save_folder(tmp_path / "data")
        stored = Dataset.open(tmp_path / "data")
        assert repeated_inputs(data) == repeated_inputs(stored) == found
    with pytest.raises(DataError, match="same input") as caught:
        repeated(Dataset(contexts, queries, np.arange(6)))
    assert caught.value.witness == (1, 4)


def test_inputs_whose_hashes_agree_are_compared(monkeypatch):
    data = generators.gaussian(num_examples=3, context_size=2, width=4)
    same = Dataset(data.contexts[[0, 1, 0]], data.queries[[0, 0, 0]], data.targets)
    monkeypatch.setattr("constructive.data.dataset.sha256", lambda _: hashlib.sha256())
    assert repeated_inputs(same.take([0, 1])) is None
    assert repeated_inputs(same) == (0, 2)


# What is wrong is named.


def changed(change):
    """Let a file have other bytes."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def holding(array):
    return lambda path: np.save(path, array)


def of_another_version(path):
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ones((61, 4, 12)), version=(2, 0))


def an_archive(path):
    with path.open("wb") as file:
        np.savez(file, np.ones(61))


def replaced_by(make):
    return lambda path: (path.unlink(), make(path))


WRONG = [
    ("targets", Path.unlink, "targets"),
    ("contexts", changed(lambda content: content[:-1]), "cut off"),
    ("contexts", changed(lambda content: content[:40]), ".npy"),
    ("contexts", changed(lambda _: b""), ".npy"),
    ("contexts", changed(lambda content: content + b"\0"), "more bytes"),
    ("contexts", holding(np.asfortranarray(np.ones((61, 4, 12)))), "columns"),
    ("contexts", holding(np.ones((61, 4, 12), dtype=int)), "int64"),
    ("contexts", holding(np.ones((61, 4, 12), dtype=">f4")), ">f4"),
    ("contexts", holding(np.array([{}] * 61)), "object"),
    ("contexts", of_another_version, "(2, 0)"),
    ("contexts", replaced_by(Path.mkdir), "regular"),
    ("targets", changed(lambda content: content[:-1]), "targets"),
    ("targets", holding(np.array([{}] * 61)), "targets"),
    ("targets", an_archive, "targets"),
    *((name, replaced_by(os.mkfifo), "regular") for name in ARRAYS),  # and not waited for
]


@pytest.mark.parametrize(("name", "spoil", "word"), WRONG)
def test_folders_that_are_not_data_sets(data, tmp_path, name, spoil, word):
    data.save_folder(tmp_path / "data")
    spoil(tmp_path / "data" / f"{name}.npy")
    with pytest.raises(FormatError) as caught:
        Dataset.open(tmp_path / "data")
    assert word in caught.value.problem
    assert caught.value.witness
    assert caught.value.suggestion


@pytest.mark.parametrize(
    ("name", "array", "word"),
    [
        ("classes", np.array(["cat"] * 2), "named twice"),
        ("classes", np.array(["cat", "dog"]), "2 classes are named"),
        ("classes", np.array([1.5]), "a float"),
        ("contexts", np.ones((60, 4, 12)), "60 contexts"),
        ("contexts", np.ones((61, 4, 11)), "d=11"),
        ("contexts", np.ones(61), "1 axes"),
        ("contexts", np.array(1.0), "0 axes"),
        ("contexts", np.ones((0, 4, 12)), "empty"),
        ("contexts", np.ones((0, 12)), "empty"),
        ("queries", np.full((61, 12), np.nan), r"queries\[0, 0\] is nan"),
        ("targets", np.ones(60), "60 targets"),
    ],
)
def test_arrays_that_are_not_a_data_set(data, tmp_path, name, array, word):
    data.save_folder(tmp_path / "data")
    np.save(tmp_path / "data" / f"{name}.npy", array)
    with pytest.raises(DataError, match=word):
        Dataset.open(tmp_path / "data")


@pytest.mark.parametrize(
    ("value", "index"), [(np.nan, (0, 0, 0)), (np.inf, (60, 3, 11)), (-np.inf, (33, 1, 7))]
)
def test_contexts_that_are_not_finite(data, tmp_path, monkeypatch, value, index):
    monkeypatch.setattr(StoredContexts.blocks, "__defaults__", (4 * 4 * 12 * 10,))
    contexts = data.contexts.copy()
    contexts[index] = value
    data.save_folder(tmp_path / "data")
    np.save(tmp_path / "data" / "contexts.npy", contexts)
    with pytest.raises(DataError) as caught:
        Dataset.open(tmp_path / "data")
    assert caught.value.problem == f"contexts{list(index)} is {value}"
    assert caught.value.witness == index


# What changes after it was opened is refused whenever it is read.


def replaced(path):
    """By another file with the same bytes and the same time."""
    status, content = path.stat(), path.read_bytes()
    path.rename(path.parent / "keeps the inode")
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def touched(path):
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))


CHANGES = {
    "another entry": (
        lambda p: (changed(lambda content: content[:-1] + b"\x7f")(p), touched(p)),
        "time of the last",
    ),
    "cut off": (changed(lambda content: content[:-4]), "its size"),
    "longer": (changed(lambda content: content + b"1234"), "its size"),
    "gone": (Path.unlink, "it is gone"),
    "another time": (touched, "its time of the last change"),
    "another file": (replaced, "its inode"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_is_refused(data, stored, change):
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    made, words = CHANGES[change]
    made(stored.on_disk.path)
    for work in (
        lambda: stored.contexts,
        lambda: stored.contexts_of(slice(0, 2)),
        lambda: list(stored.blocks()),
        lambda: stored.take([1]),
        lambda: stored[3],
        lambda: unpickled(stored)[3],
        lambda: build_memorizer(stored, num_heads=12, construction="paired"),
        lambda: certify(memorizer, stored),
        lambda: memorizer.max_error(stored),
    ):
        with pytest.raises(FormatError, match="has changed since it was opened") as caught:
            work()
        assert words in caught.value.problem
        assert caught.value.witness == str(stored.on_disk.path)
        assert "open it again" in caught.value.suggestion


def test_what_is_written_through_a_mapping_is_not_certified(data, stored):
    """A page that was written before does not change the time again, until it is on disk."""
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    path = stored.on_disk.path
    status = path.stat()
    mapped = np.load(path, mmap_mode="r+")
    mapped[-1, -1, -1] += 1.0
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert stored.contexts_of(slice(None))[-1, -1, -1] == mapped[-1, -1, -1]  # it is read
    for work in (
        lambda: certify(memorizer, stored),
        lambda: upper_bound_certificate(stored, num_heads=2),
    ):
        with pytest.raises(FormatError, match="its bytes"):
            work()
    mapped[-1, -1, -1] = np.nan
    with pytest.raises(FormatError, match="has changed"):
        stored.require_unchanged()
    mapped[-1, -1, -1] = data.contexts[-1, -1, -1]
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert certify(memorizer, stored).proved


# What generators write.


@pytest.mark.parametrize(("target_dim", "dtype"), [(None, "f4"), (2, "f8")])
@pytest.mark.parametrize(
    "name",
    ["uniform", "shared_context", "gaussian", "bag_of_tokens", "moment_curve", "integers"],
)
def test_generators_draw_the_same_numbers_a_few_at_a_time(
    tmp_path, monkeypatch, name, target_dim, dtype
):
    sizes = {"num_examples": 101, "context_size": 3, "width": 5, "target_dim": target_dim}
    make = partial(getattr(generators, name), **sizes, seed=7)
    whole = make()
    monkeypatch.setattr(drawn, "_DRAWN_BYTES", 8 * 5 * 3 * 2)  # two contexts
    few, written = make(dtype=dtype), make(dtype=dtype, folder=tmp_path / "data")
    same(few, written)
    assert (written.on_disk is None) is written.shared_context
    for each in ARRAYS:
        assert (getattr(whole, each).astype(dtype) == getattr(few, each)).all()


@pytest.mark.parametrize("dtype", ["f2", "i8", "nonsense", object])
def test_other_dtypes_are_not_drawn(tmp_path, dtype):
    sizes = {"num_examples": 1, "context_size": 1, "width": 1}
    with pytest.raises(ParameterError, match="neither float32 nor float64"):
        generators.uniform(**sizes, dtype=dtype, folder=tmp_path / "data")
    assert not list(tmp_path.iterdir())
    assert generators.uniform(**sizes, dtype=None).queries.dtype == np.float64


def test_folders_are_replaced_also_by_their_own_data(data, tmp_path):
    Dataset.of_classes(np.eye(2), np.eye(2), ["a", "b"]).save_folder(tmp_path / "data")
    assert Dataset.open(tmp_path / "data").classes == ("a", "b")
    data.save_folder(tmp_path / "data")
    stored = Dataset.open(tmp_path / "data")
    same(stored, data)
    assert stored.classes == ()
    stored.save_folder(tmp_path / "data")
    same(Dataset.open(tmp_path / "data"), data)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "data" / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        data.save_folder(tmp_path / "data")


# Nobody else can write to the arrays of datasets and layers: what was checked stays as it was.


def layer():
    rng = np.random.default_rng(0)
    shapes = (2, 3, 2), (2, 3, 2), (2, 3, 1), (2, 1), (1, 1)
    return AttentionLayer(*map(rng.standard_normal, shapes))


MADE = {
    "Dataset": lambda: Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7]),
    "some of a Dataset": lambda: Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7]).take([1, 0]),
    "drawn": lambda: generators.uniform(num_examples=7, context_size=3, width=5),
    "AttentionLayer": layer,
    "ExtendedLayer": lambda: ExtendedLayer(*layer().tensors.values(), np.zeros((1, 2, 3, 1)), 106),
    "RationalDataset": lambda: RationalDataset([[1, 0], [1, 1]], [[2, 3]], [Fraction(1, 3)]),
    "RationalLayer": lambda: RationalLayer(*[np.full((1, 1, 1), Fraction(1))] * 2, np.eye(1)),
    "Memorizer": lambda: build_memorizer(
        generators.uniform(num_examples=7, context_size=3, width=5), num_heads=3
    ),
    "SequenceDataset": lambda: SequenceDataset.of(["ab", "bc"], [1, 2]),
}


COPIES = {
    "itself": lambda thing: thing,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),  # noqa: S301 - our own
    "first pickle": lambda thing: pickle.loads(pickle.dumps(thing, protocol=0)),  # noqa: S301
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": lambda thing: (
        Dataset(thing.contexts, thing.queries, thing.targets)  # `source` is not an argument
        if isinstance(thing, Dataset)
        else dataclasses.replace(thing)
    ),
}


def arrays(thing):
    """All arrays which a thing has, those of its parts too."""
    for _, value in sorted(vars(thing).items()):
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


def locked(values):
    """A read-only array, which its owner makes writable again."""
    values.flags.writeable = False
    return values


WAYS = {
    "array": lambda values: values,
    "view": lambda values: values[:],
    "read-only": locked,
    "read-only view": lambda values: locked(values[:]),
    "Fortran": np.asfortranarray,
    "tensor": lambda values: torch.from_numpy(values),  # noqa: PLW0108 - skips when called
    "converts itself": Tensor,
    "memory": memoryview,
    "subclass": lambda values: values.view(np.ma.MaskedArray),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_happens_to_the_original_changes_nothing(way):
    """Neither data nor weights."""
    made = [np.array([np.eye(2)] * 2), np.eye(2), np.array([1.0, 2.0]), np.zeros((1, 2, 3, 1))]
    made += [weights.copy() for weights in layer().tensors.values()]
    given = [WAYS[way](values) for values in made]
    data, kept = Dataset(*given[:3]), AttentionLayer(*given[4:])
    extended = ExtendedLayer(*kept.tensors.values(), given[3], 106)
    for values in (*made, *given):
        if isinstance(values, np.ndarray):
            values.flags.writeable = True
            values[...] = np.nan
    assert (data.contexts == np.eye(2)).all()
    assert data.queries.tolist() == [[1, 0], [0, 1]]
    assert data.targets.tolist() == [1, 2]
    assert all(np.isfinite(weights).all() for weights in kept.tensors.values())
    assert (extended.corrections == 0).all()


def test_weights_that_are_not_arrays_and_weights_with_gradients():
    weights = list(layer().tensors.values())
    weights[1] = [[torch.ones(2, requires_grad=True)] * 3] * 2
    with pytest.raises(ParameterError, match="key_weights is not an array") as caught:
        AttentionLayer(*weights)
    assert "torch.stack" in caught.value.suggestion
    with pytest.raises(ParameterError, match="corrections is not an array"):
        ExtendedLayer(*layer().tensors.values(), [[1], [1, 2]], 106)
    weights[1] = torch.ones((2, 3, 2), dtype=torch.float64, requires_grad=True)
    kept = AttentionLayer(*weights)
    with torch.no_grad():
        weights[1] *= 2.0
    assert (kept.key_weights == 1.0).all()


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


def peak(function, num_bytes):
    """The largest share of the data that it takes beside what it returns, and what it returns."""
    tracemalloc.start()
    try:
        found = function()
        current, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (most - current) / num_bytes, current / num_bytes, found


def test_what_is_made_or_read_is_not_copied_again(tmp_path):
    sizes = {"num_examples": 2000, "context_size": 20, "width": 20}
    num_bytes = 8 * (2000 * 20 * 20 + 2000 * 20 + 2000)
    data = generators.uniform(**sizes)
    data.save(tmp_path / "data.npz")
    for make in (
        lambda: generators.uniform(**sizes),
        lambda: generators.gaussian(**sizes),
        lambda: generators.moment_curve(**sizes),
        lambda: data.take(np.arange(2000)[::-1]),
        data.with_constant,
        lambda: Dataset.load(tmp_path / "data.npz"),
        lambda: Dataset(data.contexts, data.queries, data.targets),  # from elsewhere: copied, once
    ):
        beside, kept, _ = peak(make, num_bytes)
        assert beside < 0.3  # a mask of finite entries is an eighth
        assert 0.9 < kept < 1.2
    assert np.shares_memory(token_mixing(data).targets, data.targets)
    strided = Dataset(data.contexts[0, ::2], data.queries[:3], data.targets[::1000][:1].repeat(3))
    assert strided.contexts.base.nbytes == 8 * 10 * 20  # not the large one
