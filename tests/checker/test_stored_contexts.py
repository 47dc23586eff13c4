"""Certificates of data in a folder: the checker reads contexts by rows, and sees what changes."""

import os
import tracemalloc

import numpy as np
import pytest
from checker_parts import refused
from claim_parts import certified

from constructive import (
    Dataset,
    FormatError,
    Verdict,
    build_memorizer,
    check,
    generators,
    upper_bound_certificate,
)

NAMES = "contexts", "queries", "targets"


@pytest.fixture
def folder(paired, tmp_path):
    """The files of `paired` with the data in a folder, which may be spoilt."""
    data, memorizer, certificate, _ = paired
    data.save_folder(tmp_path / "data")
    memorizer.save(tmp_path / "weights.safetensors")
    certificate.save(tmp_path / "certificate.json")
    return tmp_path


def paths(folder):
    return [str(folder / name) for name in ("certificate.json", "weights.safetensors", "data")]


def stored(checker, folder):
    shapes = checker.files.data_shapes(folder / "data")
    return checker.files.read_folder(folder / "data", shapes)


# It proves what is true.


def test_the_same_certificate_is_proved_of_a_folder(paired, checker, folder):
    """Whichever way the data were certified."""
    data, memorizer, certificate, archive = paired
    opened = Dataset.open(folder / "data")
    assert certified(memorizer, opened) == certificate
    found = checker.check(paths(folder))
    assert found == {claim.name: claim.statement for claim in certificate.claims}
    assert found == checker.check([*paths(folder)[:2], str(archive / "data.npz")])
    for given in (folder / "data", opened, data):
        checked = check(certificate, memorizer, given)
        assert checked.verdict is Verdict.PROVED, checked


def test_an_opened_folder_is_not_copied(paired, folder, monkeypatch):
    _, memorizer, certificate, _ = paired
    monkeypatch.setattr(Dataset, "save", None)
    assert check(certificate, memorizer, Dataset.open(folder / "data")).proved


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_other_certificates_of_a_folder(checker, tmp_path, dtype):
    """Of layers that are not pairs, and of all weights: then all is read at once."""
    data = generators.uniform(
        num_examples=7, context_size=3, width=5, seed=1, dtype=dtype, folder=tmp_path / "data"
    )
    memorizer = build_memorizer(data, num_heads=3)
    memorizer.save(tmp_path / "weights.safetensors")
    certified(memorizer, data).save(tmp_path / "certificate.json")
    assert set(checker.check(paths(tmp_path))) == {"grouping", "rank", "error", "readout"}
    shared = generators.shared_context(
        num_examples=7, context_size=3, width=5, folder=tmp_path / "shared"
    )
    upper_bound_certificate(shared, 2).save(tmp_path / "bound.json")
    assert checker.check([str(tmp_path / "bound.json"), str(tmp_path / "shared")])


def test_rows_are_those_of_numpy(paired, checker, folder):
    contexts = stored(checker, folder)["contexts"]
    assert (contexts.shape, contexts.dtype) == (paired[0].contexts.shape, np.float64)
    for rows in (slice(3, 9), slice(60, 90), np.array([5, 5, 6, 7, 0]), np.array([], np.int64)):
        assert (contexts[rows] == paired[0].contexts[rows]).all()


def test_it_has_to_be_looked_at_as_a_whole_first(paired, checker, folder):
    contexts = stored(checker, folder)["contexts"]
    with refused("have not been looked at"):
        contexts.max()
    assert (np.concatenate(list(contexts.blocks())) == paired[0].contexts).all()
    assert contexts.max() == -contexts.min() == np.abs(paired[0].contexts).max()


# How often contexts are read: hashed, and walked through once; few of them are read again.


# Memory: contexts count nothing, and what couples counts as much as there is room.


def test_contexts_on_disk_need_no_memory(checker):
    kind = np.dtype("<f4")
    total, size, width, heads = 1_000_000, 32, 64, 32_260
    arrays = {
        "contexts": (kind, (total, size, width)),
        "queries": (kind, (total, width)),
        "targets": (kind, (total,)),
    }
    shapes = [(heads, width, 1)] * 3 + [(heads, 1), (1, 1)]
    tensors = {str(k): (np.dtype("<f8"), shape, 0) for k, shape in enumerate(shapes)}
    held, _ = checker.paired.needs(arrays, tensors, on_disk=True, coupled=0)
    assert held < 7e9  # so there is room for coupling among a million examples by default
    in_memory, _ = checker.paired.needs(arrays, tensors, coupled=0)
    assert in_memory > 8e9 + 4 * total * size * width
    one, _ = checker.paired.needs(arrays, tensors, on_disk=True, coupled=1)
    assert one - held == checker.paired.of_coupled(width)
    all_of_them, _ = checker.paired.needs(arrays, tensors, on_disk=True)
    assert all_of_them - held == checker.paired.COUPLED * total * (one - held)


@pytest.mark.parametrize(("more", "enough"), [(0, True), (-1, False)])
def test_what_is_left_is_for_what_couples(paired, checker, folder, more, enough):
    """To the entry: data, weights and what is done with them come first."""
    for names in (paths(folder), [*paths(folder)[:2], str(paired[3] / "data.npz")]):
        arrays = checker.files.data_shapes(names[2])
        tensors = checker.files.weights_shapes(names[1], 8e9)
        most, _ = checker.paired.needs(
            arrays,
            tensors,
            on_disk=names[2].endswith("data"),
            coupled=checked_couples(checker, names),
        )
        with refused(None if enough else "too many couple"):
            assert checker.check(names, most=most + more)


