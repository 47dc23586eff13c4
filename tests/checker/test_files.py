"""How the checker reads files: what each requirement lets through, and what it does not."""

import base64
import io
import json
import math
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from checker_parts import paths, refused

from constructive import (
    Dataset,
    FormatError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
    upper_bound_certificate,
)
from constructive.certificates.check import CHECKER
from constructive.support.work import progress_to

ARRAYS = ["contexts", "queries", "targets"]


@pytest.fixture
def files(checker):
    return checker.files


# Memory.


def test_what_is_announced_may_be_taken_to_the_byte(files, capsys):
    files.announce(2_000_000_000, 1234, 2e9)
    assert capsys.readouterr().err == "needs up to 2 GB of memory and 2e+03 operations\n"
    with refused(r"^2.1 GB .* are needed, and --max-memory is 2$"):
        files.announce(2_000_000_001, 1234, 2e9)


def test_a_process_is_confined_to_what_it_has_and_so_much_more(files, monkeypatch):
    resource = pytest.importorskip("resource")
    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda *given: set_to.append(given))
    files.confine(3e9)
    if Path("/proc/self/statm").exists():
        ((kind, (soft, hard)),) = set_to
        assert (kind, hard) == (resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)[1])
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        assert abs(soft - 3e9 - pages * resource.getpagesize()) < 1e8


# JSON.


def test_json_of_any_size_that_fits(files, tmp_path):
    path = tmp_path / "c.json"
    path.write_text('{"format": "x", "a": [1, {"b": null}]}')
    size = path.stat().st_size
    assert files.read_json(path, "c", 64 * size)["a"] == [1, {"b": None}]
    with refused(r"the c .* is too large for --max-memory"):
        files.read_json(path, "c", 64 * size - 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "it has no format"),
        ('{"format": 1, "a": {"b": 1, "b": 1}}', "repeats a key"),
        ('{"format": 1', "cannot be read as such"),
        ("\x00\xff", "cannot be read as such"),
        ("[" * 200_000, "maximum recursion depth"),
        ('{"format": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
    ids=lambda given: given[:20],
)
def test_json_which_is_no_certificate(files, tmp_path, text, words):
    path = tmp_path / "c.json"
    path.write_bytes(text.encode("latin-1"))
    with refused(words) as caught:
        files.read_json(path, "certificate", 1e9)
    assert str(path) in str(caught.value)


# Weights.


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def tensors():
    rng = np.random.default_rng(0)
    shapes = {"W_Q": (2, 3, 1), "W_K": (2, 3, 1), "W_V": (2, 3, 2), "W_O": (4, 5), "W_D": (5, 1)}
    kinds = ["<f8", "<f4", "<f8", "<f4", "<f8"]
    drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return {name: x.astype(kind) for (name, x), kind in zip(drawn.items(), kinds, strict=True)}


