"""The fourth campaign: 60 bugs in two kernels, a flash one and a paged one with splits.

    python tests/benchmarks/planted/fourth.py [--only PART] [--names]

Each kernel runs on all problems of 19 shapes, and on two random inputs of each shape. For each bug:
how many problems `examine` finds wrong, how many random inputs lead to an output outside `bounds`,
and how many to one that `torch.testing.assert_close` with its defaults refuses, given the exact
output. What is found in the two right kernels is a false alarm. --names also prints what `diagnose`
says about a few of the wrong outputs, with some of the right ones.
"""

import argparse
import importlib
import random
import time
from dataclasses import dataclass

import numpy as np

import seam
from catalogue import Bug
from comparisons import METHODS
from constructive.kernels import Intervals, Spec, bounds, diagnose, examine
from constructive.kernels.batteries import problems
from constructive.kernels.masks import Boolean, Causal, LeftPadding, Window
from exact import exact
from pages import Pages
from tiles import Tiles

MODELS = {Tiles: "flash float32", Pages: "split float32"}
JUDGES = ("exact", "intervals", "defaults")
WRONG, RIGHT = 5, 20
"""Reports on wrong and on right outputs that names are made from, at most."""

TOP_LEFT, BOTTOM_RIGHT = Causal("top-left"), Causal("bottom-right")
EVEN = (4, 2)
SHAPES = (
    Spec(batch=2, heads=EVEN, queries=70, keys=150, value_dim=40),
    Spec(batch=2, heads=(6, 3), queries=110, keys=110, masks=(TOP_LEFT,)),
    Spec(batch=2, heads=(8, 2), queries=65, keys=256, masks=(BOTTOM_RIGHT,)),
    Spec(batch=1, heads=EVEN, queries=90, keys=40, masks=(BOTTOM_RIGHT,)),
    Spec(batch=2, heads=EVEN, queries=100, keys=100, masks=(BOTTOM_RIGHT, Window(20, 0))),
    Spec(batch=1, heads=EVEN, queries=100, keys=150, masks=(Window(16, 8, "top-left"),)),
    Spec(batch=1, heads=EVEN, queries=90, keys=90, masks=(TOP_LEFT, Window(0, 5, "top-left"))),
    Spec(batch=2, heads=EVEN, queries=50, keys=150, masks=(Boolean(per_head=True),)),
    Spec(batch=2, heads=EVEN, queries=50, keys=50, masks=(Boolean(empty=True),)),
    Spec(batch=2, heads=(8, 2), queries=1, keys=300, masks=(BOTTOM_RIGHT,)),
    Spec(batch=2, heads=(6, 3), queries=40, keys=100, head_dim=40, value_dim=24),
    Spec(batch=2, heads=EVEN, queries=65, keys=200, masks=(BOTTOM_RIGHT, Window(30, 0))),
    Spec(batch=2, heads=EVEN, queries=1, keys=300, masks=(BOTTOM_RIGHT, Window(40, 0))),
    Spec(batch=2, heads=EVEN, queries=1, keys=100, masks=(TOP_LEFT,)),
    Spec(batch=1, heads=EVEN, queries=65, keys=150, masks=(TOP_LEFT,)),
    Spec(batch=2, heads=EVEN, queries=100, keys=200, masks=(LeftPadding((140, 0)),)),
    Spec(
        batch=1, heads=EVEN, queries=200, keys=200,
        masks=(Boolean(per_head=True), BOTTOM_RIGHT, Window(20, 0)),
    ),
    Spec(batch=1, heads=EVEN, queries=40, keys=50, head_dim=64, value_dim=16),
    Spec(batch=1, heads=(4, 1), queries=64, keys=64, masks=(TOP_LEFT,)),
)  # fmt: skip
"""The first twelve ran first; the others have what bugs needed that none of these showed."""


@dataclass(frozen=True, eq=False)
class RandomInput:
    """Normal inputs in a shape, with what is known of their output."""

    case: tuple
    right: np.ndarray
    intervals: dict[type, Intervals]

    @classmethod
    def of(cls, problem, size, seed):
        rng = np.random.default_rng(seed)
        q, k, v = (
            rng.standard_normal(x.shape).astype(np.float32) for x in problem.tensors("numpy")
        )
        q *= np.float32(size)
        case = (q, k, v, options_of(problem))
        intervals = {
            kernel: bounds(q, k, v, problem.visible, problem.spec.scale, model, fully_masked=None)
            for kernel, model in MODELS.items()
        }
        return cls(case, exact(*case), intervals)


