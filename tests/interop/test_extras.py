"""What needs an extra says which, and the package works without."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from constructive import MissingExtraError, Text, build_decoder, build_memorizer, generators
from constructive.cli import demo, sequences
from constructive.figures import gallery
from constructive.figures.gallery import figures
from constructive.support.progress import progress_to
from constructive.theory import proofs

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
    assert imported("import sympy, constructive.strategies") == {"sympy", "hypothesis"}


def test_no_hint_names_a_package_on_an_index():
    """The name `constructive` is not ours there; `constructive-attention` will be."""
    named = re.compile(r"pip3? install (?:-\S+ )*[\"']?constructive\b(?!-attention)")
    assert named.search('pip install --quiet "constructive[torch]"')
    root = Path(__file__).parents[2]
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "proofs").glob("*.md")]
    files += (root / "constructive").rglob("*.py")
    assert not [file for file in files if named.search(file.read_text())]


@pytest.mark.parametrize(
    ("name", "module"), [(name, module) for name in figures() for module in figures()[name].needs]
)
def test_figures_miss_extras_before_they_compute(name, module, monkeypatch, tmp_path):
    steps = []
    monkeypatch.setitem(sys.modules, module, None)
    listened = progress_to(lambda *step: steps.append(step))
    with listened, pytest.raises(MissingExtraError, match=f"needs {module}"):
        list(gallery.draw(tmp_path / "new", only=[name]))
    assert not steps
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["matplotlib.figure", "sklearn.datasets"])
def test_the_demo_misses_extras_before_it_computes(module, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[demo\]" in a'):
        demo.demo()
    assert not list(tmp_path.iterdir())


def test_a_picture_of_sequences_misses_matplotlib_before_the_text_is_read(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a cat and a dog")
    with pytest.raises(MissingExtraError, match="a picture needs matplotlib"):
        sequences.build(Path("text.txt"), picture=Path("growth.png"))
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_proofs_miss_sympy_before_the_first_page(monkeypatch):
    steps = []
    monkeypatch.setitem(sys.modules, "sympy", None)
    listened = progress_to(lambda *step: steps.append(step))
    with listened, pytest.raises(MissingExtraError, match=r'pip install "\.\[proofs\]" in a'):
        proofs.prove()
    assert len(steps) <= 1
