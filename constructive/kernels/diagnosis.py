"""What several reports on one kernel have in common: the mistakes that lead to all of them."""

from collections.abc import Callable, Iterable

import numpy as np

from constructive.kernels.mistakes import mistakes
from constructive.kernels.mistakes.bench import Bench, Made
from constructive.kernels.report import PART, Report, of_kinds, same_rows

_MOST_REPORTS = 6
"""Reports whose explanations are tried on all others."""
_NEAR = 2.0**-6
"""Distances of rows that may be roundings."""


def diagnose(reports: Iterable[Report]) -> tuple[str, ...]:
    """Return the mistakes that explain every row of all reports, also of those that passed.

    If there is none: those that explain every wrong row; else the ways in which rows are wrong.

    Args:
        reports: of one kernel on several problems

    Example:
        >>> diagnose([])
        ()
    """
    # A report of NaN says little, and one in which no row is far from the right one least.
    given = sorted(
        reports,
        key=lambda report: (report.passed, report.distance < _NEAR, report.is_odd),
    )
    failed = [report for report in given if not report.passed]
    if not failed:
        return ()
    some = _spread(failed)
    tried: set[str] = set()
    for first in some:
        new = [each.sentence for each in first.explanations if each.is_whole]
        left = _left(given, [name for name in new if name not in tried], _explains)
        if left:
            return of_kinds(left)
        tried.update(new)
    tried.clear()
    where = failed[0].where
    for first in some:
        new = [each.sentence for each in first.explanations if each.wrong == 1.0]
        left = _left(failed, [name for name in new if name not in tried], _leads_to)
        if left:
            return tuple(f"{words}{where}" for words in of_kinds(left))
        tried.update(new)
    return tuple(f"{words}{where}" for words in failed[0].kinds)


def _left(
    reports: list[Report], names: list[str], holds: Callable[[Report, Made | None], bool]
) -> list[str]:
    """Return the names of mistakes of which something holds in all reports."""
    for report in reports if names else ():
        made = mistakes(Bench.of(report.problem, report.memory))
        names = [name for name in names if holds(report, made.get(name))]
        if not names:
            break
    return names


def _spread(failed: list[Report]) -> list[Report]:
    """Return some reports, of different cases and shapes as far as there are."""
    step = -(-len(failed) // _MOST_REPORTS)
    return failed[::step]


def _explains(report: Report, made: Made | None) -> bool:
    """Return whether a mistake leads to an output in every row; without any, that it is right."""
    rows = report.problem.answer.checked & ~report.problem.answer.empty
    if made is None:
        return not (report.wrong & rows).any()
    with np.errstate(all="ignore"):
        same, _ = same_rows(report.out, made(), report.problem.spec.output)
    return bool(same[rows].all())


def _leads_to(report: Report, made: Made | None) -> bool:
    """Return whether a mistake leads to all that is wrong; where that is NaN, to most of it."""
    rows = report.wrong & ~report.problem.answer.empty
    if made is None or not rows.any():
        return not rows.any()
    with np.errstate(all="ignore"):
        same, _ = same_rows(report.out, made(), report.problem.spec.output)
    return float(same[rows].mean()) >= (PART if report.is_odd else 1.0)
