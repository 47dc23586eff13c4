"""The program as a user meets it: processes, terminals, folders, interrupts, extras."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import constructive
from constructive import (
    Dataset,
    MissingExtraError,
    Text,
    build_decoder,
    build_memorizer,
    generators,
)
from constructive.cli import demo, outputs
from constructive.figures import figures, prepare
from constructive.support.work import progress_to
from constructive.theory import proofs


@pytest.mark.parametrize(
    ("line", "status"), [("capacity -H 4 -n 8 -d 32", 0), ("build damaged.npz --heads 2", 2)]
)
def test_in_this_process_it_is_the_same_program(program, start, tmp_path, line, status):
    """Most tests of commands start no process; status and output are those of one."""
    (tmp_path / "damaged.npz").write_text("nonsense")
    here, there = program(*line.split()), start(*line.split(), text=True)
    assert here.returncode == there.returncode == status
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk which is always full")
@pytest.mark.usefixtures("memorizer")
def test_a_full_disk_has_its_own_way_out(program, start):
    found = program("predict", "memorizer.safetensors", "data.npz", "-o", "/dev/full")
    assert "No space left on device" in found.stderr
    assert "try: free some space there, or a path on another disk" in found.stderr
    with Path("/dev/full").open("wb") as full:
        found = start("info", stdout=full)
    assert found.returncode == 2
    assert b"free some space there" in found.stderr


def on_a_terminal(folder, *arguments, **environment):
    """What the program writes to a terminal, stdout and stderr together."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "constructive", *arguments]
    variables = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=folder, env=variables)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:  # Linux says so at the end
        pass
    os.close(ours)
    process.wait()
    return written.decode()


@pytest.mark.parametrize("words", ["build --help", "kernels list"])
@pytest.mark.usefixtures("data")
def test_no_color_is_not_bold_either(tmp_path, words):
    """Neither help, which typer draws, nor tables, which we draw."""
    assert "\x1b[1m" in on_a_terminal(tmp_path, *words.split(), NO_COLOR="")
    assert "\x1b[1m" not in on_a_terminal(tmp_path, *words.split(), NO_COLOR="1")


@pytest.mark.usefixtures("data")
def test_long_work_has_a_bar_on_a_terminal(tmp_path):
    assert "\u2501" in on_a_terminal(tmp_path, "assumptions", "data.npz")
    assert "\u2501" not in on_a_terminal(tmp_path, "assumptions", "data.npz", "--quiet")


@pytest.mark.usefixtures("data")
def test_long_work_says_how_far_it_is_where_no_bar_can_be_drawn(program, monkeypatch):
    assert program("assumptions", "data.npz").stderr == ""
    monkeypatch.setattr(outputs, "_SILENCE", 0.0)
    lines = program("assumptions", "data.npz").stderr.splitlines()
    assert "ranks of contexts: 7 of 7" in lines
    assert "random subsets of 5: 1 of 1" in lines


