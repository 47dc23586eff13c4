"""The command line as a user meets it: status, messages, files, folders, interrupts, extras."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from constructive import (
    Dataset,
    Memorizer,
    MissingExtraError,
    Text,
    build_decoder,
    build_memorizer,
    generators,
)
from constructive.cli import demo
from constructive.figures import gallery
from constructive.figures.gallery import figures
from constructive.support.work import progress_to
from constructive.theory import proofs


def test_options_of_build_reach_the_construction(run, tmp_path):
    run("generate", "shared", "-T", 13, "-n", 4, "-d", 6, "--target-dim", 2, "--seed", 5)
    run(
        "build", "data.npz", "-H", 4, "--head-dim", 2, "--value-dim", 3, "--seed", 7,
        "--construction", "rank_one",
    )  # fmt: skip
    memorizer = Memorizer.load(tmp_path / "memorizer.safetensors")
    assert memorizer.record.construction == "rank_one"
    assert memorizer.record.seed == 7
    assert (memorizer.layer.head_dim, memorizer.layer.value_dim) == (2, 3)


def test_a_name_with_another_ending_says_what_it_will_be(program):
    program("generate", "gaussian", "-T", 7, "-n", 3, "-d", 5)
    said = program("build", "data.npz", "--heads", 3, "-o", "m.txt").stderr
    assert "m.txt will be a file of safetensors, usually named *.safetensors" in said
    for name, more in (("m", []), ("m.safetensors", []), ("other.txt", ["--quiet"])):
        assert not program("build", "data.npz", "--heads", 3, "-o", name, *more).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["capacity", "-T", 621, "-n", 32, "-d", 64],
        ["build", "damaged.npz", "--heads", 2],
    ],
    ids=["done", "ConstructiveError"],
)
def test_in_this_process_it_is_the_same_program(program, start, tmp_path, arguments):
    """Most tests of commands start no process; status and output are those of one."""
    (tmp_path / "damaged.npz").write_text("nonsense")
    here, there = program(*arguments), start(*arguments, text=True)
    assert here.returncode == there.returncode == (0 if arguments[0] == "capacity" else 2)
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)


def test_a_demo_of_few_images(run, tmp_path):
    pytest.importorskip("sklearn")
    text = run("demo", "--examples", 17, "-o", "few")
    assert text.count("17/17") == 3
    assert "fails for 17 of 17" in text
    assert text.splitlines()[-1] == "PROVED"
    assert Dataset.open(tmp_path / "few" / "digits.npz").num_examples == 17


@pytest.mark.slow
def test_the_demo_reproduces_every_label(start, tmp_path):
    folder = tmp_path / "constructive-demo"
    folder.mkdir()
    for name in ("digits-saturation.png", "digits.npz"):
        (folder / name).write_bytes(b"old")
    done = start("demo", "--force", text=True)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert text.count("1797/1797") == 3
    assert "fails for 1797 of 1797" in text
    assert "Certificate: PROVED" in text
    assert done.stdout.splitlines()[-1] == "PROVED"  # the checker's last word
    assert list(tmp_path.iterdir()) == [folder]
    assert {"digits.npz", "digits.safetensors", "digits.json"} <= {p.name for p in folder.iterdir()}
    said = re.search(r"All (\d+) MB of it are in the folder constructive-demo\.", text)
    assert round(sum(p.stat().st_size for p in folder.iterdir()) / 1e6) == int(said[1])
    picture = (folder / "digits-saturation.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_threads_build_prove_and_check_the_same(program, tmp_path):
    sizes = ("-T", 311, "-n", 32, "-d", 64, "-o", "data.npz")
    assert program("generate", "uniform", *sizes).returncode == 0
    for jobs in ("1", "3"):
        files = f"{jobs}.safetensors", "data.npz"
        given = ("-H", 11, "--construction", "rank_one", "--jobs", jobs)
        assert program("build", "data.npz", *given, "-o", files[0]).returncode == 0
        assert program("certify", *files, "-j", jobs, "-o", f"{jobs}.json").returncode == 0
        assert program("check", f"{jobs}.json", *files, "-j", jobs).returncode == 0
    for ending in ("safetensors", "json"):
        found = [(tmp_path / f"{jobs}.{ending}").read_bytes() for jobs in ("1", "3")]
        assert found[0] == found[1]
    refused = program("check", "1.json", "1.safetensors", "data.npz", "-j", 0)
    assert refused.returncode == 2


# What a newcomer's first attempts are told.


LABELS = ["dog", "cat", "cow, too", "dog", "cat", "ox", "dog"]


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    ("dim", "names"), [(None, ["prediction"]), (2, ["prediction_0", "prediction_1"])]
)
def test_predictions_in_a_table(run, tmp_path, dim, names):
    data = generators.uniform(num_examples=5, context_size=3, width=5, target_dim=dim)
    data.save(tmp_path / "data.npz")
    build_memorizer(data, num_heads=2).save(tmp_path / "memorizer.safetensors")
    for name in ("P.CSV", "p.npy"):
        said = run("predict", "memorizer.safetensors", "data.npz", "-o", name)
        assert "5 examples, max error" in said
    found, *rows = rows_of(tmp_path / "P.CSV")
    predictions = np.load(tmp_path / "p.npy")
    assert found == names
    assert np.array_equal(np.array(rows, dtype=float), predictions.reshape(5, -1))  # every bit
    assert np.abs(predictions - data.targets).max() < 1e-9


def test_labels_in_a_table(data, run, tmp_path):
    data = Dataset.of_classes(data.contexts, data.queries, LABELS)
    data.save(tmp_path / "labels.npz")
    run("build", "labels.npz", "-o", "labels.safetensors")
    said = run("predict", "labels.safetensors", "labels.npz", "-o", "p.csv")
    assert "7 of 7 labels are those of the data" in said
    names, *rows = rows_of(tmp_path / "p.csv")
    assert names == ["label", "cat", "cow, too", "dog", "ox"]
    assert [row[0] for row in rows] == LABELS
    swapped = Dataset(data.contexts, data.queries, data.targets[[1, 0, *range(2, 7)]], data.classes)
    swapped.save(tmp_path / "others.npz")
    assert "5 of 7 labels" in run("predict", "labels.safetensors", "others.npz")
    data = Dataset(data.contexts, data.queries, data.targets)  # nobody knows what they stand for
    data.save(tmp_path / "nameless.npz")
    assert "labels" not in run("predict", "labels.safetensors", "nameless.npz").splitlines()[-1]


def test_contexts_which_cannot_have_their_rank(program):
    found = program("generate", "uniform", "-T", 7, "-n", 9, "-d", 4)
    assert found.returncode == 0
    assert "warning: contexts of n=9 tokens in d=4 dimensions cannot have rank 9" in found.stderr
    assert "try -d 9" in found.stderr
    found = program("generate", "uniform", "-T", 7, "-n", 4, "-d", 4, "-o", "fits.npz")
    assert not found.stderr


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


@pytest.mark.parametrize("words", ["build --help", "exact-capacity data.npz -H 1"])
@pytest.mark.usefixtures("data")
def test_no_color_is_not_bold_either(tmp_path, words):
    """Neither help, which typer draws, nor tables, which we draw."""
    assert "\x1b[1m" in on_a_terminal(tmp_path, *words.split(), NO_COLOR="")
    assert "\x1b[1m" not in on_a_terminal(tmp_path, *words.split(), NO_COLOR="1")


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


FILES = ["contexts.npy", "queries.npy", "targets.npy"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_way_of_a_folder_through_the_commands(run, tmp_path):
    said = run(*GENERATE, "--float32", "-o", "data")
    assert "Dataset(T=61, n=4, d=12, d_out=1, own contexts, float32)" in said
    assert names(tmp_path / "data") == FILES
    assert "T = 61, H = 12, n = 4, d = 12, own contexts" in run("explain", "data", "-H", 12)
    run("build", "data", "-H", 12, "--construction", "paired")
    assert "61 examples, max error" in run(
        "predict", "memorizer.safetensors", "data", "-o", "p.npy"
    )
    assert np.load(tmp_path / "p.npy").shape == (61,)
    assert re.search(r"rank +PROVED", run("certify", "memorizer.safetensors", "data"))
    said = run("check", "certificate.json", "memorizer.safetensors", "data")
    assert said.endswith("PROVED\n")
    assert "PROVED" in run("assumptions", "data", "-H", 20)
    assert "61 examples" in run("exact-capacity", "data")
    run("upper-bound", "data", "--heads", 1, "-o", "bound.json")
    assert run("check", "bound.json", "data").endswith("PROVED\n")


def test_a_folder_which_exists_is_kept_unless_forced(run, tmp_path):
    run(*GENERATE, "-o", "data")
    before = (tmp_path / "data" / "targets.npy").read_bytes()
    said = run(*GENERATE, "--seed", 1, "-o", "data", status=2)
    assert "cannot write data: it exists already" in said
    assert "--force" in said
    assert (tmp_path / "data" / "targets.npy").read_bytes() == before
    run(*GENERATE, "--seed", 1, "-o", "data", "--force")
    assert (tmp_path / "data" / "targets.npy").read_bytes() != before
    assert names(tmp_path) == ["data"]


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


def test_no_hint_names_a_package_on_an_index():
    """The name `constructive` is not ours there; `constructive-attention` will be."""
    named = re.compile(r"pip3? install (?:-\S+ )*[\"']?constructive\b(?!-attention)")
    assert named.search('pip install --quiet "constructive[torch]"')
    root = Path(__file__).parents[2]
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "proofs").glob("*.md")]
    files += (root / "constructive").rglob("*.py")
    assert not [file for file in files if named.search(file.read_text())]


@pytest.mark.parametrize(
    ("name", "module"), [(name, module) for name in figures() for module in figures()[name].needs]
)
def test_figures_miss_extras_before_they_compute(name, module, monkeypatch, tmp_path):
    steps = []
    monkeypatch.setitem(sys.modules, module, None)
    listened = progress_to(lambda *step: steps.append(step))
    with listened, pytest.raises(MissingExtraError, match=f"needs {module}"):
        list(gallery.draw(tmp_path / "new", only=[name]))
    assert not steps
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["matplotlib.figure", "sklearn.datasets"])
def test_the_demo_misses_extras_before_it_computes(module, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[demo\]" in a'):
        demo.demo()
    assert not list(tmp_path.iterdir())


def test_the_proofs_miss_sympy_before_the_first_page(monkeypatch):
    steps = []
    monkeypatch.setitem(sys.modules, "sympy", None)
    listened = progress_to(lambda *step: steps.append(step))
    with listened, pytest.raises(MissingExtraError, match=r'pip install "\.\[proofs\]" in a'):
        proofs.prove()
    assert len(steps) <= 1
