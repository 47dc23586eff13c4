"""Data sets in folders: contexts stay on disk, and are the same each time they are read."""

import copy
import dataclasses
import os
import pickle
import tracemalloc
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive import (
    DataError,
    Dataset,
    FormatError,
    OutputError,
    ParameterError,
    build_memorizer,
    certify,
    generators,
    upper_bound_certificate,
)
from constructive.constructions.multihead import assumptions
from constructive.data import generators as drawn
from constructive.data.repeats import repeated_inputs
from constructive.data.stored import FILES, StoredDataset
from constructive.support.stored import StoredArray

ARRAYS = "contexts", "queries", "targets"
MAKERS = ["uniform", "shared_context", "gaussian", "bag_of_tokens", "moment_curve", "integers"]


@pytest.fixture
def data():
    return generators.gaussian(num_examples=61, context_size=4, width=12, dtype="f4", seed=4)


@pytest.fixture
def stored(data, tmp_path):
    data.save_folder(tmp_path / "data")
    return Dataset.open(tmp_path / "data")


def on_disk(dataset):
    """Whether nobody has asked for all contexts at once."""
    return isinstance(dataset, StoredDataset) and "contexts" not in vars(dataset)


def same(one, other):
    for name in ARRAYS:
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()
        assert first.shape == second.shape


# It is the data set which was saved.


def test_what_is_known_without_reading_contexts(data, stored):
    assert repr(stored) == repr(data)
    assert stored.context_shape == data.context_shape == (61, 4, 12)
    assert stored.context_dtype == data.context_dtype == np.float32
    assert stored.largest_token_entry == data.largest_token_entry == np.abs(data.contexts).max()
    assert stored.fingerprint() == data.fingerprint()
    assert not stored.shared_context
    assert on_disk(stored)
    same(stored, data)
    assert not on_disk(stored)
    assert not stored.contexts.flags.writeable


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_both_kinds_of_floats_stay_as_they_are(tmp_path, dtype):
    data = generators.uniform(num_examples=5, context_size=2, width=3, target_dim=2, dtype=dtype)
    data.save_folder(tmp_path / "data")
    same(Dataset.open(str(tmp_path / "data")), data)


def test_a_shared_context_is_loaded(tmp_path):
    data = generators.shared_context(num_examples=5, context_size=2, width=3)
    data.save_folder(tmp_path / "data")
    opened = Dataset.open(tmp_path / "data")
    assert type(opened) is Dataset
    same(opened, data)


def test_an_archive_is_opened_as_ever(data, tmp_path):
    data.save(tmp_path / "data.npz")
    same(Dataset.open(tmp_path / "data.npz"), data)
    with pytest.raises(FileNotFoundError):
        Dataset.open(tmp_path / "nothing")


def test_load_tells_of_open_where_it_finds_a_folder(data, tmp_path):
    data.save_folder(tmp_path / "data")
    with pytest.raises(FormatError, match=r"is a folder, no \.npz archive") as caught:
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


INDICES = st.one_of(
    st.builds(slice, *[st.none() | st.integers(-12, 12)] * 2, st.sampled_from([None, 1, 2, -1])),
    st.lists(st.integers(-9, 8), max_size=20).map(lambda x: np.array(x, dtype=np.int64)),
    st.lists(st.booleans(), min_size=9, max_size=9).map(np.array),
)


@given(INDICES)
def test_rows_are_those_of_numpy(tmp_path_factory, index):
    path = tmp_path_factory.mktemp("rows") / "x.npy"
    array = np.arange(9 * 6.0).reshape(9, 3, 2)
    np.save(path, array)
    found = StoredArray.at(path).rows(index)
    assert found.shape == array[index].shape
    assert (found == array[index]).all()


@pytest.mark.parametrize("index", [[9], [-10], [0, 40]])
def test_rows_which_are_not_there(tmp_path, index):
    np.save(tmp_path / "x.npy", np.ones((9, 2)))
    with pytest.raises(IndexError):
        StoredArray.at(tmp_path / "x.npy").rows(np.array(index))