def test_completion_knows_the_commands(tmp_path):
    """What a shell asks for after `constructive cap`: typer's protocol."""
    environment = {
        "_CONSTRUCTIVE_COMPLETE": "complete_bash",
        "COMP_WORDS": "constructive cap", "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "constructive cap", "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    command = Path(sys.executable).with_name("constructive")
    done = subprocess.run(
        [command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "capacity" in done.stdout, done.stderr


def test_the_package_says_that_it_is_typed():
    assert (Path(constructive.__file__).parent / "py.typed").is_file()


LOADING = """
import builtins, signal
signal.signal(signal.SIGINT, signal.{handler})
load = builtins.__import__

def interrupted(name, *arguments):
    if name == "typer":
        signal.raise_signal(signal.SIGINT)
    return load(name, *arguments)

builtins.__import__ = interrupted
import sys
sys.argv = ["constructive", "--version"]
from constructive.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("handler", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)]
)
def test_an_interrupt_while_the_program_is_loaded_is_quiet(tmp_path, handler, status):
    command = [sys.executable, "-c", LOADING.format(handler=handler)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == status
    assert not found.stderr


PROJECT = Path(__file__).parents[2]


def test_the_program_is_that_module():
    scripts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"constructive": "constructive.__main__:main"}


def test_a_release_names_the_repository(tmp_path):
    """The papers are in pyproject.toml, and `.ci/absolute` adds the address of the repository."""
    for name in ("README.md", "pyproject.toml", ".ci/absolute"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    paper = {"Paper", "Second paper"}
    assert set(tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]) == paper
    url = "https://example.org/owner/name"
    subprocess.run([tmp_path / ".ci/absolute", url, "v0"], check=True)
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Repository"] == url
    assert paper < set(urls)


# Commands take a folder of .npy files where they take an .npz file, and `generate` writes one.


GENERATE = ["generate", "gaussian", "-T", 61, "-n", 4, "-d", 12]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_way_of_a_folder_through_the_commands(run, tmp_path):
    said = run(*GENERATE, "--float32", "-o", "data")
    assert "Dataset(T=61, n=4, d=12, d_out=1, own contexts, float32)" in said
    assert names(tmp_path / "data") == ["contexts.npy", "queries.npy", "targets.npy"]
    assert "T = 61, H = 12, n = 4, d = 12, own contexts" in run("explain", "data", "-H", 12)
    run("build", "data", "-H", 12, "--construction", "paired")
    assert "61 examples, max error" in run("predict", "memorizer.safetensors", "data")
    assert "Certificate: PROVED" in run("certify", "memorizer.safetensors", "data")
    said = run("check", "certificate.json", "memorizer.safetensors", "data")
    assert said.endswith("PROVED\n")
    assert "PROVED" in run("assumptions", "data", "-H", 20)
    assert "61 examples" in run("capacity", "data")
    run("upper-bound", "data", "--heads", 1, "-o", "bound.json")
    assert run("check", "bound.json", "data").endswith("PROVED\n")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_other_folders_and_links_are_kept(run, tmp_path, force):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("precious")
    (tmp_path / "link").symlink_to("notes")
    said = run(*GENERATE, "-o", "notes", *force, status=2)
    assert "it holds something else, a.txt" in said
    assert "it is a folder" in run(*GENERATE, "-o", "link", *force, status=2)
    assert "no such folder" in run(*GENERATE, "-o", "missing/data", *force, status=2)
    assert names(tmp_path) == ["link", "notes"]


def test_a_file_of_an_input_is_no_output(run, tmp_path):
    run(*GENERATE, "-o", "data")
    before = (tmp_path / "data" / "queries.npy").read_bytes()
    said = run("build", "data", "-H", 12, "-o", "data/queries.npy", "--force", status=2)
    assert "--output and DATA (queries.npy) are one file" in said
    assert (tmp_path / "data" / "queries.npy").read_bytes() == before


# Ctrl-C and termination leave no half-written file.


# Processes in the background may ignore the first signal.
LISTEN = """
import signal, sys
import constructive
from constructive.cli import program as entry
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
BUILD = """
from constructive.support.work import report

def interrupted(*arguments, **options):
    report("work", 1, 2)
    signal.raise_signal(signal.SIGINT)

constructive.build_memorizer = interrupted
sys.argv = "constructive build folder --heads 8 -o weights.safetensors".split()
entry.main()
"""
WRITE = """
from constructive.support.files import replacing

@entry.app.command()
def write():
    with replacing("half.bin") as file:
        file.write(b"half")
        signal.raise_signal(signal.SIGTERM)

sys.argv = ["constructive", "write"]
entry.main()
"""
WRITE_FOLDER = """
from constructive.data import generators

draw = generators.write_folder

def interrupted(path, shape, dtype, blocks, others):
    def some():
        for block in blocks:
            yield block
            signal.raise_signal(signal.SIGINT)
    draw(path, shape, dtype, some(), others)

generators.write_folder = interrupted
sys.argv = "constructive generate uniform -T 61 -n 4 -d 12 -o folder --force".split()
entry.main()
"""


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [(BUILD, 130, "Interrupted."), (WRITE, 143, ""), (WRITE_FOLDER, 130, "Interrupted.")],
    ids=["build", "write", "folder"],
)
def test_an_interrupt_leaves_nothing_half_written(tmp_path, code, status, said):
    generators.uniform(num_examples=3, context_size=2, width=2, folder=tmp_path / "folder")
    command = [sys.executable, "-c", LISTEN + code]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr
    assert run.returncode == status
    assert run.stderr.splitlines()[-1:] == said.splitlines()
    assert names(tmp_path) == ["folder"]
    assert Dataset.open(tmp_path / "folder").num_examples == 3


# What needs an extra says which, and the package works without.


OPTIONAL = ("torch", "onnx", "matplotlib", "sklearn", "hypothesis", "sympy")


@pytest.mark.parametrize("module", ["torch", "onnx"])
def test_the_extra_is_named(module, monkeypatch, tmp_path):
    data = generators.uniform(num_examples=3, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=1)
    decoder = build_decoder(Text.words("a b"), width=32)
    monkeypatch.setitem(sys.modules, module, None)
    for built in (memorizer, decoder):
        with pytest.raises(MissingExtraError, match=rf'pip install "\.\[{module}\]" in a'):
            built.to_torch() if module == "torch" else built.to_onnx(tmp_path / "m.onnx")


def imported(code):
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(OPTIONAL) & set(run.stdout.split())


def test_the_package_and_its_commands_import_nothing_optional():
    assert not imported("import constructive, constructive.cli")


def test_an_optional_import_would_be_seen():
    assert imported("import sympy") == {"sympy"}


def test_a_module_without_its_extra_names_itself():
    code = "import sys; sys.modules['hypothesis'] = None; import constructive.strategies"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "constructive.strategies needs hypothesis" in run.stderr


def test_no_hint_names_a_package_on_an_index():
    """The name `constructive` is not ours there; `constructive-attention` will be."""
    named = re.compile(r"pip3? install (?:-\S+ )*[\"']?constructive\b(?!-attention)")
    assert named.search('pip install --quiet "constructive[torch]"')
    root = Path(__file__).parents[2]
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "proofs").glob("*.md")]
    files += (root / "constructive").rglob("*.py")
    assert not [file for file in files if named.search(file.read_text())]


MISSING = {
    **{f"figures {name}": figures()[name].needs for name in figures()},
    "demo": ("matplotlib.figure", "sklearn.datasets"),
    "prove": ("sympy",),
}


@pytest.mark.parametrize(
    ("line", "module"), [(a, b) for a, needs in MISSING.items() for b in needs]
)
def test_extras_are_missed_before_the_work(line, module, monkeypatch, tmp_path):
    name, steps = line.partition(" ")[2], []
    call = {
        "figures": lambda: prepare(tmp_path / "new", [name]),
        "demo": demo.demo,
        "prove": proofs.prove,
    }[line.partition(" ")[0]]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    listened = progress_to(lambda *step: steps.append(step))
    with listened, pytest.raises(MissingExtraError, match=r'pip install "\.\[\w+\]" in a') as found:
        call()
    assert f"needs {module.partition('.')[0]}" in str(found.value)
    assert len(steps) <= (line == "prove")  # the first page
    assert not list(tmp_path.iterdir())
