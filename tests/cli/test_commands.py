"""What single commands do, beyond what the tables of test_command_lines say of them."""

import csv
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest

import constructive
import constructive.recite.claims
import constructive.sequences.claims
from constructive import (
    Certificate,
    Dataset,
    Memorizer,
    ParameterError,
    Verdict,
    build_memorizer,
    generators,
)
from constructive.certificates.certify import CLAIMS
from constructive.certificates.check import CHECKER
from constructive.figures import figures
from constructive.kernels import ADAPTERS
from constructive.kernels.cases import CASES


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
    assert (folder / "digits-saturation.png").read_bytes().startswith(b"\x89PNG")


def test_threads_build_prove_and_check_the_same(run, tmp_path):
    run("generate", "uniform", "-T", 311, "-n", 32, "-d", 64)
    for jobs in ("1", "3"):
        files = f"{jobs}.safetensors", "data.npz"
        run("build", "data.npz", "-H", 11, "--construction", "rank_one", "-j", jobs, "-o", files[0])
        run("certify", *files, "-j", jobs, "-o", f"{jobs}.json")
        run("check", f"{jobs}.json", *files, "-j", jobs)
    for ending in ("safetensors", "json"):
        found = [(tmp_path / f"{jobs}.{ending}").read_bytes() for jobs in ("1", "3")]
        assert found[0] == found[1]


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


# Claims, and the checker as a program.


FILES = ["certificate.json", "memorizer.safetensors", "data.npz"]


@pytest.fixture
def built(run, memorizer):  # noqa: ARG001 - its files are there
    return run


def test_certify_and_check(built, tmp_path):
    text = built("certify", "memorizer.safetensors", "data.npz")
    assert text.startswith("Certificate: PROVED")
    assert "rank Z = T = 7" in text
    assert Certificate.load(tmp_path / "certificate.json").verdict is Verdict.PROVED
    assert built("check", *FILES).splitlines()[-1] == "PROVED"
    command = [sys.executable, "-I", str(CHECKER), *FILES, "--quick"]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert built("check", *FILES, "--quick") == alone.stderr + alone.stdout


def test_check_asks_for_a_quick_one(built, monkeypatch):
    def refuse(*_files, **options):
        raise ParameterError(str(options), suggestion="none")

    monkeypatch.setattr(constructive, "check", refuse)
    assert "'quick': True" in built("check", *FILES, "--quick", status=2)


@pytest.mark.parametrize("claims", ["rank,error", "rank error", "rank, error"])
def test_claims_and_bounds_reach_certify(built, tmp_path, claims):
    options = "memorizer.safetensors", "data.npz", "-o", "c.json", "--epsilon", "1e-9"
    built("certify", *options, "--claims", claims)
    made = json.loads((tmp_path / "c.json").read_text())["claims"]
    assert list(made) == ["rank", "error"]
    assert made["error"]["statement"].endswith("<= 1e-09")


def test_help_names_the_claims_that_are_made_by_default(run):
    """The sentence of --claims is about the registry of claims."""
    others = constructive.recite.claims.FAMILY.claims, constructive.sequences.claims.FAMILY.claims
    assert all(kind.usual for row in others for kind in row.values())
    said = " ".join(run("certify", "--help").replace("│", " ").split())
    assert "by default rank, error and, where heads have groups, grouping" in said
    assert all(", ".join(row) in said for row in (CLAIMS["layer"], *others))


# Figures, exports, and where all of that runs.


def test_figures(run, tmp_path):
    path = tmp_path / "figure-3-saturation.svg"
    path.write_bytes(b"old")
    arguments = "figures", "--only", "saturation", "--quick"
    assert "figure-3-saturation.svg: it exists already" in run(*arguments, status=2)
    assert "Figure 3: softmax saturation" in run(*arguments, "--force")
    assert [*tmp_path.glob("*.*")] == [path]
    assert path.stat().st_size > 1000


def test_an_interrupt_keeps_what_is_drawn(program, tmp_path, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(figures()["recital"]), "draw", interrupted)
    only = "--only", "saturation", "--only", "recital", "--quick"
    done = program("figures", *only, "-o", "a/new folder")
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")
    assert "Figure 3" in done.stdout
    (path,) = (tmp_path / "a/new folder").iterdir()
    assert path.name == "figure-3-saturation.svg"


