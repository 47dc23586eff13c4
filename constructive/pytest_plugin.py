"""A plugin of pytest: a test with the marker `attention` runs on every problem of a battery.

    @pytest.mark.attention(heads=(8, 2), causal="bottom-right", dtype="bfloat16")
    def test_kernel(problem):
        check(problem, kernel(*problem.tensors("torch")))

A test with an argument `backward` in the place of `problem` gets backward problems. At the end of
the run: which problems of a test fail, what their outputs have in common, and a line that repeats
one. pytest loads this file wherever the package is installed, so it imports the library only where
a marker is used.
"""

from collections import defaultdict
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from constructive.kernels.comparing import AnyReport

_MARKER = "attention"
_MODEL = (
    "a value outside proves that the kernel left the model of exact outputs, which is in "
    "error.report.model_lines and docs/kernels.md"
)
_OF_BACKWARD = ("d_lse", "keep")  # arguments of the marker that are those of `Backward.each`


class Results:
    """What became of the problems of marked tests, by the name of a test without its problem."""

    def __init__(self) -> None:
        self.reports: dict[str, list[AnyReport]] = defaultdict(list)
        self.again: dict[str, str] = {}  # one failed test of each
        self.of_workers: list[str] = []

    def add(self, item: pytest.Function, error: BaseException | None) -> None:
        """Keep what was found of a problem."""
        from constructive.kernels import Backward, KernelError, Problem, Report  # noqa: PLC0415
        from constructive.kernels.backward import BackwardReport  # noqa: PLC0415

        test = item.nodeid.partition("[")[0]
        given = item.funcargs.get("problem", item.funcargs.get("backward"))
        if isinstance(error, KernelError):
            self.again.setdefault(test, item.nodeid)
            if isinstance(error.report, (Report, BackwardReport)):
                self.reports[test].append(error.report)
        elif error is None and isinstance(given, Problem):
            self.reports[test].append(Report(given, given.expected))
        elif error is None and isinstance(given, Backward):
            self.reports[test].append(given.examine(given.dq, given.dk, given.dv))

    @property
    def lines(self) -> list[str]:
        """What failed outputs of each test have in common, and where the model is, once."""
        from constructive.kernels.checking import Report  # noqa: PLC0415
        from constructive.kernels.comparing import diagnose  # noqa: PLC0415

        found, has_outputs = [], False
        for test, node in self.again.items():
            reports = self.reports[test]
            wrong = [each for each in reports if not each.passed]
            if wrong:
                found.append(f"{test}: {len(wrong)} of {len(reports)} problems are wrong")
                found.extend(f"  {line}" for line in diagnose(reports))
                has_outputs |= any(isinstance(each, Report) for each in wrong)
            found.append(f"  again: pytest '{node}'")
        return found + [_MODEL] * has_outputs


_RESULTS = pytest.StashKey[Results]()


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(**arguments): run on each problem of constructive.kernels.battery(**arguments) "
        "as the argument `problem` of a test, or `backward`",
    )
    config.stash[_RESULTS] = Results()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a marked test its problems."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    wanted = {"problem", "backward"} & set(metafunc.fixturenames)
    if marker is None or not wanted:
        return
    from constructive.kernels import Backward, battery  # noqa: PLC0415

    of_backward = {name: marker.kwargs[name] for name in _OF_BACKWARD if name in marker.kwargs}
    rest = {name: x for name, x in marker.kwargs.items() if name not in of_backward}
    problems = list(battery(**rest))
    if "problem" in wanted:
        metafunc.parametrize("problem", problems, ids=[each.id for each in problems])
    else:
        found = list(Backward.each(problems, **of_backward))
        metafunc.parametrize("backward", found, ids=[each.problem.id for each in found])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what a marked test found."""
    report = yield
    if call.when == "call" and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        error = None if call.excinfo is None else call.excinfo.value
        if item.get_closest_marker(_MARKER) is not None:
            item.config.stash[_RESULTS].add(item, error)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what a worker of pytest-xdist found to the process that prints it."""
    output = getattr(session.config, "workeroutput", None)
    results = session.config.stash[_RESULTS]
    if output is not None and results.again:
        output[_MARKER] = results.lines


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - pytest-xdist has no types
    """Take what a worker found."""
    found = getattr(node, "workeroutput", {}).get(_MARKER, [])
    node.config.stash[_RESULTS].of_workers.extend(found)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the failed problems of each test have in common."""
    results = config.stash[_RESULTS]
    lines = results.of_workers + (results.lines if results.again else [])
    if lines:
        terminalreporter.section("attention kernels")
        for line in dict.fromkeys(lines):
            terminalreporter.write_line(line)
