"""The program that runs verifiers: sound bounds have no false answer, unsound ones have some."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
FOLDER = Path(__file__).parents[1] / "benchmarks/verifiers"
MISLED = """
VERIFIERS["marabou"] = lambda: answer_all("always unsat", lambda problem: "unsat")
VERIFIERS["vibecheck"] = lambda: sys.exit(1)

"""


def cells(output, name):
    line = next(line for line in output.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The program, with an adapter of Marabou that says unsat always and one that dies."""
    place = tmp_path_factory.mktemp("verifiers")
    (place / "run.py").write_text((FOLDER / "run.py").read_text())
    text, main, rest = (FOLDER / "adapters.py").read_text().partition("if __name__")
    (place / "adapters.py").write_text(text + MISLED + main + rest)
    return place


def test_outcomes_are_those_of_the_score(copied):
    command = [sys.executable, copied / "run.py", "--count=4", "--kind=corner", "--dim", "2", "4"]
    names = ["interval-form", "nnv-formula", "marabou", "vibecheck"]
    run = subprocess.run([*command, *names], capture_output=True, text=True, check=True)
    for name in names[:2]:
        assert cells(run.stdout, name)[5] == "0"
    assert cells(run.stdout, "marabou")[3:6] == ["2", "0", "2 (2 corner)"]
    assert cells(run.stdout, "vibecheck")[1] == "not found"
