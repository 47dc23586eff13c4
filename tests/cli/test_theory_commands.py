"""Commands about theorems, data, certificates and figures."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import constructive
from constructive import (
    Certificate,
    Dataset,
    Memorizer,
    SequenceDataset,
    Text,
    Verdict,
    build_decoder,
    build_sequence_memorizer,
    generators,
)
from constructive.certificates.certify import CLAIMS
from constructive.certificates.check import CHECKER
from constructive.cli import outputs
from constructive.figures.gallery import figures


@pytest.fixture
def integers(tmp_path):
    """Data whose first group is dependent as it stands: query 2 is the sum of 0 and 1."""
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    queries = np.round(data.queries * 1000)
    queries[2] = queries[0] + queries[1]
    Dataset(data.contexts, queries, data.targets).save(tmp_path / "data.npz")


@pytest.mark.usefixtures("integers")
def test_assumptions(run):
    text = run("assumptions", "data.npz", "--heads", 3, "--subsets", 100)
    assert "[0] + [1] - [2] = 0" in text
    assert "PROVED: found in pass 1" in text
    assert "estimate (99%)" in text


def test_long_work_says_how_far_it_is_where_no_bar_can_be_drawn(program, tmp_path, monkeypatch):
    generators.uniform(num_examples=7, context_size=3, width=5).save(tmp_path / "few.npz")
    assert program("assumptions", "few.npz").stderr == ""
    monkeypatch.setattr(outputs, "_SILENCE", 0.0)
    lines = program("assumptions", "few.npz").stderr.splitlines()
    assert "ranks of contexts: 7 of 7" in lines
    assert "random subsets of 5: 1 of 1" in lines


def test_assumptions_which_fail_end_with_status_1(run, tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    Dataset(data.contexts, np.ones((7, 5)), data.targets).save(tmp_path / "data.npz")
    text = run("assumptions", "data.npz", "--subsets", 10, status=1)
    assert "REFUTED: 7 queries span 1 dimensions" in text
    assert "FileNotFoundError: No such file" in run("assumptions", "none.npz", status=2)


def test_explain_takes_sizes_of_heads(run):
    run("generate", "gaussian", "-T", 20, "-n", 3, "-d", 5, "--target-dim", 4)
    assert "->  narrow_values" in run("explain", "data.npz", "--value-dim", 2)
    text = run("explain", "data.npz", "--heads", 2, "--value-dim", 2, status=2)
    assert "CapacityError: no weights of 2 heads with d_h=1, d_v=2 and d_out=4 memorize" in text


def test_capacity(run):
    text = run("capacity", "-T", 621, "-n", 32, "-d", 64)
    assert "3,861" in text
    assert "Baum" in text


def test_exact_capacity(run):
    run("generate", "shared", "-T", 12, "-n", 3, "-d", 5)
    text = run("exact-capacity", "data.npz", "--heads", 3, "--head-dim", 1, "--head-dim", 3)
    assert [line.split()[:4] for line in text.splitlines()[1:3]] == [
        ["1", "1", "7", "7"],
        ["3", "7", "7", "7"],
    ]
    assert "|J| = 12 examples of J have tokens of k_J = 3 and differences of delta_J = 2" in text


def test_the_fewest_heads(run, program, tmp_path):
    run("generate", "uniform", "-T", 12, "-n", 3, "-d", 5)
    assert run("exact-capacity", "data.npz").splitlines() == [
        "PROVED: H = 3 heads of d_h = 1 memorize all labellings of these T = 12 examples (rank Z = "
        "12 for random weights, modulo a prime)",
        "PROVED: no 2 do; for all weights of H = 2 heads rank Z <= 10 on 12 different examples: "
        "none memorize every labelling",
    ]
    run("generate", "uniform", "-T", 5, "-n", 3, "-d", 5, "-o", "few.npz")
    assert len(run("exact-capacity", "few.npz").splitlines()) == 1
    contexts = np.arange(6.0).reshape(2, 3) + np.arange(7.0)[:, np.newaxis, np.newaxis] ** 2
    Dataset(contexts, np.ones((7, 3)), np.zeros(7)).save(tmp_path / "translates.npz")
    done = program("exact-capacity", "translates.npz")
    assert done.returncode == 1
    assert done.stdout.startswith("UNDECIDED: H = 6 heads")
    assert "--heads" in run("build", "--help")
    assert "H = 3" in run("build", "data.npz")


def test_upper_bound(run, tmp_path):
    run("generate", "shared", "-T", 8, "-n", 3, "-d", 5)
    assert "for all weights" in run("upper-bound", "data.npz", "--heads", 3)
    assert Certificate.load(tmp_path / "upper-bound.json").verdict is Verdict.PROVED
    assert run("check", "upper-bound.json", "data.npz").splitlines()[-1] == "PROVED"
    assert "UNDECIDED" in run("upper-bound", "data.npz", "--heads", 4, "--force", status=1)
    assert run("check", "upper-bound.json", "data.npz", status=1).startswith("NOT PROVED")
    text = run("check", "upper-bound.json", "a", "data.npz", "b", status=2)
    assert "3 files after the certificate" in text


def test_prove(run, tmp_path):
    page = tmp_path / "1-sums.md"
    page.write_text(
        "# Sums\n\n## Lemma (two)\n\nOne and one are two.\n\n**Proof.** By definition. QED\n\n"
        "```pycon\n>>> holds('exact', 1 + 1 == 2)\n\n```\n"
    )
    assert "Lemma (two)  1-sums           exact 1          1  holds" in run("prove", page)
    assert "Lemma 2.1 (counting)" in run("prove", "2")
    text = run("prove", "2-grouping", "99", status=2)
    assert "no page of proofs 99" in text
    assert "1-assumptions, 2-grouping, 3-heads" in text
    page.write_text(page.read_text().replace("== 2)", "== 3)"))
    text = run("prove", page, status=1)
    assert "FAILED" in text
    assert "an instance does not hold: False" in text


# `certify`, `check` and --precision, and the checker as a program.


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
    text = built("check", *FILES, "--max-memory", "0.01", status=1)
    assert "are needed, and --max-memory is 0.01" in text


@pytest.mark.parametrize("claims", ["error,readout", "error readout", "error, readout"])
def test_claims_and_bounds_reach_certify(built, tmp_path, claims):
    options = "memorizer.safetensors", "data.npz", "-o", "c.json", "--epsilon", "1e-9"
    built("certify", *options, "--claims", claims)
    made = json.loads((tmp_path / "c.json").read_text())["claims"]
    assert list(made) == ["error", "readout"]
    assert made["error"]["statement"].endswith("<= 1e-09")


def test_help_names_the_claims_that_are_made_by_default(run):
    """The sentence of --claims is about the registry of claims."""
    unusual = [name for name, kind in CLAIMS["layer"].items() if not kind.usual]
    assert unusual == ["readout", "inseparable", "executed"]
    assert all(kind.usual for row in ("decoder", "sequences") for kind in CLAIMS[row].values())
    said = " ".join(run("certify", "--help").replace("│", " ").split())
    assert "by default rank, error and at most one grouping, or labels alone where" in said
    assert all(", ".join(CLAIMS[row]) in said for row in ("layer", "decoder", "sequences"))


def test_the_file_of_the_data_says_what_is_certified(built, tmp_path):
    text = Text.words("a cat sat, a rat sat")
    build_decoder(text, width=16).save(tmp_path / "decoder.safetensors")
    text.save(tmp_path / "text.json")
    said = built("certify", "decoder.safetensors", "text.json", "--claims", "recites")
    assert "for the stored float32 weights of a decoder" in said
    names = "certificate.json", "decoder.safetensors", "text.json"
    assert built("check", *names).splitlines()[-1] == "PROVED"
    said = built("certify", names[1], names[2], "--claims", "error", "--force", status=2)
    assert "are not claims about decoders" in said
    build_sequence_memorizer(["ab", "cd"], ["x", "y"]).save(tmp_path / "s.json")
    SequenceDataset.of(["ab", "cd"], ["x", "y"]).save(tmp_path / "sd.json")
    assert "equality  PROVED" in built("certify", "s.json", "sd.json", "-o", "sc.json")
    for memorizer, data, word in (
        ("decoder.safetensors", "data.npz", "decoder.safetensors is not a memorizer"),
        ("memorizer.safetensors", "text.json", "memorizer.safetensors is not a decoder"),
        ("memorizer.safetensors", "s.json", "s.json is not a data set"),
    ):
        said = built("certify", memorizer, data, "-o", "other.json", status=2)
        assert f"FormatError: {word}" in said


def test_status_1_without_proof(built, tmp_path):
    arguments = "certify", "memorizer.safetensors", "data.npz", "--epsilon", "1e-30"
    text = built(*arguments, status=1)
    assert text.startswith("Certificate: REFUTED")
    assert (tmp_path / "certificate.json").exists()
    assert "NOT PROVED: " in built("check", *FILES, status=1)
    (tmp_path / "spoilt.json").write_text("{")
    assert "NOT PROVED: " in built("check", "spoilt.json", *FILES[1:], status=1)


def test_precision(built, tmp_path):
    text = built("build", "data.npz", "--heads", 3, "--precision", 120, "--force")
    assert "readout of 120 bits" in text
    assert Memorizer.load(tmp_path / "memorizer.safetensors").record.precision == 120
    built("certify", "memorizer.safetensors", "data.npz", "--epsilon", "1e-30")
    assert built("check", *FILES).splitlines()[-1] == "PROVED"


# figures, export and info; completion and version.


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
