"""Figure 2: how many examples are memorized, against H, n and d_h.

The paper trains layers on more examples than fit, and counts those which were fitted. Here nothing
is trained:

- *Proved ranks*: the largest rank of Z over all weights, proved from below and from above
  (`capacity_map`). It is the number of examples which can be given any labels at all, so it is
  the answer for every task at once.
- *Built*: at the theorem's bound weights are built and run. One set of heads carries both tasks, a
  real number for each example (regression) and one of ten classes (classification).

With a shared context and d_h < n the built weights are those of Theorem 1: those of Theorem 2 are
out of reach of a float64 readout there (docs/precision.md).
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.figures import drawing
from constructive.figures.figure import Figure
from constructive.support.arrays import Array
from constructive.support.errors import PrecisionError
from constructive.support.parallel import ordered_map
from constructive.support.progress import Progress
from constructive.theory import bounds
from constructive.theory.capacity_map import MapPoint, capacity_map

WIDTH, HEADS, SIZE = 64, 20, 32
NAME = "figure-2-capacity"
CLASSES = 10
CLOSE = 1e-6

SWEEPS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("heads H", (1, 5, 10, 20, 30, 40, 50, 60)),
    ("tokens n", (1, 5, 10, 20, 30, 40, 50, 60)),
    ("head dimension d_h", (1, 2, 4, 8, 16, 32, 64)),
)
"""The values of H, n and d_h; the first two are those of the authors' program."""


@dataclass(frozen=True)
class Built:
    """How many of T examples built weights reproduce: real numbers, and classes."""

    total: int
    numbers: int
    classes: int


def sizes_of(sweep: int, value: int) -> tuple[int, int, int]:
    """H, n and d_h at a point of a sweep; heads are as wide as contexts unless d_h is swept."""
    if sweep == 0:
        return value, SIZE, SIZE
    return (HEADS, value, value) if sweep == 1 else (HEADS, SIZE, value)


def draw(folder: Path, *, executor: Executor | None, progress: Progress) -> tuple[Path, ...]:
    """Compute and draw: a row for own contexts, one for a shared one; a column for each sweep."""
    panels = [(shared, sweep) for shared in (False, True) for sweep in range(len(SWEEPS))]
    tasks = [
        (*sizes_of(sweep, value), WIDTH, shared)
        for shared, sweep in panels
        for value in SWEEPS[sweep][1]
    ]
    measured = iter(
        ordered_map(measure, tasks, executor=executor, progress=progress, step="capacities")
    )
    figure = drawing.new_figure(12, 7.2)
    for axes, (shared, sweep) in zip(figure.subplots(2, 3).flat, panels, strict=True):
        label, values = SWEEPS[sweep]
        _panel(axes, values, list(islice(measured, len(values))))
        kind = "one shared context" if shared else "contexts of their own"
        fixed = (f"n = d_h = {SIZE}", f"H = {HEADS}, d_h = n", f"H = {HEADS}, n = {SIZE}")
        title = f"{kind}; {fixed[sweep]}, d = {WIDTH}"
        drawing.describe(axes, x=label, y="examples T", title=title)
        if sweep == len(SWEEPS) - 1:
            axes.set_xscale("log", base=2)
            axes.set_xticks(values, [str(value) for value in values])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return drawing.save_both(figure, folder, NAME)


def measure(task: tuple[int, int, int, int, bool]) -> tuple[MapPoint, Built]:
    """The capacity at H, n, d_h and d, with own contexts or a shared one, and what was built."""
    heads, size, inner, width, shared = task
    (point,) = capacity_map(
        num_heads=[heads], context_size=[size], head_dim=[inner], width=width, shared_context=shared
    ).points
    return point, built_at(point)


def built_at(point: MapPoint) -> Built:
    """Build weights at the bound of a theorem, and run them on both tasks."""
    heads, size, inner = point.num_heads, point.context_size, point.head_dim
    narrow = inner < size and not point.shared_context
    theorem = bounds.RANK_ONE if narrow else bounds.SATURATED
    total = theorem.capacity(heads, size, inner)
    kind = generators.shared_context if point.shared_context else generators.uniform
    data = kind(num_examples=total, context_size=size, width=point.width)
    labels = np.random.default_rng(1).integers(CLASSES, size=total)
    classes: Array = np.eye(CLASSES)[labels]
    both = Dataset(data.contexts, data.queries, np.column_stack([data.targets, classes]))
    try:
        memorizer = build_memorizer(
            both, num_heads=heads, head_dim=inner, construction=theorem.name
        )
    except PrecisionError:
        return Built(total, 0, 0)
    outputs = np.asarray(memorizer.predict(both.contexts, both.queries), dtype=np.float64)
    right = outputs[:, 1:].argmax(axis=1) == labels
    close = np.abs(outputs[:, 0] - data.targets) <= CLOSE
    return Built(total, int(close.sum()), int(right.sum()))


def _panel(
    axes: Any,  # noqa: ANN401
    values: tuple[int, ...],
    measured: list[tuple[MapPoint, Built]],
) -> None:
    points, built = zip(*measured, strict=True)
    lines = (
        ("at most, for all weights", [p.upper for p in points], drawing.GREY, ":"),
        ("Theorem 2", [p.theorem_2 for p in points], drawing.ORANGE, "-"),
        ("Theorem 1", [p.theorem_1 for p in points], drawing.BLUE, "--"),
    )
    for label, heights, colour, style in lines:
        axes.plot(values, heights, style, color=colour, label=label, linewidth=1.8)
    ranks = [point.lower for point in points]
    axes.plot(values, ranks, "o", color="black", markersize=4, label="proved rank of Z")
    marks = (
        ("regression, built", [b.numbers for b in built], "x", drawing.VERMILLION),
        ("classification, built", [b.classes for b in built], "+", drawing.GREEN),
    )
    for label, heights, mark, colour in marks:
        axes.plot(values, heights, mark, color=colour, markersize=10, label=label)
    axes.set_ylim(bottom=0)


CAPACITY = Figure("Figure 2: memorized examples against H, n and d_h", drawing.both(NAME), draw)