def written(path, arrays, change=lambda _: None):
    """A file of weights with a changed header; the length of that."""
    header, start = {}, 0
    for name, x in arrays.items():
        kind = {"<f8": "F64", "<f4": "F32"}[x.dtype.str]
        offsets = [start, start + x.nbytes]
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": offsets}
        start += x.nbytes
    change(header)
    text = json.dumps(header).encode()
    body = b"".join(x.tobytes() for x in arrays.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return len(text)


@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize("metadata", [{}, {"__metadata__": {"a": "b"}}])
def test_weights_are_read_from_where_they_are(files, path, corrections, metadata):
    arrays = tensors()
    if corrections:
        arrays["W_V_corrections"] = np.full((1, 2, 3, 2), 2.0**-60)
    length = written(path, arrays, lambda header: header.update(metadata))
    shapes = files.weights_shapes(path, 64 * length)
    assert list(shapes) == list(arrays)
    read = files.read_weights(path, shapes)
    for name, x in arrays.items():
        assert shapes[name][:2] == (x.dtype, x.shape)
        assert (read[name] == x).all()
        assert read[name].dtype == x.dtype
    with refused("too large for --max-memory"):
        files.weights_shapes(path, 64 * length - 1)


HEADERS = {
    "ends early": (lambda h: h["W_Q"].update(data_offsets=[0, 47]), "W_Q is cut off"),
    "begins before": (lambda h: h["W_Q"].update(data_offsets=[-1, 47]), "W_Q is cut off"),
    "is before": (lambda h: h["W_Q"].update(data_offsets=[-48, 0]), "W_Q is cut off"),
    "at a float": (lambda h: h["W_Q"].update(data_offsets=[0.0, 48]), "W_Q is cut off"),
    "at a Boolean": (lambda h: h["W_Q"].update(data_offsets=[True, 49]), "W_Q is cut off"),
    "is larger": (lambda h: h["W_Q"].update(shape=[2, 3, 2]), "W_Q is cut off"),
    **{
        f"has {size!r}": (
            lambda h, size=size: h["W_Q"].update(shape=[2, 3, size]),
            "is not a shape",
        )
        for size in (0, -1, True, 1.0, "1", [1], None)
    },
    "is smaller": (lambda h: h["W_Q"].update(dtype="F32"), "W_Q is cut off"),
    "of integers": (lambda h: h["W_Q"].update(dtype="I64"), "I64"),
    "ends beyond": (
        lambda h: h["W_D"].update(data_offsets=[k + 1 for k in h["W_D"]["data_offsets"]]),
        "W_D is cut off",
    ),
    "one is not there": (lambda h: h.pop("W_V"), "the weights are not"),
    "one more": (lambda h: h.update(W_X=h["W_V"]), "the weights are not"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_which_do_not_fit(files, path, name):
    change, words = HEADERS[name]
    written(path, tensors(), change)
    with pytest.raises((ValueError, KeyError), match=words):
        files.weights_shapes(path, 1e9)


def test_files_that_are_none(files, tmp_path):
    with refused(r"the data .*nothing is not there"):
        files.data_shapes(tmp_path / "nothing")
    with refused(r"the weights .* is not a file"):
        files.weights_shapes(tmp_path, 1e9)


def test_a_header_as_long_as_the_file_and_longer(files, path):
    text = json.dumps({"format": 1}).encode()
    for more, words in ((0, "the weights are not"), (1, "is cut off"), (1 << 60, "is cut off")):
        path.write_bytes(struct.pack("<Q", len(text) + more) + text)
        with refused(words):
            files.weights_shapes(path, 1e99)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", tensors())
def test_weights_which_are_no_numbers(files, path, name, value):
    arrays = tensors()
    arrays[name].flat[-1] = value
    written(path, arrays)
    with refused(f"{name} is not finite"):
        files.read_weights(path, files.weights_shapes(path, 1e9))


# Data.


def arrays_of(**changes):
    draw = np.random.default_rng(0).standard_normal
    return {"contexts": draw((4, 3, 2)), "queries": draw((4, 2)), "targets": draw(4)} | changes


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("kind", "read_as"),
    [
        ("<f8", "<f8"), (">f8", "<f8"), ("<f4", "<f4"), (">f4", "<f4"), ("<f2", "<f4"),
        ("<i8", "<f8"), ("<i4", "<f8"), ("u1", "<f8"), ("<u8", "<f8"), ("?", "<f8"),
    ],
)  # fmt: skip
def test_data_are_read_as_they_are(files, tmp_path, save, kind, read_as):
    """With whatever else is in the file."""
    path = tmp_path / "d.npz"
    sizes = np.abs if "u" in kind else np.asarray
    given = {name: np.asfortranarray(sizes(9 * x).astype(kind)) for name, x in arrays_of().items()}
    save(path, **given, other=np.ones(3))
    shapes = files.data_shapes(path)
    assert shapes == {name: (np.dtype(kind), x.shape) for name, x in given.items()}
    read = files.read_data(path, shapes)
    assert list(read) == ARRAYS
    for name, x in given.items():
        assert (read[name] == x).all()
        assert read[name].dtype.str == read_as
        assert read[name].flags.c_contiguous


@pytest.mark.parametrize("kind", ["<c8", "<c16", "U3", "<M8[s]", "<g", "O", [("a", "<f8")]])
def test_data_which_are_no_real_numbers(files, tmp_path, kind):
    np.savez(tmp_path / "d.npz", **arrays_of(targets=np.zeros(4).astype(kind)))
    with refused(r"no real numbers|no header of version"):
        files.data_shapes(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        *((name, x, f"{name} are not finite") for name in ARRAYS for x in (np.nan, np.inf)),
        ("targets", 2**53, None),
        ("targets", -(2**53), None),
        *(("targets", x, r"targets have integers beyond 2\^53")
          for x in (2**53 + 1, -(2**53) - 1, -(2**63), np.uint64(2**64 - 1))),
    ],
)  # fmt: skip
def test_entries_which_float64_holds(files, tmp_path, name, entry, words):
    path, array = tmp_path / "d.npz", arrays_of()[name]
    if not isinstance(entry, float):
        array = np.zeros(4, type(np.array(entry).item()) if isinstance(entry, int) else np.uint64)
    array.flat[0] = entry
    np.savez(path, **arrays_of(**{name: array}))
    with refused(words):
        assert (files.read_data(path, files.data_shapes(path))[name] == array).all()


def packed(x, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, x, version=version)
    return file.getvalue()


def refused_of_entries(files, path, words, packing=zipfile.ZIP_STORED, **entries):
    """A zip file of these is refused, as its shapes are read or its arrays."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_npy", ".npy"), content)
    with refused(words):
        files.read_data(path, files.data_shapes(path))


def test_entries_which_are_cut_off(files, path):
    arrays = {"contexts": np.ones((64, 3, 2)), "queries": np.ones((64, 2)), "targets": np.ones(64)}
    whole = {f"{name}_npy": packed(x) for name, x in arrays.items()}
    refused_of_entries(files, path, None, **whole)
    for name, x in arrays.items():
        entry, content = f"{name}_npy", whole[f"{name}_npy"]
        others = {key: part for key, part in whole.items() if key != entry}
        for changed, words in (
            (whole | {entry: content[: x.nbytes]}, "are cut off"),  # a header alone takes more
            (whole | {entry: content[:-1]}, "cannot be read as such"),
            (whole | {name: content}, "name an array twice"),
            (others, "cannot be read as such"),
        ):
            refused_of_entries(files, path, words, **changed)


def test_arrays_which_are_packed_otherwise(files, path):
    """bzip2 and long headers may be a thousand times as large as the file."""
    whole = {f"{name}_npy": packed(x) for name, x in arrays_of().items()}
    refused_of_entries(files, path, "packed in another way", zipfile.ZIP_BZIP2, **whole)
    for version in ((2, 0), (3, 0)):
        other = whole | {"queries_npy": packed(arrays_of()["queries"], version)}
        refused_of_entries(files, path, "queries have no header of version", **other)


def test_an_entry_that_is_listed_by_another_name_than_its_header_has(files, path):
    """Who reads headers would find contexts there, and who reads the list those of the end."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, x in {"contexty": np.zeros((4, 3, 2)), **arrays_of()}.items():
            archive.writestr(f"{name}.npy", packed(x))
    assert files.data_shapes(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"contexty.npy", b"contexts.npy", 1))  # its header
    with refused("cannot be read as such"):
        files.data_shapes(path)


