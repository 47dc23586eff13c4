"""The marker `attention` of pytest."""

import os
import subprocess
import sys
import textwrap

import pytest

TESTS = """
    import numpy as np
    import pytest
    from constructive.kernels import check

    def kernel(q, k, v, visible, ahead):
        logits = np.where(visible | np.eye(12, k=ahead, dtype=bool), q @ k.mT / 4, -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    cases = pytest.mark.attention(
        heads=(2, 2), queries=12, head_dim=16, causal="top-left", cases=["last", "ties", "random"]
    )

    @cases
    @pytest.mark.parametrize("ahead", [0])
    def test_right(problem, ahead):
        check(problem, kernel(*problem.tensors(), problem.visible, ahead))

    @cases
    def test_wrong(problem):
        check(problem, kernel(*problem.tensors(), problem.visible, 1))

    @pytest.mark.attention(heads=(2, 2), queries=12, head_dim=16, cases=["ties"], d_lse=True)
    def test_gradients(backward):
        backward.check(backward.dq, backward.dk, 2.0 * backward.dv)

    def test_other():
        assert True
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_marked_test_runs_on_problems_and_its_failures_are_compared(tmp_path, workers):
    (tmp_path / "test_kernel.py").write_text(textwrap.dedent(TESTS))
    command = [sys.executable, "-m", "pytest", "-p", "constructive.pytest_plugin", "-p",
               "xdist.plugin", "-p", "no:cacheprovider", "-n", workers, "-rf", "--strict-markers",
               "-W", "error", str(tmp_path)]  # fmt: skip
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=alone, cwd=tmp_path
    )
    text = run.stdout + run.stderr
    assert "4 failed, 4 passed" in text, text
    assert "FAILED test_kernel.py::test_wrong[ties-12x12-d16-float32]" in text
    # pytest's own lines stand behind it, and are cut to the terminal's width where CI is not set
    summary = text.partition("attention kernels")[2].partition("short test summary info")[0]
    assert "problems are wrong" in summary
    assert "HOW: they read one key alone: the key is the key to be read + 1" in summary
    assert "again: pytest 'test_kernel.py::test_wrong[" in summary
    assert "again: pytest 'test_kernel.py::test_gradients[ties-12x12-d16-float32]'" in summary
    assert summary.count("a value outside proves") == 1
    assert all(len(line) < 500 for line in summary.splitlines())
    assert "HOW: dv of sequence 0" in summary
    assert "test_gradients: 1 of 1 problems are wrong" in summary
    traceback = text.partition("attention kernels")[0]
    assert "checking.py" not in traceback
    assert "backward.py" not in traceback


def test_who_does_not_use_the_marker_imports_nothing():
    code = "import sys, constructive.pytest_plugin; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"numpy", "constructive.kernels.checking", "constructive.kernels.problem"}
