"""Commands for makers of verifiers and kernels: tables, exit status, and folders of problems."""

import json
import shlex
import sys

import pytest

from constructive.instances import planted, save
from constructive.kernels.cases import CASES

# `instances make`, `check` and `score`: folders, what they print, their status.


def files_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_is_made(run, tmp_path):
    few = "--kind", "needle", "--count", 4, "--dim", "2:4", "--seed", 4
    assert "4 instances, 2 of them sat" in run("instances", "make", "-o", "one", *few)
    assert not run("instances", "make", "-o", "two", *few, "--quiet")
    files = files_of(tmp_path / "one")
    assert files == files_of(tmp_path / "two")
    networks = {name for name in files if name.startswith("onnx/")}
    assert networks == {"onnx/needle_0000.onnx", "onnx/needle_0001.onnx"}


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
    assert "rows about no instance of the folder: 1" in printed
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


# The commands about kernels: tables, exit status, and folders of problems.


FEW = ["--shape", "tiny", "--shape", "causal, more keys", "--case", "last", "--case", "uniform"]


OWN = """
from dataclasses import replace
from constructive.kernels import ADAPTERS
from constructive.kernels.adapters.adapter import Adapter
from constructive.kernels.adapters.torch_attention import sdpa

def leaking(q, k, v, attn_mask=None, **options):
    if attn_mask is not None:
        attn_mask = attn_mask.roll(1, -1) | attn_mask
    return sdpa(q, k, v, attn_mask=attn_mask, **options)

off_by_one = replace(ADAPTERS["torch"], attend=leaking)
few = replace(ADAPTERS["torch"], can=frozenset())
small = Adapter(
    attend=lambda q, k, v: q[:, :, :1], options=lambda problem: {}, library="numpy", layout="BHTd",
    models={"float32": "flash float32"}, fully_masked="zeros", can=frozenset(),
)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_kernels.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))  # where commands put the current folder
    yield
    sys.modules.pop("my_kernels", None)


def test_list_says_what_is_installed(run):
    text = run("kernels", "list")
    lines = {line.split()[0]: line for line in text.splitlines() if line[:1].isalpha()}
    assert "2." in lines["torch"]
    assert "not installed" in lines["openvino"]


@pytest.mark.parametrize("command", ["run", "export"])
def test_help_lists_shapes_and_cases(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")  # no list is cut into lines
    text = run("kernels", command, "--help")
    assert '--shape "causal, more keys"' in text
    assert "|".join(CASES) in text


def test_run_prints_a_table(run):
    text = run("kernels", "run", "torch", "--dtype", "float32", "--dtype", "bfloat16", *FEW)
    header, first, second = text.splitlines()[-3:]
    assert header.split() == [
        "dtype", "problems", "exact", "wrong", "refused", "errors", "coverage"
    ]  # fmt: skip
    assert first.split()[0] == "float32"
    assert second.split()[0] == "bfloat16"
    assert first.split()[1] == first.split()[2]
    assert first.split()[-1] == "100.0%"
    assert "off, as the adapter" not in text  # shapes were chosen by hand
    text = run("kernels", "run", "torch-mha", "--dtype", "float32", "--case", "scale")
    assert "off, as the adapter does not take it: scale, soft cap, sink\n" in text


@pytest.mark.usefixtures("own")
def test_a_wrong_kernel_ends_with_status_1_and_its_mistake(run):
    text = run("kernels", "run", "my_kernels:off_by_one", "--dtype", "float32", *FEW, status=1)
    assert "one key of the future" in text
    assert ", all with masks causal" in text
    assert "LIKE: " in text
    assert text.count("left the model of exact outputs") == 1
    (chosen,) = [line for line in text.splitlines() if line.startswith("--shape")]
    again = run("kernels", "run", "my_kernels:off_by_one", *shlex.split(chosen), status=1)
    assert chosen in again


@pytest.mark.usefixtures("own")
def test_what_is_refused_is_said_and_if_it_is_most_the_status_is_1(run):
    of_two = ["--dtype", "float32", *FEW]
    text = run("kernels", "run", "my_kernels:few", *of_two)
    assert "2 of 4 problems were refused:" in text
    assert "2 x no mask: causal, more keys\n" in text
    more = [*of_two, "--shape", "prefix"]
    text = run("kernels", "run", "my_kernels:few", *more, status=1)
    assert "4 of 6 problems were refused:" in text
    assert "4 x no mask: prefix; causal, more keys\n" in text
    assert "the status is 1" in text
    assert "refused:" not in run("kernels", "run", "torch", *of_two)


@pytest.mark.usefixtures("own")
def test_an_output_of_another_shape_is_an_error_of_the_kernel(run):
    text = run("kernels", "run", "my_kernels:small", *FEW, status=1)
    assert "my_kernels:small: no package, cpu" in text
    assert "the output has shape (1, 4, 1, 16)" in text


def test_export_writes_a_folder_once(run, tmp_path):
    text = run("kernels", "export", "problems", "--dtype", "bfloat16", *FEW)
    index = json.loads((tmp_path / "problems" / "problems.json").read_text())
    assert f"{len(index['problems'])} problems" in text
    before = (tmp_path / "problems" / "problems.json").read_bytes()
    assert "exists already" in run("kernels", "export", "problems", *FEW, status=2)
    assert (tmp_path / "problems" / "problems.json").read_bytes() == before
    run("kernels", "export", "problems", "--format", "npz", *FEW[:2], status=2)  # other names
    run("kernels", "export", "problems", "--seed", 3, *FEW, "--force")
    assert (tmp_path / "problems" / "problems.json").read_bytes() != before
