"""What is written replaces a regular file or nothing, and streams get it."""

import os
import select
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from constructive import (
    Dataset,
    OutputError,
    SequenceDataset,
    build_memorizer,
    build_sequence_memorizer,
    capacity_map,
    certify,
    generators,
)
from constructive.figures import drawing
from constructive.support.files import replacing, require_writable, same_file

ROOT = os.geteuid() == 0


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_new_files_have_the_permissions_which_the_umask_leaves(tmp_path):
    write(tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert names(tmp_path) == ["file"]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o666, 0o755, 0o220])
def test_a_new_file_has_the_permissions_of_the_old_one(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    before = path.stat().st_ino
    write(path)
    found = path.stat()
    assert stat.S_IMODE(found.st_mode) == mode
    assert found.st_ino != before  # a new file, which was written whole


def test_nothing_is_to_be_read_by_others_while_it_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_the_owner_stays_where_that_is_allowed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 5678)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_an_owner_who_cannot_be_kept_is_no_error(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", forbidden)
    (tmp_path / "file").write_bytes(b"old")
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o400, 0o444, 0o555])
def test_a_protected_file_stays_also_for_root(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with pytest.raises(OutputError) as caught:
        write(path)
    assert str(caught.value) == (
        f"cannot write {path}: it is write-protected\n"
        f"  witness: {path}\n"
        f"  try: chmod u+w {path}, or another path"
    )
    assert path.read_bytes() == b"old"
    path.chmod(mode | 0o200)
    write(path)
    assert path.read_bytes() == b"new"


def test_what_a_link_points_to_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"old")
    (tmp_path / "second").symlink_to("folder/file")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    with replacing(tmp_path / "first") as file:
        file.write(b"new")
        assert names(tmp_path) == ["first", "folder", "second"]  # the temporary file is elsewhere
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"new"
    assert names(tmp_path / "folder") == ["file"]


def test_a_dangling_link_makes_its_target(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    (tmp_path / "lost").symlink_to("nowhere/file")
    with pytest.raises(OutputError, match="no such folder"):
        write(tmp_path / "lost")


def test_a_loop_of_links(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OutputError, match=r"cannot write .*a: Too many levels of symbolic links"):
        write(tmp_path / "a")
    assert names(tmp_path) == ["a", "b"]


def test_another_name_of_the_file_keeps_what_it_has(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    os.link(tmp_path / "file", tmp_path / "copy")
    write(tmp_path / "file")
    assert (tmp_path / "copy").read_bytes() == b"old"


def test_what_is_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").write_bytes(b"old")
        for name, reason in (
            ("socket", "it is a socket"),
            ("folder", "it is a folder"),
            ("file/below", "no such folder"),
            ("none/below", "no such folder"),
        ):
            with pytest.raises(OutputError, match=f"cannot write {name}: {reason}"):
                write(name)
        assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)
    assert names(tmp_path) == ["file", "folder", "socket"]


@pytest.mark.skipif(not ROOT, reason="only root makes devices")
def test_a_block_device_is_refused(tmp_path):
    try:
        os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    with pytest.raises(OutputError, match="it is a block device"):
        write(tmp_path / "disk")
    assert stat.S_ISBLK((tmp_path / "disk").stat().st_mode)


def test_a_pipe_gets_all_and_stays(tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    data.save(tmp_path / "pipe")
    reader.join()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "data.npz").write_bytes(got[0])
    assert (Dataset.load(tmp_path / "data.npz").contexts == data.contexts).all()


def test_devices_are_written_to():
    write("/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(OutputError) as caught:
        write("/dev/full")
    assert "cannot write /dev/full: No space left on device" in str(caught.value)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_link_to_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


PRINTED = """
from constructive.support.files import replacing
print("before")
with replacing({path!r}) as file:
    file.write(b"bytes\\n")
print("after", flush=True)
"""


@pytest.mark.parametrize("kind", ["pipe", "file", "socket"])
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "out.txt"])
def test_standard_output_gets_bytes_in_their_order(tmp_path, kind, path):
    command = [sys.executable, "-c", PRINTED.format(path=path)]
    if kind == "file" or path == "out.txt":
        with (tmp_path / "out.txt").open("wb") as file:
            subprocess.run(command, cwd=tmp_path, stdout=file, check=True)
        printed = (tmp_path / "out.txt").read_bytes()
    elif kind == "pipe":
        printed = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(command, cwd=tmp_path, stdout=theirs, check=True)
            printed = ours.recv(1000)
    assert printed == b"before\nbytes\nafter\n"


def test_a_pipe_which_is_closed_is_a_broken_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def close_after_the_first_byte():
        select.select([reader], [], [])
        os.close(reader)

    closing = threading.Thread(target=close_after_the_first_byte)
    closing.start()
    with pytest.raises(BrokenPipeError):
        write(tmp_path / "pipe", bytes(1 << 20))
    closing.join()


