"""How the checker reads files: what each requirement lets through, and what it does not."""

import base64
import hashlib
import io
import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

NAMES = ["W_Q", "W_K", "W_V", "W_O", "W_D"]


@pytest.fixture
def files(checker):
    return checker.files


# Memory.


def test_what_is_announced_may_be_taken_to_the_byte(files, capsys):
    files.announce(2_000_000_000, 1234, 2e9)
    assert capsys.readouterr().err == "needs up to 2 GB of memory and 2e+03 operations\n"
    with pytest.raises(ValueError, match=r"^2.1 GB .* are needed, and --max-memory is 2$"):
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


def test_where_nothing_can_be_confined_nothing_is(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    files.confine(3e9)


# JSON.


def test_json_of_any_size_that_fits(files, tmp_path):
    path = tmp_path / "c.json"
    path.write_text('{"format": "x", "a": [1, {"b": null}]}')
    size = path.stat().st_size
    assert files.read_json(path, "c", 64 * size)["a"] == [1, {"b": None}]
    with pytest.raises(ValueError, match=r"the c .* is too large for --max-memory"):
        files.read_json(path, "c", 64 * size - 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "it has no format"),
        ('"format"', "it has no format"),
        ("{}", "it has no format"),
        ('{"format": 1, "a": {"b": 1, "b": 1}}', "repeats a key"),
        ('{"format": 1', "cannot be read as such"),
        ("", "cannot be read as such"),
    ],
)
def test_json_which_is_no_certificate(files, tmp_path, text, words):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        files.read_json(path, "certificate", 1e6)
    assert str(path) in str(caught.value)


def test_files_which_are_not_there(files, tmp_path):
    with pytest.raises(ValueError, match=r"the data .*nothing is not there"):
        files.data_shapes(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"the weights .* is not a file"):
        files.weights_shapes(tmp_path, 1e9)


@pytest.mark.parametrize("shape", [[0], [-1], [True], [1.0], ["1"], [[1]], [2, None], [3, 0]])
def test_what_is_no_shape(files, shape):
    with pytest.raises(ValueError, match="is not a shape"):
        files.shape_of(shape)


# Weights.


def tensors():
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 1), (2, 3, 1), (2, 3, 2), (4, 5), (5, 1)]
    kinds = ["<f8", "<f4", "<f8", "<f4", "<f8"]
    return {
        name: rng.standard_normal(shape).astype(kind)
        for name, shape, kind in zip(NAMES, shapes, kinds, strict=True)
    }


def header_of(arrays):
    header, start = {}, 0
    for name, x in arrays.items():
        header[name] = {
            "dtype": {"<f8": "F64", "<f4": "F32"}[x.dtype.str],
            "shape": list(x.shape),
            "data_offsets": [start, start + x.nbytes],
        }
        start += x.nbytes
    return header


