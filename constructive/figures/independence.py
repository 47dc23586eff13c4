"""Figures 1 and 4: how many random subsets of queries, and of all tokens, are independent.

Figure 1 asks for the Kruskal rank of the queries: the share of independent subsets of k queries,
against the candidate k. Figure 4 asks the same of all tokens of all contexts together, up to k = d:
*general position*, which earlier theorems assume and this one does not.

Each sampled subset is decided exactly; what is estimated is the share among all subsets, with its
Clopper-Pearson interval of 99 % (`assumptions.dependent_share`).
"""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from constructive.figures import drawing
from constructive.figures.figure import Figure
from constructive.figures.stages import Stage, digits, text
from constructive.support.arrays import Array
from constructive.theory.assumptions.sampling import Estimate, dependent_share

SUBSETS = 1000
_KRUSKAL, _POSITION = "figure-1-kruskal-rank", "figure-4-general-position"
"""Names of the pictures."""
CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)

_STYLES = {
    "embedded": (drawing.GREY, "s", ":", 5),
    "random positions": (drawing.ORANGE, "o", "--", 9),  # seen around the next one
    "sinusoidal positions": (drawing.VERMILLION, "^", "-.", 4),
    "after attention": (drawing.BLUE, "D", "-", 5),
}


def draw_kruskal(folder: Path, *, executor: Executor | None) -> tuple[Path, ...]:
    """Figure 1: queries of digits (a class token) and of text (the last byte)."""
    return _draw(folder, _KRUSKAL, "queries", executor)


def draw_position(folder: Path, *, executor: Executor | None) -> tuple[Path, ...]:
    """Figure 4: the tokens of all contexts together."""
    return _draw(folder, _POSITION, "tokens", executor)


def _draw(folder: Path, name: str, which: str, executor: Executor | None) -> tuple[Path, ...]:
    figure = drawing.new_figure(11, 4.4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, stages in zip(panels, (digits(), text()), strict=True):
        for stage in stages:
            _curve(axes, stage, _vectors(stage, which), executor)
        size = stages[0].dataset.context_size
        if which == "queries":
            axes.axvline(size, color="black", linewidth=1, linestyle=":")
            axes.annotate(f"n = {size}: Assumption 1", (size, 0.5), xytext=(4, 0),
                          textcoords="offset points", fontsize="small")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks([k for k in CANDIDATES if k & (k - 1) == 0])
        axes.xaxis.set_major_formatter("{x:.0f}")
        total = len(_vectors(stages[-1], which))
        drawing.describe(
            axes, x=f"k, number of {which} in a subset", y="share of independent subsets",
            title=f"{stages[0].data}: subsets of {total:,} {which}",
        )  # fmt: skip
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return drawing.save_both(figure, folder, name)


def _vectors(stage: Stage, which: str) -> Array:
    if which == "queries":
        return stage.dataset.queries
    return stage.dataset.contexts.reshape(-1, stage.dataset.width)


def _curve(
    axes: Any,  # noqa: ANN401
    stage: Stage,
    vectors: Array,
    executor: Executor | None,
) -> None:
    found: list[Estimate] = [
        dependent_share(vectors, k, subsets=SUBSETS, executor=executor) for k in CANDIDATES
    ]
    colour, mark, line, size = _STYLES[stage.stage]
    shares = np.array([1.0 - estimate.dependent / estimate.subsets for estimate in found])
    spread = [
        [share - (1.0 - e.high) for share, e in zip(shares, found, strict=True)],
        [(1.0 - e.low) - share for share, e in zip(shares, found, strict=True)],
    ]
    axes.errorbar(
        CANDIDATES, shares, np.maximum(spread, 0.0), color=colour, marker=mark, linestyle=line,
        markersize=size, fillstyle="none", capsize=3, label=stage.stage,
    )  # fmt: skip


_NEEDS = "matplotlib", "sklearn"
KRUSKAL = Figure("Figure 1: Kruskal rank of queries", drawing.both(_KRUSKAL), draw_kruskal, _NEEDS)
POSITION = Figure(
    "Figure 4: general position of tokens", drawing.both(_POSITION), draw_position, _NEEDS
)
