"""What programs read and what people do not: --json, --quiet, -h, -V, endings, and errors."""

import json

import numpy as np
import pytest
from test_outputs import COMMANDS

from constructive import __version__
from constructive.cli import program as entry


@pytest.fixture
def document(program):
    """Run a command with --json: the one document on its standard output."""

    def document(*arguments, status=0):
        done = program(*arguments, "--json")
        assert done.returncode == status, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return document


FILES = ["certificate.json", "memorizer.safetensors", "data.npz"]


@pytest.mark.usefixtures("memorizer")
def test_certify_and_check_as_json(document, tmp_path):
    certify = "certify", "memorizer.safetensors", "data.npz"
    said = document(*certify, "--claims", "rank,error")
    assert said["verdict"] == "PROVED"
    assert [claim["name"] for claim in said["claims"]] == ["rank", "error"]
    stored = json.loads((tmp_path / said["certificate"]).read_text())
    for claim in said["claims"]:
        assert claim.items() >= {"verdict": "PROVED", "witness": None}.items()
        assert claim["statement"] == stored["claims"][claim["name"]]["statement"]
    checked = document("check", *FILES)
    assert checked["verdict"] == checked["report"][-1] == "PROVED"
    said = document(*certify, "--epsilon", "1e-30", "--force", status=1)
    assert said["verdict"] == "REFUTED"
    assert isinstance({c["name"]: c for c in said["claims"]}["error"]["witness"], list | int)
    checked = document("check", *FILES, status=1)
    assert checked["verdict"] == "UNDECIDED"
    assert checked["report"][-1].startswith("NOT PROVED")


@pytest.mark.usefixtures("memorizer")
def test_two_documents_on_standard_output_are_refused(program):
    done = program("certify", "memorizer.safetensors", "data.npz", "-o", "-", "--json")
    assert done.returncode == 2
    assert "OutputError" in done.stderr
    assert done.stdout == ""


def test_quiet_commands_say_nothing(program, tmp_path, monkeypatch):
    monkeypatch.setattr(entry, "_SILENCE", 0.0)
    for command in (
        ["generate", "uniform", "-T", 7, "-n", 3, "-d", 5],
        ["build", "data.npz", "--heads", 3],
        ["certify", *FILES[1:]],
        ["predict", *FILES[1:], "-o", "p.csv"],
        ["regroup", "data.npz", "--heads", 3],
    ):
        done = program(*command, "--quiet")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list(tmp_path.iterdir())) == 5
    loud = program("certify", *FILES[1:], "--force")
    assert "PROVED" in loud.stdout
    assert loud.stderr != ""
    done = program("check", *FILES, "-q")  # writes nothing: its output is the result
    assert done.stdout.endswith("PROVED\n")
    assert done.stderr == ""
    assert "7 examples" in program("predict", *FILES[1:], "-q").stdout
    assert program("build", "none.npz", "-q", "--force").stderr != ""


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_has_help(words):
    for parameter in COMMANDS[words]:
        assert parameter.info.help, parameter.name
        assert parameter.info.help[0].isupper() or parameter.info.help[0] == "."
        if parameter.is_option:
            assert any(name.startswith("--") for name in parameter.options), parameter.name


def test_short_names_of_help_and_version(program):
    assert program("-V").stdout.split() == ["constructive", __version__]
    for words in ([], ["build"], ["kernels", "run"], ["sequence"]):
        short, long = program(*words, "-h"), program(*words, "--help")
        assert short.returncode == 0
        assert short.stdout == long.stdout != ""


@pytest.mark.usefixtures("memorizer")
def test_an_ending_of_another_format_is_refused(run, tmp_path):
    before = sorted(tmp_path.iterdir())
    for command, ending, right in (
        (["export", "memorizer.safetensors"], "safetensors", "onnx"),
        (["export", "memorizer.safetensors"], "pt", "onnx"),
        (["build", "data.npz", "--heads", 3], "onnx", "safetensors"),
        (["certify", *FILES[1:]], "npz", "json"),
        (["regroup", "data.npz", "--heads", 3], "JSON", "npz"),
        (["recite", "data.npz", "--unit", "bytes"], "json", "safetensors"),
    ):
        text = run(*command, "-o", f"x.{ending}", status=2)
        assert f"OutputError: cannot write x.{ending}" in text
        assert f"try: x.{right}" in text
    assert sorted(tmp_path.iterdir()) == before
    for name in ("right.onnx", "plain", "own.model"):
        run("export", "memorizer.safetensors", "-o", name)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    "command",
    [["predict", ".", "data.npz"], ["export", "."], ["sequence", "ask", ".", "a"],
     ["sequence", "build", "."], ["continue", ".", "a"]],
)  # fmt: skip
@pytest.mark.usefixtures("data")
def test_a_folder_in_the_place_of_a_file(run, command):
    text = run(*command, status=2)
    assert "FormatError: . is a folder" in text
    assert "try: " in text


@pytest.mark.parametrize(
    ("error", "words"),
    [(MemoryError("Unable to allocate 9 PiB"), "MemoryError: this needs more memory"),
     (np.linalg.LinAlgError("SVD did not converge"), "LinAlgError: an algorithm")],
)  # fmt: skip
@pytest.mark.usefixtures("data")
def test_errors_of_python_and_numpy_have_three_parts(run, monkeypatch, error, words):
    def fail(_dataset, **_options):
        raise error

    monkeypatch.setattr("constructive.build_memorizer", fail)
    text = run("build", "data.npz", status=2)
    assert text.startswith(words)
    assert f"witness: {error}" in text
    assert "try: " in text


def test_data_beyond_all_memory(run, tmp_path):
    text = run("generate", "uniform", "-T", 10**15, "-n", 32, "-d", 64, status=2)
    assert "ParameterError" in text
    assert "memory" in text
    assert not list(tmp_path.iterdir())