def options_of(problem):
    """The options of a problem; the kernels know padding as a mask."""
    o = seam.options_of(problem, slopes=False)
    if o.mask is None and o.key_starts is None:
        return o
    spec = problem.spec
    shape = (spec.batch, spec.heads[0], spec.queries, spec.keys)
    return o.but(mask=np.broadcast_to(problem.visible, shape).copy(), key_starts=None)


def planted():
    """The 60 bugs."""
    return [
        Bug(kernel, group)
        for group in ("tiles", "pages")
        for kernel in vars(importlib.import_module(f"bugs_{group}")).values()
        if isinstance(kernel, type) and kernel.__module__ == f"bugs_{group}"
    ]


@dataclass(frozen=True)
class Result:
    """How many problems and random inputs show that a kernel is wrong, by each method."""

    name: str
    exact: int
    intervals: int
    defaults: int
    names: tuple[str, ...]


def judge(name, kernel, base, asked, inputs, *, is_named):
    """Judge a kernel by problems and by random inputs."""
    call = kernel()
    reports = [examine(problem, call(*case)) for problem, case in asked]
    outs = [call(*each.case) for each in inputs]
    return Result(
        name,
        sum(not report.passed for report in reports),
        sum(
            not each.intervals[base].contains(out)
            for each, out in zip(inputs, outs, strict=True)
        ),
        sum(
            not METHODS["defaults"]((out,), (each.right,), None)
            for each, out in zip(inputs, outs, strict=True)
        ),
        names_of(name, reports) if is_named else (),
    )  # fmt: skip


def names_of(name, reports):
    """What `diagnose` says about some of the wrong outputs, and some of the right ones."""
    drawn = random.Random(name)  # noqa: S311
    wrong = [report for report in reports if not report.passed]
    right = [report for report in reports if report.passed]
    return diagnose(
        drawn.sample(wrong, min(WRONG, len(wrong))) + drawn.sample(right, min(RIGHT, len(right)))
    )


def line(result, asked, inputs):
    counts = (result.exact, result.intervals, result.defaults)
    marks = (f"{n}/{ran}" for n, ran in zip(counts, (asked, inputs, inputs), strict=True))
    return f"{result.name:36}" + "".join(f"{mark:>10}" for mark in marks)


def summary(right, bugs, asked, inputs):
    """Print how many bugs each method caught, and how many alarms right kernels raised."""
    by = {method: sum(getattr(r, method) > 0 for r in bugs) for method in JUDGES}
    alarms = {method: sum(getattr(r, method) for r in right) for method in JUDGES}
    either = sum(r.exact + r.intervals > 0 for r in bugs)
    print(f"{len(bugs)} bugs, caught by: {by}; by exact outputs or intervals: {either}")
    ran = f"{asked * len(right)} problems and {inputs * len(right)} random inputs"
    print(f"right kernels, {ran}: alarms {alarms}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the names of bugs")
    parser.add_argument("--names", action="store_true", help="print what diagnose says")
    chosen = parser.parse_args()
    started = time.monotonic()
    asked = [(p, (*p.tensors("numpy"), options_of(p))) for spec in SHAPES for p in problems(spec)]
    first = {problem.spec: problem for problem, _ in reversed(asked)}
    inputs = [
        RandomInput.of(first[spec], size, seed)
        for seed, spec in enumerate(first)
        for size in (1.0, 6.0)
    ]
    print(f"{'bug':36}{'exact':>10}{'intervals':>10}{'defaults':>10}")
    found = []
    bugs = [bug for bug in planted() if chosen.only in bug.name]
    right = [] if chosen.only else [(base.__name__, base, base) for base in MODELS]
    for name, kernel, base in right + [(bug.name, bug.kernel, bug.base) for bug in bugs]:
        result = judge(name, kernel, base, asked, inputs, is_named=chosen.names)
        found.append(result)
        print(line(result, len(asked), len(inputs)), flush=True)
        if chosen.names:
            print(f"    planted: {' '.join(kernel.__doc__.split())}")
            print("".join(f"    named: {words}\n" for words in result.names), end="", flush=True)
    summary(found[: len(right)], found[len(right) :], len(asked), len(inputs))
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