def checked_couples(checker, names):
    """How many entries the checker finds to couple, if there is room for all."""
    found, unlike = [], checker.paired.Scan.unlike

    def watched(self, room):
        at, pairs = unlike(self, room)
        found.append(len(at))
        return at, pairs

    checker.paired.Scan.unlike = watched
    try:
        checker.check(names)
    finally:
        checker.paired.Scan.unlike = unlike
    return found[0]


@pytest.mark.parametrize("chunk", [1 << 8, 1 << 12])
def test_memory_is_not_above_what_is_announced(checker, tmp_path, as_if, monkeypatch, chunk):
    """And not what the contexts would take, which here is the most of it.

    A chunk is less than the tokens of one example, or some of them.
    """
    sizes = {"num_examples": 600, "context_size": 30, "width": 32}
    data = generators.gaussian(**sizes, folder=tmp_path / "data")
    memorizer = build_memorizer(data, num_heads=40, construction="paired")
    memorizer.save(tmp_path / "weights.safetensors")
    certified(memorizer, data).save(tmp_path / "certificate.json")
    as_if("paired", CHUNK=chunk)
    as_if("paired", "files", BLOCK=chunk)
    names, announced = paths(tmp_path), []
    arrays = checker.files.data_shapes(names[2])
    tensors = checker.files.weights_shapes(names[1], 8e9)
    coupled = checked_couples(checker, names)
    monkeypatch.setattr(checker.paired, "announce", lambda *needed: announced.append(needed[0]))
    tracemalloc.start()
    checker.check(paths(tmp_path), most=2e7)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < checker.paired.needs(arrays, tensors, on_disk=True, coupled=coupled)[0]
    assert announced[0] <= 2e7
    assert peak < 8 * 600 * 30 * 32


# It proves nothing else.


def rewritten(folder, name, array):
    np.save(folder / "data" / f"{name}.npy", array)


def cut(folder, name, count):
    path = folder / "data" / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:count])


def with_entry(folder, value):
    contexts = np.load(folder / "data" / "contexts.npy")
    contexts[60, 3, 11] = value
    rewritten(folder, "contexts", contexts)


def longer(folder):
    path = folder / "data" / "contexts.npy"
    path.write_bytes(path.read_bytes() + b"12345678")


WRONG = {
    "another entry": (lambda f: with_entry(f, 0.5), "the certificate is about other data"),
    "not a number": (lambda f: with_entry(f, np.nan), "contexts are not finite"),
    "infinite": (lambda f: with_entry(f, -np.inf), "contexts are not finite"),
    "cut contexts": (lambda f: cut(f, "contexts", -8), "contexts are cut off, or more follows"),
    "cut queries": (lambda f: cut(f, "queries", -8), "queries are cut off, or more follows"),
    "cut header": (lambda f: cut(f, "targets", 30), "cannot be read as such"),
    "longer": (longer, "or more follows"),
    "no queries": (lambda f: (f / "data" / "queries.npy").unlink(), "is not there"),
    "a folder": (
        lambda f: ((f / "data" / "queries.npy").unlink(), (f / "data" / "queries.npy").mkdir()),
        "is not a file",
    ),
    "by columns": (
        lambda f: rewritten(f, "contexts", np.asfortranarray(np.load(f / "data/contexts.npy"))),
        "not rows of float32",
    ),
    "integers": (
        lambda f: rewritten(f, "contexts", np.ones((61, 4, 12), int)), "not rows of float32",
    ),
    "objects": (lambda f: rewritten(f, "contexts", np.array([{}])), "no real numbers"),
    "single precision": (
        lambda f: rewritten(f, "contexts", np.load(f / "data" / "contexts.npy").astype("f4")),
        "the certificate is about other data",
    ),
    "other targets": (lambda f: rewritten(f, "targets", np.ones(61)), "is about other data"),
    "fewer examples": (lambda f: rewritten(f, "targets", np.ones(60)), "examples with contexts"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_folder_is_not_proved(checker, folder, kind):
    spoil, words = WRONG[kind]
    spoil(folder)
    with refused(words):
        checker.check(paths(folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_is_refused_and_not_waited_for(checker, folder, name):
    (folder / "data" / f"{name}.npy").unlink()
    os.mkfifo(folder / "data" / f"{name}.npy")
    with refused("is not a file"):
        checker.check(paths(folder))


def touched(path):
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize("how", ["touched", "cut", "another"])
def test_a_file_which_changes_between_two_readings(checker, folder, as_if, monkeypatch, step, how):
    """After whichever reading: between the hash and the proof, or within one of them."""
    path, count = folder / "data" / "contexts.npy", iter(range(99))
    rows = checker.files.Stored.__getitem__
    as_if("files", BLOCK=4 * 12 * 40)

    def interfering(self, index):
        found = rows(self, index)
        if next(count) == step:
            if how == "touched":
                touched(path)
            elif how == "cut":
                cut(folder, "contexts", -8)
            else:
                with_entry(folder, 7.0)
                touched(path)
        return found

    monkeypatch.setattr(checker.files.Stored, "__getitem__", interfering)
    with refused("contexts have changed"):
        checker.check(paths(folder))


def test_a_header_which_changes_after_its_shapes_were_read(checker, folder, monkeypatch):
    read = checker.files.read_folder

    def late(*given):
        rewritten(folder, "contexts", np.ones((61, 5, 12)))
        return read(*given)

    monkeypatch.setattr(checker.paired, "read_folder", late)
    with refused("contexts have changed"):
        checker.check(paths(folder))


def test_roles_of_folders(paired, folder):
    _, memorizer, certificate, _ = paired
    with pytest.raises(FormatError, match=r"the memorizer .* is the data"):
        check(certificate, folder / "data", folder / "data")
    with pytest.raises(FormatError, match="is not a regular file"):
        check(certificate, memorizer, folder)
