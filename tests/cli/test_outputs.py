"""No command destroys what is there; commands from signatures; what programs read."""

import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import typer
from typer.models import OptionInfo
from typer.testing import CliRunner

from constructive import OutputError, ParameterError, __version__
from constructive.cli import app, outputs
from constructive.cli import program as entry
from constructive.instances import planted, save
from constructive.support.work import JOBS

# A call of each command that writes files, with inputs of nonsense, and the options for its files.
CALLS = {
    "build": ("DATA.in --heads 3", ["--output"]),
    "certify": ("MEMORIZER.in DATA.in", ["--output"]),
    "demo": ("", ["--output"]),
    "export": ("MEMORIZER.in", ["--output"]),
    "figures": ("", ["--output"]),
    "generate": ("uniform -T 3 -n 3 -d 3", ["--output"]),
    "predict": ("MEMORIZER.in DATA.in", ["--output"]),
    "recite": ("FILE.in", ["--output", "--text", "--certificate", "--picture"]),
    "upper-bound": ("DATA.in --heads 3", ["--output"]),
}
# Some of the files that these write into the folder of --output.
FOLDER = {
    "demo": ["digits-saturation.png", "digits.json"],
    "figures": ["figure-1-kruskal-rank.svg", "table-1-assumptions.txt"],
}
# These make something of the nonsense; their own tests force them.
SLOW = {"demo", "figures", "recite"}
# These write a folder of their own, which a test below looks at, or go on with one.
FOLDER_FIRST = {"kernels export", "instances make"}
OTHERS = {"check", "prove"}

