"""Ctrl-C and termination leave no half-written file."""

import subprocess
import sys

import pytest

from constructive import generators

LISTEN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
"""Whoever starts the tests in the background may have told their processes to ignore it."""

BUILD = """
import signal, sys
import constructive
from constructive.cli import common

def interrupted(*arguments, progress, **options):
    progress("build pairs of heads", 1, 2)
    signal.raise_signal(signal.{name})

constructive.build_memorizer = interrupted
sys.argv = ["constructive", "build", "data.npz", "--heads", "8", "-o", "weights.safetensors"]
common.main()
"""

RECITE = """
import signal, sys
from constructive.cli import common
from constructive.constructions import decoder as building

def interrupted(*arguments, progress, **options):
    progress("attend", 1, 2)
    signal.raise_signal(signal.{name})

building.build_recital = interrupted
sys.argv = ["constructive", "recite", "data.npz", "--unit", "bytes"]
common.main()
"""

WRITE = """
import signal
from constructive.cli import common
from constructive.support.files import replacing

@common.app.command()
def write():
    with replacing("half.bin") as file:
        file.write(b"half")
        signal.raise_signal(signal.{name})

import sys
sys.argv = ["constructive", "write"]
common.main()
"""


@pytest.mark.parametrize("code", [BUILD, RECITE, WRITE])
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_leaves_nothing(tmp_path, code, name, status):
    data = generators.uniform(num_examples=31, context_size=4, width=8)
    data.save(tmp_path / "data.npz")
    command = [sys.executable, "-c", LISTEN + code.format(name=name)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr
    assert run.returncode == status
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]
