"""Figure 3: softmax saturation. A head attends freely on its group, and to one token elsewhere.

The paper looks at trained heads; these are built, so that every head saturates because its proof
says so.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.constructions.multihead.heads import SATURATION_EPS
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.exact.arithmetics.floats import Floats
from constructive.figures import drawing
from constructive.figures.figure import Picture
from constructive.layers.attend import attend
from constructive.layers.memorizer import Memorizer
from constructive.layers.views import examples
from constructive.support.arrays import Array
from constructive.support.extras import require
from constructive.theory.bounds import rank_one_capacity

_FLOOR = 1e-12  # Attention below this is drawn as this
_SHOWN = 20
_SIZE, _WIDTH = 6, 64


def attention_off_top(memorizer: Memorizer, dataset: Dataset) -> Array:
    """Return how far each head is from one-hot on each example, 1 - max_i alpha_i: (H, T)."""
    layer = memorizer.layer
    out = np.empty((layer.num_heads, dataset.num_examples))
    floats, weights = Floats(layer.query_weights.dtype), (layer.query_weights, layer.key_weights)
    for chunk in attend(floats, weights, examples(dataset.contexts, dataset.queries)):
        # Summing the small entries keeps digits which 1 - max would lose.
        small = np.sort(chunk.attention, axis=2)[:, :, :-1].sum(axis=2)
        out[:, chunk.rows] = small.T
    return out


@dataclass(frozen=True)
class Saturation(Picture):
    """Heads at the theorem's bound: the first examples, and histograms of all.

    The first head has no examples before it, so that it need not saturate.
    """

    heads: tuple[int, ...] = (8, 4)  # H of each row

    title = "Figure 3: softmax saturation"
    name = "figure-3-saturation"
    inches = 11, 6.6

    def paint(self, figure: Any, *, executor: Executor | None) -> None:  # noqa: ANN401, ARG002
        """Draw a row for each H."""
        panels = figure.subplots(len(self.heads), 2, width_ratios=[3, 2])
        for (left, right), heads in zip(panels, self.heads, strict=True):
            total = rank_one_capacity(heads, _SIZE)
            data = generators.uniform(num_examples=total, context_size=_SIZE, width=_WIDTH)
            memorizer = build_memorizer(data, num_heads=heads)
            off_top = attention_off_top(memorizer, data)
            image = left.imshow(
                1.0 - off_top[:, :_SHOWN], aspect="auto", cmap=drawing.COLOUR_MAP,
                vmin=1.0 / _SIZE, vmax=1.0, interpolation="nearest",
            )  # fmt: skip
            left.set_xticks(range(_SHOWN))
            left.set_yticks(range(heads))
            title = (
                f"H = {heads}, n = {_SIZE}, d = {_WIDTH}: the first {_SHOWN} of {total} examples"
            )
            drawing.describe(left, x="example", y="head", title=title)
            figure.colorbar(image, ax=left, label="largest attention weight")
            own = np.zeros(off_top.shape, dtype=bool)
            for index, head in enumerate(memorizer.built.heads):
                own[index, head.start : head.stop] = True
            logs = np.log10(np.maximum(off_top, _FLOOR))
            bins = np.linspace(np.log10(_FLOOR), 0.0, 49)
            first = np.arange(heads)[:, np.newaxis] == 0
            shares = (
                (~own & ~first, "other examples", drawing.BLUE),
                (own, "its own group", drawing.VERMILLION),
                (~own & first, "other examples, first head", drawing.ORANGE),
            )
            for chosen, label, colour in shares:
                right.hist(logs[chosen], bins, color=colour, label=label, alpha=0.85)
            right.axvline(np.log10(SATURATION_EPS), color="black", linewidth=1, linestyle=":")
            right.set_xticks([-12, -9, -6, -3, 0], ["below\n1e-12", "1e-9", "1e-6", "1e-3", "1"])
            drawing.describe(
                right, x="attention off the top token, 1 - max alpha",
                y="pairs of head and example", title="saturated: left of the dotted line",
            )  # fmt: skip
            right.legend(edgecolor="none", framealpha=1.0)


SATURATION = Saturation()


def draw_heads(memorizer: Memorizer, dataset: Dataset, path: str | Path, *, title: str) -> None:
    """Draw which heads saturate on which examples: one row a head, one column an example.

    Dark is saturated. The bright staircase are the groups: there a head attends as the proof chose.
    A second panel enlarges the corner of the first heads. Raises MissingExtraError without
    matplotlib.
    """
    colors = require("matplotlib.colors", extra="demo", purpose="a picture")
    off_top = np.maximum(attention_off_top(memorizer, dataset), _FLOOR)
    few_heads = min(len(off_top), 12)
    few_examples = max(memorizer.built.heads[few_heads - 1].stop, 1)

    figure = drawing.new_figure(11, 8.5)
    whole, corner = figure.subplots(2, 1, height_ratios=[3, 2])
    norm = colors.LogNorm(_FLOOR, 1.0)
    for axes, shown in ((whole, off_top), (corner, off_top[:few_heads, :few_examples])):
        image = axes.imshow(
            shown,
            aspect="auto",
            interpolation="nearest",
            cmap=drawing.COLOUR_MAP,
            norm=norm,
            origin="upper",
        )
        axes.set_ylabel("head")
    whole.set_title(title, loc="left")
    corner.set_xlabel("example")
    corner.set_title(
        f"first {few_heads} heads on their own examples: each attends freely on its group",
        loc="left",
        fontsize="medium",
    )
    bar = figure.colorbar(image, ax=[whole, corner], shrink=0.8)
    bar.set_label(
        f"attention off the top token, 1 - max alpha (saturated: below {SATURATION_EPS:.0e})"
    )
    bar.ax.axhline(SATURATION_EPS, color="white", linewidth=1.5)
    drawing.save(figure, Path(path))