def test_chunks_blocks_and_what_is_taken(data, stored):
    chunks = list(stored.context_chunks(chunk_bytes=8 * 4 * 12 * 7))
    assert [rows.stop - rows.start for rows, _ in chunks] == [7] * 8 + [5]
    assert (np.concatenate([contexts for _, contexts in chunks]) == data.contexts).all()
    assert (np.concatenate([block for _, block in stored.blocks()]) == data.contexts).all()
    same(stored.take([3, -1, 0]), data.take([3, -1, 0]))
    assert stored.contexts_of(np.array([5, 2])).dtype == np.float64
    assert on_disk(stored)
    same(stored.with_constant(), data.with_constant())


def sum_of_contexts(dataset):
    return sum(float(contexts.sum()) for _, contexts in dataset.context_chunks())


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],  # noqa: S301 - our own
)
def test_copies_read_the_same_file(stored, again):
    _ = stored.contexts
    made = again(stored)
    assert on_disk(made)
    assert made.fingerprint() == stored.fingerprint()
    assert not made.queries.flags.writeable
    same(made, stored)


def test_other_processes_read_it(data, stored):
    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(sum_of_contexts, stored).result() == sum_of_contexts(data)


def test_it_is_frozen(stored):
    with pytest.raises(dataclasses.FrozenInstanceError):
        stored.queries = None
    with pytest.raises(ValueError, match="WRITEABLE"):
        stored.targets.flags.writeable = True


# Pairs are built and certified without holding the contexts.


def test_pairs_are_the_same_bits(data, stored):
    memorizers = [build_memorizer(x, num_heads=12, construction="paired") for x in (data, stored)]
    first, second = (memorizer.layer.tensors for memorizer in memorizers)
    assert all((first[name] == second[name]).all() for name in first)
    assert memorizers[0].max_error(data) == pytest.approx(memorizers[1].max_error(stored))
    assert certify(memorizers[0], data) == certify(memorizers[1], stored)
    assert on_disk(stored)


def test_other_constructions_read_all_contexts(data, stored):
    memorizers = [build_memorizer(x, num_heads=20) for x in (data, stored)]
    assert memorizers[0].record == memorizers[1].record
    assert certify(memorizers[0], data) == certify(memorizers[1], stored)


def test_few_contexts_are_read_at_a_time(tmp_path, monkeypatch):
    """By all that a build, a certificate and a prediction do."""
    sizes = {"num_examples": 2000, "context_size": 32, "width": 32}
    data = generators.gaussian(**sizes, folder=tmp_path / "data", dtype="f4")
    read = []

    def watched(self, index, rows=StoredArray.rows):
        found = rows(self, index)
        read.append(found.nbytes)
        return found

    monkeypatch.setattr(StoredArray, "rows", watched)
    monkeypatch.setattr(StoredArray.blocks, "__defaults__", (1 << 20,))
    memorizer, whole = build_memorizer(data, num_heads=136, construction="paired"), data.on_disk
    coupled = memorizer.record.coupled / 2000
    # The assumptions and gaps, the own part of the heads, and what they read; and some rows anew.
    assert 3.0 <= sum(read) / whole.nbytes < 3.1 + coupled
    assert certify(memorizer, data).proved
    assert memorizer.max_error(Dataset.open(tmp_path / "data")) < 1e-6
    assert on_disk(data)
    assert max(read) <= 2 << 20 < whole.nbytes


@pytest.mark.slow
def test_memory_is_that_of_queries_and_not_of_contexts(tmp_path):
    """Contexts here are 32 times as large as queries; building and certifying holds a part."""
    sizes = {"num_examples": 10_000, "context_size": 32, "width": 32}
    data = generators.gaussian(**sizes, folder=tmp_path / "data", dtype="f4")
    peaks = []
    for work in (
        lambda: Dataset.open(tmp_path / "data"),
        lambda: build_memorizer(data, num_heads=680, construction="paired"),
        lambda: certify(build_memorizer(data, num_heads=680, construction="paired"), data),
    ):
        tracemalloc.start()
        work()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert on_disk(data)
    assert max(peaks) < 8 * 10_000 * 32 * 32  # what one copy of the contexts takes in float64


