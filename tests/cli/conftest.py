"""Two runners of the command line: in this process, which is quick, and as a user starts it."""

import importlib.util
import io
import signal
import subprocess
import sys

import pytest

from constructive import build_memorizer, cli, generators


@pytest.fixture
def data(tmp_path):
    """Seven examples, in data.npz."""
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    data.save(tmp_path / "data.npz")
    return data


@pytest.fixture
def memorizer(data, tmp_path):
    """Three heads for them, in memorizer.safetensors."""
    memorizer = build_memorizer(data, num_heads=3)
    memorizer.save(tmp_path / "memorizer.safetensors")
    return memorizer


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Run the program's entry point in this process: its status, and what it wrote where.

    What it does not handle is raised here, where the program would print a traceback.
    """

    def program(*arguments):
        command = ["constructive", *map(str, arguments)]
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        handler, status = signal.getsignal(signal.SIGTERM), 0
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr(sys, "argv", command)
            # What runs is no `python -m pytest`, by whose name it would call itself.
            patch.setattr(sys.modules["__main__"], "__package__", "", raising=False)
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            try:
                cli.main()
            except SystemExit as end:
                status = end.code or 0
            finally:
                signal.signal(signal.SIGTERM, handler)
        written = [stream.buffer.getvalue().decode() for stream in streams]
        if importlib.util.find_spec("torch") is None and "needs torch," in written[1]:
            pytest.skip(written[1])
        return subprocess.CompletedProcess(command, status, *written)

    return program


@pytest.fixture
def start(tmp_path):
    """Run `python -m constructive` in a process of its own, where that is what matters."""

    def start(*arguments, **options):
        command = [sys.executable, "-m", "constructive", *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        done = subprocess.run(command, cwd=tmp_path, check=False, **options)
        assert "Traceback" not in str(done.stderr)
        return done

    return start


@pytest.fixture
def run(program):
    """Run it in this process with the status that is expected: all that it wrote."""

    def run(*arguments, status=0):
        done = program(*arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
