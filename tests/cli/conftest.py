"""A runner of the command line."""

import subprocess
import sys

import pytest


@pytest.fixture
def run(tmp_path):
    def run(*arguments, status=0):
        command = [sys.executable, "-m", "constructive", *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run