@pytest.mark.usefixtures("memorizer")
def test_export(run, tmp_path):
    assert "written to m.onnx" in run("export", "memorizer.safetensors", "-o", "m.onnx")
    run("export", "memorizer.safetensors", "-o", "narrow.onnx", "--float32")
    for name, kind in (
        ("m.onnx", onnx.TensorProto.DOUBLE),
        ("narrow.onnx", onnx.TensorProto.FLOAT),
    ):
        (output,) = onnx.load(tmp_path / name).graph.output
        assert output.type.tensor_type.elem_type == kind


def test_info(run):
    lines = dict(line.split(maxsplit=1) for line in run("info").splitlines())
    assert lines["constructive"] == constructive.__version__
    assert {"python", "system", "cores", "BLAS", "threads", "numpy", "torch"} <= set(lines)


# Instances and kernels.


def files_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_is_made(run, tmp_path):
    few = "--kind", "needle", "--count", 4, "--dim", "2:4", "--seed", 4
    assert " instances, " in run("instances", "make", "-o", "one", *few)
    assert not run("instances", "make", "-o", "two", *few, "--quiet")
    files = files_of(tmp_path / "one")
    assert files == files_of(tmp_path / "two")
    networks = {name for name in files if name.startswith("onnx/")}
    assert len(networks) >= 2
    assert not [name for name in files if "needle" in name], "names are neutral"


def test_options_of_families(run, tmp_path):
    run(
        "instances", "make", "-o", "folder", "--kind", "corner", "--count", 2, "--dim", 3,
        "--scale", "8:8", "--margin", "0.1", "--set", "decoy=0",
        "--timeout", 5, "--vnncomp", "benchmark",
    )  # fmt: skip
    files = files_of(tmp_path / "folder")
    assert files["instances.csv"].count(b",5\n") >= 2
    files = files_of(tmp_path / "benchmark")
    assert b"--set=decoy=0" in files["generate_properties.py"]


FEW = ["--shape", "tiny", "--shape", "causal, more keys", "--case", "last", "--case", "uniform"]


OWN = """
from dataclasses import replace
from constructive.kernels import ADAPTERS
from constructive.kernels.adapters import sdpa

def leaking(q, k, v, attn_mask=None, **options):
    if attn_mask is not None:
        attn_mask = attn_mask.roll(1, -1) | attn_mask
    return sdpa(q, k, v, attn_mask=attn_mask, **options)

off_by_one = replace(ADAPTERS["torch"], attend=leaking)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_kernels.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))  # where commands put the current folder
    yield
    sys.modules.pop("my_kernels", None)


def test_list_says_what_is_installed(run, monkeypatch):
    absent = replace(ADAPTERS["torch"], packages={"no_such_module": "no-such-package"})
    monkeypatch.setitem(ADAPTERS, "absent", absent)
    text = run("kernels", "list")
    lines = {line.split()[0]: line for line in text.splitlines() if line[:1].isalpha()}
    pytest.importorskip("torch")
    assert "2." in lines["torch"]
    assert "not installed" in lines["absent"]


@pytest.mark.parametrize("command", ["run", "export"])
def test_help_lists_shapes_and_cases(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "4000")  # no list is cut into lines
    text = run("kernels", command, "--help")
    assert '--shape "causal, more keys"' in text
    assert "|".join(CASES) in text


@pytest.mark.usefixtures("own")
def test_a_wrong_kernel_ends_with_status_1_and_its_mistake(run):
    text = run("kernels", "run", "my_kernels:off_by_one", "--dtype", "float32", *FEW, status=1)
    assert "the key is the key to be read + 1" in text
    assert ", all with masks causal" in text
    assert "HOW: " in text
    assert text.count("left the model of exact outputs") == 1
    (chosen,) = [line for line in text.splitlines() if line.startswith("--shape")]
    line = "kernels", "run", "my_kernels:off_by_one", *shlex.split(chosen)
    again = run(*line, status=1)
    assert chosen in again
    assert run(*line, "--seed", 3, status=1) != again  # other numbers
