"""Do real data meet the assumptions? Figure 1, Table 1, and tokens in general position.

The data are images of digits and windows of text at each stage of a network that was not trained.
A context are the tokens of an image (16 patches) or of a window of text (16 bytes), embedded in
d = 64; its query is a class token for images, the same one for all, and the last byte for text.
Stages are: embedded; with random positions, as learned ones are at first, or sinusoidal ones; and
after one attention layer with random weights, where queries have seen their contexts.

Each sampled subset is decided exactly; what is estimated is the share among all subsets. The paper
counts singular values in float32 above a tolerance instead, which Figure 1 shows beside it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
from scipy.special import softmax

from constructive.data.dataset import Dataset
from constructive.figures import drawing
from constructive.support import tables
from constructive.support.arrays import Array, Integers
from constructive.support.errors import DataError, require
from constructive.support.files import replacing
from constructive.theory import assumptions
from constructive.theory.assumptions import AssumptionReport, Estimate, dependent_share

WIDTH, HEADS = 64, 4
WINDOWS, WINDOW = 1797, 16

_STYLES = {
    "embedded": (drawing.GREY, "s", ":", 5),
    "random positions": (drawing.ORANGE, "o", "--", 9),  # seen around the next one
    "sinusoidal positions": (drawing.VERMILLION, "^", "-.", 4),
    "after attention": (drawing.BLUE, "D", "-", 5),
}


@dataclass(frozen=True, eq=False)
class Stage:
    """Data at one stage: contexts (T, n, d), queries (T, d), and targets of no importance."""

    data: str
    stage: str
    dataset: Dataset


def digits() -> list[Stage]:
    """Return the stages of 1,797 images. Raises MissingExtraError without scikit-learn."""
    images = digit_images()
    rng = np.random.default_rng(0)
    embedded = images.patches @ _short_normal(rng, images.patches.shape[2])
    class_token = np.broadcast_to(_short_normal(rng, 1)[0], (len(embedded), WIDTH))
    return _stages("digits", embedded, class_token, rng)


def text() -> list[Stage]:
    """Return the stages of as many windows of a text. MissingExtraError without scikit-learn."""
    windows = text_windows(WINDOWS, WINDOW)
    rng = np.random.default_rng(0)
    embedded = _short_normal(rng, 256)[windows]
    return _stages("text", embedded, None, rng)


def _short_normal(rng: np.random.Generator, count: int) -> Array:
    return _short(rng.standard_normal((count, WIDTH)))


def _short(values: Array) -> Array:
    """Multiples of 2^-16, so that embedding rounds nothing.

    Patches of 4 pixels lie in 4 dimensions exactly; with longer weights rounding would make nearly
    all of them independent, by a hair.
    """
    rounded: Array = np.round(values * 2.0**16) * 2.0**-16
    return rounded


def _stages(
    data: str, embedded: Array, class_token: Array | None, rng: np.random.Generator
) -> list[Stage]:
    """Return all stages; without a class token the last token of a context is its query."""
    size = embedded.shape[1]
    positions = {
        "embedded": np.zeros((size, WIDTH)),
        "random positions": _short_normal(rng, size),
        "sinusoidal positions": _short(sinusoidal_positions(size, WIDTH)),
    }
    stages = []
    for name, encoding in positions.items():
        tokens = embedded + encoding
        queries = tokens[:, -1] if class_token is None else class_token
        stages.append(_stage(data, name, tokens, queries))
        if name == "random positions":
            # The class token attends, too, and is then the query.
            both = tokens if class_token is None else np.concatenate(
                [tokens, queries[:, np.newaxis]], axis=1)  # fmt: skip
            mixed = random_attention_layer(both, num_heads=HEADS, seed=1)
            after = _stage(data, "after attention", mixed[:, :size], mixed[:, -1])
    return [*stages, after]


def _stage(data: str, name: str, tokens: Array, queries: Array) -> Stage:
    return Stage(data, name, Dataset(tokens, queries, np.zeros(len(queries))))


@dataclass(frozen=True)
class Independence(drawing.Picture):
    """The share of independent subsets of k vectors against k, for images and for text.

    vectors: the queries (Figure 1, which asks for their Kruskal rank), or all tokens of all
    contexts together. Those up to k = d are *in general position*, which earlier theorems assume
    and these do not.
    """

    title: str
    name: str
    vectors: Literal["queries", "tokens"]
    subsets: int = 1000
    candidates: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 56, 60, 64)

    height = 6.4
    needs = "matplotlib", "sklearn"

    def quick(self) -> Self:
        """Sample fewer subsets."""
        return replace(self, subsets=50)

    def paint(self, figure: "drawing.Canvas") -> None:
        """Draw a panel for each kind of data."""
        panels = figure.subplots(2, 1, sharex=True)
        for axes, stages in zip(panels, (digits(), text()), strict=True):
            for stage in stages:
                self._curve(axes, stage)
            size = stages[0].dataset.context_size
            if self.vectors == "queries":
                axes.axvline(size, color="black", linewidth=1, linestyle=":")
                axes.annotate(f"n = {size}:\nAssumption 1", (size, 0.4), xytext=(4, 0),
                              textcoords="offset points")  # fmt: skip
                seeming = [self.seemingly_independent(stages[-1], k) for k in self.candidates]
                axes.plot(self.candidates, seeming, "x--", color=drawing.GREEN,
                          label="after attention, rank in float32")  # fmt: skip
            axes.set_xscale("log", base=2)
            axes.set_xticks([k for k in self.candidates if k & (k - 1) == 0])
            axes.xaxis.set_major_formatter("{x:.0f}")
            total = len(self._vectors(stages[-1]))
            drawing.describe(
                axes, x=f"k, {self.vectors} in a subset" if axes is panels[-1] else "",
                y="independent subsets",
                title=f"{stages[0].data}: subsets of {total:,} {self.vectors}",
            )  # fmt: skip
            axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)

    def _vectors(self, stage: Stage) -> Array:
        if self.vectors == "queries":
            return stage.dataset.queries
        return stage.dataset.contexts.reshape(-1, stage.dataset.width)

    def seemingly_independent(self, stage: Stage, k: int) -> float:
        """The share of random subsets that have rank k in float32, by the usual tolerance."""
        rng, vectors = np.random.default_rng(k), self._vectors(stage).astype(np.float32)
        subsets = [rng.choice(len(vectors), k, replace=False) for _ in range(self.subsets)]
        return float((np.linalg.matrix_rank(vectors[subsets]) == k).mean())

    def _curve(self, axes: "drawing.Axes", stage: Stage) -> None:
        vectors = self._vectors(stage)
        found: list[Estimate] = [
            dependent_share(vectors, k, subsets=self.subsets) for k in self.candidates
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
TOKENS = Independence(
    "Tokens in general position (not of that paper)", "tokens-in-general-position", "tokens"
)


@dataclass(frozen=True)
class AssumptionTable(drawing.Figure):
    """The report of `assumptions.check` on every stage of both data, as text.

    The budget of the search is small: at these stages dependent subsets are small, or there are
    none to be found.
    """

    examples: int = WINDOWS
    subsets: int = 1000
    budget: float = 0.01

    title = "Table 1: the assumptions on real data"
    file = "table-1-assumptions.txt"
    needs = ("sklearn",)

    def quick(self) -> Self:
        """Take fewer examples and subsets."""
        return replace(self, examples=300, subsets=50)

    def draw(self, path: Path) -> None:
        """Write the table, whole or not at all."""
        found = [
            (stage, assumptions.check(stage.dataset[: self.examples], subsets=self.subsets,
                                      budget=self.budget))
            for stage in (*digits(), *text())
        ]  # fmt: skip
        with replacing(path) as file:
            file.write(render(found).encode())


ASSUMPTIONS = AssumptionTable()


def render(found: list[tuple[Stage, AssumptionReport]]) -> str:
    """Return the table of stages, with what is known of each, as text."""
    table = tables.new_table(
        "data", "stage", "Assumption 2", "Assumption 1", "Kruskal rank",
        "dependent subsets of n", "general position", "grouping",
    )  # fmt: skip
    for stage, report in found:
        failing = f" ({len(report.contexts)})" if report.contexts else ""
        known = report.kruskal
        share = report.share
        table.add_row(
            stage.data,
            stage.stage,
            report.assumption_2.name + failing,
            report.assumption_1.name,
            f"{known.lower}" if known.exact else f"{known.lower} to {known.upper}",
            "" if share is None else f"{share.dependent / share.subsets:.1%}",
            f"{1 - report.position.dependent / report.position.subsets:.1%}",
            report.construction.name,
        )
    first = found[0][1]
    heading = f"T = {first.count} examples, n = {first.size} tokens, d = {first.width}"
    return "\n".join([heading, "", *tables.lines(table, 140)]) + "\n"


# The data: images of digits, windows of a text, and a random layer.


def sinusoidal_positions(size: int, width: int) -> Array:
    """Return the positional encoding of Vaswani et al. (2017), section 3.5: (n, d)."""
    angles = np.arange(size)[:, np.newaxis] / 10000.0 ** (np.arange(0, width, 2) / width)
    interleaved: Array = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(size, -1)
    return interleaved[:, :width]


# Images and text come with scikit-learn (`pip install ".[demo]"`); nothing is downloaded.

PATCH = 2  # Pixels along the side of a patch


@dataclass(frozen=True, eq=False)
class DigitImages:
    """1,797 images of handwritten digits, 8 x 8 pixels from 0 to 1."""

    patches: Array  # (T, 16, 4), the 2 x 2 patches row by row
    pixels: Array  # (T, 64), row by row
    labels: Integers  # (T,), 0 to 9


def digit_images() -> DigitImages:
    """Return the images that scikit-learn bundles."""
    datasets = require("sklearn.datasets", extra="demo", purpose="the images of digits")
    bundled = datasets.load_digits()
    images = bundled.images / 16.0
    count, side, _ = images.shape
    grid = side // PATCH
    patches = images.reshape(count, grid, PATCH, grid, PATCH).swapaxes(2, 3)
    return DigitImages(
        patches=patches.reshape(count, grid * grid, PATCH * PATCH),
        pixels=images.reshape(count, -1),
        labels=bundled.target.astype(np.int64),
    )


def english_text() -> str:
    """Return an English text: scikit-learn's descriptions of its datasets."""
    datasets = require("sklearn.datasets", extra="demo", purpose="the text")
    loaders = (datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer,
               datasets.load_digits, datasets.load_diabetes)  # fmt: skip
    return "\n".join(load().DESCR for load in loaders)


