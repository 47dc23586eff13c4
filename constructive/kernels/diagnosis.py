"""What several reports on one kernel have in common: the mistakes that lead to all of them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from constructive.kernels.mistakes import mistakes
from constructive.kernels.mistakes.bench import Bench, Made
from constructive.kernels.report import PART, Report, of_kinds
from constructive.kernels.same import same_rows

_MOST_REPORTS = 6  # Reports whose explanations are tried on all others
_SHARE = 1.0 / 3.0  # Of wrong outputs that a mistake has to lead to
_SIZE = re.compile(r" \([^)]*\)$")
_NEAR = 2.0**-6  # Distances of rows that may be roundings


def diagnose(reports: Iterable[Report]) -> tuple[str, ...]:
    """Return the mistakes that explain every row of all reports, also of those that passed.

    If there is none: those that explain every wrong row; then those that explain most of the
    reports that failed; else the ways in which rows are wrong.

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
    where = failed[0].where
    for is_whole in (True, False):
        tried: set[str] = set()
        best: dict[str, int] = {}
        for first in _spread(failed):
            names = [
                each.sentence
                for each in first.explanations
                if (each.is_whole if is_whole else each.wrong == 1.0)
                and _stem(each.sentence) not in tried
            ]
            inferred = {each.sentence for each in first.explanations if each.is_inferred}
            asked, holds = (given, _explains) if is_whole else (failed, _leads_to)
            left = _left(asked, names, inferred, holds)
            if max(left.values(), default=0) > max(best.values(), default=0):
                best = left
            if max(best.values(), default=0) == len(failed):
                break
            tried.update(map(_stem, names))
        if best:
            most = max(best.values())
            said = of_kinds(name for name, count in best.items() if count == most)
            return tuple(f"{name}{'' if is_whole else where}" for name in said)
    return _of_most(failed) or tuple(f"{words}{where}" for words in failed[0].kinds)


def _of_most(failed: list[Report]) -> tuple[str, ...]:
    """Return the mistakes that explain most outputs, and the others not, or nothing."""
    counts: Counter[str] = Counter()
    sentences: dict[str, str] = {}
    for report in failed:
        for each in reversed(report.explanations):
            if each.wrong == 1.0:
                sentences[_stem(each.sentence)] = each.sentence
        found = (_stem(each.sentence) for each in report.explanations if each.wrong == 1.0)
        counts.update(list(dict.fromkeys(found)))
    most = max(counts.values(), default=0)
    if 2 * most <= len(failed):
        return ()
    said = f" (in {most} of {len(failed)} wrong outputs)"
    return tuple(
        f"{name}{said}" for name in of_kinds(sentences[s] for s in counts if counts[s] == most)
    )


def _left(
    reports: list[Report],
    names: list[str],
    inferred: set[str],
    holds: Callable[[Report, Made], bool],
) -> dict[str, int]:
    """Return the names of mistakes that some reports agree on, with how many, and none contradicts.

    Sizes of blocks or splits may differ from shape to shape. A mistake may have no meaning for a
    problem, and where an output is NaN, much may have led to it: but a third of the wrong outputs
    for which it has one have to be explained, and one that is not NaN in every row. A law has a
    meaning for all.
    """
    agreed, asked, told = dict.fromkeys(names, 0), dict.fromkeys(names, 0), set()
    for report in reports:
        if not agreed:
            break
        by_stem: dict[str, list[Made]] = {}
        known = dict(mistakes(Bench.of(report.problem, report.memory)))
        if not report.passed and inferred.intersection(agreed):
            known |= report.fitting
        for name, made in known.items():
            by_stem.setdefault(_stem(name), []).append(made)
        for name in list(agreed):
            several = by_stem.get(_stem(name), [])
            asked[name] += (bool(several) or name in inferred) and not report.passed
            if any(holds(report, made) for made in several):
                agreed[name] += not report.passed
                if not report.passed and _tells(report):
                    told.add(name)
            elif several and (report.passed or not report.is_odd):
                del agreed[name]
    return {
        name: count
        for name, count in agreed.items()
        if name in told and count >= _SHARE * asked[name]
    }


def _tells(report: Report) -> bool:
    """Return whether an output is more than NaN in every row."""
    right = report.problem.answer.checked & ~report.problem.answer.empty & ~report.wrong
    return not report.is_odd or bool(right.any())


def _stem(name: str) -> str:
    """Return a sentence without the size of blocks or splits in brackets at its end."""
    return _SIZE.sub("", name)


def _spread(failed: list[Report]) -> list[Report]:
    """Return some reports, of different cases and shapes as far as there are."""
    step = -(-len(failed) // _MOST_REPORTS)
    return failed[::step]


def _explains(report: Report, made: Made) -> bool:
    """Return whether a mistake leads to an output in every row."""
    rows = report.problem.answer.checked & ~report.problem.answer.empty
    with np.errstate(all="ignore"):
        same, _ = same_rows(report.out, made(), report.problem.spec.output)
    return bool(same[rows].all())


def _leads_to(report: Report, made: Made) -> bool:
    """Return whether a mistake leads to all that is wrong; where that is NaN, to most of it."""
    rows = report.wrong & ~report.problem.answer.empty
    if not rows.any():
        return True
    with np.errstate(all="ignore"):
        same, _ = same_rows(report.out, made(), report.problem.spec.output)
    return float(same[rows].mean()) >= (PART if report.is_odd else 1.0)
