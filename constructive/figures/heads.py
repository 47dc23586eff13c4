"""What the heads of a memorizer do on the examples: `plot_heads`, and Figure 3."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.constructions.multihead.heads import SATURATION_EPS
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.exact.softmax import Floats
from constructive.figures import drawing
from constructive.layers.attention import attend, examples
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, as_path, require, with_article
from constructive.theory.bounds import rank_one_capacity

FLOOR = 1e-12  # attention below this is drawn as this
_FEW = 12  # heads that the corner enlarges, where there are more


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


@dataclass(frozen=True, eq=False)
class Plot:
    """A picture, which notebooks show, and `save` writes as SVG or PNG."""

    title: str
    figure: "drawing.Canvas"  # of matplotlib

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all. Raises OutputError where that cannot be."""
        drawing.write(self.figure, as_path(path))

    def _repr_png_(self) -> bytes:
        return drawing.png(self.figure)


def plot_heads(memorizer: Memorizer, dataset: Dataset, *, title: str | None = None) -> Plot:
    """Draw which heads saturate on which examples, the rank that they reach, and the errors.

    One row a head, one column an example. Bright is saturated. Where heads serve groups, these are
    the dark staircase: there a head attends as the proof chose. Of many heads a second panel
    enlarges the first ones.

    Args:
        memorizer: from `build_memorizer`, or a trained layer from `from_torch`
        dataset: T examples, which the layer takes
        title: above the picture; None says how many heads and examples

    Raises:
        MissingExtraError: without matplotlib (the extra `demo`)
        DataError: if the dataset does not fit the layer
        ParameterError: for what is not a memorizer or a dataset

    Example:
        >>> from constructive import build_memorizer, generators, plot_heads
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> plot_heads(build_memorizer(data, num_heads=3), data)  # then .save("heads.svg")
        Plot('saturated heads: H = 3, T = 7')
    """
    colors = require("matplotlib.colors", extra="demo", purpose="a picture")
    require_examples(dataset, Dataset)
    if not isinstance(memorizer, Memorizer):
        raise ParameterError(
            f"{with_article(type(memorizer).__name__)} is not a memorizer",
            witness=type(memorizer).__name__,
            suggestion="plot_heads(memorizer, dataset), Memorizer.from_torch for a module",
        )
    outputs = memorizer.layer(dataset.contexts, dataset.queries)
    errors = np.abs(outputs - dataset.target_matrix).max(axis=1)
    off_top = np.maximum(attention_off_top(memorizer, dataset), FLOOR)
    record = memorizer.record
    if title is None:
        title = f"{record.construction} heads: H = {len(off_top)}, T = {len(errors)}"
    order = list(record.order) if len(record.order) == len(errors) else []  # of these data
    if order:
        off_top, errors = off_top[:, order], errors[order]
    many = record.heads and len(off_top) > _FEW
    shown = [(off_top, "")]
    if many:
        few = max(record.heads[_FEW - 1].stop, 1)
        shown.append((off_top[:_FEW, :few], f"the first {_FEW} heads"))

    figure = drawing.new_figure(6.5 if many else 5.0)
    grid = figure.add_gridspec(len(shown) + 1, 2, height_ratios=[3, 2, 2][-len(shown) - 1 :])
    images = [figure.add_subplot(grid[row, :]) for row in range(len(shown))]
    norm = colors.LogNorm(FLOOR, 1.0)
    for axes, (values, words) in zip(images, shown, strict=True):
        image = axes.imshow(
            values, aspect="auto", interpolation="nearest", cmap=f"{drawing.COLOUR_MAP}_r",
            norm=norm, origin="upper",
        )  # fmt: skip
        axes.set_title(words, loc="left", fontsize="medium")
        axes.set_ylabel("head")
        axes.locator_params(integer=True)
    images[0].set_title(title, loc="left", fontsize="medium")
    images[-1].set_xlabel("example, in the order of the heads" if order else "example")
    bar = figure.colorbar(image, ax=images, shrink=0.8)
    bar.set_label(f"weight off the top token\n(saturated: below {SATURATION_EPS:.0e})")
    bar.ax.axhline(SATURATION_EPS, color="black", linewidth=1.5)

    if record.heads:
        axes = figure.add_subplot(grid[-1, 0])
        ranks = [0, *(head.rank_reached for head in record.heads)]
        axes.step(range(len(ranks)), ranks, where="post", color=drawing.BLUE)
        axes.locator_params(integer=True)
        drawing.describe(axes, x="heads", y="rank of Z")
    axes = figure.add_subplot(grid[-1, 1] if record.heads else grid[-1, :])
    least = 1e-17 * max(np.abs(dataset.target_matrix).max(), np.finfo(float).tiny)  # of zeros
    axes.semilogy(np.maximum(errors, least), ".", color=drawing.VERMILLION)
    axes.locator_params(axis="x", integer=True)
    drawing.describe(axes, x=images[-1].get_xlabel(), y="|f - y|")
    return Plot(title, figure)


# Figure 3: softmax saturation. A head attends freely on its group, and to one token elsewhere.
#
# The paper looks at trained heads; these are built, so that every head saturates because its proof
# says so.

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
