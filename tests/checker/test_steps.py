"""What the checker tells while it works: to a terminal, to `check`, and to nobody else."""

import io
import os
import subprocess
import sys

import pytest
from three_files import paths

from constructive import check, generators
from constructive.certificates.check import CHECKER
from constructive.support.progress import progress_to


@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("kind", ["proved", "paired"])
def test_check_reports_steps_and_says_the_same(request, kind):
    *_, folder = request.getfixturevalue(kind)
    steps = []
    with progress_to(lambda *step: steps.append(step)):
        told = check(*paths(folder))
    assert told.proved
    assert told == check(*paths(folder))  # without a line of them
    assert all(0 <= done <= total for _, done, total in steps)
    names = [name for name, *_ in steps]
    assert all(name.startswith("check: ") for name in names)
    expected = {
        "proved": {"check: eliminate Z modulo p"},
        "paired": {"check: read contexts", "check: coupling"},
    }[kind]
    assert expected <= set(names)


@pytest.mark.usefixtures("own_process")
def test_steps_of_a_refusal(proved, tmp_path):
    other = generators.uniform(num_examples=7, context_size=3, width=5, seed=2)
    other.save(tmp_path / "data.npz")
    steps = []
    files = [*paths(proved[3])[:2], str(tmp_path / "data.npz")]
    with progress_to(lambda *step: steps.append(step)):
        told = check(*files)
    assert steps
    assert not told.proved
    assert told == check(*files)
    assert "it is about other data" in told.report


@pytest.mark.usefixtures("own_process")
def test_who_listens_may_end_it(proved):
    def tired(*_step):
        raise InterruptedError

    with progress_to(tired), pytest.raises(InterruptedError):
        check(*paths(proved[3]))


def run(folder, *options, **streams):
    command = [sys.executable, "-I", str(CHECKER), *paths(folder), *options]
    return subprocess.run(command, text=True, check=False, **streams)


def test_without_a_terminal_steps_are_asked_for(proved):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    silent, told = run(proved[3], **pipes), run(proved[3], "--progress", **pipes)
    assert silent.stdout == told.stdout
    assert silent.stderr.startswith("needs up to ")
    assert silent.stderr.count("\n") == 1
    assert "... eliminate Z modulo p: 0 of 7\n" in told.stderr


def test_on_a_terminal_they_share_a_line(proved):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    done = run(proved[3], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    written = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.stdout.endswith("PROVED\n")
    assert "\r... eliminate Z modulo p: 0 of 7 " in written
    assert written.count("\n") == 1  # of what is needed
    assert written.endswith(f"\r{'':79}\r")


def test_nobody_has_to_listen(proved):
    read, write = os.pipe()
    os.close(read)
    done = run(proved[3], "--progress", stdout=subprocess.PIPE, stderr=write)
    os.close(write)
    assert done.stdout.endswith("\nPROVED\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_step_is_told_at_once_and_then_now_and_then(checker, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checker.steps.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    told = checker.steps.Told(stream)
    for done in range(10):
        told("first", done, 10)
        now[0] += 0.2
    told("second", 0, 1)
    told.end()
    lines = stream.getvalue().splitlines()
    assert lines == [f"... first: {done} of 10" for done in (0, 3, 6, 9)] + ["... second: 0 of 1"]


def test_lines_of_a_terminal_are_cut(checker):
    stream = Terminal()
    told = checker.steps.Told(stream)
    told.end()
    assert not stream.getvalue()
    told("x" * 200, 0, 1)
    assert len(stream.getvalue()) == 81