def text_windows(count: int, size: int) -> Integers:
    """Return bytes of `english_text` in windows: (count, size), different, at even distances."""
    letters = np.frombuffer(english_text().encode(), dtype=np.uint8)
    every = np.lib.stride_tricks.sliding_window_view(letters, size)
    first = np.sort(np.unique(every, axis=0, return_index=True)[1])  # without repeated windows
    if count > len(first):
        raise DataError(
            f"the text has {len(first)} different windows of {size} bytes, not {count}",
            witness=len(first),
            suggestion="fewer windows, or another size",
        )
    chosen = first[np.linspace(0, len(first) - 1, count).astype(np.int64)]
    return every[chosen].astype(np.int64)


def random_attention_layer(tokens: Array, *, num_heads: int, seed: int) -> Array:
    """Apply a self-attention layer with random weights and a skip connection: (T, n, d)."""
    width = tokens.shape[-1]
    rng = np.random.default_rng(seed)
    inner = width // num_heads
    query, key, value = rng.standard_normal((3, num_heads, 1, width, inner)) / np.sqrt(width)
    logits = (tokens @ query) @ (tokens @ key).swapaxes(-1, -2) / np.sqrt(inner)
    mixed = (softmax(logits, axis=-1) @ (tokens @ value)).transpose(1, 2, 0, 3)
    output = rng.standard_normal((num_heads * inner, width)) / np.sqrt(width)
    result: Array = tokens + mixed.reshape(*tokens.shape[:2], -1) @ output
    return result
