"""`constructive instances` writes folders, and refuses what is not one."""

import pytest
from typer.testing import CliRunner

from constructive.cli import app
from constructive.support.errors import ConstructiveError


def run(*arguments):
    return CliRunner().invoke(app, ["instances", *map(str, arguments)])


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("verb", [[], ["make"]])
def test_a_folder(tmp_path, verb):
    result = run(*verb, "-o", tmp_path / "folder", "--kind", "needle", "--count", 4, "--dim", "2:4")
    assert result.exit_code == 0, result.output
    assert "4 instances, 2 of them sat" in result.output
    names = {name for name in files_of(tmp_path / "folder") if name.startswith("onnx/")}
    assert names == {"onnx/needle_0000.onnx", "onnx/needle_0001.onnx"}


def test_processes_and_seeds_give_the_same_bytes(tmp_path):
    common = "--count", 6, "--dim", "2:6", "--seed", 4, "-q"
    assert not run("-o", tmp_path / "one", *common).output
    assert run("make", "-o", tmp_path / "two", "--jobs", 2, *common).exit_code == 0
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_options_of_families(tmp_path):
    result = run(
        "-o", tmp_path / "folder", "--kind", "corner", "--count", 2, "--dim", 3, "--scale", "8:8",
        "--margin", "0.1", "--set", "decoy=0", "--graph", "exp", "--vnnlib", "2", "--timeout", 5,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    files = files_of(tmp_path / "folder")
    assert not any(name.startswith("vnnlib/") for name in files)
    assert files["instances.csv"].count(b",5\n") == 2
    assert b"ReduceSum" in files["onnx/corner_0000.onnx"]


def test_existing_folders_are_kept(tmp_path):
    common = "-o", tmp_path / "folder", "--count", 2, "--dim", 2
    assert run(*common).exit_code == 0
    before = files_of(tmp_path / "folder")
    again = run(*common, "--seed", 1)
    assert isinstance(again.exception, ConstructiveError)
    assert files_of(tmp_path / "folder") == before
    assert run(*common, "--seed", 1, "--force").exit_code == 0
    assert files_of(tmp_path / "folder") != before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--kind", "none"], "no family"),
        (["--dim", "two"], "range"),
        (["--dim", "8:2"], "range"),
        (["--scale", "16:"], "range"),
        (["--set", "decoy"], "--set"),
        (["--set", "decoy=x"], "decoy"),
        (["--set", "other=1"], "other"),
        (["--graph", "none"], "graph"),
        (["--margin", "0.002", "--scale", "200"], "margin"),
    ],
)
def test_refusals_write_nothing(tmp_path, options, word):
    result = run("-o", tmp_path / "folder", "--count", 2, *options)
    assert isinstance(result.exception, ConstructiveError)
    assert word in result.exception.problem + str(result.exception.suggestion)
    assert not list(tmp_path.iterdir())


def test_without_a_folder_the_help_is_shown():
    assert "--kind" in run().output
