"""Parameters of sequence memorizers against N, with sqrt(N), N, and the heads for as many examples.

The data are random: contexts of eight different tokens in Q^4, and one of 16 labels. Each point is
a memorizer that was built, and whose labels were all compared by ==.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, takewhile
from typing import Self

import numpy as np

from constructive.figures import drawing
from constructive.sequences.build import build_sequence_memorizer
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.errors import ConstructiveError
from constructive.support.work import report
from constructive.theory.bounds import heads_needed, parameter_count

CONTEXT_SIZE, WIDTH, CLASSES = 8, 4, 16
SMALLEST, FACTOR = 64, 4  # N of the first point, and from a point to the next
# The constructions of the fewest weights, and how they are drawn.
_STYLES = {"product_hash": (drawing.ORANGE, "s"), "separating_set": (drawing.GREEN, "^")}
# What is counted, above and below.
_COUNTS = {
    "weights that are not zero": "nonzero_parameters",
    "all weights of dense matrices": "total_parameters",
}


def random_sequences(
    total: int, context_size: int = CONTEXT_SIZE, denominator: int = 100
) -> tuple[list[list[tuple[Fraction, ...]]], list[int]]:
    """Draw contexts of different tokens, entries k / denominator, and random labels from 1.

    >>> sequences, labels = random_sequences(3)
    >>> len(sequences), len(sequences[0]), len(sequences[0][0]), len(labels)
    (3, 8, 4, 3)
    """
    rng = np.random.default_rng(total)
    chosen = rng.choice(denominator**WIDTH, size=total * context_size, replace=False)
    digits = np.stack([chosen // denominator**k % denominator for k in range(WIDTH)], axis=1)
    tokens = [tuple(Fraction(int(x), denominator) for x in row) for row in digits]
    starts = range(0, len(tokens), context_size)
    sequences = [tokens[start : start + context_size] for start in starts]
    return sequences, rng.integers(1, CLASSES + 1, size=total).tolist()


@dataclass(frozen=True)
class Parameters(drawing.Picture):
    """Memorizers of 64 sequences and more by the two constructions of the fewest weights."""

    largest: int = 4096  # N of the last point

    title = "Sequences: parameters against N (not of that paper)"
    name = "sequences-parameters"
    height = 8.4

    def quick(self) -> Self:
        """Stop sooner."""
        return replace(self, largest=512)

    def paint(self, figure: "drawing.Canvas") -> None:
        """Build them, and draw their parameters."""
        found = {name: growth(self.largest, name) for name in _STYLES}
        for axes, (title, attribute) in zip(figure.subplots(2, 1), _COUNTS.items(), strict=True):
            for name, points in found.items():
                _draw_counts(axes, name, points, attribute)
            _draw_others(axes, sorted(p.record.sizes.keys for ps in found.values() for p in ps))
            drawing.describe(axes, x="keys", y="parameters", title=title)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_ylim(top=6 * axes.get_ylim()[1])  # room for the legend
            axes.legend(frameon=False, loc="upper left")


SEQUENCES = Parameters()


def growth(largest: int, construction: str) -> list[SequenceMemorizer]:
    """Memorize the first 64, 256, 1024, ... of so many random sequences, and all; compare by ==."""
    sequences, labels = random_sequences(largest)
    totals = takewhile(lambda total: total < largest, (SMALLEST * FACTOR**k for k in count()))
    found: list[SequenceMemorizer] = []
    for total in (*totals, largest):
        report(f"memorize {total} sequences", len(found), len(found) + 1)
        memorizer = build_sequence_memorizer(
            sequences[:total], labels[:total], construction=construction
        )
        if memorizer.predict(sequences[:total]) != labels[:total]:
            raise ConstructiveError(
                f"a memorizer of {total} sequences predicts other labels",
                witness=total,
                suggestion="report this as a bug",
            )
        found.append(memorizer)
    return found


def exponent(keys: Sequence[int], counts: Sequence[float], *, after_log: bool = False) -> float:
    """Return the slope of log(counts) against log(keys), by least squares, for two keys or more.

    >>> round(exponent([16, 64, 256], [4, 8, 16]), 6)
    0.5
    """
    heights = np.array(counts, dtype=float)
    if after_log:
        heights /= np.sqrt(np.log2(keys))
    slope, _ = np.polyfit(np.log(keys), np.log(heights), 1)
    return float(slope)


def _draw_counts(
    axes: "drawing.Axes", name: str, points: list[SequenceMemorizer], attribute: str
) -> None:
    """Draw one kind of count for a construction, and its exponents."""
    keys = [point.record.sizes.keys for point in points]
    counts = [getattr(point, attribute) for point in points]
    label = name.replace("_", " ")
    if len(keys) > 1:
        after = exponent(keys, counts, after_log=True)
        label += f": exponent {exponent(keys, counts):.3f}, {after:.3f} after log"
    colour, mark = _STYLES[name]
    axes.plot(keys, counts, mark + "-", color=colour, markersize=5, label=label)


def _draw_others(axes: "drawing.Axes", keys: list[int]) -> None:
    """Draw the layer of Theorem 2 for as many examples, in the least width n; sqrt(N), and N."""
    between = np.unique(np.geomspace(keys[0], keys[-1], 200).astype(int)).tolist()
    heads = [
        parameter_count(
            num_heads=heads_needed(total, CONTEXT_SIZE),
            width=CONTEXT_SIZE,
            head_dim=1,
            value_dim=1,
            target_dim=1,
        )
        for total in between
    ]
    axes.plot(between, heads, "--", color=drawing.VERMILLION,
              label=f"heads of rank one (Theorem 2), n = {CONTEXT_SIZE}")  # fmt: skip
    ends = np.array([keys[0], keys[-1]])
    for name, heights in (("sqrt(N)", np.sqrt(ends)), ("N", ends)):
        line = 25 * np.sqrt(ends[0]) * heights / heights[0]
        axes.plot(ends, line, ":", color=drawing.GREY, linewidth=1)
        axes.annotate(name, (ends[1], line[1]), xytext=(4, -3), textcoords="offset points",
                      color=drawing.GREY)  # fmt: skip