OPTIONS = [(words, option) for words, (_, options) in CALLS.items() for option in options]
INPUTS = [
    (words, option, name)
    for words, option in OPTIONS
    for name in CALLS[words][0].split()
    if name.endswith(".in")
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Every input that a command may be given, none of which is one."""
    monkeypatch.chdir(tmp_path)
    for _, _, name in INPUTS:
        (tmp_path / name).write_bytes(b"nonsense")
    return tmp_path


def invoke(words, *arguments):
    call = [words, *CALLS[words][0].split(), *map(str, arguments)]
    return CliRunner().invoke(app, call).exception


def refusal(words, *arguments):
    error = invoke(words, *arguments)
    assert isinstance(error, OutputError), error
    return str(error)


def test_every_command_that_writes_is_tested_here_and_can_be_forced():
    groups = [("", app), *((f"{g.name} ", g.typer_instance) for g in app.registered_groups)]
    forced, writing = set(), set()
    for prefix, group in groups:
        for made in group.registered_commands:
            words = prefix + (made.name or made.callback.__name__)
            taken = inspect.signature(made.callback).parameters.values()
            for kind, info in (get_args(each.annotation) for each in taken):
                if isinstance(info, OptionInfo) and Path in {kind, *get_args(kind)}:
                    writing.add((words, info.default))
            if "force" in (each.name for each in taken):
                forced.add(words)
    assert forced == {*CALLS, *FOLDER_FIRST}
    assert {each for each in writing if each[0] not in FOLDER_FIRST | OTHERS} == set(OPTIONS)


@pytest.mark.parametrize(("words", "option"), OPTIONS)
def test_an_existing_file_is_kept(folder, words, option):
    for name in FOLDER.get(words, ["old"]):
        (folder / name).write_bytes(b"precious")
        given = option, folder if words in FOLDER else folder / name
        text = refusal(words, *given)
        assert f"{name}: it exists already" in text
        assert "--force" in text
        assert (folder / name).read_bytes() == b"precious"
        if words not in SLOW:  # then it begins to work, and complains of nonsense or ends well
            assert not isinstance(invoke(words, *given, "--force"), OutputError)
        (folder / name).unlink()


@pytest.mark.parametrize(("words", "option", "name"), INPUTS)
def test_an_input_is_never_an_output(folder, words, option, name):
    (folder / "link").symlink_to(folder / name)
    os.link(folder / name, folder / "hard")
    for output in (name, "link", "hard", folder / "." / name):
        for force in ([], ["--force"]):
            text = refusal(words, option, output, *force)
            assert f"{option} and {name.removesuffix('.in')} are one file" in text
            assert f"witness: {name}" in text
            assert f"try: another path for {option}" in text
    assert (folder / name).read_bytes() == b"nonsense"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "option"), [each for each in OPTIONS if each[0] in {"demo", "figures", "recite"}]
)
def test_standard_output_is_for_one_file(words, option):
    text = refusal(words, option, "-", "--force")
    assert f"{option} - is standard output, but this command writes several files" in text


def test_two_outputs_are_two_files(folder):
    (folder / "link").symlink_to("new")
    text = refusal("recite", "--output", "new", "--text", "link", "--force")
    assert "--text and --output are one file" in text
    assert not (folder / "new").exists()


@pytest.mark.parametrize("words", [words for words in CALLS if words not in FOLDER])
def test_a_protected_file_is_kept_also_if_forced(folder, words):
    (folder / "old").write_bytes(b"precious")
    (folder / "old").chmod(0o444)
    text = refusal(words, "--output", "old", "--force")
    assert "cannot write old: it is write-protected" in text
    assert f"try: chmod u+w {folder.resolve() / 'old'}" in text


GENERATE = ["generate", "uniform", "-T", "7", "-n", "3", "-d", "5"]


def test_a_dash_is_standard_output(folder, run, start):
    """Bytes alone are there; what is said goes elsewhere, and no file appears."""
    before = sorted(folder.iterdir())
    done = start(*GENERATE, "-o", "-")
    assert done.returncode == 0
    assert np.load(io.BytesIO(done.stdout))["queries"].shape == (7, 5)
    assert b"written to /dev/stdout" in done.stderr
    assert sorted(folder.iterdir()) == before
    (folder / "data.npz").write_bytes(done.stdout)
    run("build", "data.npz", "--heads", 3)
    done = start("certify", "memorizer.safetensors", "data.npz", "-o", "-")
    assert done.stdout.startswith(b"{")
    assert b"Certificate: PROVED" in done.stderr


@pytest.mark.parametrize("name", ["/dev/stdout", "out.npz"])
def test_standard_output_which_is_a_file_is_not_replaced(folder, start, name):
    with (folder / "out.npz").open("wb") as file:
        file.write(b"first")
        file.flush()
        done = start(*GENERATE, "-o", name, stdout=file)
    assert done.returncode == 0
    content = (folder / "out.npz").read_bytes()
    assert content.startswith(b"firstPK")
    assert b"written to" not in content
    assert b"written to" in done.stderr


def test_standard_output_which_is_an_input_is_refused(folder, run, start):
    run(*GENERATE)
    before = (folder / "data.npz").read_bytes()
    with (folder / "data.npz").open("ab") as file:
        done = start("build", "data.npz", "-H", "3", "-o", "-", stdout=file)
    assert done.returncode == 2
    assert b"--output and DATA are one file" in done.stderr
    assert (folder / "data.npz").read_bytes() == before


@pytest.mark.parametrize("words", [[*GENERATE, "-o", "-"], ["info"]])
def test_nobody_listens(start, words):
    """A closed pipe ends a command quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    done = start(*words, stdout=writer)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


def test_standard_output_which_is_closed(folder):
    before = sorted(folder.iterdir())
    command = [sys.executable, "-m", "constructive", *GENERATE, "-o"]
    for name, status in (("-", 2), ("data.npz", 0)):
        shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command, name]
        done = subprocess.run(shell, stderr=subprocess.PIPE, check=False)
        assert done.returncode == status, done.stderr
        assert b"Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == sorted([*before, folder / "data.npz"])


def test_the_whole_text_of_a_refusal(folder, program):
    (folder / "old.npz").write_bytes(b"precious")
    done = program(*GENERATE, "-o", "old.npz")
    assert done.returncode == 2
    assert done.stderr == (
        "OutputError: cannot write old.npz: it exists already\n"
        f"  witness: {folder.resolve() / 'old.npz'}\n"
        "  try: --force to overwrite it, or another path\n"
    )


@pytest.mark.parametrize(
    "line",
    ["generate uniform -T 7 -n 3 -d 5 -o new", "kernels export new --shape tiny --case last",
     "instances make -o new --count 2 --dim 2"],
)  # fmt: skip
def test_a_folder_which_exists_is_kept_unless_forced(run, tmp_path, line):
    def files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    run(*line.split())
    before = files()
    said = run(*line.split(), "--seed", 1, status=2)
    assert "cannot write new: it exists already" in said
    assert "--force" in said
    assert files() == before
    run(*line.split(), "--seed", 1, "--force")
    assert files() != before


