"""What the checker takes from its command line, and what it hands to the kinds of certificates."""

import json
import math
import subprocess
import sys

import pytest

from constructive.certificates.check import CHECKER

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
        (content, ["weights", "data"], (*DEFAULTS, checker.steps.silent)),
        (content, ["data"], (True, ["rank"], 0.5, 1e6, checker.steps.silent)),
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
    told = [isinstance(given[-1][-1], checker.steps.Told) for given in calls]
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
