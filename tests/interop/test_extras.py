"""What needs an extra says which, and the package works without."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from constructive import MissingExtraError, Text, build_decoder, build_memorizer, generators

OPTIONAL = ("torch", "onnx", "matplotlib", "sklearn", "dask", "distributed", "hypothesis", "sympy")


@pytest.mark.parametrize("module", ["torch", "onnx"])
def test_the_extra_is_named(module, monkeypatch, tmp_path):
    data = generators.uniform(num_examples=3, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=1)
    decoder = build_decoder(Text.words("a b"), width=32)
    monkeypatch.setitem(sys.modules, module, None)
    for built in (memorizer, decoder):
        with pytest.raises(MissingExtraError, match=rf'pip install "\.\[{module}\]" in a'):
            built.to_torch() if module == "torch" else built.to_onnx(tmp_path / "m.onnx")


def imported(code):
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(OPTIONAL) & set(run.stdout.split())


def test_the_package_and_its_commands_import_nothing_optional():
    assert not imported("import constructive, constructive.cli")


def test_an_optional_import_would_be_seen():
    assert imported("import sympy") == {"sympy"}


def test_no_hint_names_a_package_on_an_index():
    """Nobody of this project holds the name there: who installs it gets what a stranger made."""
    named = re.compile(r"pip3? install (?:-\S+ )*[\"']?constructive\b")
    assert named.search('pip install --quiet "constructive[torch]"')
    root = Path(__file__).parents[2]
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "proofs").glob("*.md")]
    files += (root / "constructive").rglob("*.py")
    assert not [file for file in files if named.search(file.read_text())]
