"""`constructive instances check` and `score`: what they print, and their status."""

import json

import pytest

from constructive.instances import planted, save


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
    assert "FALSE:" not in run("instances", "score", "folder", "results.csv", "-q")


def test_what_is_not_a_folder(program):
    for command in (("check", "nowhere"), ("score", "nowhere", "results.csv")):
        done = program("instances", *command, "-q")
        assert done.returncode == 2
        assert "nowhere" in done.stderr
