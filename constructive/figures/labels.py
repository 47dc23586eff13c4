"""Shares of random labelings that readouts attain, against T / Hd: counted, and one by one.

The curves are Cover's numbers (Theorem 29), which depend on Hd alone. At each point one set of
random heads and of contexts is drawn, and random labels many times; each time the claim
*inseparable* is PROVED or REFUTED, so that the share is of labelings that are surely attained.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from constructive.certificates.certify import certify
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.figures import drawing
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import TrainedRecord
from constructive.support.verdict import Verdict
from constructive.support.work import counted
from constructive.theory.labelings import labelings

_COLOURS = (drawing.BLUE, drawing.ORANGE, drawing.GREEN)


@dataclass(frozen=True)
class Share:
    """The share of random labelings of T examples that is attained, and what it should be."""

    total: int  # T
    attained: float  # a share of those drawn, each proved
    refuted: float
    expected: float  # the share of all labelings
    spread: float  # three standard errors of the share that is drawn


@dataclass(frozen=True)
class LabelsPicture(drawing.Picture):
    """One panel, and a curve for each size."""

    sizes: tuple[tuple[int, int, int, int], ...] = ((4, 3, 1, 4), (4, 8, 8, 8), (4, 2, 4, 16))
    ratios: tuple[float, ...] = (1.25, 1.5, 1.75, 1.875, 2.0, 2.125, 2.25, 2.5, 3.0)
    draws: int = 100

    title = "Labels: shares of random labelings that are attained"
    name = "labels"
    height = 3.8

    def quick(self) -> Self:
        """Take fewer draws, of the smallest layer."""
        return replace(self, sizes=self.sizes[:1], ratios=(1.5, 2.0, 2.5), draws=20)

    def paint(self, figure: Any) -> None:  # noqa: ANN401
        """Decide all labelings, and draw the panel."""
        tasks = [(*sizes, ratio, self.draws) for sizes in self.sizes for ratio in self.ratios]
        measured = counted("labelings", map(measure, tasks), len(tasks))
        axes = figure.subplots()
        for (heads, size, inner, width), colour in zip(self.sizes, _COLOURS, strict=False):
            columns = heads * width
            totals = range(columns, int(3.2 * columns) + 1)
            exact = [labelings(t, heads, width=width, context_size=size).share for t in totals]
            found = [next(measured) for _ in self.ratios]
            axes.plot([t / columns for t in totals], list(map(float, exact)), color=colour)
            axes.errorbar(
                [share.total / columns for share in found], [share.attained for share in found],
                [share.spread for share in found], color=colour,
                linestyle="", marker="o", markersize=4, capsize=2,
                label=f"H = {heads}, n = {size}, d_h = {inner}, d = {width}",
            )  # fmt: skip
        axes.axvline(2.0, color=drawing.GREY, linewidth=1, linestyle=":")
        drawing.describe(axes, x="examples T / Hd", y="share of labelings attained")
        axes.legend(frameon=False)


LABELS = LabelsPicture()


def measure(task: tuple[int, int, int, int, float, int]) -> Share:
    """Decide random labelings at H, n, d_h and d, of about so many times Hd examples."""
    heads, size, inner, width, ratio, draws = task
    total = round(ratio * heads * width)
    rng = np.random.default_rng(total)
    data = generators.uniform(num_examples=total, context_size=size, width=width)
    query, key = rng.standard_normal((2, heads, width, inner))
    layer = AttentionLayer.from_effective_readout(query, key, np.zeros((heads * width, 2)))
    record = TrainedRecord("random heads", scalar_targets=False, constant=False)
    memorizer = Memorizer(layer, record)
    verdicts: list[Verdict] = []
    for _ in range(draws):
        targets = np.eye(2)[rng.integers(0, 2, total)]
        labeled = Dataset(data.contexts, data.queries, targets)
        verdicts.append(certify(memorizer, labeled, claims=["inseparable"]).verdict)
    share = float(labelings(total, heads, width=width, context_size=size).share)
    return Share(
        total,
        verdicts.count(Verdict.REFUTED) / draws,
        verdicts.count(Verdict.PROVED) / draws,
        share,
        3.0 * math.sqrt(share * (1 - share) / draws),
    )
