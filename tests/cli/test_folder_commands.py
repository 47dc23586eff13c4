"""Commands take a folder of .npy files where they take an .npz file, and `generate` writes one."""

import re
import subprocess
import sys

import numpy as np
import pytest

from constructive import Dataset, generators

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
    run("regroup", "data", "-H", 20, "-o", "regrouped.npz")
    assert "61 examples" in run("exact-capacity", "data")
    run("upper-bound", "data", "--heads", 1, "-o", "bound.json")
    assert run("check", "bound.json", "data").endswith("PROVED\n")


def test_an_archive_and_a_folder_have_the_same_numbers(run, tmp_path):
    for output in ("data", "data.npz"):
        run(*GENERATE, "--float32", "--seed", 3, "-o", output)
    first, second = (Dataset.open(tmp_path / output) for output in ("data", "data.npz"))
    assert first.fingerprint() == second.fingerprint()
    assert second.contexts.dtype == np.float32


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


def test_a_file_without_an_ending_is_one(run, tmp_path):
    (tmp_path / "old").write_text("precious")
    assert "it exists already" in run(*GENERATE, "-o", "old", status=2)
    run(*GENERATE, "-o", "old", "--force")
    assert Dataset.load(tmp_path / "old").num_examples == 61


@pytest.mark.parametrize("output", [f"data/{name}" for name in FILES] + ["link", "hard"])
def test_a_file_of_an_input_is_no_output(run, tmp_path, output):
    run(*GENERATE, "-o", "data")
    (tmp_path / "link").symlink_to("data/queries.npy")
    (tmp_path / "hard").hardlink_to(tmp_path / "data" / "queries.npy")
    before = (tmp_path / "data" / "queries.npy").read_bytes()
    said = run("build", "data", "-H", 12, "-o", output, "--force", status=2)
    assert re.search(r"--output and DATA \(\w+\.npy\) are one file", said)
    assert (tmp_path / "data" / "queries.npy").read_bytes() == before


def test_a_folder_which_is_none_of_data(run, tmp_path):
    (tmp_path / "data").mkdir()
    said = run("build", "data", "-H", 12, status=2)
    assert "FormatError: data is not a folder of a data set: it has no contexts.npy and no" in said
    run(*GENERATE, "-o", "data")
    path = tmp_path / "data" / "contexts.npy"
    path.write_bytes(path.read_bytes()[:-4])
    for command in (["build", "data", "-H", 12], ["explain", "data"], ["assumptions", "data"]):
        said = run(*command, status=2)
        assert "contexts.npy is cut off" in said
        assert "try: " in said


def test_the_checker_refuses_a_spoilt_folder(run, tmp_path):
    run(*GENERATE, "-o", "data")
    run("build", "data", "-H", 12, "--construction", "paired")
    run("certify", "memorizer.safetensors", "data")
    generators.gaussian(num_examples=61, context_size=4, width=12, seed=1, folder=tmp_path / "data")
    said = run("check", "certificate.json", "memorizer.safetensors", "data", status=1)
    assert "NOT PROVED: the certificate is about other data" in said


WRITE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from constructive.cli import program as entry
from constructive.data import generators

draw, calls = generators.write_folder, []

def interrupted(path, shape, dtype, blocks, others):
    def some():
        for block in blocks:
            yield block
            signal.raise_signal(signal.{name})
    draw(path, shape, dtype, some(), others)

generators.write_folder = interrupted
import sys
sys.argv = "constructive generate uniform -T 61 -n 4 -d 12 -o data {force}".split()
entry.main()
"""


@pytest.mark.parametrize(
    ("name", "status", "old"), [("SIGINT", 130, True), ("SIGTERM", 143, False)]
)
def test_an_interrupt_leaves_nothing_half_written(tmp_path, name, status, old):
    if old:
        generators.uniform(num_examples=3, context_size=2, width=2, folder=tmp_path / "data")
    command = [sys.executable, "-c", WRITE.format(name=name, force="--force" * old)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr
    assert run.returncode == status
    assert names(tmp_path) == ["data"] * old
    if old:
        assert Dataset.open(tmp_path / "data").num_examples == 3