class Spoken:
    """What says so when it is unpickled."""

    said = ()

    def __reduce__(self):
        return (setattr, (Spoken, "said", ("unpickled",)))


def test_data_which_change_while_they_are_read(files, tmp_path):
    """And nothing is unpickled."""
    path = tmp_path / "d.npz"
    np.savez(path, **arrays_of())
    shapes = files.data_shapes(path)
    for other, words in (
        (np.ones(3), "targets have changed"),
        (np.ones(4, np.float32), "targets have changed"),
        (np.ones((4, 1)), "targets have changed"),
        (np.array([Spoken()] * 4, dtype=object), "cannot be read as such"),
    ):
        np.savez(path, **arrays_of(targets=other))
        with refused(words):
            files.read_data(path, shapes)
    assert Spoken.said == ()


# Numbers in a certificate.


def test_packed_integers(files):
    values = np.array([[0, 5, 7], [1, 2**32 - 1, 3]])
    text = base64.b64encode(values.astype("<u4").tobytes()).decode()
    found = files.unpack(text, (2, 3), 2**32)
    assert found.dtype == np.int64
    assert (found == values).all()
    for shape, below in (((2, 3), 2**32 - 1), ((3, 3), 2**32), ((5,), 2**32), ((), 2**32)):
        with refused("packed integers misfit"):
            files.unpack(text, shape, below)
    for broken in (text[:-1], text[:5] + "\n" + text[5:], text[:4] + "!" + text[5:]):
        with refused(r"base64|padding|[Ii]nvalid|length|data"):
            files.unpack(broken, (2, 3), 2**32)


