"""Pictures of a memorizer. Needs matplotlib (`pip install "constructive[demo]"`)."""

from pathlib import Path

import numpy as np

from constructive.attention import attend
from constructive.dataset import Array, Dataset
from constructive.extras import require
from constructive.files import replacing
from constructive.memorizer import Memorizer
from constructive.multihead.heads import SATURATION_EPS

_FLOOR = 1e-12
"""Attention below this is drawn as this."""


def attention_off_top(memorizer: Memorizer, dataset: Dataset) -> Array:
    """How far each head is from one-hot on each example, 1 - max_i alpha_i: (H, T)."""
    layer = memorizer.layer
    out = np.empty((layer.num_heads, dataset.num_examples))
    weights = layer.query_weights, layer.key_weights
    for chunk in attend(*weights, dataset.contexts, dataset.queries):
        # Summing the small entries keeps digits which 1 - max would lose.
        small = np.sort(chunk.attention, axis=2)[:, :, :-1].sum(axis=2)
        out[:, chunk.rows] = small.T
    return out


def saturation(memorizer: Memorizer, dataset: Dataset, path: str | Path, *, title: str) -> None:
    """Draw which heads saturate on which examples, as a PNG: one row a head, one column an example.

    Dark is saturated. The bright staircase are the groups: there a head attends as the proof chose.
    A second panel enlarges the corner of the first heads. Raises MissingExtraError without
    matplotlib.
    """
    figures = require("matplotlib.figure", extra="demo", purpose="a picture")
    colors = require("matplotlib.colors", extra="demo", purpose="a picture")
    off_top = np.maximum(attention_off_top(memorizer, dataset), _FLOOR)
    few_heads = min(len(off_top), 12)
    few_examples = max(memorizer.built.heads[few_heads - 1].stop, 1)

    figure = figures.Figure(figsize=(11, 8.5), layout="constrained")
    whole, corner = figure.subplots(2, 1, height_ratios=[3, 2])
    norm = colors.LogNorm(_FLOOR, 1.0)
    for axes, shown in ((whole, off_top), (corner, off_top[:few_heads, :few_examples])):
        image = axes.imshow(
            shown, aspect="auto", interpolation="nearest", cmap="cividis", norm=norm, origin="upper"
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
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=130)