def test_a_failure_sends_nothing_to_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def fail():
        with replacing(tmp_path / "pipe") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.read(reader, 10) == b""
    os.close(reader)


DATA = generators.uniform(num_examples=7, context_size=3, width=5)
SAVES = {
    "Dataset": lambda: DATA.save,
    "Memorizer": lambda: build_memorizer(DATA, num_heads=3).save,
    "Memorizer.to_onnx": lambda: build_memorizer(DATA, num_heads=3).to_onnx,
    "Certificate": lambda: certify(build_memorizer(DATA, num_heads=3), DATA).save,
    "CapacityMap": lambda: (
        capacity_map(num_heads=[2], context_size=[2], head_dim=[1], width=3).save
    ),
    "SequenceDataset": lambda: SequenceDataset.of(["ab", "bc"], [1, 2]).save,
    "SequenceMemorizer": lambda: build_sequence_memorizer(["ab", "bc"], [1, 2]).save,
    "SequenceMemorizer.to_onnx": lambda: build_sequence_memorizer([[1], [2]], [1, 2]).to_onnx,
    "figures": lambda: lambda path: drawing.save(drawing.new_figure(2, 2), path),
}


@pytest.mark.parametrize("name", SAVES)
def test_every_save_keeps_to_this(tmp_path, name):
    save, path, link = SAVES[name](), tmp_path / "file.png", tmp_path / "link.png"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    save(link)
    assert link.is_symlink()
    assert path.stat().st_size > 10
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    save(Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    path.chmod(0o400)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="it is write-protected"):
        save(link)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["file.png", "link.png"]


def make_link(path):
    path.symlink_to("other")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_link, "it is a link"),
        (os.mkfifo, "it is a pipe"),
        (Path.mkdir, "it is a folder"),
        (lambda path: path.touch(0o400), "it is write-protected"),
    ],
)
def test_what_appears_meanwhile_stays(tmp_path, make, reason):
    (tmp_path / "other").write_bytes(b"other")
    path = tmp_path / "file"

    def meanwhile():
        with replacing(path) as file:
            file.write(b"new")
            make(path)

    with pytest.raises(OutputError, match=f"cannot write .*file: {reason}"):
        meanwhile()
    assert (tmp_path / "other").read_bytes() == b"other"
    assert names(tmp_path) == ["file", "other"]
    assert path.is_symlink() or not path.is_file() or path.read_bytes() == b""


def test_a_pipe_which_becomes_a_file_meanwhile_is_not_cut_off(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def meanwhile():
        with replacing(path) as file:
            file.write(b"new")
            path.unlink()
            path.write_bytes(b"precious")

    with pytest.raises(OutputError, match="it has become a file meanwhile"):
        meanwhile()
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("then", ["nothing", "another link"])
def test_a_link_which_changes_meanwhile(tmp_path, then):
    """Links are followed once, at the beginning."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "link").symlink_to("file")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
        (tmp_path / "link").unlink()
        if then == "another link":
            (tmp_path / "link").symlink_to("other")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "other").read_bytes() == b"other"


def test_a_file_which_appears_meanwhile_is_replaced(tmp_path):
    """As `save` does with any file: the last one to write wins."""
    with replacing(tmp_path / "file") as file:
        file.write(b"new")
        (tmp_path / "file").write_bytes(b"old")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_what_the_disk_refuses_is_an_output_error(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*file: No space left on device"):
        write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_long_names_are_written(tmp_path):
    path = tmp_path / ("x" * 255)
    write(path)
    assert path.read_bytes() == b"new"


def test_arrays_of_numpy_reach_streams():
    with replacing("/dev/null") as file:
        np.save(file, np.ones(3))


def test_what_a_path_stands_for(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    assert require_writable(tmp_path / "file").is_old_file
    assert not require_writable(tmp_path / "new").is_old_file
    assert require_writable("/dev/null").is_stream
    assert not require_writable(tmp_path / "file").is_stream


def test_the_same_file_by_several_names(tmp_path):
    file, link, hard = (tmp_path / name for name in ("file", "link", "hard"))
    assert same_file(tmp_path / "new", tmp_path / "." / "new")
    assert not same_file(tmp_path / "new", tmp_path / "newer")
    file.write_bytes(b"")
    link.symlink_to("file")
    os.link(file, hard)
    assert same_file(file, link)
    assert same_file(link, hard)
    (tmp_path / "other").write_bytes(b"")
    assert not same_file(file, tmp_path / "other")
    assert not same_file(file, tmp_path / "new")
    assert not same_file(Path("/dev/null"), Path("/dev/null"))  # nothing is kept there
