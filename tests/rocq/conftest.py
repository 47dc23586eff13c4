"""One compiled theory for all tests with Rocq, which would take half a minute each."""

import subprocess
from contextlib import nullcontext

import pytest

from constructive.rocq import compiling as rocq
from constructive.rocq import confirm
from constructive.rocq.theories import ERROR, IMPOSSIBLE, ONTO, RECITES


@pytest.fixture(scope="session")
def theory():
    """Compiled: of upper bounds, errors, recitals and free heads; these need that of ranks."""
    names = (theory.name for theory in (IMPOSSIBLE, ERROR, RECITES, ONTO))
    with rocq.compiled(*names) as folder:
        yield folder


@pytest.fixture
def compiled_once(theory, monkeypatch):
    """Have `confirm` take it, as if it had been compiled anew."""
    monkeypatch.setattr(rocq, "compiled", lambda *_: nullcontext(theory))


@pytest.fixture
def without_rocq(tmp_path, monkeypatch):
    """Have `confirm` write files and read them back, as if Rocq then accepted them."""
    accepted = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(rocq, "compiled", lambda *_: nullcontext(tmp_path / "theory"))
    monkeypatch.setattr(confirm, "compile_files", lambda *_: accepted)
    monkeypatch.setattr(confirm, "objection", lambda _: "")
    (tmp_path / "theory").mkdir()
