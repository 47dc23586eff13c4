"""Every construction keeps the laws; a new one is one file and one line."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import toy_construction
from sequence_conformance import check_sequence_construction

from constructive import ParameterError, build_sequence_memorizer
from constructive.sequences import registry


@pytest.mark.parametrize("name", list(registry.CONSTRUCTIONS))
def test_construction(name, checker, tmp_path):
    check_sequence_construction(name, checker, tmp_path)


def test_a_toy_is_built():
    """From its file and its line, from Python and on the command line."""
    with pytest.raises(ParameterError, match="unknown construction='toy'"):
        build_sequence_memorizer(["ab"], [1], construction="toy")
    code = (
        "from constructive.sequences import registry; "
        "registry.HOMES['toy'] = 'toy_construction:TOY'; "
        "from constructive import build_sequence_memorizer as build; "
        "windows = [[1, 2], [3, 4], [2, 2]]; "
        "print(build(windows, [7, 8, 9], construction='toy').predict(windows)); "
        "from constructive.cli import main; main()"
    )
    helped = subprocess.run(
        [sys.executable, "-c", code, "sequence", "build", "--help"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert helped.stdout.startswith("[7, 8, 9]")
    assert "toy" in helped.stdout


@pytest.mark.parametrize("broken", [False, True])
def test_the_laws_are_checked(monkeypatch, checker, tmp_path, broken):
    """A construction whose network computes other hashes than it says is found."""

    def embed(*given):
        embedded = honest(*given)
        return dataclasses.replace(embedded, hashes=embedded.hashes + 1)

    honest = toy_construction.Toy.embed
    monkeypatch.setitem(registry.HOMES, "toy", "toy_construction:TOY")
    if not broken:
        check_sequence_construction("toy", checker, tmp_path)
        return
    monkeypatch.setattr(toy_construction.Toy, "embed", embed)
    with pytest.raises(AssertionError):
        check_sequence_construction("toy", checker, tmp_path)
