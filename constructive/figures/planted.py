"""A needle and a corner: what instances for verifiers look like, with two inputs.

Above, the output on the box; below, on the line through its maximum along which the decoy rises
(Proposition 20.3), with the thresholds of both twins.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.figures import drawing
from constructive.instances.instance import Twins
from constructive.instances.making import planted
from constructive.support.arrays import Array

_GRID, _LINE = 121, 401  # points of each axis of an image, and of a line


@dataclass(frozen=True)
class PlantedPicture(drawing.Picture):
    """One needle and one corner, with as much slope as an image still shows."""

    scale: float = 24.0  # slope of the sharpest logits
    seed: int = 2

    title = "A needle and a corner (instances for verifiers, not of that paper)"
    name = "needle-and-corner"
    height = 5.7

    def paint(self, figure: "drawing.Canvas") -> None:
        """Evaluate both networks, and draw them."""
        axes = figure.subplots(2, 2, height_ratios=[3, 2])
        for column, kind in enumerate(("needle", "corner")):
            twins = planted(dim=2, scale=self.scale, kind=kind, seed=self.seed)
            _draw_box(figure, axes[0, column], twins, kind)
            _draw_line(axes[1, column], twins, first=not column)


PLANTED = PlantedPicture()


def _maximum(twins: Twins) -> Array:
    """The planted point, which is the witness of the twin that is sat."""
    proof: Any = twins.sat.proof  # a Witness
    return np.array([float(x) for x in proof.point])


def _draw_box(figure: "drawing.Canvas", axes: "drawing.Axes", twins: Twins, kind: str) -> None:
    box, point = twins.sat.property.box, _maximum(twins)
    first, second = (np.linspace(*ends, _GRID) for ends in zip(box.lower, box.upper, strict=True))
    inputs = np.stack(np.meshgrid(first, second), axis=2).reshape(-1, 2)
    network: Any = twins.sat.network  # of heads
    outputs = network(inputs)[:, 0].reshape(_GRID, _GRID)
    extent = (box.lower[0], box.upper[0], box.lower[1], box.upper[1])
    image = axes.imshow(outputs, origin="lower", extent=extent, cmap=drawing.COLOUR_MAP)
    axes.plot(*point, "o", color=drawing.VERMILLION, fillstyle="none", clip_on=False)
    figure.colorbar(image, ax=axes, location="bottom", label="output Y")
    drawing.describe(axes, x="X_0", y="X_1", title=f"{kind}, maximum in the ring")


def _draw_line(axes: "drawing.Axes", twins: Twins, *, first: bool) -> None:
    network: Any = twins.sat.network  # of heads
    box, point = twins.sat.property.box, _maximum(twins)
    signs = np.sign(network.heads[1].slopes[0])  # of the decoy
    steps = np.linspace(-2.0, 2.0, _LINE)
    inputs = point + steps[:, np.newaxis] * signs
    inside = ((inputs >= box.lower) & (inputs <= box.upper)).all(axis=1)
    axes.plot(steps[inside], network(inputs[inside])[:, 0], color=drawing.BLUE)
    for each, colour, style, up in (
        (twins.sat, drawing.ORANGE, "--", -11), (twins.unsat, drawing.GREEN, ":", 4),
    ):  # fmt: skip
        threshold = each.property.disjuncts[0][0].threshold
        axes.axhline(threshold, color=colour, linestyle=style)
        axes.annotate(
            f"Y >= {threshold:.2f}: {each.answer}", (steps[inside][-1], threshold), (0, up),
            textcoords="offset points", ha="right",
        )  # fmt: skip
    axes.margins(y=0.15)
    drawing.describe(axes, x="step along the decoy", y="output Y" if first else "")