def test_equal_inputs_are_found(tmp_path):
    contexts = np.random.default_rng(0).standard_normal((6, 3, 4))
    contexts[4] = contexts[1][::-1]
    queries = np.ones((6, 4))
    for order in (contexts, contexts[:4]):
        data = Dataset(order, queries[: len(order)], np.arange(len(order)))
        data.save_folder(tmp_path / "data")
        stored = Dataset.open(tmp_path / "data")
        assert (
            repeated_inputs(data) == repeated_inputs(stored) == ((1, 4) if len(order) > 4 else None)
        )
        assert on_disk(stored)
    with pytest.raises(DataError, match="examples 1 and 4 are the same input"):
        assumptions.repeated(Dataset(contexts, queries, np.arange(6)))


# What is wrong is named.


def rewritten(folder, name, array):
    np.save(folder / f"{name}.npy", array)


def cut(path, count):
    path.write_bytes(path.read_bytes()[:count])


def written(path, write):
    with path.open("wb") as file:
        write(file)


WRONG = {
    "no targets": (lambda f: (f / "targets.npy").unlink(), "it has no targets.npy"),
    "cut off": (lambda f: cut(f / "contexts.npy", -1), "contexts.npy is cut off: .* by its header"),
    "cut in the header": (lambda f: cut(f / "contexts.npy", 40), "is no .npy file"),
    "empty": (lambda f: cut(f / "contexts.npy", 0), "is no .npy file"),
    "longer": (
        lambda f: (f / "contexts.npy").write_bytes((f / "contexts.npy").read_bytes() + b"\0"),
        "has more bytes than its header says",
    ),
    "by columns": (
        lambda f: rewritten(f, "contexts", np.asfortranarray(np.ones((61, 4, 12)))),
        "is stored by columns",
    ),
    "integers": (
        lambda f: rewritten(f, "contexts", np.ones((61, 4, 12), dtype=int)),
        "has dtype int64; .* float32 or float64",
    ),
    "big-endian": (
        lambda f: rewritten(f, "contexts", np.ones((61, 4, 12), dtype=">f4")), "has dtype >f4",
    ),
    "objects": (lambda f: rewritten(f, "contexts", np.array([{}] * 61)), "has dtype object"),
    "another version": (
        lambda f: written(
            f / "contexts.npy",
            lambda file: np.lib.format.write_array(file, np.ones((61, 4, 12)), version=(2, 0)),
        ),
        r"is of version \(2, 0\)",
    ),
    "a folder": (
        lambda f: ((f / "contexts.npy").unlink(), (f / "contexts.npy").mkdir()), "no regular file",
    ),
    "cut targets": (lambda f: cut(f / "targets.npy", -1), "targets.npy is no .npy"),
    "pickled targets": (lambda f: rewritten(f, "targets", np.array([{}] * 61)), "is no .npy"),
    "an archive": (
        lambda f: written(f / "targets.npy", lambda file: np.savez(file, np.ones(61))),
        "targets.npy is no .npy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_folders_which_are_no_data_sets(data, tmp_path, kind):
    spoil, words = WRONG[kind]
    data.save_folder(tmp_path / "data")
    spoil(tmp_path / "data")
    with pytest.raises(FormatError, match=words) as caught:
        Dataset.open(tmp_path / "data")
    assert caught.value.witness
    assert caught.value.suggestion


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_refused_and_not_waited_for(data, tmp_path, name):
    data.save_folder(tmp_path / "data")
    (tmp_path / "data" / name).unlink()
    os.mkfifo(tmp_path / "data" / name)
    with pytest.raises(FormatError, match=r"is no (regular )?file"):
        Dataset.open(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("contexts", np.ones((60, 4, 12)), "61 queries have 60 contexts"),
        ("contexts", np.ones((61, 4, 11)), "tokens have d=11 entries"),
        ("contexts", np.ones(61), "contexts have 1 axes"),
        ("contexts", np.array(1.0), "contexts have 0 axes"),
        ("contexts", np.ones((0, 4, 12)), "the data set is empty"),
        ("queries", np.full((61, 12), np.nan), r"queries\[0, 0\] is nan"),
        ("targets", np.ones(60), "61 queries have 60 targets"),
    ],
)
def test_arrays_which_are_no_data_set(data, tmp_path, name, array, words):
    data.save_folder(tmp_path / "data")
    rewritten(tmp_path / "data", name, array)
    with pytest.raises(DataError, match=words):
        Dataset.open(tmp_path / "data")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [(0, 0, 0), (60, 3, 11), (33, 1, 7)])
