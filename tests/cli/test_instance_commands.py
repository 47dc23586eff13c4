"""`constructive instances make`, `check` and `score`: folders, what they print, their status."""

import json

import pytest

from constructive.instances import planted, save


def files_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_is_made(run, tmp_path):
    few = "--kind", "needle", "--count", 4, "--dim", "2:4"
    for folder in ("one", "two"):
        assert "4 instances, 2 of them sat" in run("instances", "make", "-o", folder, *few)
    files = files_of(tmp_path / "one")
    assert files == files_of(tmp_path / "two")
    networks = {name for name in files if name.startswith("onnx/")}
    assert networks == {"onnx/needle_0000.onnx", "onnx/needle_0001.onnx"}


def test_processes_and_seeds_give_the_same_bytes(run, tmp_path):
    common = "--count", 6, "--dim", "2:6", "--seed", 4, "-q"
    assert not run("instances", "make", "-o", "one", *common)
    run("instances", "make", "-o", "two", "--jobs", 2, *common)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_options_of_families(run, tmp_path):
    run(
        "instances", "make", "-o", "folder", "--kind", "corner", "--count", 2, "--dim", 3,
        "--scale", "8:8", "--margin", "0.1", "--set", "decoy=0",
        "--timeout", 5,
    )  # fmt: skip
    files = files_of(tmp_path / "folder")
    assert files["instances.csv"].count(b",5\n") == 2
    assert b"--set=decoy=0" in files["generate_properties.py"]


def test_existing_folders_are_kept(run, tmp_path):
    common = "instances", "make", "-o", "folder", "--count", 2, "--dim", 2
    run(*common)
    before = files_of(tmp_path / "folder")
    assert "exists already" in run(*common, "--seed", 1, status=2)
    assert files_of(tmp_path / "folder") == before
    run(*common, "--seed", 1, "--force")
    assert files_of(tmp_path / "folder") != before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--kind", "none"], "no family"),
        (["--dim", "two"], "range"),
        (["--dim", "8:2"], "range"),
        (["--dim", "nan"], "dims"),
        (["--dim", "inf"], "dims"),
        (["--dim", "1e30"], "dims"),
        (["--dim", "2.5"], "whole numbers"),
        (["--dim", "2:8.5"], "whole numbers"),
        (["--set", "heads=2.5", "--kind", "robust"], "whole numbers"),
        *((["--timeout", text, "--dim", "2"], "timeout") for text in
          ("1e6", "1e-7", "0", "inf", "nan")),
        (["--scale", "16:"], "range"),
        (["--set", "decoy"], "--set"),
        (["--set", "decoy=x"], "decoy"),
        (["--set", "other=1"], "other"),
        (["--margin", "0.002", "--scale", "200"], "margin"),
    ],
)  # fmt: skip
def test_refusals_write_nothing(run, tmp_path, options, word):
    text = run("instances", "make", "-o", "folder", "--count", 2, *options, status=2)
    assert text.startswith("ParameterError: ")
    assert word in text
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "folder", planted(dim=2, scale=16.0))
    return tmp_path / "folder"


def test_a_folder_is_checked(run, folder):
    printed = run("instances", "check", "folder", "--jobs", 2, "-q")
    assert printed.endswith("2 of 2 answers are proved (the folder says 1 sat, 1 unsat)\nPROVED\n")
    document = json.loads(run("instances", "check", "folder", "--json", "-q"))
    assert document["verdict"] == "PROVED"
    assert document["report"] == printed.splitlines()
    (folder / "more.txt").write_text("")
    printed = run("instances", "check", "folder", "-q", status=1)
    assert "no row is about the file more.txt" in printed
    document = json.loads(run("instances", "check", "folder", "--json", "-q", status=1))
    assert document["verdict"] == "UNDECIDED"


def test_results_are_scored(run, folder):
    results = folder.with_name("results.csv")
    results.write_text("needle_a,unsat\nneedle_b,unsat\nother,sat\n")
    printed = run("instances", "score", "folder", "results.csv", "-q", status=1)
    (false,) = [line for line in printed.splitlines() if line.startswith("FALSE: ")]
    assert "its twin" in false
    assert "1 rows are about no instance" in printed
    assert "needle" in printed
    assert "missing" in printed
    document = json.loads(
        run("instances", "score", "folder", "results.csv", "--json", "-q", status=1)
    )
    assert document["counts"]["FALSE"] == document["counts"]["right"] == 1
    assert document["other rows"] == 1
    results.write_text("needle_a,unknown\n")
    printed = run("instances", "score", "folder", "results.csv", "-q")
    assert "FALSE:" not in printed
    assert "missing: results.csv has no row about 1 of 2 instances" in printed
    results.write_text("needle_a,maybe\nneedle_b,timed-out\n")
    printed = run("instances", "score", "folder", "results.csv", "-q")
    assert "unknown: the word 'maybe' is not known: needle_a\n" in printed
    assert "missing:" not in printed
    assert "timed-out" not in printed


def test_what_is_not_a_folder(program):
    for command in (("check", "nowhere"), ("score", "nowhere", "results.csv")):
        done = program("instances", *command, "-q")
        assert done.returncode == 2
        assert "nowhere" in done.stderr