# What the checker takes from its command line, hands to the kinds of certificates, and tells.

DEFAULTS = (False, (), math.inf, 8e9)


@pytest.fixture
def calls(checker, monkeypatch):
    """What a kind of certificate was given, one entry for each call."""
    calls = []

    def statements(kind, content, files, options):
        assert kind == "kind"
        calls.append((content, files, tuple(options)))
        return {"rank": "something", "error": "more"}

    monkeypatch.setattr(checker.verify, "KINDS", {"any": "kind"})
    monkeypatch.setattr(checker.verify, "statements", statements)
    return calls


@pytest.fixture
def certificate(tmp_path):
    certificate = tmp_path / "certificate.json"
    certificate.write_text(json.dumps({"format": "any"}))
    return str(certificate)


@pytest.mark.parametrize("others", [[], ["a", "b", "c"]])
def test_two_files_or_three(checker, calls, certificate, others):
    with pytest.raises(ValueError, match="the files are CERTIFICATE"):
        checker.check([certificate, *others])
    assert not calls


def test_the_command(checker, calls, certificate, capsys):
    assert checker.main([certificate, "data"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "rank      something", "error     more", "PROVED",
    ]  # fmt: skip
    words = ["--quick", "--claims", "rank", "error", "--epsilon", "1e-3", "--max-memory", "0.5"]
    checker.main([certificate, "weights", "data", *words])
    checker.main([certificate, "data", "--progress"])
    options = [given[-1][:4] for given in calls]
    assert options == [DEFAULTS, (True, ["rank", "error"], 1e-3, 5e8), DEFAULTS]
    told = [isinstance(given[-1][4], checker.files.Told) for given in calls]
    assert told == [False, False, True]


def test_only_a_process_of_its_own_is_confined(checker, calls, certificate, monkeypatch):
    confined = []
    monkeypatch.setattr(checker.command, "confine", confined.append)
    checker.main([certificate, "data", "--max-memory", "2"])
    assert not confined
    for jobs in "13":
        words = ["checker", certificate, "data", "--max-memory", "2", "--jobs", jobs]
        monkeypatch.setattr(sys, "argv", words)
        assert checker.main() == 0
    assert confined == [2e9, 2e9 + 2 * 2.0**28]  # and addresses of two threads
    assert len(calls) == 3


@pytest.mark.parametrize("size", ["0", "-0", "-1", "inf", "nan", "much", "1e400"])
def test_memory_which_is_none(checker, calls, certificate, size, capsys):
    with pytest.raises(SystemExit):
        checker.main([certificate, "data", f"--max-memory={size}"])
    assert "--max-memory: invalid" in capsys.readouterr().err
    assert not calls


@pytest.mark.parametrize("size", ["0.001", "0.026", "0.05"])
def test_little_memory_is_refused_or_suffices(proved, size):
    """BLAS would abort for the want of buffers, without a word of what was proved."""
    *_, folder = proved
    names = [str(folder / name) for name in ("certificate.json", "weights.safetensors", "data.npz")]
    run = subprocess.run(
        [sys.executable, "-I", str(CHECKER), *names, "--max-memory", size],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.stdout.startswith("NOT PROVED: ")) == (run.returncode == 1), run.stderr
    assert run.stdout.endswith("PROVED\n") == (run.returncode == 0)
    assert (run.returncode == 1) == (size == "0.001")


@pytest.mark.parametrize("name", ["numpy", "mpmath"])
def test_what_is_not_installed_is_named(name):
    code = f"import runpy, sys; sys.modules[{name!r}] = None; sys.argv[0] = {str(CHECKER)!r}; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-I", "-c", code, "c.json", "w.safetensors", "d.npz"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout.startswith("NOT PROVED: ")
    assert f"has no {name}; try: " in run.stdout
    assert not run.stderr


# What it tells while it works: to a terminal, to `check`, and to nobody else.


@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("kind", ["proved", "paired"])
def test_check_reports_steps_and_says_the_same(request, kind):
    *_, folder = request.getfixturevalue(kind)
    steps = []
    with progress_to(lambda *step: steps.append(step)):
        told = check(*paths(folder))
    assert told.proved
    assert told == check(*paths(folder))  # without a line of them
    assert all(0 <= done <= total for _, done, total in steps)
    names = [name for name, *_ in steps]
    assert all(name.startswith("check: ") for name in names)
    expected = {
        "proved": {"check: eliminate Z modulo p"},
        "paired": {"check: read contexts", "check: coupling"},
    }[kind]
    assert expected <= set(names)


def run(folder, *options, **streams):
    command = [sys.executable, "-I", str(CHECKER), *paths(folder), *options]
    return subprocess.run(command, text=True, check=False, **streams)


def test_without_a_terminal_steps_are_asked_for(proved):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    silent, told = run(proved[3], **pipes), run(proved[3], "--progress", **pipes)
    assert silent.stdout == told.stdout
    assert silent.stderr.startswith("needs up to ")
    assert silent.stderr.count("\n") == 1
    assert "... eliminate Z modulo p: 0 of 7\n" in told.stderr


def test_on_a_terminal_they_share_a_line(proved):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    done = run(proved[3], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    written = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.stdout.endswith("PROVED\n")
    assert "\r... eliminate Z modulo p: 0 of 7 " in written
    assert written.count("\n") == 1  # of what is needed
    assert written.endswith(f"\r{'':79}\r")


def test_nobody_has_to_listen(proved):
    read, write = os.pipe()
    os.close(read)
    done = run(proved[3], "--progress", stdout=subprocess.PIPE, stderr=write)
    os.close(write)
    assert done.stdout.endswith("\nPROVED\n")


def test_a_step_is_told_at_once_and_then_now_and_then(checker, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checker.files.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    told = checker.files.Told(stream)
    for done in range(10):
        told("first", done, 10)
        now[0] += 0.2
    told("second", 0, 1)
    told.end()
    lines = stream.getvalue().splitlines()
    assert lines == [f"... first: {done} of 10" for done in (0, 3, 6, 9)] + ["... second: 0 of 1"]


# Certificates of data in a folder: the checker reads contexts by rows, and sees what changes.


@pytest.fixture
def folder(paired, tmp_path):
    """The files of `paired` with the data in a folder, which may be spoilt."""
    data, memorizer, certificate, _ = paired
    data.save_folder(tmp_path / "data")
    memorizer.save(tmp_path / "weights.safetensors")
    certificate.save(tmp_path / "certificate.json")
    return tmp_path


def in_folder(folder):
    return [str(folder / name) for name in ("certificate.json", "weights.safetensors", "data")]


def stored(checker, folder):
    shapes = checker.files.data_shapes(folder / "data")
    return checker.files.read_folder(folder / "data", shapes)


# It proves what is true.


def test_the_same_certificate_is_proved_of_a_folder(paired, checker, folder):
    """Whichever way the data were certified."""
    data, memorizer, certificate, archive = paired
    opened = Dataset.open(folder / "data")
    assert certify(memorizer, opened) == certificate
    found = checker.check(in_folder(folder))
    assert found == {claim.name: claim.statement for claim in certificate.claims}
    assert found == checker.check([*in_folder(folder)[:2], str(archive / "data.npz")])
    for given in (folder / "data", opened, data):
        checked = check(certificate, memorizer, given)
        assert checked.verdict is Verdict.PROVED, checked


def test_rows_and_extremes_are_those_of_numpy(paired, checker, folder):
    contexts, given = stored(checker, folder)["contexts"], paired[0].contexts
    with refused("have not been looked at"):
        contexts.max()
    assert (np.concatenate(list(contexts.blocks())) == given).all()
    assert contexts.max() == -contexts.min() == np.abs(given).max()
    assert (contexts.shape, contexts.dtype) == (given.shape, np.float64)
    for rows in (slice(60, 90), np.array([5, 5, 6, 7, 0]), np.array([], np.int64)):
        assert (contexts[rows] == given[rows]).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_other_certificates_of_a_folder(checker, tmp_path, dtype):
    """Of layers that are not pairs, and of all weights: then all is read at once."""
    data = generators.uniform(
        num_examples=7, context_size=3, width=5, seed=1, dtype=dtype, folder=tmp_path / "data"
    )
    memorizer = build_memorizer(data, num_heads=3)
    memorizer.save(tmp_path / "weights.safetensors")
    certify(memorizer, data).save(tmp_path / "certificate.json")
    assert set(checker.check(in_folder(tmp_path))) == {"grouping", "rank", "error"}
    shared = generators.shared_context(
        num_examples=7, context_size=3, width=5, folder=tmp_path / "shared"
    )
    upper_bound_certificate(shared, 2).save(tmp_path / "bound.json")
    assert checker.check([str(tmp_path / "bound.json"), str(tmp_path / "shared")])


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
    for names in (in_folder(folder), [*in_folder(folder)[:2], str(paired[3] / "data.npz")]):
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


@pytest.mark.parametrize("chunk", [pytest.param(1 << 8, marks=pytest.mark.slow), 1 << 12])
def test_memory_is_not_above_what_is_announced(
    checker, tmp_path, as_if, monkeypatch, peak_of, chunk
):
    """And not what the contexts would take, which here is the most of it.

    A chunk is less than the tokens of one example, or some of them.
    """
    sizes = {"num_examples": 600, "context_size": 30, "width": 32}
    data = generators.gaussian(**sizes, folder=tmp_path / "data")
    memorizer = build_memorizer(data, num_heads=40, construction="paired")
    memorizer.save(tmp_path / "weights.safetensors")
    certify(memorizer, data).save(tmp_path / "certificate.json")
    as_if("paired", CHUNK=chunk)
    as_if("paired", "files", BLOCK=chunk)
    names, announced = in_folder(tmp_path), []
    arrays = checker.files.data_shapes(names[2])
    tensors = checker.files.weights_shapes(names[1], 8e9)
    coupled = checked_couples(checker, names)
    monkeypatch.setattr(checker.paired, "announce", lambda *needed: announced.append(needed[0]))
    peak = peak_of(lambda: checker.check(in_folder(tmp_path), most=2e7))
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
    "cut contexts": (lambda f: cut(f, "contexts", -8), "contexts are cut off, or more follows"),
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
    "fewer examples": (lambda f: rewritten(f, "targets", np.ones(60)), "data do not fit"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_folder_is_not_proved(checker, folder, kind):
    spoil, words = WRONG[kind]
    spoil(folder)
    with refused(words):
        checker.check(in_folder(folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ARRAYS)
def test_a_pipe_is_refused_and_not_waited_for(checker, folder, name):
    (folder / "data" / f"{name}.npy").unlink()
    os.mkfifo(folder / "data" / f"{name}.npy")
    with refused("is not a file"):
        checker.check(in_folder(folder))


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
        checker.check(in_folder(folder))


def test_a_header_which_changes_after_its_shapes_were_read(checker, folder, monkeypatch):
    read = checker.files.read_folder

    def late(*given):
        rewritten(folder, "contexts", np.ones((61, 5, 12)))
        return read(*given)

    monkeypatch.setattr(checker.paired, "read_folder", late)
    with refused("contexts have changed"):
        checker.check(in_folder(folder))


def test_roles_of_folders(paired, folder):
    _, memorizer, certificate, _ = paired
    with pytest.raises(FormatError, match=r"the memorizer .* is the data"):
        check(certificate, folder / "data", folder / "data")
    with pytest.raises(FormatError, match="is not a regular file"):
        check(certificate, memorizer, folder)
