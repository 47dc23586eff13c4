"""Table 1: do real data meet the assumptions?

For each stage of `stages` the report of `assumptions.check`: Assumption 2 is decided exactly for
every context; Assumption 1 is proved, refuted with a witness, or left open, with the estimated
share of dependent subsets; and the question that the construction asks, whether the examples can
be put into groups, is decided exactly, too.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from constructive.figures.figure import Figure
from constructive.figures.stages import Stage, digits, text
from constructive.support import tables
from constructive.support.files import replacing
from constructive.theory import assumptions
from constructive.theory.assumptions.report import Report

NAME = "table-1-assumptions.txt"


@dataclass(frozen=True)
class AssumptionTable(Figure):
    """Every stage of both data, as text."""

    subsets: int = 1000  # that are sampled
    # of the search; by default little, for at these stages dependent subsets are small, or there
    # are none to be found
    budget: float = 0.01

    title = "Table 1: the assumptions on real data"
    files = (NAME,)
    needs = ("sklearn",)

    def draw(self, folder: Path, *, executor: Executor | None = None) -> tuple[Path, ...]:
        """Write the table, whole or not at all."""
        found = [
            (stage, assumptions.check(stage.dataset, subsets=self.subsets, budget=self.budget,
                                      executor=executor))
            for stage in (*digits(), *text())
        ]  # fmt: skip
        path = folder / NAME
        with replacing(path) as file:
            file.write(render(found).encode())
        return (path,)


ASSUMPTIONS = AssumptionTable()


def render(found: list[tuple[Stage, Report]]) -> str:
    """Return the table of stages, with what is known of each, as text."""
    table = tables.new_table(
        "data", "stage", "Assumption 2", "Assumption 1", "Kruskal rank",
        "dependent subsets of n", "general position", "grouping",
    )  # fmt: skip
    for stage, report in found:
        failing = f" ({len(report.contexts)})" if report.contexts else ""
        known = report.kruskal
        share = report.share
        table.add_row(
            stage.data,
            stage.stage,
            report.assumption_2.name + failing,
            report.assumption_1.name,
            f"{known.lower}" if known.exact else f"{known.lower} to {known.upper}",
            "" if share is None else f"{share.dependent / share.subsets:.1%}",
            f"{1 - report.position.dependent / report.position.subsets:.1%}",
            report.construction.name,
        )
    first = found[0][1]
    heading = f"T = {first.count} examples, n = {first.size} tokens, d = {first.width}"
    return "\n".join([heading, "", *tables.lines(table, 140)]) + "\n"
