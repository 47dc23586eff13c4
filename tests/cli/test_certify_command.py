"""`certify`, `check` and --precision on the command line, and the checker as a program."""

import json
import subprocess
import sys

import pytest

from constructive import (
    Certificate,
    Memorizer,
    SequenceDataset,
    Text,
    Verdict,
    build_decoder,
    build_sequence_memorizer,
)
from constructive.certificates.check import CHECKER
from constructive.certificates.families import CLAIMS

FILES = ["certificate.json", "memorizer.safetensors", "data.npz"]


@pytest.fixture
def built(run, memorizer):  # noqa: ARG001 - its files are there
    return run


def test_certify_and_check(built, tmp_path):
    text = built("certify", "memorizer.safetensors", "data.npz")
    assert text.startswith("Certificate: PROVED")
    assert "rank Z = T = 7" in text
    assert Certificate.load(tmp_path / "certificate.json").verdict is Verdict.PROVED
    for option in ([], ["--quick"]):
        text = built("check", *FILES, *option)
        assert text.splitlines()[-1] == "PROVED"
        command = [sys.executable, "-I", str(CHECKER), *FILES, *option]
        alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert alone.stderr + alone.stdout == text
    text = built("check", *FILES, "--max-memory", "0.01", status=1)
    assert "are needed, and --max-memory is 0.01" in text


def test_claims_and_bounds_reach_certify(built, tmp_path):
    built(
        "certify", "memorizer.safetensors", "data.npz", "-o", "c.json",
        "--claims", "error, readout", "--epsilon", "1e-9",
    )  # fmt: skip
    claims = json.loads((tmp_path / "c.json").read_text())["claims"]
    assert list(claims) == ["error", "readout"]
    assert claims["error"]["statement"].endswith("<= 1e-09")


def test_blanks_separate_claims_as_commas_do(built, tmp_path):
    built("certify", "memorizer.safetensors", "data.npz", "--claims", "rank error")
    claims = json.loads((tmp_path / "certificate.json").read_text())["claims"]
    assert list(claims) == ["rank", "error"]
    options = "memorizer.safetensors", "data.npz", "--force", "--claims"
    for given, said in (("rank errors", "are not claims about"), ("", "are not claims")):
        assert f"{said}" in built("certify", *options, given, status=2)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--epsilon", "1e-20"), "epsilon"),
        (("--jobs", 2), "executor"),
    ],
)
def test_options_that_no_claim_takes_are_refused(built, tmp_path, given, named):
    options = "memorizer.safetensors", "data.npz", "--claims", "grouping"
    text = built("certify", *options, *given, status=2)
    assert f"does not take {named}" in text
    assert not (tmp_path / "certificate.json").exists()


def test_help_names_the_claims_that_are_not_made_by_default(run):
    """The sentence of --claims is about the registry of claims."""
    unusual = [name for name, kind in CLAIMS["layer"].items() if not kind.usual]
    assert unusual == ["readout", "executed"]
    assert all(kind.usual for row in ("decoder", "sequences") for kind in CLAIMS[row].values())
    said = " ".join(run("certify", "--help").replace("│", " ").split())
    assert "all that apply but readout and executed, and at most one grouping" in said
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


def test_what_float32_makes_of_it(built):
    text = built("certify", "memorizer.safetensors", "data.npz", "--claims", "executed")
    assert "'float32, pairwise'" in text
    assert "by rounding, at example" in text
    assert built("check", *FILES).splitlines()[-1] == "PROVED"


def test_status_1_without_proof(built, tmp_path):
    arguments = "certify", "memorizer.safetensors", "data.npz", "--epsilon", "1e-30"
    text = built(*arguments, status=1)
    assert text.startswith("Certificate: REFUTED")
    assert (tmp_path / "certificate.json").exists()
    assert "NOT PROVED: " in built("check", *FILES, status=1)
    (tmp_path / "spoilt.json").write_text("{")
    assert "NOT PROVED: " in built("check", "spoilt.json", *FILES[1:], status=1)


def test_status_2_for_files_in_the_place_of_others(built):
    built("certify", "memorizer.safetensors", "data.npz")
    for files, words in [
        (["data.npz", *FILES[1:]], "the certificate data.npz is the data"),
        ([FILES[0], FILES[2], FILES[1]], "the memorizer data.npz is the data"),
        ([*FILES[:2], FILES[1]], "the data memorizer.safetensors is a memorizer"),
        ([*FILES[:2], "none.npz"], "the data none.npz is not there"),
        ([FILES[0], "none", FILES[2]], "the memorizer none is not there"),
    ]:
        text = built("check", *files, status=2)
        assert f"FormatError: {words}" in text
        assert "in this order: certificate, memorizer, data" in text


def test_status_2_for_bad_input(built, tmp_path):
    text = built("certify", "data.npz", "data.npz", status=2)
    assert "FormatError: data.npz is not a memorizer" in text
    text = built("certify", "memorizer.safetensors", "data.npz", "-o", "no/c.json", status=2)
    assert "OutputError: cannot write" in text
    text = built("build", "data.npz", "--heads", 3, "--precision", "many", "--force", status=2)
    assert "ParameterError: --precision='many' is not a number of bits" in text
    assert not (tmp_path / "certificate.json").exists()


def test_precision(built, tmp_path):
    text = built("build", "data.npz", "--heads", 3, "--precision", 120, "--force")
    assert "readout of 120 bits" in text
    assert Memorizer.load(tmp_path / "memorizer.safetensors").record.precision == 120
    built("certify", "memorizer.safetensors", "data.npz", "--epsilon", "1e-30")
    assert built("check", *FILES).splitlines()[-1] == "PROVED"


def test_paired_heads_are_explained_built_certified_and_checked(run, tmp_path):
    run("generate", "gaussian", "-T", 121, "-n", 8, "-d", 18)
    text = run("explain", "data.npz", "--heads", 18)
    assert "paired" in text
    run("build", "data.npz", "--heads", 18, "--construction", "paired")
    text = run("certify", "memorizer.safetensors", "data.npz")
    assert text.startswith("Certificate: PROVED")
    assert "grouping" not in text
    text = run("check", *FILES, "--quick")
    assert text.splitlines()[-1] == "PROVED"
    command = [sys.executable, "-I", str(CHECKER), *FILES]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert alone.stderr + alone.stdout == text
    other = "--claims", "grouping", "--force"
    text = run("certify", "memorizer.safetensors", "data.npz", *other, status=2)
    assert "not claims about paired heads" in text


def test_values_narrower_than_targets(run):
    run("generate", "gaussian", "-T", 20, "-n", 3, "-d", 5, "--target-dim", 4)
    assert "->  narrow_values" in run("explain", "data.npz", "--value-dim", 2)
    assert "narrow_values heads" in run("build", "data.npz", "--value-dim", 2)
    assert run("certify", "memorizer.safetensors", "data.npz").startswith("Certificate: PROVED")
    run("check", *FILES)
    text = run("explain", "data.npz", "--heads", 2, "--value-dim", 2, status=2)
    assert "CapacityError: no weights of 2 heads with d_h=1, d_v=2 and d_out=4 memorize" in text


def test_explain_says_why_not(run):
    run("generate", "shared", "-T", 31, "-n", 4, "-d", 8)
    text = run("explain", "data.npz", "--heads", 10)
    assert "construction='paired' needs own contexts" in text
    assert "->  saturated" in text
    assert "one shared context; requested: auto" in text
