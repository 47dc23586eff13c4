"""Memorized examples: fixed heads and free heads, in the settings of the paper's Figures 2 to 5.

The paper trains layers on more examples than its theorem promises, and they memorize far more. Its
heads depend on the targets. Lines are theorems, and nothing is measured but the points:

- *Theorem 1*, and *fixed heads* (Theorems 8 and 9): heads chosen before the targets.
- *Free heads, at least*: for all targets of as many examples some weights return them, for almost
  all data (Theorems 33 to 38). *At most*: almost no targets of more are returned (Theorem 36).
- *Built*: weights of tangent heads, which return random numbers within 1e-6.
- *The paper's Figure 3*: layers that were trained to memorize all labels of one hundred classes.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.figures import drawing
from constructive.support.work import counted
from constructive.theory.bounds import saturated_capacity
from constructive.theory.free_heads import Dimensions, most_examples, zero_point

CLOSE = 1e-6
LOAD = 0.8  # of what is proved, how many examples are built

# What is drawn, by its name in the legend, and how.
SERIES: dict[str, dict[str, Any]] = {
    "free heads, at most: c_1": {"color": drawing.GREY, "linestyle": "--", "linewidth": 1.5},
    "free heads, at least": {"color": drawing.GREEN, "linewidth": 2.5},
    "fixed heads: c(E; H)": {"color": "black", "linewidth": 1.5},
    "Theorem 1": {"color": drawing.BLUE, "linestyle": ":", "linewidth": 2.5},
    "built: real numbers": {
        "color": drawing.GREEN, "linestyle": "", "marker": "D", "markersize": 6,
        "markerfacecolor": "none", "markeredgewidth": 1.6,
    },
    "trained: labels (the paper)": {
        "color": drawing.VERMILLION, "linestyle": "", "marker": "x", "markersize": 9,
        "markeredgewidth": 2,
    },
}  # fmt: skip

Sizes = tuple[int, int, int]  # H, n and d_h
# Layers with one shared context of n = 32 tokens, d_h = 64, by H.
TRAINED = {4: 550, 8: 1300}


@dataclass(frozen=True)
class MemorizedExamples(drawing.Picture):
    """A row for each size that is swept; one shared context to the left, own ones to the right."""

    title = "Memorized examples: fixed heads and free heads"
    name = "memorized-examples"
    height = 8.6

    width: int = 64  # d
    tokens: int = 32  # n, where it is not swept
    heads: int = 20  # H, where n is swept
    many_heads: int = 30  # H, where d_h is swept
    # The first and the last value of H, n and d_h, as in the paper. Elsewhere d_h = d.
    swept: tuple[tuple[int, int], ...] = ((2, 60), (2, 60), (2, 64))
    # Where tangent heads are built, for one context and for own ones: up to 5,456 examples, in a
    # minute together.
    built: tuple[tuple[Sizes, ...], tuple[Sizes, ...]] = (
        ((2, 32, 64), (4, 32, 64), (20, 2, 64)),
        ((2, 32, 64), (30, 32, 2)),
    )

    def quick(self) -> Self:
        """Take smaller sizes."""
        return replace(
            self, width=8, tokens=4, heads=2, many_heads=3,
            swept=((1, 4), (2, 6), (1, 8)),
            built=(((2, 4, 8), (2, 6, 8)), ((2, 4, 8), (3, 4, 2))),
        )  # fmt: skip

    def sweeps(self) -> tuple[tuple[str, str, range, list[Sizes]], ...]:
        """Return what is swept and what is fixed, in words, and the values and sizes."""
        heads, lengths, dims = (range(first, last + 1) for first, last in self.swept)
        width, tokens, fixed, many = self.width, self.tokens, self.heads, self.many_heads
        return (
            ("heads H", f"n = {tokens}", heads, [(h, tokens, width) for h in heads]),
            ("tokens n", f"H = {fixed}", lengths, [(fixed, n, width) for n in lengths]),
            ("head dimension d_h", f"H = {many}, n = {tokens}", dims,
             [(many, tokens, r) for r in dims]),
        )  # fmt: skip

    def paint(self, figure: "drawing.Canvas") -> None:
        """Compute all points, and draw the panels."""
        grid = figure.subplots(3, 2, sharey="row")
        kinds = zip((True, False), self.built, strict=True)
        every = [(sizes, shared) for shared, chosen in kinds for sizes in chosen]
        made = (built_at(sizes, self.width, shared=shared) for sizes, shared in every)
        counts = dict(zip(every, counted("layers", made, len(every)), strict=True))
        for row, (label, fixed, values, sizes) in zip(grid, self.sweeps(), strict=True):
            for axes, shared in zip(row, (True, False), strict=True):
                points = [proved(each, self.width, shared=shared) for each in sizes]
                for value, each, point in zip(values, sizes, points, strict=True):
                    if (each, shared) in counts:
                        point["built: real numbers"] = counts[each, shared]
                    as_trained = each[1:] == (32, 64) and self.width == 64 and label == "heads H"
                    if shared and as_trained and value in TRAINED:
                        point["trained: labels (the paper)"] = TRAINED[value]
                drawing.draw_series(axes, SERIES, list(zip(values, points, strict=True)))
                axes.locator_params(axis="x", integer=True)
                kind = "one context" if shared else "own contexts"
                y = "examples T" if shared else ""
                drawing.describe(axes, x=label, y=y, title=f"{kind}, {fixed}")
        handles: dict[str, Any] = {}
        for axes in grid.flat:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        names = [name for name in SERIES if name in handles]
        figure.legend(
            [handles[name] for name in names], names,
            title=f"d = {self.width}; d_h = {self.width} where it is not the axis",
            loc="outside lower center", ncols=2, frameon=False,
        )  # fmt: skip


MEMORIZED = MemorizedExamples()


def proved(sizes: Sizes, width: int, *, shared: bool) -> dict[str, int]:
    """Return the examples of each line, at H, n and d_h."""
    heads, size, head_dim = sizes
    data = Dimensions.of_sizes(size, width, shared_context=shared)
    return {
        "free heads, at most: c_1": most_examples(heads, head_dim, data),
        "free heads, at least": zero_point(heads, head_dim, data).rank,
        "fixed heads: c(E; H)": data.fixed(heads),
        "Theorem 1": saturated_capacity(heads, size, head_dim),
    }


def built_at(sizes: Sizes, width: int, *, shared: bool) -> int:
    """Build tangent heads for a part of the proved number, and count whose targets they return."""
    heads, size, head_dim = sizes
    total = int(LOAD * proved(sizes, width, shared=shared)["free heads, at least"])
    draw = generators.shared_context if shared else generators.uniform
    data = draw(num_examples=total, context_size=size, width=width)
    memorizer = build_memorizer(data, num_heads=heads, head_dim=head_dim, construction="tangent")
    outputs = memorizer.predict(data.contexts, data.queries)
    return int((abs(outputs - data.targets) <= CLOSE).sum())
