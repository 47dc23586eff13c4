"""What a newcomer's first attempts are told."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from constructive import Dataset, build_memorizer, generators

LABELS = ["dog", "cat", "cow, too", "dog", "cat", "ox", "dog"]


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.usefixtures("memorizer")
def test_predictions_in_a_table(data, run, tmp_path):
    run("predict", "memorizer.safetensors", "data.npz", "-o", "p.csv")
    run("predict", "memorizer.safetensors", "data.npz", "-o", "p.npy")
    (name,), *rows = rows_of(tmp_path / "p.csv")
    assert name == "prediction"
    assert [float(x) for (x,) in rows] == np.load(tmp_path / "p.npy").tolist()  # every bit
    assert len(rows) == len(data)


def test_predictions_of_several_entries(run, tmp_path):
    data = generators.uniform(num_examples=5, context_size=3, width=5, target_dim=2)
    data.save(tmp_path / "data.npz")
    build_memorizer(data, num_heads=2).save(tmp_path / "memorizer.safetensors")
    run("predict", "memorizer.safetensors", "data.npz", "-o", "P.CSV")
    names, *rows = rows_of(tmp_path / "P.CSV")
    assert names == ["prediction_0", "prediction_1"]
    assert np.abs(np.array(rows, dtype=float) - data.targets).max() < 1e-6


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


@pytest.mark.parametrize("name", ["p.txt", "p.npz", "p.json"])
@pytest.mark.usefixtures("memorizer")
def test_predictions_have_two_kinds_of_files(program, tmp_path, name):
    found = program("predict", "memorizer.safetensors", "data.npz", "-o", name)
    assert found.returncode == 2
    assert f"cannot write {name}: predictions are an .npy or a .csv file" in found.stderr
    assert "try: p.npy or p.csv" in found.stderr
    assert not (tmp_path / name).exists()


def test_contexts_which_cannot_have_their_rank(program):
    found = program("generate", "uniform", "-T", 7, "-n", 9, "-d", 4)
    assert found.returncode == 0
    assert "warning: contexts of n=9 tokens in d=4 dimensions cannot have rank 9" in found.stderr
    assert "try -d 9" in found.stderr
    found = program("generate", "uniform", "-T", 7, "-n", 4, "-d", 4, "-o", "fits.npz")
    assert not found.stderr


@pytest.mark.parametrize("name", ["table.csv", "notes.txt", "data.json"])
def test_text_is_no_data_set(program, tmp_path, name):
    (tmp_path / name).write_text("0.1,0.2,cat\n" * 9)
    found = program("build", name)
    assert found.returncode == 2
    assert f"{name} is not a data set: it is text, not an .npz archive" in found.stderr
    assert "try: numpy.savez(path, contexts=..., queries=..., targets=...)" in found.stderr
    assert "pickle" not in found.stderr


def test_more_examples_than_any_weights_hold_come_before_assumptions(program, tmp_path):
    data = generators.shared_context(num_examples=94, context_size=32, width=20)
    data.save(tmp_path / "shared.npz")
    found = program("build", "shared.npz", "--heads", 3)
    assert "94 examples are too many for 3 heads, whatever their weights are" in found.stderr
    assert "num_heads is the option --heads" in found.stderr
    found = program("build", "shared.npz", "--heads", 5)  # n > d: no saturated heads
    assert "PrecisionError: float64 cannot carry this readout" in found.stderr
    assert "saturated" not in found.stderr


@pytest.mark.parametrize("construction", ["auto", "saturated", "rank_one"])
@pytest.mark.usefixtures("data")
def test_heads_are_named_only_if_they_were_asked_for(program, construction):
    arguments = "--heads", 1, "--construction", construction, "-o", "w.safetensors"
    found = program("build", "data.npz", *arguments)
    assert found.returncode == 2
    assert "CapacityError: 7 examples are too many for 1" in found.stderr
    assert ("rank_one" in found.stderr) == (construction == "rank_one")


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


@pytest.mark.parametrize("arguments", [("build", "--help"), ("generate", "none")])
def test_no_color_is_not_bold_either(tmp_path, arguments):
    assert "\x1b[1m" in on_a_terminal(tmp_path, *arguments, NO_COLOR="")
    assert "\x1b" not in on_a_terminal(tmp_path, *arguments, NO_COLOR="1")


def test_tables_without_colour(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat")
    arguments = "sequence", "build", "text.txt", "--force"
    assert "\x1b[1mexact" in on_a_terminal(tmp_path, *arguments, NO_COLOR="")
    assert "\x1b[1m" not in on_a_terminal(tmp_path, *arguments, NO_COLOR="1")


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no devices in files")
@pytest.mark.usefixtures("memorizer")
@pytest.mark.parametrize(
    "words",
    ["explain X", "assumptions X", "predict X data.npz", "predict memorizer.safetensors X",
     "certify X data.npz", "certify memorizer.safetensors X", "continue X the", "recite X",
     "sequence build X", "sequence ask X x", "export X", "instances score folder X",
     "check X memorizer.safetensors data.npz", "explain folder"],
)  # fmt: skip
def test_devices_are_not_read(program, tmp_path, words):
    """Some never end, and opening a pipe waits: only regular files are read, by all commands."""
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    for name in ("contexts", "queries", "targets"):
        (tmp_path / f"folder/{name}.npy").symlink_to("/dev/null")
    (tmp_path / "folder/expected.csv").write_text("instance,answer,family,network\n")
    found = program(*words.replace("X", "device").split())
    assert found.returncode == 2
    assert found.stderr.startswith("FormatError: ")
    assert "not a regular file" in found.stderr


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
