"""The commands about kernels: tables, exit status, and folders of problems."""

import json
import shlex
import sys

import pytest

from constructive.kernels.cases import CASES

pytest.importorskip("torch")

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
misspelt = replace(ADAPTERS["torch"], can=frozenset({"masks"}))
small = Adapter(
    attend=lambda q, k, v: q[:, :, :1], options=lambda problem: {}, library="numpy", layout="BHTd",
    models={"float32": "flash float32"}, fully_masked="zeros", can=frozenset(),
)
"""
SILENT = """
from constructive.kernels.adapters.adapter import Adapter
mine = Adapter(library="numpy", layout="BHTd", models={}, fully_masked="zeros")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_kernels.py").write_text(OWN)
    (tmp_path / "silent_kernels.py").write_text(SILENT)
    monkeypatch.setattr(sys, "path", list(sys.path))  # where commands put the current folder
    yield
    sys.modules.pop("my_kernels", None)


def test_list_says_what_is_installed(run):
    text = run("kernels", "list")
    lines = {line.split()[0]: line for line in text.splitlines() if line[:1].isalpha()}
    assert "2." in lines["torch"]
    assert "not installed" in lines["flash-attn"]


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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pytorch"], "unknown adapter='pytorch'"),
        (["torch-flsh"], "try: 'torch-flash' or "),
        (["torch", "--dtype", "float4"], "has no float4"),
        (["torch", "--device", "abacus"], "does not run on abacus"),
        (["torch-cudnn"], "--device cuda"),
        (["torch", "--shape", "77 x 77"], "causal, more keys"),
        (["torch", "--case", "worst"], "fine scale"),
        (["flash-attn", "--device", "cuda"], "pip install flash-attn"),
        (["my_kernels:Nothing"], "cannot be loaded"),
        (["no_such_module:Kernel"], "cannot be loaded"),
        (["my_kernels:leaking"], "is not an adapter"),
        (["silent_kernels:mine"], "'attend', 'options', and 'can'"),
        (["my_kernels:misspelt"], "try: 'mask'"),
        (["torch", "--shape", "tiny", "--case", "soft cap"], "no case applies"),
    ],
)
@pytest.mark.usefixtures("own")
def test_bad_input_ends_with_status_2(run, arguments, text):
    assert text in run("kernels", "run", *arguments, status=2)


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


def test_export_refuses_before_it_works(run, tmp_path):
    assert "decode" in run("kernels", "export", "a", "--shape", "round", status=2)
    assert "float4" in run("kernels", "export", "a", "--dtype", "float4", status=2)
    assert "no such folder" in run("kernels", "export", "b/a", *FEW, status=2)
    assert "all" in run("kernels", "export", "a", "--fully-masked", "all", *FEW, status=2)
    assert not list(tmp_path.iterdir())