def written(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return len(text)


def body_of(arrays):
    return b"".join(x.tobytes() for x in arrays.values())


@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize("metadata", [False, True])
def test_weights_are_read_from_where_they_are(files, tmp_path, corrections, metadata):
    path, arrays = tmp_path / "w", tensors()
    if corrections:
        arrays["W_V_corrections"] = np.full((1, 2, 3, 2), 2.0**-60)
    header = header_of(arrays) | ({"__metadata__": {"a": "b"}} if metadata else {})
    length = written(path, header, body_of(arrays))
    shapes = files.weights_shapes(path, 64 * length)
    assert list(shapes) == list(arrays)
    read = files.read_weights(path, shapes)
    for name, x in arrays.items():
        assert shapes[name][:2] == (x.dtype, x.shape)
        assert (read[name] == x).all()
        assert read[name].dtype == x.dtype
    with pytest.raises(ValueError, match="too large for --max-memory"):
        files.weights_shapes(path, 64 * length - 1)


CHANGES = [
    (lambda h: h["W_Q"].update(data_offsets=[0, 47]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(data_offsets=[-1, 47]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(data_offsets=[-48, 0]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(data_offsets=[0.0, 48]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(data_offsets=[True, 49]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(shape=[2, 3, 2]), "W_Q is cut off"),
    (lambda h: h["W_Q"].update(shape=[2, 3, 0]), "is not a shape"),
    (lambda h: h["W_Q"].update(dtype="F32"), "W_Q is cut off"),
    (lambda h: h["W_D"].update(data_offsets=[h["W_D"]["data_offsets"][k] + 1 for k in (0, 1)]),
     "W_D is cut off"),
    (lambda h: h.pop("W_V"), "the weights are not"),
    (lambda h: h.update(W_X=h["W_V"]), "the weights are not"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_headers_which_do_not_fit(files, tmp_path, change, words):
    arrays = tensors()
    header, path = header_of(arrays), tmp_path / "w"
    change(header)
    written(path, header, body_of(arrays))
    with pytest.raises(ValueError, match=words):
        files.weights_shapes(path, 1e9)


def test_types_which_are_not_read(files, tmp_path):
    header, path = header_of(tensors()), tmp_path / "w"
    header["W_Q"]["dtype"] = "I64"
    written(path, header, body_of(tensors()))
    with pytest.raises(KeyError):
        files.weights_shapes(path, 1e9)


def test_a_header_as_long_as_the_file_and_longer(files, tmp_path):
    path = tmp_path / "w"
    text = json.dumps({"format": 1}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError, match="the weights are not"):
        files.weights_shapes(path, 1e9)
    for more in (1, 1 << 60):
        path.write_bytes(struct.pack("<Q", len(text) + more) + text)
        with pytest.raises(ValueError, match="is cut off"):
            files.weights_shapes(path, 1e99)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_weights_which_are_no_numbers(files, tmp_path, name, value):
    arrays, path = tensors(), tmp_path / "w"
    arrays[name].flat[-1] = value
    written(path, header_of(arrays), body_of(arrays))
    with pytest.raises(ValueError, match=f"{name} is not finite"):
        files.read_weights(path, files.weights_shapes(path, 1e9))


# Data.


def arrays_of(**changes):
    rng = np.random.default_rng(0)
    draw = rng.standard_normal
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
    path = tmp_path / "d.npz"
    sizes = np.abs if "u" in kind else np.asarray
    given = {name: np.asfortranarray(sizes(9 * x).astype(kind)) for name, x in arrays_of().items()}
    save(path, **given)
    shapes = files.data_shapes(path)
    assert shapes == {name: (np.dtype(kind), x.shape) for name, x in given.items()}
    read = files.read_data(path, shapes)
    assert list(read) == ["contexts", "queries", "targets"]
    for name, x in given.items():
        assert (read[name] == x).all()
        assert read[name].dtype.str == read_as
        assert read[name].flags.c_contiguous


@pytest.mark.parametrize("kind", ["<c8", "<c16", "U3", "<M8[s]", "<g", "O", [("a", "<f8")]])
def test_data_which_are_no_real_numbers(files, tmp_path, kind):
    path = tmp_path / "d.npz"
    np.savez(path, **arrays_of(targets=np.zeros(4).astype(kind)))
    with pytest.raises(ValueError, match=r"no real numbers|no header of version"):
        files.data_shapes(path)


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        (np.array([2**53, -(2**53)]), True),
        (np.array([2**53 + 1, 0]), False),
        (np.array([-(2**53) - 1, 0]), False),
        (np.array([2**64 - 1, 0], np.uint64), False),
        (np.array([-(2**63), 0]), False),
    ],
)
def test_integers_which_float64_holds(files, tmp_path, values, fits):
    path = tmp_path / "d.npz"
    np.savez(path, **arrays_of(targets=values))
    shapes = files.data_shapes(path)
    if fits:
        assert (files.read_data(path, shapes)["targets"] == values).all()
        return
    with pytest.raises(ValueError, match=r"targets have integers beyond 2\^53"):
        files.read_data(path, shapes)


@pytest.mark.parametrize("name", ["contexts", "queries", "targets"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_data_which_are_not_finite(files, tmp_path, name, value):
    path, arrays = tmp_path / "d.npz", arrays_of()
    arrays[name].flat[0] = value
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=f"{name} are not finite"):
        files.read_data(path, files.data_shapes(path))


def entries_of(path, **entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_npy", ".npy"), content)


def packed(x, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, x, version=version)
    return file.getvalue()


def test_entries_which_are_cut_off(files, tmp_path):
    path = tmp_path / "d.npz"
    arrays = {"contexts": np.ones((64, 3, 2)), "queries": np.ones((64, 2)), "targets": np.ones(64)}
    whole = {f"{name}_npy": packed(x) for name, x in arrays.items()}
    entries_of(path, **whole)
    assert len(files.data_shapes(path)) == 3
    for name, x in arrays.items():
        entry, content = f"{name}_npy", whole[f"{name}_npy"]
        entries_of(path, **whole | {entry: content[: x.nbytes]})  # a header alone takes more
        with pytest.raises(ValueError, match="are cut off"):
            files.data_shapes(path)
        entries_of(path, **whole | {entry: content[:-1]})
        with pytest.raises(ValueError, match="cannot be read as such"):
            files.read_data(path, files.data_shapes(path))
        entries_of(path, **whole | {name: content})
        with pytest.raises(ValueError, match="name an array twice"):
            files.data_shapes(path)
        entries_of(path, **{key: part for key, part in whole.items() if key != entry})
        with pytest.raises(ValueError, match="cannot be read as such"):
            files.data_shapes(path)


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_other_versions_of_headers(files, tmp_path, version):
    path = tmp_path / "d.npz"
    whole = {f"{name}_npy": packed(x) for name, x in arrays_of().items()}
    entries_of(path, **whole | {"queries_npy": packed(arrays_of()["queries"], version)})
    with pytest.raises(ValueError, match="queries have no header of version"):
        files.data_shapes(path)


def test_data_which_change_while_they_are_read(files, tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, **arrays_of())
    shapes = files.data_shapes(path)
    for other in (np.ones(3), np.ones(4, np.float32), np.ones((4, 1))):
        np.savez(path, **arrays_of(targets=other))
        with pytest.raises(ValueError, match="targets have changed"):
            files.read_data(path, shapes)


class Spoken:
    """What says so when it is unpickled."""

    said = ()

    def __reduce__(self):
        return (setattr, (Spoken, "said", ("unpickled",)))


def test_nothing_is_unpickled(files, tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, **arrays_of())
    shapes = files.data_shapes(path)
    np.savez(path, **arrays_of(targets=np.array([Spoken()] * 4, dtype=object)))
    with pytest.raises(ValueError, match="cannot be read as such"):
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
        with pytest.raises(ValueError, match="packed integers misfit"):
            files.unpack(text, shape, below)
    for broken in (text[:-1], text[:5] + "\n" + text[5:], text[:4] + "!" + text[5:]):
        with pytest.raises(ValueError, match=r"base64|padding|[Ii]nvalid|length|data"):
            files.unpack(broken, (2, 3), 2**32)


def test_json_values_are_the_same_with_their_types(files):
    one = {"a": [1, 2.5], "b": {"c": None}}
    assert files.same(one, {"b": {"c": None}, "a": [1, 2.5]})
    for other in (
        {"a": [True, 2.5], "b": {"c": None}},
        {"a": [1.0, 2.5], "b": {"c": None}},
        {"a": [1, 2.5], "b": {"c": False}},
        {"a": [2.5, 1], "b": {"c": None}},
    ):
        assert not files.same(one, other)


def hashed(arrays):
    found = hashlib.sha256()
    for name, x in arrays.items():
        found.update(f"{name} {x.dtype.str} {list(x.shape)}\n".encode() + x.tobytes())
    return found


def test_a_certificate_is_about_arrays_of_one_hash(files):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(2, np.float32)}
    about = {
        "a": {"dtype": "float64", "shape": [2, 3]},
        "b": {"dtype": "float32", "shape": [2]},
        "sha256": hashed(arrays).hexdigest(),
    }
    content = {"data": about, "weights": {}}
    assert files.require_about(content, arrays, "data") == hashed(arrays).digest()
    turned = arrays | {"a": np.asfortranarray(arrays["a"])}
    assert files.require_about(content, turned, "data") == hashed(arrays).digest()
    for other in (
        arrays | {"a": arrays["a"] + 1},
        arrays | {"a": arrays["a"].reshape(3, 2)},
        arrays | {"a": arrays["a"].astype(np.float32)},
        {"a": arrays["a"]},
        {"a": arrays["a"], "c": arrays["b"]},
        arrays | {"c": arrays["b"]},
    ):
        with pytest.raises(ValueError, match="it is about other data"):
            files.require_about(content, other, "data")
    with pytest.raises(ValueError, match="it is about other weights"):
        files.require_about(content, arrays, "weights")


def claiming(verdict="PROVED", **claims):
    return {"verdict": verdict, "claims": {k: {"verdict": v} for k, v in claims.items()}}


def test_claims_which_are_asked_for(files):
    both = claiming(rank="PROVED", error="PROVED")
    known = {"rank": "", "error": "", "more": ""}
    for asked in ((), ("rank",), ["error", "rank"], ("rank", "rank")):
        assert files.require_claims(both, known, asked) == both["claims"]
        assert files.require_claims(both, {"rank": "", "error": ""}, asked) == both["claims"]
    for content, asked, words in (
        (claiming(), (), "it claims nothing"),
        (both, ("rank", "more", "else"), "does not claim all that is asked: else, more"),
        (claiming(beauty="PROVED"), (), "nothing known"),
        (claiming(rank="PROVED", beauty="PROVED"), (), "nothing known"),
        (claiming(rank="PROVED", error="UNDECIDED"), (), "not all claims are PROVED: error"),
        (claiming(rank=True), (), "not all claims are PROVED: rank"),
        (claiming("REFUTED", rank="PROVED"), (), "its verdict is not PROVED"),
        (claiming(None, rank="PROVED"), (), "its verdict is not PROVED"),
    ):
        with pytest.raises(ValueError, match=words):
            files.require_claims(content, known, asked)
