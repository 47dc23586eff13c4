"""No command destroys what is there; commands from signatures; what programs read."""

import inspect
import io
import json
import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import numpy as np
import pytest
import typer
from typer.models import OptionInfo
from typer.testing import CliRunner

from constructive import OutputError, ParameterError, __version__
from constructive.cli import app
from constructive.cli import program as entry
from constructive.cli import program as signatures

FOLDER = {
    "demo": ["digits-saturation.png", "digits.npz", "digits.safetensors", "digits.json"],
    "figures": ["figure-1-kruskal-rank.svg", "table-1-assumptions.txt"],
}


"""Files which a command writes into a folder."""


SLOW = {"demo", "figures", "recite"}


"""Commands which make something of the nonsense; their tests force them."""


FOLDER_FIRST = {"kernels export", "instances make"}


"""Commands that write a folder of their own; test_tool_commands looks at these."""


WORK = {("check", "folder"), ("prove", "folder")}


"""Folders of commands for their own work, to be gone on with; other tests look at these."""


class Parameter:
    """An argument or option of a command, as its function has it."""

    def __init__(self, parameter, hint):
        kind, self.info = get_args(hint)
        kinds = [k for k in get_args(kind) or [kind] if k is not NoneType]
        self.name, self.kind = parameter.name, kinds[0]
        self.is_option = isinstance(self.info, OptionInfo)
        self.required = parameter.default is parameter.empty
        given = [self.info.default, *self.info.param_decls] if self.is_option else []
        self.options = [word for word in given if isinstance(word, str)] or [f"--{self.name}"]

    @property
    def value(self):
        """Something which it takes."""
        if self.kind is Path:
            return f"{self.name}.in"
        return next(iter(self.kind)).value if issubclass(self.kind, StrEnum) else "3"


def parameters(function):
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.items()
    return [Parameter(p, hints[name]) for name, p in found if hints[name] is not typer.Context]


def commands():
    groups = [("", app), *((f"{g.name} ", g.typer_instance) for g in app.registered_groups)]
    for prefix, group in groups:
        for command in group.registered_commands:
            name = command.name or command.callback.__name__
            yield prefix + name, parameters(command.callback)


def paths(command, *, option):
    return [p for p in command if p.kind is Path and p.is_option == option]


def arguments(command, **outputs):
    """A call with a value for all that must be given, and these outputs."""
    found = []
    for parameter in command:
        option = parameter.options[:1] if parameter.is_option else []
        if parameter.name in outputs:
            found += [*option, str(outputs[parameter.name])]
        elif parameter.required:
            found += [*option, parameter.value]
    return found


COMMANDS = dict(commands())


COMMANDS = {
    words: [parameter for parameter in command if (words, parameter.name) not in WORK]
    for words, command in COMMANDS.items()
}


WRITING = {
    words: command
    for words, command in COMMANDS.items()
    if paths(command, option=True) and words not in FOLDER_FIRST
}


OPTIONS = [(words, option) for words in WRITING for option in paths(WRITING[words], option=True)]


NAMED = [f"{words} {option.options[0]}" for words, option in OPTIONS]


SEVERAL = {
    f"{words} {option.options[0]}": (words, option)
    for words, option in OPTIONS
    if len(paths(WRITING[words], option=True)) + len(FOLDER.get(words, [])) > 1
}


"""Options of commands which write several files."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Every input that a command may be given, none of which is one."""
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS.values():
        for argument in paths(command, option=False):
            (tmp_path / f"{argument.name}.in").write_bytes(b"nonsense")
    return tmp_path


def invoke(words, *arguments):
    return CliRunner().invoke(app, [*words.split(), *map(str, arguments)])


def refusal(words, *arguments):
    error = invoke(words, *arguments).exception
    assert isinstance(error, OutputError), error
    return str(error)


def test_which_commands_write():
    assert set(WRITING) == {
        "build", "export", "predict", "generate", "demo", "certify", "upper-bound",
        "figures", "recite",
    }  # fmt: skip
    assert len(COMMANDS) > len(WRITING)


@pytest.mark.parametrize("words", COMMANDS)
def test_what_writes_can_be_forced(words):
    forcing = [p.options for p in COMMANDS[words] if p.name == "force"]
    assert forcing == ([["--force"]] if words in {*WRITING, *FOLDER_FIRST} else [])


@pytest.mark.parametrize(("words", "option"), OPTIONS, ids=NAMED)
def test_an_existing_file_is_kept(folder, words, option):
    for name in FOLDER.get(words, ["old"]):
        (folder / name).write_bytes(b"precious")
        output = folder if words in FOLDER else folder / name
        given = arguments(WRITING[words], **{option.name: output})
        text = refusal(words, *given)
        assert f"{name}: it exists already" in text
        assert "--force" in text
        assert (folder / name).read_bytes() == b"precious"
        if words not in SLOW:  # then it begins to work, and complains of nonsense or ends well
            error = invoke(words, *given, "--force").exception
            assert not isinstance(error, OutputError)
        (folder / name).unlink()


INPUTS = [
    (words, option, argument)
    for words, command in WRITING.items()
    for option in paths(command, option=True)
    for argument in paths(command, option=False)
]


