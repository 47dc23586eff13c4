"""figures, export and info on the command line; completion and version."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import constructive
from constructive.figures.gallery import figures


def test_figures(run, tmp_path):
    (tmp_path / "figure-3-saturation.png").write_bytes(b"old")
    arguments = "figures", "--only", "saturation"
    assert "figure-3-saturation.png: it exists already" in run(*arguments, status=2)
    assert "Figure 3" in run(*arguments, "--quick", "-o", "a/new folder")
    assert len(list((tmp_path / "a" / "new folder").iterdir())) == 2
    assert "Figure 3: softmax saturation" in run(*arguments, "--force")
    found = sorted(tmp_path.glob("*.*"))
    assert [path.name for path in found] == ["figure-3-saturation.png", "figure-3-saturation.svg"]
    assert all(path.stat().st_size > 1000 for path in found)


def test_an_interrupt_keeps_what_is_drawn(program, tmp_path, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(figures()["recital"]), "draw", interrupted)
    done = program("figures", "--only", "saturation", "--only", "recital", "-o", "some")
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")
    assert "Figure 3" in done.stdout
    assert {path.name for path in (tmp_path / "some").iterdir()} == {
        "figure-3-saturation.png", "figure-3-saturation.svg",
    }  # fmt: skip


@pytest.mark.usefixtures("memorizer")
def test_export(run, tmp_path):
    assert "written to m.onnx" in run("export", "memorizer.safetensors", "-o", "m.onnx")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)


def test_info(run):
    lines = dict(line.split(maxsplit=1) for line in run("info").splitlines())
    assert lines["constructive"] == constructive.__version__
    assert {"python", "system", "cores", "BLAS", "threads", "numpy", "torch"} <= set(lines)


def test_the_installed_program_and_its_version():
    command = Path(sys.executable).with_name("constructive"), "--version"
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == f"constructive {constructive.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell, tmp_path):
    """What a shell asks for after `constructive cap`: typer's protocol."""
    environment = {
        "_CONSTRUCTIVE_COMPLETE": f"complete_{shell}",
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
