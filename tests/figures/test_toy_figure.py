"""A new figure is one file and one line; the gallery and the command line have it then."""

import subprocess
import sys
from pathlib import Path

import pytest

from constructive import ParameterError
from constructive.figures import gallery, registry

REGISTERED = "registry.HOMES['toy'] = 'toy_figure:TOY'"


def test_a_toy_is_drawn_and_listed(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="unknown figure 'toy'"):
        gallery.files(tmp_path, ["toy"])
    monkeypatch.setitem(registry.HOMES, "toy", "toy_figure:TOY")
    assert gallery.files(tmp_path, ["toy"]) == (tmp_path / "toy.txt",)
    assert gallery.files(tmp_path)[-1] == tmp_path / "toy.txt"
    (drawn,) = gallery.draw(tmp_path, only=["toy"])
    assert (drawn.name, drawn.title, drawn.paths) == ("toy", "A toy", (tmp_path / "toy.txt",))
    assert drawn.paths[0].read_text() == "a toy"


def test_the_command_line_offers_it(tmp_path):
    code = f"from constructive.figures import registry; {REGISTERED}\n"
    code += "from constructive.cli import main; main()"
    command = [sys.executable, "-c", code, "figures", "--only", "toy", "-o", str(tmp_path)]
    folder = Path(__file__).parent
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "A toy" in run.stdout
    helped = subprocess.run(
        [*command[:4], "--help"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "toy" in helped.stdout
