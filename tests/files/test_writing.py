"""Files and folders are written whole or not at all, and nothing else is destroyed for them."""

import os
import select
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from constructive import (
    Dataset,
    OutputError,
    SequenceDataset,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    generators,
)
from constructive.figures import drawing
from constructive.support.files import (
    replacing,
    replacing_folder,
    require_folder,
    require_writable,
    same_file,
)

ROOT = os.geteuid() == 0
FILES = "a.txt", "b.txt"
DATA = generators.uniform(num_examples=7, context_size=3, width=5)


def write_file(path, text="new", then=lambda: None):
    with replacing(path) as file:
        file.write(text[: len(text) // 2].encode())
        then()
        file.write(text[len(text) // 2 :].encode())


def write_folder(path, text="new", then=lambda: None):
    with replacing_folder(path, FILES) as folder:
        (folder / FILES[0]).write_text(text)
        then()
        (folder / FILES[1]).write_text(text)


BOTH = pytest.mark.parametrize("write", [write_file, write_folder], ids=["file", "folder"])


def content(path):
    """The text of a file, or of all files of a folder if they agree."""
    if not path.is_dir():
        return path.read_text()
    assert names(path) == list(FILES)
    (text,) = {file.read_text() for file in path.iterdir()}
    return text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# What holds of both.


@BOTH
def test_new_ones_and_old_ones(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "new", "new", "./new/../new" if write is write_folder else "./new"):
        write(path, str(path))
        assert content(tmp_path / "new") == str(path)
    assert names(tmp_path) == ["new"]


def raises(error):
    def fail(*_):
        raise error(28, "No space left on device") if error is OSError else error

    return fail


@BOTH
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_on_any_error_the_old_one_stays(tmp_path, monkeypatch, write, error):
    write(tmp_path / "old", "old")
    for name in ("old", "new"):
        with pytest.raises(OutputError if error is OSError else error):
            write(tmp_path / name, then=raises(error))
    monkeypatch.setattr(os, "fsync", raises(OSError))
    with pytest.raises(OutputError, match=r"cannot write .*old: No space left on device") as full:
        write(tmp_path / "old")
    assert full.value.suggestion.startswith("free some space")
    assert content(tmp_path / "old") == "old"
    assert names(tmp_path) == ["old"]


def test_devices_are_written_to_and_long_names(tmp_path):
    write_file("/dev/null")
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
        write_file("/dev/full")
    assert all(stat.S_ISCHR(Path(path).stat().st_mode) for path in ("/dev/null", "/dev/full"))
    write_file(tmp_path / ("x" * 255))
    assert content(tmp_path / ("x" * 255)) == "new"


def file(path, text="precious"):
    path.write_text(text)


def protected_file(path):
    file(path)
    path.chmod(0o444)


def link(path):
    (path.parent / "real").mkdir()
    path.symlink_to("real")


def dangling_link(path):
    path.symlink_to("nowhere/file")


def loop(path):
    path.symlink_to(path.name)


def socket_(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)  # the path of a socket must be short


def another_file(path):
    path.mkdir()
    file(path / "a.txt")
    file(path / "c.txt")


def link_inside(path):
    path.mkdir()
    file(path.parent / "precious")
    (path / "a.txt").symlink_to(path.parent / "precious")


def folder_inside(path):
    (path / "a.txt").mkdir(parents=True)


def protected_inside(path):
    write_folder(path, "precious")
    (path / "b.txt").chmod(0o444)


def protected_folder(path):
    path.mkdir()
    path.chmod(0o555)


def no_folder_around(path):
    path.parent.rmdir()


def block_device(path):
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250))
    except PermissionError:
        pytest.skip("devices cannot be made here")


REFUSED = [
    (write_file, protected_file, "it is write-protected"),
    (write_file, Path.mkdir, "it is a folder"),
    (write_file, link, "it is a folder"),
    (write_file, dangling_link, "no such folder"),
    (write_file, loop, "Too many levels of symbolic links"),
    (write_file, socket_, "it is a socket"),
    (write_file, block_device, "it is a block device"),
    (write_file, no_folder_around, "no such folder"),
    (write_folder, file, "it is not a folder"),
    (write_folder, link, "it is not a folder"),
    (write_folder, dangling_link, "it is not a folder"),
    (write_folder, os.mkfifo, "it is not a folder"),
    (write_folder, socket_, "it is not a folder"),
    (write_folder, another_file, "it holds something else, c.txt"),
    (write_folder, link_inside, "it holds something else, a.txt"),
    (write_folder, folder_inside, "it holds something else, a.txt"),
    (write_folder, protected_inside, "b.txt is write-protected"),
    (write_folder, protected_folder, "it is write-protected"),
    (write_folder, no_folder_around, "no such folder"),
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A path in a folder of its own, in which the test runs."""
    path = tmp_path / "folder" / "it"
    path.parent.mkdir()
    monkeypatch.chdir(path.parent)
    return path


@pytest.mark.parametrize(("write", "make", "words"), REFUSED)
def test_what_is_not_replaced(path, write, make, words):
    """Also for root, who may write nearly anything."""
    make(path)
    around = path.parent.parent
    before = sorted(around.rglob("*"))
    with pytest.raises(OutputError) as caught:
        write(path)
    assert caught.value.problem == f"cannot write {path}: {words}"
    assert caught.value.witness
    assert caught.value.suggestion
    assert sorted(around.rglob("*")) == before
    assert all(kept.read_text() == "precious" for kept in before if kept.is_file())


@BOTH
@pytest.mark.skipif(ROOT, reason="root may write anywhere")
def test_a_read_only_folder_around_it(tmp_path, write):
    tmp_path.chmod(0o555)
    with pytest.raises(OutputError, match="is read-only"):
        write(tmp_path / "new")
    tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("write", "make", "words"),
    [
        (write_file, link, "it is a link"),
        (write_file, os.mkfifo, "it is a pipe"),
        (write_file, Path.mkdir, "it is a folder"),
        (write_file, protected_file, "it is write-protected"),
        (write_folder, another_file, "it holds something else, c.txt"),
        (write_folder, link, "it is not a folder"),
    ],
)
def test_what_appears_meanwhile_stays(path, write, make, words):
    with pytest.raises(OutputError) as caught:
        write(path, then=lambda: make(path))
    assert caught.value.problem == f"cannot write {path}: {words}"
    assert path.is_symlink() == (make is link)
    assert set(names(path.parent)) <= {"it", "real"}


# Files: permissions, links, and names.


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [None, 0o600, 0o666, 0o755, 0o220])
def test_a_new_file_has_the_permissions_of_the_old_one(path, mode):
    """Already while it is written; and those which the umask leaves where there was none."""
    if mode is not None:
        path.write_text("old")
        path.chmod(mode)
    before = path.stat().st_ino if mode else None
    with replacing(path) as written:
        assert stat.S_IMODE(os.fstat(written.fileno()).st_mode) == (mode or 0o640)
    assert stat.S_IMODE(path.stat().st_mode) == (mode or 0o640)
    assert path.stat().st_ino != before  # a new file, which was written whole


@pytest.mark.parametrize("allowed", [True, False])
def test_the_owner_stays_where_that_is_allowed(path, monkeypatch, allowed):
    path.write_text("old")
    if not allowed:
        monkeypatch.setattr(os, "fchown", raises(PermissionError))
    elif ROOT:
        os.chown(path, 1234, 5678)
    before = path.stat()
    write_file(path)
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_what_links_point_to_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    (tmp_path / "second").symlink_to("folder/file")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    (tmp_path / "dangling").symlink_to("folder/made")
    inside = []
    write_file(tmp_path / "first", then=lambda: inside.extend(names(tmp_path)))
    assert inside == ["dangling", "first", "folder", "second"]  # the temporary file is elsewhere
    write_file(tmp_path / "dangling")
    assert all((tmp_path / name).is_symlink() for name in ("first", "second", "dangling"))
    assert names(tmp_path / "folder") == ["file", "made"]
    assert {path.read_text() for path in (tmp_path / "folder").iterdir()} == {"new"}


@pytest.mark.parametrize("then", [None, "other"])
def test_links_are_followed_once_at_the_beginning(tmp_path, then):
    (tmp_path / "file").write_text("old")
    (tmp_path / "other").write_text("other")
    (tmp_path / "link").symlink_to("file")

    def change():
        (tmp_path / "link").unlink()
        if then is not None:
            (tmp_path / "link").symlink_to(then)

    write_file(tmp_path / "link", then=change)
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "other").read_text() == "other"


def test_the_same_file_by_several_names(tmp_path):
    path, other, hard = (tmp_path / name for name in ("file", "link", "hard"))
    assert same_file(tmp_path / "new", tmp_path / "." / "new")
    assert not same_file(tmp_path / "new", tmp_path / "newer")
    path.write_bytes(b"")
    other.symlink_to("file")
    os.link(path, hard)
    assert same_file(path, other)
    assert same_file(other, hard)
    (tmp_path / "other").write_bytes(b"")
    assert not same_file(path, tmp_path / "other")
    assert not same_file(path, tmp_path / "new")
    assert not same_file(Path("/dev/null"), Path("/dev/null"))  # nothing is kept there


# Streams get all bytes at the end, and stay.


def test_what_a_path_stands_for(path):
    for kept, old, stream in ((path, False, False), ("/dev/null", False, True)):
        assert require_writable(kept).is_old_file is old
        assert require_writable(kept).is_stream is stream
    path.write_bytes(b"old")
    assert require_writable(path).is_old_file


def test_a_pipe_gets_all_and_stays(path):
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    DATA.save(path)
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode)
    path.unlink()
    path.write_bytes(got[0])
    assert Dataset.load(path) == DATA


PRINTED = """
from constructive.support.files import replacing
print("before")
with replacing({path!r}) as file:
    file.write(b"bytes\\n")
print("after", flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("pipe", "/dev/stdout"),
        ("socket", "/dev/fd/1"),
        ("file", "/dev/fd/1"),
        ("file", "out.txt"),
    ],
)
def test_standard_output_gets_bytes_in_their_order(tmp_path, kind, path):
    command = [sys.executable, "-c", PRINTED.format(path=path)]
    if kind == "file":
        with (tmp_path / "out.txt").open("wb") as written:
            subprocess.run(command, cwd=tmp_path, stdout=written, check=True)
        printed = (tmp_path / "out.txt").read_bytes()
    elif kind == "pipe":
        printed = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(command, cwd=tmp_path, stdout=theirs, check=True)
            printed = ours.recv(1000)
    assert printed == b"before\nbytes\nafter\n"


def test_a_pipe_gets_nothing_of_a_failure_and_may_be_closed(path):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KeyboardInterrupt):
        write_file(path, then=raises(KeyboardInterrupt))
    assert os.read(reader, 10) == b""

    def close_after_the_first_byte():
        select.select([reader], [], [])
        os.close(reader)

    closing = threading.Thread(target=close_after_the_first_byte)
    closing.start()
    with pytest.raises(BrokenPipeError):
        write_file(path, "0" * (1 << 20))
    closing.join()


def test_a_pipe_that_becomes_a_file_meanwhile_is_not_cut_off(path):
    os.mkfifo(path)
    with pytest.raises(OutputError, match="it has become a file meanwhile"):
        write_file(path, then=lambda: (path.unlink(), file(path)))
    assert path.read_text() == "precious"


# Folders.


def test_whether_a_folder_would_be_replaced(path):
    for make, replaced in ((lambda _: None, False), (Path.mkdir, False), (write_folder, True)):
        make(path)
        assert require_folder(path, FILES) is replaced
    assert content(path) == "new"


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_old_folder_comes_back_if_names_cannot_be_changed(tmp_path, monkeypatch, failing, error):
    write_folder(tmp_path / "data", "old")
    rename, calls = type(tmp_path).rename, []

    def broken(self, target):
        calls.append(target)
        if len(calls) == failing:
            raise error
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", broken)
    with pytest.raises(OutputError if error is OSError else error):
        write_folder(tmp_path / "data")
    assert content(tmp_path / "data") == "old"
    assert names(tmp_path) == ["data"]


# All that is saved.


SAVES = {
    "Dataset": lambda: DATA.save,
    "Memorizer": lambda: build_memorizer(DATA, num_heads=3).save,
    "Memorizer.to_onnx": lambda: build_memorizer(DATA, num_heads=3).to_onnx,
    "Certificate": lambda: certify(build_memorizer(DATA, num_heads=3), DATA).save,
    "SequenceDataset": lambda: SequenceDataset.of(["ab", "bc"], [1, 2]).save,
    "SequenceMemorizer": lambda: build_sequence_memorizer(["ab", "bc"], [1, 2]).save,
    "SequenceMemorizer.to_onnx": lambda: build_sequence_memorizer([[1], [2]], [1, 2]).to_onnx,
    "figures": lambda: lambda path: drawing.write(drawing.new_figure(2), path),
}


@pytest.mark.parametrize("name", SAVES)
def test_every_save_keeps_to_this(tmp_path, name):
    ending = ".png" if name == "figures" else ""
    save, path, link = SAVES[name](), tmp_path / f"file{ending}", tmp_path / f"link{ending}"
    null = tmp_path / f"null{ending}"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    null.symlink_to("/dev/null")
    save(link)
    assert link.is_symlink()
    assert path.stat().st_size > 10
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    save(null)
    null.unlink()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    path.chmod(0o400)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="it is write-protected"):
        save(link)
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name, link.name]


def test_names_with_the_ending_of_another_format_are_refused(tmp_path):
    data = generators.uniform(num_examples=3, context_size=2, width=3)
    memorizer = build_memorizer(data, num_heads=2)
    certificate = certify(memorizer, data, claims=["error"])
    for written, name, kind in (
        (memorizer.save, "m.npz", "a file of safetensors"),
        (memorizer.to_onnx, "m.pt", "an ONNX model"),
        (data.save, "d.safetensors", "an archive of NumPy"),
        (certificate.save, "c.npz", "a JSON file"),
    ):
        with pytest.raises(OutputError, match=f"and this is {kind}"):
            written(tmp_path / name)
        assert not (tmp_path / name).exists()
