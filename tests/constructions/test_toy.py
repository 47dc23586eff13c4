"""A new construction is one file and one line; all else comes from the registry."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from constructive import (
    CapacityError,
    Memorizer,
    ParameterError,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.constructions import registry

REGISTERED = "registry.HOMES['toy'] = 'toy:TOY'"


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:TOY")


@pytest.mark.usefixtures("toy")
def test_a_toy_is_explained_built_saved_certified_and_checked(tmp_path):
    data = generators.gaussian(num_examples=7, context_size=3, width=5, seed=0)
    explained = explain(data, num_heads=3, construction="toy")
    assert explained.plan.construction == "toy"
    assert "toy" in str(explained)
    assert explain(data, num_heads=3).plan.construction == "saturated"  # still the first choice
    memorizer = build_memorizer(data, num_heads=3, construction="toy")
    assert memorizer.max_error(data) < 1e-9
    assert "bound H(n - 1) + 1 = 7 (no theorem)" in str(memorizer)
    memorizer.save(tmp_path / "toy.safetensors")
    loaded = Memorizer.load(tmp_path / "toy.safetensors")
    certificate = certify(loaded, data)
    assert [claim.name for claim in certificate.claims] == ["rank", "error", "readout"]
    assert certificate.proved
    assert check(certificate, loaded, data).proved
    with pytest.raises(ParameterError, match="are not claims about toy heads"):
        certify(loaded, data, claims=["grouping"])
    with pytest.raises(CapacityError, match="a toy holds 5"):
        build_memorizer(data, num_heads=2, construction="toy")


def test_without_its_line_nobody_knows_it(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:TOY")
    data = generators.gaussian(num_examples=7, context_size=3, width=5, seed=0)
    memorizer = build_memorizer(data, num_heads=3, construction="toy")
    memorizer.save(tmp_path / "toy.safetensors")
    monkeypatch.delitem(registry.HOMES, "toy")
    assert [claim.name for claim in certify(memorizer, data).claims][1:] == [
        "rank", "error", "readout",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="its construction is 'toy'"):
        Memorizer.load(tmp_path / "toy.safetensors")
    with pytest.raises(ParameterError, match="unknown construction='toy'"):
        build_memorizer(data, num_heads=3, construction="toy")


@pytest.mark.parametrize("command", ["build", "explain"])
def test_the_command_line_offers_it(command):
    code = f"from constructive.constructions import registry; {REGISTERED}\n"
    code += "from constructive.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, command, "--help"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "200"},  # a narrow table breaks words
    )  # fmt: skip
    assert "toy" in run.stdout
