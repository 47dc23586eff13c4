"""Figures 2, 4 and 5: how many examples are memorized, against H, n, d and d_h.

The paper trains layers on more examples than fit, and counts those that were fitted: with a shared
context for classification (Figure 2) and regression (Figure 5), and in general position (Figure 4),
where it suggests H(d - 1) + 1. Here nothing is trained:

- *The curve* is c(E; H) of generic contexts: the largest rank of Z over all contexts of these
  shapes, W_Q and W_K (Theorem 8). No heads that are chosen before the targets exceed it; trained
  ones may.
- *Proved ranks* are those of Z for weights at hand, modulo a prime (`theory.capacity`). So these
  heads have a readout for all targets of as many examples.
- *Built*: weights are built and run, at the bounds of Theorems 1 and 2, and as many as were
  proved by random heads ("generic"). One set of heads carries two tasks, one of ten classes
  (Figure 2) and a real number (Figure 5) for each example.

With a shared context only the weights of Theorem 1 are built: those of Theorem 2 are out of reach
of a float64 readout there (docs/performance.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.figures import drawing
from constructive.support.arrays import Array
from constructive.support.errors import PrecisionError
from constructive.support.work import counted
from constructive.theory.bounds import rank_one_capacity, saturated_capacity
from constructive.theory.capacity import fixed_capacity
from constructive.theory.free_heads import Dimensions, most_examples, zero_point

CLASSES = 10
CLOSE = 1e-6

_MARK = {"linestyle": "", "markersize": 9, "markeredgewidth": 1.6}
# What is drawn, by its name in the legend, and how.
SERIES: dict[str, dict[str, Any]] = {
    "Theorem 2: H(n - 1) + 1": {"color": drawing.ORANGE, "linewidth": 4.5},
    "Theorem 1: H(min(n, d_h) - 1) + 1": {
        "color": drawing.BLUE, "linestyle": "--", "linewidth": 2,
    },
    "c(E; H): the most for fixed heads": {"color": "black", "linewidth": 1},
    "free heads, at least": {"color": drawing.GREEN, "linewidth": 1.5},
    "free heads, at most: c_1": {"color": drawing.GREY, "linestyle": "-.", "linewidth": 1.5},
    "the paper: H(d - 1) + 1": {
        "color": drawing.VERMILLION, "linestyle": ":", "linewidth": 1.5,
    },
    "proved: rank of Z": {"color": "black", "linestyle": "", "marker": "o", "markersize": 4},
    "built: Theorem 1": {**_MARK, "color": drawing.BLUE, "marker": "x"},
    "built: Theorem 2": {**_MARK, "color": drawing.ORANGE, "marker": "+"},
    "built: generic": {
        **_MARK, "color": drawing.GREEN, "marker": "D", "markerfacecolor": "none",
    },
}  # fmt: skip

Sizes = tuple[int, int, int, int]  # H, n, d_h and d


@dataclass(frozen=True)
class Sweep:
    """A column of panels: one of the sizes takes values, and the others are fixed."""

    label: str  # what is swept
    title: str  # what is fixed
    values: tuple[int, ...]  # of what is swept, where weights are built and ranks are proved
    at: Callable[[int], Sizes]  # the sizes at a value
    ticks: bool = False  # whether each value is named on the axis
    logarithmic: bool = False  # whether the axis is, and each value is named on it


@dataclass(frozen=True)
class CapacityFigure(drawing.Picture):
    """A panel for each sweep."""

    title: str
    name: str
    shared: bool  # whether all examples have one context, or each its own
    width: int = 64  # d, where it is not swept
    heads: int = 20  # H, where it is not swept
    tokens: int = 32  # n, and d_h, where they are not swept
    # The values of H, n, d and d_h. H and n are those of the authors' program, and n = 2, from
    # where on own contexts hold Hd; d starts at n, as contexts of Theorems 1 and 2 have rank n.
    swept: tuple[tuple[int, ...], ...] = (
        (1, 5, 10, 20, 30, 40, 50, 60),
        (1, 2, 5, 10, 20, 30, 40, 50, 60),
        (32, 48, 64, 96, 128),
        (1, 2, 4, 8, 16, 32, 64),
    )

    height = 7.4

    def quick(self) -> Self:
        """Take smaller sizes."""
        return replace(
            self,
            width=16,
            heads=4,
            tokens=8,
            swept=((1, 2, 4, 6), (1, 2, 4, 8, 12), (8, 12, 16, 24), (1, 2, 4, 8)),
        )

    def sweeps(self) -> tuple[Sweep, ...]:
        """Return the four sweeps; heads are as wide as contexts unless d_h is swept."""
        heads, tokens, width = self.heads, self.tokens, self.width
        head_counts, lengths, widths, dims = self.swept
        return (
            Sweep("heads H", f"n = d_h = {tokens}, d = {width}", head_counts,
                  lambda value: (value, tokens, tokens, width)),
            Sweep("tokens n", f"H = {heads}, d_h = n, d = {width}", lengths,
                  lambda value: (heads, value, value, width)),
            Sweep("width d", f"H = {heads}, n = d_h = {tokens}", widths,
                  lambda value: (heads, tokens, tokens, value), ticks=True),
            Sweep("head dimension d_h", f"H = {heads}, n = {tokens}, d = {width}", dims,
                  lambda value: (heads, tokens, value, width), logarithmic=True),
        )  # fmt: skip

    def paint(self, figure: "drawing.Canvas") -> None:
        """Compute all points, and draw the panels."""
        sweeps = self.sweeps()
        sizes = [sweep.at(value) for sweep in sweeps for value in sweep.values]
        points = (measure(each, shared=self.shared) for each in sizes)
        measured = counted("capacities", points, len(sizes))
        grid = figure.subplots(2, 2)
        for axes, sweep in zip(grid.flat, sweeps, strict=True):
            first, *_, last = sweep.values
            lines = [
                (value, bounds_at(sweep.at(value), shared=self.shared))
                for value in range(first, last + 1)
            ]
            weights = zip(sweep.values, islice(measured, len(sweep.values)), strict=True)
            drawing.draw_series(axes, SERIES, [*lines, *weights])
            y = "examples T" if axes in grid[:, 0] else ""
            drawing.describe(axes, x=sweep.label, y=y, title=sweep.title)
            if sweep.logarithmic:
                axes.set_xscale("log", base=2)
                axes.set_xticks(sweep.values, [str(value) for value in sweep.values])
            elif sweep.ticks:
                axes.set_xticks(sweep.values)
            else:
                axes.xaxis.get_major_locator().set_params(integer=True)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


SHARED_CONTEXT = CapacityFigure(
    "Figures 2 and 5: memorized examples with a shared context", "figure-2-capacity", shared=True
)
GENERAL_POSITION = CapacityFigure(
    "Figure 4: memorized examples in general position", "figure-4-general-position", shared=False
)


def bounds_at(sizes: Sizes, *, shared: bool) -> dict[str, int]:
    """Return what theorems say of generic data, at H, n, d_h and d."""
    heads, size, inner, width = sizes
    data = Dimensions.of_sizes(size, width, shared_context=shared)
    suggested = {} if shared else {"the paper: H(d - 1) + 1": heads * (width - 1) + 1}
    return suggested | {
        "Theorem 2: H(n - 1) + 1": rank_one_capacity(heads, size),
        "Theorem 1: H(min(n, d_h) - 1) + 1": saturated_capacity(heads, size, inner),
        "c(E; H): the most for fixed heads": data.fixed(heads),
        "free heads, at least": zero_point(heads, inner, data).rank,
        "free heads, at most: c_1": most_examples(heads, inner, data),
    }


def measure(sizes: Sizes, *, shared: bool) -> dict[str, int]:
    """Return the examples of weights, at H, n, d_h and d: of which Z has full rank, and built."""
    heads, size, inner, width = sizes
    total = heads * (size - 1) + 2 if shared else heads * width + 1
    draw = generators.shared_context if shared else generators.uniform
    found = fixed_capacity(draw(num_examples=total, context_size=size, width=width), heads, inner)
    point = {"proved: rank of Z": found.at_least}
    promised = {"built: Theorem 1": ("saturated", saturated_capacity(heads, size, inner))}
    if not shared:
        promised["built: Theorem 2"] = "rank_one", rank_one_capacity(heads, size)
        promised["built: generic"] = "generic", found.at_least
    for name, (construction, count) in promised.items():
        point[name] = built_at(sizes, construction, count, shared=shared)
    return point


def built_at(sizes: Sizes, construction: str, total: int, *, shared: bool) -> int:
    """Build weights for T examples, and count those of which they reproduce number and class."""
    heads, size, inner, width = sizes
    kind = generators.shared_context if shared else generators.uniform
    data = kind(num_examples=total, context_size=size, width=width)
    labels = np.random.default_rng(1).integers(CLASSES, size=total)
    classes: Array = np.eye(CLASSES)[labels]
    both = Dataset(data.contexts, data.queries, np.column_stack([data.targets, classes]))
    try:
        memorizer = build_memorizer(
            both, num_heads=heads, head_dim=inner, construction=construction
        )
    except PrecisionError:
        return 0
    outputs = np.asarray(memorizer.predict(both.contexts, both.queries), dtype=np.float64)
    close = np.abs(outputs[:, 0] - data.targets) <= CLOSE
    return int((close & (outputs[:, 1:].argmax(axis=1) == labels)).sum())
