"""Which problems of a kernel fail, and what they have in common."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from constructive.kernels.backward import BackwardReport
from constructive.kernels.checking import LseReport, Report
from constructive.kernels.encodings import Paged
from constructive.support.arrays import Booleans

_MODULI = (2, 8, 16, 64, 128)
_LISTED = 4  # values of a factor that are shown of each kind
_PRICE = 0.02  # of the share of problems that a condition has to tell more, for each that is said
_CONDITIONS = 2
_MANY = 16  # wrong rows that are described better than a few
AnyReport: TypeAlias = Report | BackwardReport


def diagnose(reports: Iterable[AnyReport]) -> tuple[str, ...]:
    """Return which problems of a kernel fail, then where and how a wrong output is wrong.

    Args:
        reports: of one kernel on several problems, or of one backward pass

    Example:
        >>> diagnose([])
        ()
    """
    known = list(reports)
    compared = comparison(known)
    backward = [each for each in known if isinstance(each, BackwardReport)]
    if backward:
        wrong = (each.lines[1:-1] for each in backward if not each.passed)
        return *compared, *next(wrong, ())
    given = [each for each in known if isinstance(each, Report)]
    failed = [each for each in given if each.wrong.any()]
    if not failed:
        return (*compared, *_of_lse([each.lse for each in given if each.lse is not None]))
    plainest = min(failed, key=_obscurity)
    return *compared, *_shared(failed, plainest), *(f"HOW: {line}" for line in plainest.how)


def _shared(failed: Sequence[Report], plainest: Report) -> list[str]:
    """Return where outputs are wrong, and of how many that is said."""
    if len(failed) == 1:
        return [f"WHERE: {plainest.where}"]
    count = sum(each.where == plainest.where for each in failed)
    every = f"all {count}" if count == len(failed) else f"{count} of {len(failed)}"
    found = [f"WHERE: {plainest.where}, in {every} wrong outputs"]
    return found if count == len(failed) else [*found, f"  one of these is {plainest.problem}"]


def _of_lse(given: Sequence[LseReport]) -> tuple[str, ...]:
    """Return where and how log-sum-exps are wrong: of a report that knows their parts, if any."""
    wrong = [each for each in given if not each.passed]
    known = [each for each in wrong if each.parts is not None]
    return tuple((known or wrong)[0].lines[1:-1]) if wrong else ()


def _obscurity(report: Report) -> tuple[bool, bool, bool, float]:
    """Return what is small where facts say much: of many rows that conditions tell."""
    is_rare = bool(report.wrong.sum() < _MANY)
    return report.is_odd, report.description.is_obscure, is_rare, -report.description.place.share


def comparison(reports: Iterable[AnyReport]) -> tuple[str, ...]:
    """Return lines on which problems fail: what they have in common, then counts by case and so on.

    Nothing is said of a single problem, or if all pass.
    """
    given = list(reports)
    wrong = np.array([not report.passed for report in given], dtype=np.bool_)
    if len(given) < 2 or not wrong.any():
        return ()
    if wrong.all():
        return (f"FAIL: all {len(given)} problems",)
    factors = {name: values for name, values in _words(given).items() if len(set(values)) > 1}
    common = _common(factors, given, wrong)
    if common.startswith(", all "):
        factors.pop("size", None)  # which says no more
    lines = [f"FAIL: {wrong.sum()} of {len(given)} problems{common}"]
    lines += filter(None, (_counted(name, values, wrong) for name, values in factors.items()))
    return tuple(lines)


def _words(given: Sequence[AnyReport]) -> dict[str, list[str]]:
    """Return what problems have in words, by what it is."""
    specs = [report.problem.spec for report in given]
    options = [
        {"soft cap": spec.soft_cap, "scale": spec.scale, "sink": spec.sink, "ALiBi": spec.alibi}
        for spec in specs
    ]
    return {
        "memory": [_filled(x.memory if isinstance(x, Report) else None) for x in given],
        "case": [report.problem.case for report in given],
        "masks": [" and ".join(mask.name for mask in spec.masks) or "none" for spec in specs],
        "options": [
            " and ".join(name for name, value in each.items() if value) or "none"
            for each in options
        ],
        "format": [spec.dtype for spec in specs],
        "size": [f"{spec.queries} x {spec.keys}" for spec in specs],
    }


def _filled(memory: Paged | str | None) -> str:
    if isinstance(memory, Paged):
        return "pages beside NaN" if memory.is_beside_nan else "pages beside stale ones"
    return memory or "not said"


def _numbers(given: Sequence[AnyReport]) -> dict[str, list[int]]:
    """Return numbers of problems by name, the plainest first."""
    specs = [report.problem.spec for report in given]
    found = {
        "keys": [spec.keys for spec in specs],
        "queries": [spec.queries for spec in specs],
        "keys less queries": [spec.keys - spec.queries for spec in specs],
        "head_dim": [spec.head_dim for spec in specs],
        "value_dim": [spec.d_v for spec in specs],
        "value_dim less head_dim": [spec.d_v - spec.head_dim for spec in specs],
        "query heads of a KV head": [spec.group for spec in specs],
        "KV heads": [spec.heads[1] for spec in specs],
        "sequences": [spec.batch for spec in specs],
        "keys of the shortest sequence": [int(spec.lengths[1].min()) for spec in specs],
        "rows without keys": [int(report.problem.answer.empty.sum()) for report in given],
    }
    for name in ("keys", "queries", "head_dim"):
        found |= {f"{name} mod {n}": [number % n for number in found[name]] for n in _MODULI}
    return found


def _common(factors: dict[str, list[str]], given: Sequence[AnyReport], wrong: Booleans) -> str:
    """Return the least conditions that all wrong outputs meet, and few right ones."""
    inside, said = np.ones_like(wrong), list[str]()
    conditions = [*_conditions(factors, _numbers(given), wrong)]
    for _ in range(_CONDITIONS):
        share = wrong.sum() / inside.sum() + _PRICE
        best = max(
            ((wrong.sum() / (inside & met).sum() - 1e-3 * order, words, met)
             for order, (words, met) in enumerate(conditions)),
            key=lambda each: each[0], default=(0.0, "", inside),
        )  # fmt: skip
        if best[0] <= share:
            break
        said.append(best[1])
        inside = inside & best[2]
    if not said:
        return ""
    count = int(inside.sum())
    part = "all" if count == wrong.sum() else f"{wrong.sum()} of the {count}"
    return f", {part} with {' and '.join(said)}"


def _conditions(
    factors: dict[str, list[str]], numbers: dict[str, list[int]], wrong: Booleans
) -> Iterator[tuple[str, Booleans]]:
    """Yield conditions that all wrong outputs meet, in words, and which outputs meet them."""
    for name, values in factors.items():
        every = np.array(values)
        ours = list(dict.fromkeys(every[wrong]))
        if len(ours) <= _LISTED:
            yield f"{name} {' or '.join(ours)}", np.isin(every, ours)
        others = [value for value in dict.fromkeys(values) if value not in ours]
        if len(others) == 1:
            yield f"{name} other than {others[0]}", every != others[0]
    for name, sizes in numbers.items():
        x = np.array(sizes)
        low, high = x[wrong].min(), x[wrong].max()
        if low == high:
            yield f"{name} = {low}", x == low
        elif " mod " not in name:
            yield f"{name} >= {low}", x >= low
            yield f"{name} <= {high}", x <= high
        elif low > 0:
            yield f"{name} not 0", x > 0


def _counted(name: str, values: list[str], wrong: Booleans) -> str:
    """Return how many outputs are wrong for each value of a factor; "" if it makes no difference.

    It makes one if all outputs with one value are wrong, or all with another right.
    """
    every = np.array(values)
    shares = {value: float(wrong[every == value].mean()) for value in dict.fromkeys(values)}
    if not {0.0, 1.0} & set(shares.values()):
        return ""
    kinds = (
        ("all of", [value for value, share in shares.items() if share == 1.0]),
        ("some of", [value for value, share in shares.items() if 0.0 < share < 1.0]),
        ("none of", [value for value, share in shares.items() if share == 0.0]),
    )
    parts = [
        f"{word} {', '.join(found[:_LISTED])}" + (", .." if len(found) > _LISTED else "")
        for word, found in kinds
        if found
    ]
    return f"  {name}: {'; '.join(parts)}"
