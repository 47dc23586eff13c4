"""Figure 3: softmax saturation. A head attends freely on its group, and to one token elsewhere.

The paper looks at trained heads; these are built, so that every head saturates because its proof
says so.
"""

from dataclasses import dataclass

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.constructions.multihead.heads import SATURATION_EPS
from constructive.data import generators
from constructive.figures import drawing
from constructive.figures.heads import FLOOR, attention_off_top
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.theory.bounds import rank_one_capacity

_SHOWN, _SIZE, _WIDTH = 20, 6, 64  # examples of a panel, n and d


@dataclass(frozen=True)
class Saturation(drawing.Picture):
    """A column for each H, at the theorem's bound: attention, saturated heads, and how far they go.

    The first head has no examples before it, so that it need not saturate.
    """

    heads: tuple[int, int] = (8, 4)  # H of each column

    title = "Figure 3: softmax saturation"
    name = "figure-3-saturation"
    height = 8.0

    def paint(self, figure: "drawing.Canvas") -> None:
        """Build a layer for each H, and draw its column."""
        panels = figure.subplots(3, 2)
        for column, heads in zip(panels.T, self.heads, strict=True):
            total = rank_one_capacity(heads, _SIZE)
            data = generators.uniform(num_examples=total, context_size=_SIZE, width=_WIDTH)
            memorizer = build_memorizer(data, num_heads=heads)
            off_top = attention_off_top(memorizer, data)
            _attention(column[0], off_top)
            _counts(column[1], off_top)
            _histogram(column[2], off_top, memorizer)
            column[0].set_title(f"H = {heads}, T = {total}", loc="left", fontsize="medium")
        for axes, y in zip(panels[:, 0], ("head", "examples", "pairs"), strict=True):
            axes.set_ylabel(y)
        figure.colorbar(
            panels[0, 1].images[0],
            ax=panels[0].tolist(),
            label="largest weight",
            ticks=[0.2, 0.4, 0.6, 0.8, 1.0],
        )
        handles, labels = panels[2, 0].get_legend_handles_labels()
        sizes = f"n = {_SIZE}, d = {_WIDTH}"
        figure.legend(handles, labels, title=sizes, loc="outside lower center", frameon=False)


def _attention(axes: "drawing.Axes", off_top: Array) -> None:
    """Draw the largest attention weight of each head on the first examples."""
    axes.imshow(
        1.0 - off_top[:, :_SHOWN], aspect="auto", cmap=drawing.COLOUR_MAP,
        vmin=1.0 / _SIZE, vmax=1.0, interpolation="nearest",
    )  # fmt: skip
    axes.set_xticks(range(0, _SHOWN, 5))
    axes.set_yticks(range(len(off_top)))
    drawing.describe(axes, x="example", y="")


def _counts(axes: "drawing.Axes", off_top: Array) -> None:
    """Draw on how many examples so many heads saturate."""
    found = (off_top <= SATURATION_EPS).sum(axis=0)
    counts = np.bincount(found, minlength=len(off_top) + 1)
    bars = axes.bar(range(len(counts)), counts, color=drawing.BLUE)
    axes.bar_label(bars, [str(count or "") for count in counts])
    axes.set_xticks(range(len(counts)))
    axes.margins(y=0.15)
    drawing.describe(axes, x="saturated heads", y="")


def _histogram(axes: "drawing.Axes", off_top: Array, memorizer: Memorizer) -> None:
    """Draw how far heads are from saturation, on their own groups and elsewhere."""
    own = np.zeros(off_top.shape, dtype=bool)
    for index, head in enumerate(memorizer.built.heads):
        own[index, head.start : head.stop] = True
    first = np.arange(len(own))[:, np.newaxis] == 0
    logs = np.log10(np.maximum(off_top, FLOOR))
    bins = np.linspace(np.log10(FLOOR), 0.0, 37).tolist()
    shares = (
        (~own & ~first, "a head on examples of other groups", drawing.BLUE),
        (own, "a head on its own group", drawing.VERMILLION),
        (~own & first, "the first head on examples of other groups", drawing.ORANGE),
    )
    for chosen, label, colour in shares:
        axes.hist(logs[chosen], bins, color=colour, label=label, alpha=0.85)
    axes.axvline(np.log10(SATURATION_EPS), color="black", linewidth=1, linestyle=":")
    axes.set_xticks([-12, -6, 0], ["1e-12", "1e-6", "1"])
    drawing.describe(axes, x="weight off the top token", y="")


SATURATION = Saturation()