def test_contexts_which_are_not_finite(data, tmp_path, monkeypatch, value, index):
    monkeypatch.setattr(StoredArray.blocks, "__defaults__", (4 * 4 * 12 * 10,))
    contexts = data.contexts.copy()
    contexts[index] = value
    data.save_folder(tmp_path / "data")
    rewritten(tmp_path / "data", "contexts", contexts)
    with pytest.raises(DataError) as caught:
        Dataset.open(tmp_path / "data")
    assert caught.value.problem == f"contexts{list(index)} is {value}"
    assert caught.value.witness == index


# What changes after it was opened is refused whenever it is read.


def replaced(path):
    """By another file with the same bytes and the same time."""
    status, content = path.stat(), path.read_bytes()
    path.unlink()
    (path.parent / "keeps the inode").write_bytes(b"")
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def touched(path):
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))


CHANGES = {
    "another entry": (
        lambda p: (p.write_bytes(p.read_bytes()[:-1] + b"\x7f"), touched(p)), "time of the last",
    ),
    "cut off": (lambda p: cut(p, -4), "its size"),
    "longer": (lambda p: p.write_bytes(p.read_bytes() + b"1234"), "its size"),
    "gone": (lambda p: p.unlink(), "it is gone"),
    "another time": (touched, "its time of the last change"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "work",
    [
        lambda x, _: x.contexts,
        lambda x, _: x.contexts_of(slice(0, 2)),
        lambda x, _: list(x.blocks()),
        lambda x, _: x.take([1]),
        lambda x, _: build_memorizer(x, num_heads=12, construction="paired"),
        lambda x, memorizer: certify(memorizer, x),
        lambda x, memorizer: memorizer.max_error(x),
    ],
    ids=["contexts", "contexts_of", "blocks", "take", "build", "certify", "predict"],
)
def test_a_file_which_changes_is_refused(data, stored, change, work):
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    made, words = CHANGES[change]
    made(stored.on_disk.path)
    with pytest.raises(FormatError, match="has changed since it was opened") as caught:
        work(stored, memorizer)
    assert words in caught.value.problem
    assert caught.value.witness == str(stored.on_disk.path)
    assert "open it again" in caught.value.suggestion


def test_another_file_of_that_name_is_refused(stored):
    path = stored.on_disk.path
    before = path.stat().st_ino
    replaced(path)
    if path.stat().st_ino != before:
        with pytest.raises(FormatError, match="its inode"):
            stored.contexts_of(slice(0, 1))


def test_a_file_which_changes_while_it_is_read(stored, monkeypatch):
    """The second look sees what the first one could not."""
    fill = StoredArray._fill

    def interfering(self, *arguments):
        done = fill(self, *arguments)
        touched(self.path)
        return done

    monkeypatch.setattr(StoredArray, "_fill", interfering)
    with pytest.raises(FormatError, match="has changed since it was opened"):
        stored.contexts_of(slice(0, 1))


def test_what_is_written_through_a_mapping_is_not_certified(data, stored):
    """A page which was written before does not change the time again, until it is on disk."""
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    status = stored.on_disk.path.stat()
    mapped = np.load(stored.on_disk.path, mmap_mode="r+")
    mapped[-1, -1, -1] += 1.0
    os.utime(stored.on_disk.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert stored.contexts_of(slice(None))[-1, -1, -1] == mapped[-1, -1, -1]  # it is read
    with pytest.raises(FormatError, match="has changed since it was opened: its bytes"):
        certify(memorizer, stored)
    with pytest.raises(FormatError, match="has changed since it was opened: its bytes"):
        upper_bound_certificate(stored, num_heads=2)
    mapped[-1, -1, -1] = data.contexts[-1, -1, -1]
    os.utime(stored.on_disk.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert certify(memorizer, stored).proved


def test_a_copy_elsewhere_sees_the_change_too(stored):
    sent = pickle.dumps(stored)
    touched(stored.on_disk.path)
    with pytest.raises(FormatError, match="has changed"):
        pickle.loads(sent).contexts_of(slice(0, 1))  # noqa: S301 - our own


# What generators write.


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("target_dim", [None, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_generators_draw_the_same_numbers_a_few_at_a_time(
    tmp_path, monkeypatch, name, target_dim, dtype
):
    sizes = {"num_examples": 101, "context_size": 3, "width": 5, "target_dim": target_dim}
    make = getattr(generators, name)
    whole = make(**sizes, seed=7)
    monkeypatch.setattr(drawn, "_DRAWN_BYTES", 8 * 5 * 3 * 2)  # two contexts
    few = make(**sizes, seed=7, dtype=dtype)
    written = make(**sizes, seed=7, dtype=dtype, folder=tmp_path / "data")
    same(few, written)
    for each in ARRAYS:
        assert (getattr(whole, each).astype(dtype) == getattr(few, each)).all()


@pytest.mark.parametrize("dtype", ["f2", "i8", "nonsense", object, None])
def test_other_dtypes_are_not_drawn(tmp_path, dtype):
    if dtype is None:  # numpy's default is float64
        assert generators.uniform(num_examples=1, context_size=1, width=1, dtype=dtype)
        return
    with pytest.raises(ParameterError, match="neither float32 nor float64"):
        generators.uniform(
            num_examples=1, context_size=1, width=1, dtype=dtype, folder=tmp_path / "data"
        )
    assert not list(tmp_path.iterdir())


def test_an_old_folder_of_data_is_replaced(data, tmp_path):
    generators.uniform(num_examples=2, context_size=1, width=1, folder=tmp_path / "data")
    data.save_folder(tmp_path / "data")
    same(Dataset.open(tmp_path / "data"), data)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_may_be_saved_over_itself(stored, data):
    stored.save_folder(stored.folder)
    same(Dataset.open(stored.folder), data)


def test_nothing_else_is_replaced(data, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").write_text("precious")
    with pytest.raises(OutputError, match=r"it holds something else, notes\.txt"):
        data.save_folder(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["notes.txt"]


def test_names_of_classes_go_along(tmp_path):
    contexts = np.random.default_rng(0).standard_normal((3, 2, 4))
    data = Dataset.of_classes(contexts, contexts[:, 0], ["dog", "cat", "dog"])
    data.save_folder(tmp_path / "data")
    found = Dataset.open(tmp_path / "data")
    assert (found.classes, found == data, data == found) == (("cat", "dog"), True, True)
    assert len({found, data}) == 1
    assert found[1].target.tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(found[-1].context, contexts[2])
    assert found[:2].classes == found.classes
    assert "contexts" not in vars(found)  # which were never all in memory
    Dataset(contexts, contexts[:, 0], data.targets).save_folder(tmp_path / "data")
    again = Dataset.open(tmp_path / "data")
    assert (again.classes, again == data) == ((), False)


@pytest.mark.parametrize("classes", [["cat"], ["cat", "cat"], [1.5, 2.5]])
def test_names_which_are_not_those_of_the_targets_are_refused(tmp_path, classes):
    Dataset([[[1.0], [2.0]]], [[3.0]], [[1.0, 0.0]]).save_folder(tmp_path / "data")
    np.save(tmp_path / "data" / "classes.npy", np.array(classes))
    with pytest.raises(DataError):
        Dataset.open(tmp_path / "data")