# Commands from signatures: what they take, and how errors name it.


@pytest.fixture
def called(monkeypatch):
    """A program of one command, and what this was called with."""
    monkeypatch.setenv(JOBS, "5")
    program, given = typer.Typer(), {}

    @entry.command(program, adds=("jobs",), choices={"colour": ("red", "dark blue")})
    def paint(
        wall: str, *, colour: str = "red", coats: list[int] | None = None, heads: int = 1
    ) -> None:
        """Paint it.

        Args:
            wall: Which one, of two,
                or of more.
            colour: A word.
            coats: Thickness.

        Example:

            paint north
        """
        given.update(wall=wall, colour=colour, coats=coats, jobs=os.environ[JOBS])
        if heads > 9:
            raise ParameterError("10 heads are many", suggestion="num_heads=9")

    return lambda *words: CliRunner().invoke(program, [*words]), given, paint


def test_a_signature_makes_a_command(called, monkeypatch):
    run, given, _ = called
    assert run("north", "--colour", "dark blue", "--coats", "2", "-j", "3").exit_code == 0
    assert given == {"wall": "north", "colour": "dark blue", "coats": [2], "jobs": "3"}
    assert run("north").exit_code == 0
    assert given == {"wall": "north", "colour": "red", "coats": None, "jobs": "5"}
    for words in ([], ["north", "--colour", "green"], ["north", "--coats", "few"]):
        assert run(*words).exit_code == 2
    monkeypatch.delenv(JOBS)
    run("north", "-j", "3")
    assert JOBS not in os.environ


def test_a_docstring_says_what_options_are(called):
    run, _, paint = called
    text = " ".join(run("--help").output.replace("│", " ").split())
    for words in ("Which one, of two, or of more.", "Number H of heads.", "paint north"):
        assert words in text
    assert "Args:" not in text
    assert entry.described(paint)[1] == {
        "wall": "Which one, of two, or of more.", "colour": "A word.", "coats": "Thickness.",
    }  # fmt: skip


def test_an_error_names_the_option(called):
    run, _, _ = called
    error = run("north", "--heads", "10").exception
    assert "num_heads" not in str(error)
    assert "--heads" in str(error)


# What programs read and what people do not: --json, --quiet, -h, -V, endings, and errors.


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


def test_instances_as_json(document, tmp_path):
    save(tmp_path / "folder", planted(dim=2, scale=16.0))
    checked = document("instances", "check", "folder", "-q")
    assert checked["verdict"] == checked["report"][-1] == "PROVED"
    (tmp_path / "results.csv").write_text("needle_a,unsat\nneedle_b,unsat\nother,sat\n")
    scored = document("instances", "score", "folder", "results.csv", "-q", status=1)
    assert scored["counts"]["FALSE"] == scored["counts"]["right"] == scored["other rows"] == 1
    (tmp_path / "folder/more.txt").write_text("")
    assert document("instances", "check", "folder", "-q", status=1)["verdict"] == "UNDECIDED"


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


def test_quiet_commands_say_nothing(program, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "_SILENCE", 0.0)
    for command in (
        ["generate", "uniform", "-T", 7, "-n", 3, "-d", 5],
        ["build", "data.npz", "--heads", 3],
        ["certify", *FILES[1:]],
        ["predict", *FILES[1:], "-o", "p.csv"],
    ):
        done = program(*command, "--quiet")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list(tmp_path.iterdir())) == 4
    loud = program("certify", *FILES[1:], "--force")
    assert "PROVED" in loud.stdout
    assert loud.stderr != ""
    done = program("check", *FILES, "-q")  # writes nothing: its output is the result
    assert done.stdout.endswith("PROVED\n")
    assert done.stderr == ""
    assert "7 examples" in program("predict", *FILES[1:], "-q").stdout
    assert program("build", "none.npz", "-q", "--force").stderr != ""


def test_short_names_of_help_and_version(program):
    assert program("-V").stdout.split() == ["constructive", __version__]
    for words in ([], ["build"], ["kernels", "run"], ["instances"]):
        short, long = program(*words, "-h"), program(*words, "--help")
        assert short.returncode == 0
        assert short.stdout == long.stdout != ""


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
