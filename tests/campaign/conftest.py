"""A runner of cases, whose folder goes away."""

import contextlib

import hostile
import pytest


@pytest.fixture
def runner(tmp_path):
    with contextlib.closing(hostile.Runner("all", tmp_path / "kept")) as runner:
        yield runner