@pytest.mark.parametrize(
    ("words", "option", "argument"), INPUTS,
    ids=[f"{words} {option.options[0]} {argument.name}" for words, option, argument in INPUTS],
)  # fmt: skip
@pytest.mark.parametrize("forced", [[], ["--force"]])
def test_an_input_is_never_an_output(folder, words, option, argument, forced):
    read = folder / f"{argument.name}.in"
    (folder / "link").symlink_to(read)
    os.link(read, folder / "hard")
    for output in (read.name, "link", "hard", folder / "." / read.name):
        given = arguments(WRITING[words], **{option.name: output})
        text = refusal(words, *given, *forced)
        assert f"{option.options[0]} and {argument.name.upper()} are one file" in text
        assert f"witness: {read.name}" in text
        assert f"try: another path for {option.options[0]}" in text
    assert read.read_bytes() == b"nonsense"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("words", "option"), SEVERAL.values(), ids=SEVERAL)
def test_standard_output_is_for_one_file(words, option):
    name = option.options[0]
    text = refusal(words, *arguments(WRITING[words], **{option.name: "-"}), "--force")
    assert f"{name} - is standard output, but this command writes several files" in text


@pytest.mark.parametrize(
    ("words", "given", "roles"),
    [
        ("recite", {"text": "a.json", "certificate": "./a.json"}, "--certificate and --text"),
    ],
)
def test_two_outputs_are_two_files(folder, words, given, roles):
    text = refusal(words, *arguments(WRITING[words], **given), "--force")
    assert f"{roles} are one file" in text
    assert not [path for path in folder.iterdir() if path.suffix != ".in"]


def test_two_new_outputs_by_a_link(folder):
    (folder / "link").symlink_to("new")
    given = arguments(WRITING["recite"], output="new", text="link")
    assert "--text and --output are one file" in refusal("recite", *given)


@pytest.mark.parametrize("words", [words for words in WRITING if words not in FOLDER])
def test_a_protected_file_is_kept_also_if_forced(folder, words):
    (folder / "old").write_bytes(b"precious")
    (folder / "old").chmod(0o444)
    option = paths(WRITING[words], option=True)[0]
    text = refusal(words, *arguments(WRITING[words], **{option.name: "old"}), "--force")
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
    done = start("predict", "memorizer.safetensors", "data.npz", "-o", "-")
    assert np.load(io.BytesIO(done.stdout)).shape == (7,)
    assert b"7 examples, max error" in done.stderr
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


def test_what_is_not_there_is_named_before_what_is(folder, run):
    (folder / "old.safetensors").write_bytes(b"precious")
    said = run("build", "nothing.npz", "-o", "old.safetensors", status=2)
    assert "FileNotFoundError" in said
    assert "nothing.npz" in said


def test_the_whole_text_of_a_refusal(folder, program):
    (folder / "old.npz").write_bytes(b"precious")
    done = program(*GENERATE, "-o", "old.npz")
    assert done.returncode == 2
    assert done.stderr == (
        "OutputError: cannot write old.npz: it exists already\n"
        f"  witness: {folder.resolve() / 'old.npz'}\n"
        "  try: --force to overwrite it, or another path\n"
    )


# Commands from signatures: what they take, and how errors name it.


@pytest.fixture
def called():
    """A program of one command, and what this was called with."""
    program, given = typer.Typer(), {}

    @signatures.command(program, choices={"colour": ("red", "dark blue")})
    def paint(
        wall: str, *, colour: str = "red", coats: list[int] | None = None, as_json: bool = False,
        heads: int = 1,
    ) -> None:  # fmt: skip
        """Paint it.

        Args:
            wall: Which one, of two,
                or of more.
            colour: A word.
            coats: Thickness.

        Example:

            paint north
        """
        given.update(wall=wall, colour=colour, coats=coats, as_json=as_json)
        if heads == 0:
            raise ParameterError("num_heads=0 is few", suggestion="num_heads >= 1")

    return lambda *words: CliRunner().invoke(program, [*words]), given, paint


def test_a_signature_makes_a_command(called):
    run, given, _ = called
    assert run("north", "--colour", "dark blue", "--coats", "2", "--json").exit_code == 0
    assert given == {"wall": "north", "colour": "dark blue", "coats": [2], "as_json": True}
    assert run("north").exit_code == 0
    assert given == {"wall": "north", "colour": "red", "coats": None, "as_json": False}
    for words in ([], ["north", "--colour", "green"], ["north", "--coats", "few"]):
        assert run(*words).exit_code == 2


def test_a_docstring_says_what_options_are(called):
    run, _, paint = called
    text = " ".join(run("--help").output.replace("│", " ").split())
    for words in ("Which one, of two, or of more.", "Number H of heads.", "paint north"):
        assert words in text
    assert "Args:" not in text
    assert signatures.described(paint)[1] == {
        "wall": "Which one, of two, or of more.", "colour": "A word.", "coats": "Thickness.",
    }  # fmt: skip


def test_an_error_names_the_option(called):
    run, _, _ = called
    error = run("north", "--heads", "0").exception
    assert error.__notes__ == ["  num_heads is the option --heads"]


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


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_has_help(words):
    for parameter in COMMANDS[words]:
        assert parameter.info.help, parameter.name
        assert parameter.info.help[0].isupper() or parameter.info.help[0] == "."
        if parameter.is_option:
            assert any(name.startswith("--") for name in parameter.options), parameter.name


def test_short_names_of_help_and_version(program):
    assert program("-V").stdout.split() == ["constructive", __version__]
    for words in ([], ["build"], ["kernels", "run"], ["instances"]):
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
        (["certify", *FILES[1:]], "NPZ", "json"),
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
