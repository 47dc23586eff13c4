"""A picture of a head: which key each query should read, and which it read."""

from pathlib import Path

import numpy as np

from constructive.kernels.facts import CLOSE, Facts
from constructive.kernels.problem import Problem
from constructive.support.arguments import is_integer
from constructive.support.arrays import Array, Booleans
from constructive.support.errors import ParameterError
from constructive.support.extras import require
from constructive.support.files import replacing

_HIDDEN, _VISIBLE = 0.82, 1.0
_INCHES = 6.0


def draw(
    problem: Problem,
    out: Array,
    wrong: Booleans,
    path: str | Path,
    *,
    batch: int = 0,
    head: int | None = None,
) -> None:
    """Draw a head: visible keys white, keys to be read as rings, keys that were read as dots.

    Rows that are wrong have a red mark in front of them; what is not a key's code has no dot.
    """
    figures = require("matplotlib.figure", extra="demo", purpose="a picture of a report")
    spec = problem.spec
    if head is None:
        heads = np.argwhere(wrong)
        heads = heads[heads[:, 0] == batch, 1]
        head = int(heads[0]) if len(heads) else 0
    for name, value, count in (("batch", batch, spec.batch), ("head", head, spec.heads[0])):
        if not is_integer(value) or not 0 <= value < count:
            raise ParameterError(
                f"{name}={value!r} is not one of {count}", witness=value, suggestion=f"{name}=0"
            )
    visible = np.broadcast_to(problem.visible, problem.answer.weights.shape)
    figure = figures.Figure(figsize=(_INCHES, _INCHES), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(
        np.where(visible[batch, head], _VISIBLE, _HIDDEN),
        cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest",
    )  # fmt: skip
    rows, keys = np.nonzero(problem.answer.weights[batch, head])
    axes.scatter(
        keys, rows, s=24, facecolors="none", edgecolors="tab:blue", label="should be read", zorder=3
    )
    bad = np.flatnonzero(wrong[batch, head])
    there = np.zeros_like(wrong)
    there[batch, head] = wrong[batch, head]
    facts = Facts(problem, out, there, most=spec.queries)
    key, factor = facts.key if len(bad) else (np.zeros(0, int), np.zeros(0))
    places = np.unravel_index(np.maximum(key, 0), problem.v.shape[:3])[2]
    is_one = (key >= 0) & (np.abs(factor - 1.0) < CLOSE)
    read = list(zip(bad[is_one], places[is_one], strict=True))
    if read:
        axes.scatter(
            [key for _, key in read], [row for row, _ in read], s=10, color="tab:red",
            label="was read", zorder=4,
        )  # fmt: skip
    if len(bad):
        axes.scatter(
            np.full(len(bad), -0.02), bad, s=14, color="tab:red", marker=">", clip_on=False,
            transform=axes.get_yaxis_transform(), label="wrong row",
        )  # fmt: skip
    axes.tick_params(axis="y", pad=12)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    axes.set_title(f"{problem.case}, batch {batch}, head {head}: {len(bad)} rows are wrong")
    axes.legend(loc="upper right", fontsize="small")
    path = Path(path)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=150)
