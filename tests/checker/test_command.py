"""What the checker takes from its command line, hands to the kinds of certificates, and tells."""

import io
import json
import math
import os
import subprocess
import sys

import pytest
from three_files import paths

from constructive import check, generators
from constructive.certificates.check import CHECKER
from constructive.support.progress import progress_to

DEFAULTS = (False, (), math.inf, 8e9)


@pytest.fixture
def calls(checker, monkeypatch):
    """What a kind of certificate was given, one entry for each call."""
    calls = []

    def verdict(kind, content, files, options):
        assert kind == "kind"
        calls.append((content, files, tuple(options)))
        return {"rank": "something", "error": "more"}

    monkeypatch.setattr(checker.command, "KINDS", {"any": "kind"})
    monkeypatch.setattr(checker.command, "verdict", verdict)
    return calls


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps({"format": "any"}))
    return str(path)


def test_what_is_handed_on(checker, calls, path):
    assert checker.check([path, "weights", "data"]) == {"rank": "something", "error": "more"}
    checker.check([path, "data"], quick=True, asked=["rank"], epsilon=0.5, most=1e6)
    content = {"format": "any"}
    assert calls == [
        (content, ["weights", "data"], (*DEFAULTS, checker.files.silent)),
        (content, ["data"], (True, ["rank"], 0.5, 1e6, checker.files.silent)),
    ]


@pytest.mark.parametrize("others", [[], ["a", "b", "c"]])
def test_two_files_or_three(checker, calls, path, others):
    with pytest.raises(ValueError, match="the files are CERTIFICATE"):
        checker.check([path, *others])
    assert not calls


def test_the_command(checker, calls, path, capsys):
    assert checker.main([path, "data"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "rank      something", "error     more", "PROVED",
    ]  # fmt: skip
    words = ["--quick", "--claims", "rank", "error", "--epsilon", "1e-3", "--max-memory", "0.5"]
    checker.main([path, "weights", "data", *words])
    checker.main([path, "data", "--progress"])
    options = [given[-1][:-1] for given in calls]
    assert options == [DEFAULTS, (True, ["rank", "error"], 1e-3, 5e8), DEFAULTS]
    told = [isinstance(given[-1][-1], checker.files.Told) for given in calls]
    assert told == [False, False, True]


def test_only_a_process_of_its_own_is_confined(checker, calls, path, monkeypatch):
    confined = []
    monkeypatch.setattr(checker.command, "confine", confined.append)
    checker.main([path, "data", "--max-memory", "2"])
    assert not confined
    monkeypatch.setattr(sys, "argv", ["checker", path, "data", "--max-memory", "2"])
    assert checker.main() == 0
    assert confined == [2e9]
    assert len(calls) == 2


@pytest.mark.parametrize("size", ["0", "-0", "-1", "inf", "nan", "much", "1e400"])
def test_memory_which_is_none(checker, calls, path, size, capsys):
    with pytest.raises(SystemExit):
        checker.main([path, "data", f"--max-memory={size}"])
    assert "--max-memory: invalid" in capsys.readouterr().err
    assert not calls


@pytest.mark.parametrize("size", ["0.001", "0.026", "0.05"])
def test_little_memory_is_refused_or_suffices(proved, size):
    """BLAS would abort for the want of buffers, without a word of what was proved."""
    *_, folder = proved
    names = [str(folder / name) for name in ("certificate.json", "weights.safetensors", "data.npz")]
    run = subprocess.run(
        [sys.executable, "-I", str(CHECKER), *names, "--max-memory", size],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.stdout.startswith("NOT PROVED: ")) == (run.returncode == 1), run.stderr
    assert run.stdout.endswith("PROVED\n") == (run.returncode == 0)
    assert (run.returncode == 1) == (size == "0.001")


@pytest.mark.parametrize("name", ["numpy", "mpmath"])
def test_what_is_not_installed_is_named(name):
    code = f"import runpy, sys; sys.modules[{name!r}] = None; sys.argv[0] = {str(CHECKER)!r}; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-I", "-c", code, "c.json", "w.safetensors", "d.npz"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout.startswith("NOT PROVED: ")
    assert f"has no {name}; try: " in run.stdout
    assert not run.stderr


# What it tells while it works: to a terminal, to `check`, and to nobody else.


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
    monkeypatch.setattr(checker.files.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    told = checker.files.Told(stream)
    for done in range(10):
        told("first", done, 10)
        now[0] += 0.2
    told("second", 0, 1)
    told.end()
    lines = stream.getvalue().splitlines()
    assert lines == [f"... first: {done} of 10" for done in (0, 3, 6, 9)] + ["... second: 0 of 1"]


def test_lines_of_a_terminal_are_cut(checker):
    stream = Terminal()
    told = checker.files.Told(stream)
    told.end()
    assert not stream.getvalue()
    told("x" * 200, 0, 1)
    assert len(stream.getvalue()) == 81
