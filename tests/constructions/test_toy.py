"""A new construction is one file and one line; all else comes from the registry."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from constructive import Memorizer, ParameterError, build_memorizer, certify, explain, generators
from constructive.constructions import registry

REGISTERED = "registry.HOMES['toy'] = 'toy:TOY'"
DATA = generators.gaussian(num_examples=7, context_size=3, width=5, seed=0)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:TOY")


@pytest.mark.usefixtures("toy")
def test_a_toy_is_explained_and_asked_for_by_name():
    explained = explain(DATA, num_heads=3, construction="toy")
    assert explained.plan.construction == "toy"
    assert "toy" in str(explained)
    assert explain(DATA, num_heads=3).plan.construction == "saturated"  # still the first choice
    memorizer = build_memorizer(DATA, num_heads=3, construction="toy")
    assert "bound H(n - 1) + 1 = 7 (no theorem)" in str(memorizer)
    with pytest.raises(ParameterError, match="are not claims about toy heads"):
        certify(memorizer, DATA, claims=["grouping"])


def test_its_files_are_read_without_its_line(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:TOY")
    memorizer = build_memorizer(DATA, num_heads=3, construction="toy")
    memorizer.save(tmp_path / "toy.safetensors")
    monkeypatch.delitem(registry.HOMES, "toy")
    loaded = Memorizer.load(tmp_path / "toy.safetensors")
    assert str(loaded) == str(memorizer)
    assert [claim.name for claim in certify(loaded, DATA).claims] == ["rank", "error"]
    with pytest.raises(ParameterError, match="unknown construction='toy'"):
        build_memorizer(DATA, num_heads=3, construction="toy")


@pytest.mark.parametrize(
    ("name", "grouped"), [("schur", True), ("saturated", True), ("toy", False)]
)
def test_files_of_older_versions_do_not_say_what_was_promised(tmp_path, name, grouped):
    path = tmp_path / "old.safetensors"
    memorizer = build_memorizer(DATA, num_heads=3)
    memorizer.save(path)
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    record = json.loads(metadata["record"]) | {"construction": name}
    for field in ("formula", "theorem", "grouped"):
        record.pop(field)
    save_file(load_file(path), path, {**metadata, "record": json.dumps(record)})
    loaded = Memorizer.load(path)
    assert loaded.built.grouped == grouped
    assert "7, bound 7" in str(loaded)
    assert certify(loaded, DATA).claims[0].name == ("grouping" if grouped else "rank")


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
