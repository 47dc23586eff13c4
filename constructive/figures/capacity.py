"""Figure 2: how many examples are memorized, against H, n, d and d_h.

The paper trains layers on more examples than fit, and counts those which were fitted. Here nothing
is trained:

- *The curve* is c(E; H) of data with more examples than that: what no weights exceed (Theorem 8).
- *Proved ranks* are those of Z for weights at hand, modulo a prime (`capacity_map`). So many
  examples can be given any labels at all: on the curve they are the answer for every task at once.
- *Built*: weights are built and run, at the bounds of Theorems 1, 2 and 10, and as many as were
  proved by random heads ("generic"). One set of heads carries two tasks, a real number for each
  example (regression) and one of ten classes (classification).

With a shared context only the weights of Theorem 1 are built: those of Theorem 2 are out of reach
of a float64 readout there (docs/precision.md), and Theorem 10 is of contexts of their own.
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
from constructive.theory.capacity_map import MapPoint, capacity_map

WIDTH, HEADS, SIZE = 64, 20, 32
NAME = "figure-2-capacity"
CLASSES = 10
CLOSE = 1e-6

SWEEPS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("heads H", (1, 5, 10, 20, 30, 40, 50, 60)),
    ("tokens n", (1, 2, 5, 10, 20, 30, 40, 50, 60)),
    ("width d", (32, 48, 64, 96, 128)),
    ("head dimension d_h", (1, 2, 4, 8, 16, 32, 64)),
)
"""The values of H, n, d and d_h. H and n are those of the authors' program, and n = 2, from where
on own contexts hold Hd; d starts at n, as contexts of Theorems 1 and 2 have rank n."""

MARKS = {
    "Theorem 1": ("x", drawing.BLUE, ""),
    "Theorem 2": ("+", drawing.ORANGE, ""),
    # A caret which touches its number from below, since Hd is so near.
    "Theorem 10": (6, drawing.VERMILLION, ": H(d - 1) + 1"),
    "generic": ("D", drawing.GREEN, ", as many as proved"),
}
"""Marker, colour and what a legend adds, for what is built."""


@dataclass(frozen=True)
class Goal:
    """What is to be built: of which theorem, by which construction, on how many examples."""

    theorem: str
    construction: str
    total: int


@dataclass(frozen=True)
class Built:
    """Of how many examples of a goal built weights reproduce both the number and the class."""

    goal: Goal
    right: int


def sizes_of(sweep: int, value: int) -> tuple[int, int, int, int]:
    """H, n, d_h and d at a point of a sweep; heads are as wide as contexts unless d_h is swept."""
    return (
        (value, SIZE, SIZE, WIDTH),
        (HEADS, value, value, WIDTH),
        (HEADS, SIZE, SIZE, value),
        (HEADS, SIZE, value, WIDTH),
    )[sweep]


def titles() -> tuple[str, ...]:
    """What is fixed in each sweep."""
    return (
        f"n = d_h = {SIZE}, d = {WIDTH}",
        f"H = {HEADS}, d_h = n, d = {WIDTH}",
        f"H = {HEADS}, n = d_h = {SIZE}",
        f"H = {HEADS}, n = {SIZE}, d = {WIDTH}",
    )


def draw(folder: Path, *, executor: Executor | None) -> tuple[Path, ...]:
    """Compute and draw: a row for own contexts, one for a shared one; a column for each sweep."""
    panels = [(shared, sweep) for shared in (False, True) for sweep in range(len(SWEEPS))]
    tasks = [
        (*sizes_of(sweep, value), shared) for shared, sweep in panels for value in SWEEPS[sweep][1]
    ]
    measured = iter(ordered_map(measure, tasks, executor=executor, step="capacities"))
    figure = drawing.new_figure(12.6, 6.6)
    grid = figure.subplots(2, len(SWEEPS))
    for axes, (shared, sweep) in zip(grid.flat, panels, strict=True):
        label, values = SWEEPS[sweep]
        _panel(axes, values, list(islice(measured, len(values))))
        kind = "one shared context" if shared else "contexts of their own"
        y = f"{kind}: examples T" if sweep == 0 else ""
        drawing.describe(axes, x=label, y=y, title=titles()[sweep])
        if label.startswith("width"):
            axes.set_xticks(values)
        if label.startswith("head dimension"):
            axes.set_xscale("log", base=2)
            axes.set_xticks(values, [str(value) for value in values])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return drawing.save_both(figure, folder, NAME)


def measure(task: tuple[int, int, int, int, bool]) -> tuple[MapPoint, tuple[Built, ...]]:
    """The capacity at H, n, d_h and d, with own contexts or a shared one, and what was built."""
    heads, size, inner, width, shared = task
    (point,) = capacity_map(
        num_heads=[heads], context_size=[size], head_dim=[inner], width=width, shared_context=shared
    ).points
    return point, tuple(built_at(point, goal) for goal in goals(point))


def goals(point: MapPoint) -> tuple[Goal, ...]:
    """What theorems promise at these sizes."""
    first = Goal("Theorem 1", "saturated", point.theorem_1)
    if point.shared_context:
        return (first,)
    found = [first, Goal("Theorem 2", "rank_one", point.theorem_2)]
    if point.context_size > 1:
        found.append(Goal("Theorem 10", "rank_one", point.num_heads * (point.width - 1) + 1))
    return (*found, Goal("generic", "generic", point.lower))


def built_at(point: MapPoint, goal: Goal) -> Built:
    """Build weights of the sizes of a point, and run them on both tasks."""
    kind = generators.shared_context if point.shared_context else generators.uniform
    data = kind(num_examples=goal.total, context_size=point.context_size, width=point.width)
    labels = np.random.default_rng(1).integers(CLASSES, size=goal.total)
    classes: Array = np.eye(CLASSES)[labels]
    both = Dataset(data.contexts, data.queries, np.column_stack([data.targets, classes]))
    try:
        memorizer = build_memorizer(
            both,
            num_heads=point.num_heads,
            head_dim=point.head_dim,
            construction=goal.construction,
        )
    except PrecisionError:
        return Built(goal, 0)
    outputs = np.asarray(memorizer.predict(both.contexts, both.queries), dtype=np.float64)
    close = np.abs(outputs[:, 0] - data.targets) <= CLOSE
    return Built(goal, int((close & (outputs[:, 1:].argmax(axis=1) == labels)).sum()))


def _panel(
    axes: Any,  # noqa: ANN401
    values: tuple[int, ...],
    measured: list[tuple[MapPoint, tuple[Built, ...]]],
) -> None:
    points = [point for point, _ in measured]
    lines = (
        ("Theorem 2: H(n - 1) + 1", [p.theorem_2 for p in points], drawing.ORANGE, "-", 4.5),
        ("Theorem 1: H(min(n, d_h) - 1) + 1", [p.theorem_1 for p in points], drawing.BLUE, "--", 2),
        ("c(E; H): no weights exceed it", [p.upper for p in points], "black", "-", 1),
    )
    for label, heights, colour, style, thick in lines:
        axes.plot(values, heights, style, color=colour, label=label, linewidth=thick)
    ranks = [point.lower for point in points]
    axes.plot(values, ranks, "o", color="black", markersize=4, label="rank Z, proved")
    for theorem, (mark, colour, more) in MARKS.items():
        built = [
            (value, one.right)
            for value, (_, every) in zip(values, measured, strict=True)
            for one in every
            if one.goal.theorem == theorem
        ]
        axes.plot(
            *zip(*built, strict=True) if built else ((), ()),
            linestyle="",
            marker=mark,
            color=colour,
            markerfacecolor="none" if mark == "D" else colour,
            markersize=9,
            markeredgewidth=1.6,
            label=f"built: {theorem}{more}",
        )
    axes.set_ylim(bottom=0)


CAPACITY = Figure("Figure 2: memorized examples against H, n, d and d_h", drawing.both(NAME), draw)
