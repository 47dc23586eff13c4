"""One compiled theory for all tests with Rocq, which would take half a minute each."""

from contextlib import nullcontext

import pytest

from constructive.certificates.rocq import error, impossible
from constructive.theory import rocq


@pytest.fixture(scope="session")
def theory():
    """Compiled: those of upper bounds and errors, which need that of ranks."""
    with rocq.compiled(impossible.THEORY.name, error.THEORY.name) as folder:
        yield folder


@pytest.fixture
def compiled_once(theory, monkeypatch):
    """Have `confirm` take it, as if it had been compiled anew."""
    monkeypatch.setattr(rocq, "compiled", lambda *_: nullcontext(theory))
