"""Ctrl-C and termination leave no half-written file."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from constructive import generators

STATUS = {"SIGINT": 130, "SIGTERM": 143}

LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
"""Whoever starts the tests in the background may have told their processes to ignore it."""

WORK = """
import signal, sys
import constructive
from constructive.cli import program as entry
from constructive.support.progress import report

def interrupted(*arguments, **options):
    report("work", 1, 2)
    signal.raise_signal(signal.{{name}})

constructive.{function} = interrupted
sys.argv = "constructive {command}".split()
entry.main()
"""
BUILD = WORK.format(
    function="build_memorizer", command="build data.npz --heads 8 -o weights.safetensors"
)
RECITE = WORK.format(function="build_decoder", command="recite data.npz --unit bytes")

WRITE = """
import signal
from constructive.cli import program as entry
from constructive.support.files import replacing

@entry.app.command()
def write():
    with replacing("half.bin") as file:
        file.write(b"half")
        signal.raise_signal(signal.{name})

import sys
sys.argv = ["constructive", "write"]
entry.main()
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [(BUILD, "SIGINT"), (BUILD, "SIGTERM"), (RECITE, "SIGINT"), (WRITE, "SIGTERM")],
)
def test_an_interrupt_leaves_nothing(tmp_path, code, name):
    data = generators.uniform(num_examples=31, context_size=4, width=8)
    data.save(tmp_path / "data.npz")
    command = [sys.executable, "-c", LISTEN + code.format(name=name)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr
    assert run.returncode == STATUS[name]
    assert run.stderr.splitlines()[-1:] == (["Interrupted."] if name == "SIGINT" else [])
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


JOBS = """
import os, sys, time
from pathlib import Path
from constructive.cli import program as entry
from constructive.support.parallel import ordered_map

def work(index):
    Path(f"worker-{os.getpid()}").touch()
    time.sleep(300)

@entry.app.command()
def wait():
    with entry.processes(2) as executor, entry.progress_bar():
        ordered_map(work, range(9), executor=executor, step="wait")

sys.argv = ["constructive", "wait"]
entry.main()
"""


@pytest.mark.parametrize(
    ("name", "to_all"), [("SIGINT", True), ("SIGINT", False), ("SIGTERM", False)]
)
def test_an_interrupt_ends_the_workers_at_once(tmp_path, name, to_all):
    """A terminal sends Ctrl-C to the workers, too; a supervisor to the command alone."""
    run = subprocess.Popen(
        [sys.executable, "-c", LISTEN + JOBS],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        number = signal.Signals[name]
        if to_all:
            os.killpg(run.pid, number)
        else:
            run.send_signal(number)
        _, printed = run.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == STATUS[name]
    assert ("Interrupted." in printed) == (name == "SIGINT")
    assert "Traceback" not in printed
    workers = [int(path.name.removeprefix("worker-")) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    wait_until(lambda: not any(map(is_alive, workers)))


def wait_until(condition):
    stop = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < stop
        time.sleep(0.05)


def is_alive(process):
    try:
        os.kill(process, 0)
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
