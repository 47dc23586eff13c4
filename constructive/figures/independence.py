"""Figures 1 and 4: how many random subsets of queries, and of all tokens, are independent.

Figure 1 asks for the Kruskal rank of the queries: the share of independent subsets of k queries,
against the candidate k. Figure 4 asks the same of all tokens of all contexts together, up to k = d:
*general position*, which earlier theorems assume and this one does not.

Each sampled subset is decided exactly; what is estimated is the share among all subsets, with its
Clopper-Pearson interval of 99 % (`assumptions.dependent_share`).
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from constructive.figures import drawing
from constructive.figures.figure import Picture
from constructive.figures.stages import Stage, digits, text
from constructive.support.arrays import Array
from constructive.theory.assumptions.sampling import Estimate, dependent_share

_STYLES = {
    "embedded": (drawing.GREY, "s", ":", 5),
    "random positions": (drawing.ORANGE, "o", "--", 9),  # seen around the next one
    "sinusoidal positions": (drawing.VERMILLION, "^", "-.", 4),
    "after attention": (drawing.BLUE, "D", "-", 5),
}


@dataclass(frozen=True)
class Independence(Picture):
    """Shares of independent subsets, for images of digits and for text."""

    title: str  # what it shows
    name: str  # of its files
    # which subsets are of; the queries of digits are a class token, those of text the last byte
    vectors: Literal["queries", "tokens"]
    subsets: int = 1000  # that are sampled for each k
    candidates: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)  # the values of k

    inches = 11, 4.4
    needs = "matplotlib", "sklearn"

    def paint(self, figure: Any, *, executor: Executor | None) -> None:  # noqa: ANN401
        """Draw a panel for each kind of data."""
        panels = figure.subplots(1, 2, sharey=True)
        for axes, stages in zip(panels, (digits(), text()), strict=True):
            for stage in stages:
                self._curve(axes, stage, executor)
            size = stages[0].dataset.context_size
            if self.vectors == "queries":
                axes.axvline(size, color="black", linewidth=1, linestyle=":")
                axes.annotate(f"n = {size}: Assumption 1", (size, 0.5), xytext=(4, 0),
                              textcoords="offset points", fontsize="small")  # fmt: skip
            axes.set_xscale("log", base=2)
            axes.set_xticks([k for k in self.candidates if k & (k - 1) == 0])
            axes.xaxis.set_major_formatter("{x:.0f}")
            total = len(self._vectors(stages[-1]))
            drawing.describe(
                axes, x=f"k, number of {self.vectors} in a subset",
                y="share of independent subsets",
                title=f"{stages[0].data}: subsets of {total:,} {self.vectors}",
            )  # fmt: skip
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)

    def _vectors(self, stage: Stage) -> Array:
        if self.vectors == "queries":
            return stage.dataset.queries
        return stage.dataset.contexts.reshape(-1, stage.dataset.width)

    def _curve(self, axes: Any, stage: Stage, executor: Executor | None) -> None:  # noqa: ANN401
        vectors = self._vectors(stage)
        found: list[Estimate] = [
            dependent_share(vectors, k, subsets=self.subsets, executor=executor)
            for k in self.candidates
        ]
        colour, mark, line, size = _STYLES[stage.stage]
        shares = np.array([1.0 - estimate.dependent / estimate.subsets for estimate in found])
        spread = [
            [share - (1.0 - e.high) for share, e in zip(shares, found, strict=True)],
            [(1.0 - e.low) - share for share, e in zip(shares, found, strict=True)],
        ]
        axes.errorbar(
            self.candidates, shares, np.maximum(spread, 0.0), color=colour, marker=mark,
            linestyle=line, markersize=size, fillstyle="none", capsize=3, label=stage.stage,
        )  # fmt: skip


KRUSKAL = Independence("Figure 1: Kruskal rank of queries", "figure-1-kruskal-rank", "queries")
POSITION = Independence(
    "Figure 4: general position of tokens", "figure-4-general-position", "tokens"
)
