"""Run an adapter on problems, and count what came out."""

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from constructive.kernels.adapters.adapter import Adapter, Refused
from constructive.kernels.batteries import SUITE, problems, union
from constructive.kernels.problem import Problem
from constructive.kernels.report import Report
from constructive.kernels.spec import Spec

Outcome = Literal["exact", "wrong", "refused", "error"]


@dataclass(frozen=True, eq=False)
class Run:
    """A problem, and what became of it."""

    shape: str  # name of the shape, a key of `suite.SUITE`
    problem: Problem  # what was to be computed
    outcome: Outcome  # "exact", "wrong", "refused" or "error"
    report: Report | None = None  # on the output, if there is one
    reason: str = ""  # why it was refused, or the error

    @property
    def is_diagnosed(self) -> bool:
        """Whether the output is wrong, and one mistake explains all of it."""
        return (
            self.outcome == "wrong"
            and self.report is not None
            and any(explanation.is_whole for explanation in self.report.explanations)
        )

    @property
    def summary(self) -> str:
        """What came out, in a sentence."""
        if self.report is None or self.outcome == "exact":
            return self.reason or self.outcome
        explanations = self.report.explanations
        sentences = [explanation.sentence for explanation in explanations[:1]]
        return (sentences or self.report.how[:1] or ["wrong"])[0]


@dataclass(frozen=True)
class Tally:
    """How many runs there were of each outcome."""

    cases: int  # problems that were run or refused
    exact: int  # outputs that are what every admissible kernel returns
    diagnosed: int  # wrong outputs that one mistake explains in every row
    wrong: int  # other wrong outputs
    refused: int  # problems that the library or its adapter refuses
    errors: int  # exceptions of the library
    # share of hidden keys, over shapes with an output, whose leak changes an answer
    coverage: float

    @property
    def passed(self) -> bool:
        """Whether something ran, all of it exact."""
        return self.exact > 0 and self.exact + self.refused == self.cases


def suite_for(adapter: Adapter, dtype: str) -> dict[str, Spec]:
    """Return the shapes of the suite in a format, with the adapter's rows without keys."""
    return {
        name: replace(spec, dtype=dtype, fully_masked=adapter.convention(spec))
        for name, spec in SUITE.items()
    }


def run_all(
    adapter: Adapter,
    specs: dict[str, Spec],
    device: str = "cpu",
    cases: Iterable[str] | None = None,
) -> Iterator[Run]:
    """Yield a run for each problem of each spec."""
    chosen = None if cases is None else tuple(cases)
    for shape, spec in specs.items():
        for problem in problems(spec, cases=chosen):
            yield run_one(adapter, shape, problem, device)


def run_one(adapter: Adapter, shape: str, problem: Problem, device: str = "cpu") -> Run:
    """Run a problem; an exception of the library is an outcome."""
    reason = adapter.refuses(problem)
    if reason is not None:
        return Run(shape, problem, "refused", reason=reason)
    try:
        out = adapter.run(problem, device)
    except Refused as refusal:
        return Run(shape, problem, "refused", reason=str(refusal))
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip()
        return Run(shape, problem, "error", reason=last)
    if out.shape != problem.expected.shape:
        reason = f"the output has shape {out.shape}, not {problem.expected.shape} (B, H, T_q, d_v)"
        return Run(shape, problem, "error", reason=reason)
    report = Report(problem, out, adapter.models[problem.spec.dtype])
    return Run(shape, problem, "exact" if report.passed else "wrong", report)


def tally(runs: Iterable[Run]) -> Tally:
    """Return how many runs there were of each outcome."""
    done = list(runs)
    counts = Counter("diagnosed" if run.is_diagnosed else run.outcome for run in done)
    return Tally(
        cases=len(done), exact=counts["exact"], diagnosed=counts["diagnosed"],
        wrong=counts["wrong"], refused=counts["refused"], errors=counts["error"],
        coverage=union(run.problem for run in done if run.report is not None),
    )  # fmt: skip
