"""A folder is written whole or not at all, and nothing else is destroyed for it."""

import os
import socket

import pytest

from constructive.support.errors import OutputError
from constructive.support.files import replacing_folder, require_folder

NAMES = "a.txt", "b.txt"
ROOT = os.geteuid() == 0


def write(path, text="new"):
    with replacing_folder(path, NAMES) as folder:
        for name in NAMES:
            (folder / name).write_text(text)


def content(path):
    return {file.name: file.read_text() for file in path.iterdir()}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_an_empty_one_and_an_old_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "data", "data", "./data/../data", tmp_path / "empty"):
        write(path, str(path))
    assert content(tmp_path / "data") == dict.fromkeys(NAMES, "./data/../data")
    assert content(tmp_path / "empty") == dict.fromkeys(NAMES, str(tmp_path / "empty"))
    assert names(tmp_path) == ["data", "empty"]


def test_whether_one_would_be_replaced(tmp_path):
    assert not require_folder(tmp_path / "data", NAMES)
    (tmp_path / "data").mkdir()
    assert not require_folder(tmp_path / "data", NAMES)
    (tmp_path / "data" / "a.txt").write_text("old")
    assert require_folder(tmp_path / "data", NAMES)


def write_and_fail(path, error):
    with replacing_folder(path, NAMES) as folder:
        (folder / "a.txt").write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_whatever_happens_the_old_one_stays(tmp_path, error):
    write(tmp_path / "data", "old")
    for path, old in ((tmp_path / "data", "old"), (tmp_path / "other", None)):
        with pytest.raises(OutputError if error is OSError else error):
            write_and_fail(path, error)
        assert path.exists() == (old is not None)
    assert content(tmp_path / "data") == dict.fromkeys(NAMES, "old")
    assert names(tmp_path) == ["data"]


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_old_one_comes_back_if_the_names_cannot_be_changed(
    tmp_path, monkeypatch, failing, error
):
    write(tmp_path / "data", "old")
    rename, calls = type(tmp_path).rename, []

    def broken(self, target):
        calls.append(target)
        if len(calls) == failing:
            raise error
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", broken)
    with pytest.raises(OutputError if error is OSError else error):
        write(tmp_path / "data")
    assert content(tmp_path / "data") == dict.fromkeys(NAMES, "old")
    assert names(tmp_path) == ["data"]


def file(path):
    path.write_text("precious")


def link_to_a_folder(path):
    (path.parent / "real").mkdir()
    path.symlink_to("real")


def link_to_nothing(path):
    path.symlink_to("nothing")


def another_file(path):
    path.mkdir()
    (path / "a.txt").write_text("old")
    (path / "c.txt").write_text("precious")


def link_inside(path):
    path.mkdir()
    (path.parent / "precious").write_text("precious")
    (path / "a.txt").symlink_to(path.parent / "precious")


def folder_inside(path):
    (path / "a.txt").mkdir(parents=True)


def protected_inside(path):
    write(path, "old")
    (path / "b.txt").chmod(0o444)


def protected(path):
    path.mkdir()
    path.chmod(0o555)


def pipe(path):
    os.mkfifo(path)


def socket_(path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (file, "it is not a folder"),
        (link_to_a_folder, "it is not a folder"),
        (link_to_nothing, "it is not a folder"),
        (another_file, "it holds something else, c.txt"),
        (link_inside, "it holds something else, a.txt"),
        (folder_inside, "it holds something else, a.txt"),
        (protected_inside, "b.txt is write-protected"),
        (protected, "it is write-protected"),
        (pipe, "it is not a folder"),
        (socket_, "it is not a folder"),
    ],
)
def test_what_is_not_replaced(tmp_path, monkeypatch, make, words):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    path = tmp_path / "data"
    make(path if make is not socket_ else type(path)("data"))
    before = names(tmp_path)
    with pytest.raises(OutputError) as caught:
        write(path)
    assert words in caught.value.problem
    assert caught.value.problem.startswith(f"cannot write {path}: ")
    assert caught.value.witness
    assert caught.value.suggestion
    assert names(tmp_path) == before
    for kept in tmp_path.rglob("*"):
        if kept.is_file():
            assert kept.read_text() in {"precious", "old"}


def test_somebody_who_comes_meanwhile(tmp_path):
    write(tmp_path / "theirs", "precious")
    (tmp_path / "theirs" / "a.txt").rename(tmp_path / "theirs" / "theirs")

    def come():
        with replacing_folder(tmp_path / "data", NAMES):
            (tmp_path / "theirs").rename(tmp_path / "data")

    with pytest.raises(OutputError, match="something else, theirs"):
        come()
    assert content(tmp_path / "data") == {"b.txt": "precious", "theirs": "precious"}
    assert names(tmp_path) == ["data"]


def test_no_folder_around_it(tmp_path):
    with pytest.raises(OutputError, match="no such folder"):
        write(tmp_path / "missing" / "data")


@pytest.mark.skipif(ROOT, reason="root may write anywhere")
def test_a_read_only_folder_around_it(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(OutputError, match="the folder around it is read-only"):
        write(tmp_path / "data")
    tmp_path.chmod(0o755)
