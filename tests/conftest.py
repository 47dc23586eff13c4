"""How the tests run, and the checker in their process."""

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from constructive.certificates import check
from constructive.certificates.check import CHECKER
from constructive.data.stored import StoredContexts
from constructive.support.errors import MissingExtraError

PYTORCH = importlib.util.find_spec("torch") is not None
OF_PYTORCH = ["data/test_data_of_pytorch.py", "interop", "test_docstrings.py"]
collect_ignore = [] if PYTORCH else OF_PYTORCH

# Build times vary on shared machines, so no test fails for being slow once. Examples are the same
# in each run, so that twice as many would find what is there once, and take twice as long for ever.
settings.register_profile(
    "constructive",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("constructive")


def pytest_configure(config):
    """One thread for each process of xdist: more of them would wait for each other's cores."""
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test in which the package misses PyTorch, if it is not installed."""
    try:
        return (yield)
    except MissingExtraError as error:
        if PYTORCH or error.witness != "torch":
            raise
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter):
    """Say once how to get what skipped tests need."""
    if not PYTORCH:
        line = 'Tests that need PyTorch were left out. To run them: pip install ".[test,torch]"'
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def checker():
    """The modules of the checker by their names, so that thousands of runs need no new process."""
    names = {path.stem for path in CHECKER.glob("*.py")} - {"__main__", "__init__"}
    parts = {name: importlib.import_module(f"constructive.checker.{name}") for name in names}
    return SimpleNamespace(main=parts["command"].main, check=parts["command"].check, **parts)


@pytest.fixture
def peak_of():
    """The most bytes that a call takes at a time: a refusal of these words, or of any, or none."""

    def peak(call, words=None):
        tracemalloc.start()
        try:
            with (
                pytest.raises(ValueError, match=words) if words else contextlib.suppress(ValueError)
            ):
                call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return peak


@pytest.fixture(scope="session", autouse=True)
def same_process(checker):
    """Let `check` run the checker in this process, as a start takes longer than most checks."""

    def run(command, _printed):
        _, isolated, folder, *arguments = command
        assert (isolated, folder) == ("-I", str(CHECKER))
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = checker.main(arguments)
        return status, errors.getvalue() + output.getvalue()

    started = check._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "_run", run)
        yield started


@pytest.fixture(scope="session", autouse=True)
def slips_are_raised(checker):
    """Let only a refusal be a verdict: an error of another type is a slip of the program."""
    usual = checker.claim.FAILURES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker.claim, "FAILURES", (ValueError,))
        yield usual


@pytest.fixture
def evidence_is_malformed(checker, slips_are_raised, monkeypatch):
    """Let errors of all types be verdicts, as for users: for tests of just that."""
    monkeypatch.setattr(checker.claim, "FAILURES", slips_are_raised)


@pytest.fixture
def own_process(same_process, monkeypatch):
    """Let `check` start a process, as it does for users: for tests of just that."""
    monkeypatch.setattr(check, "_run", same_process)


@pytest.fixture
def one_sieve(checker, monkeypatch):
    """The moduli of upper bounds, which are the same each time."""
    monkeypatch.setattr(checker.capacity, "primes", functools.cache(checker.capacity.primes))


@pytest.fixture
def rows_read(monkeypatch):
    """The rows of contexts on disk that are read from now on, as indices, a list for each time."""
    rows, mapped, seen, within = StoredContexts.rows, StoredContexts.mapped, [], []

    def watched(stored, index):
        seen.append(np.arange(stored.shape[0])[index])
        within.append(index)
        found = rows(stored, index)
        within.pop()
        return found

    def whole(stored):
        if not within:
            seen.append(np.arange(stored.shape[0]))
        return mapped(stored)

    monkeypatch.setattr(StoredContexts, "rows", watched)
    monkeypatch.setattr(StoredContexts, "mapped", whole)
    return seen
