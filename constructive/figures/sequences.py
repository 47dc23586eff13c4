"""Parameters of sequence memorizers against N, with sqrt(N), N, and the heads for as many examples.

The data are random: contexts of eight different tokens in Q^4, and one of 16 labels. Each point is
a memorizer that was built, and whose labels were all compared by ==.
"""

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from constructive.figures import drawing
from constructive.sequences.build import GrowthPoint, exponent, growth
from constructive.support.errors import ParameterError
from constructive.theory.bounds import heads_needed, parameter_count

CONTEXT_SIZE, WIDTH, CLASSES = 8, 4, 16
HEIGHT = 8.4
_STYLES = (drawing.ORANGE, "s"), (drawing.GREEN, "^"), (drawing.BLUE, "o")


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


def multihead_parameters(total: int, context_size: int) -> int:
    """Count parameters of the layer of Theorem 2 for as many examples, in the least width n.

    >>> multihead_parameters(4096, context_size=8)
    14626
    """
    return parameter_count(
        num_heads=heads_needed(total, context_size),
        width=context_size,
        head_dim=1,
        value_dim=1,
        target_dim=1,
    )


@dataclass(frozen=True)
class Parameters(drawing.Picture):
    """Memorizers of 64 sequences and more by the two constructions of the fewest weights."""

    largest: int = 4096  # N of the last point

    title = "Sequences: parameters against N (not of that paper)"
    name = "sequences-parameters"
    height = HEIGHT

    def quick(self) -> Self:
        """Stop sooner."""
        return replace(self, largest=512)

    def paint(self, figure: Any, *, executor: Executor | None) -> None:  # noqa: ANN401, ARG002
        """Build them, and draw their parameters."""
        sequences, labels = random_sequences(self.largest)
        names = "product_hash", "separating_set"
        draw_points(
            figure,
            {
                name.replace("_", " "): list(growth(sequences, labels, construction=name))
                for name in names
            },
        )


SEQUENCES = Parameters()


def draw_points(figure: Any, found: dict[str, list[GrowthPoint]]) -> None:  # noqa: ANN401 - of matplotlib
    """Draw parameters of each construction, their exponents, sqrt(N), N, and those of heads.

    found: points by their label, for three constructions at most

    Above the weights that are not zero, below all of dense matrices.
    """
    if not all(point.exact for points in found.values() for point in points):
        raise ParameterError(
            "a memorizer that predicts other labels is not drawn",
            suggestion="points of `growth` for the data they were built for",
        )
    for axes, (title, attribute) in zip(figure.subplots(2, 1), _COUNTS, strict=True):
        keys = _draw_counts(axes, found, attribute)
        size = next(iter(found.values()))[0].memorizer.context_size
        low, high = min(keys), max(keys)
        ends = np.array([low, high])
        between = np.unique(np.geomspace(low, high, 200).astype(int)).tolist()
        heads = [multihead_parameters(total, size) for total in between]
        axes.plot(between, heads, "--", color=drawing.VERMILLION,
                  label=f"heads of rank one (Theorem 2), n = {size}")  # fmt: skip
        anchor = 25 * np.sqrt(ends[0])
        for name, heights in (("sqrt(N)", np.sqrt(ends)), ("N", ends)):
            line = anchor * heights / heights[0]
            axes.plot(ends, line, ":", color=drawing.GREY, linewidth=1)
            axes.annotate(name, (ends[1], line[1]), xytext=(4, -3), textcoords="offset points",
                          color=drawing.GREY)  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        drawing.describe(axes, x="keys", y="parameters", title=title)
        axes.set_ylim(top=6 * axes.get_ylim()[1])  # room for the legend
        axes.legend(frameon=False, loc="upper left")


_COUNTS = (
    ("weights that are not zero", "nonzero_parameters"),
    ("all weights of dense matrices", "total_parameters"),
)


def _draw_counts(axes: Any, found: dict[str, list[GrowthPoint]], attribute: str) -> list[int]:  # noqa: ANN401
    """Draw one kind of count for each construction; the keys of all points."""
    for (label, points), (colour, mark) in zip(found.items(), _STYLES, strict=False):
        keys = [point.num_keys for point in points]
        counts = [getattr(point.memorizer, attribute) for point in points]
        exponents = ""
        if len(set(keys)) > 1:
            after = exponent(keys, counts, after_log=True)
            exponents = f": exponent {exponent(keys, counts):.3f}, {after:.3f} after log"
        axes.plot(keys, counts, mark + "-", color=colour, markersize=5, label=label + exponents)
    return [point.num_keys for points in found.values() for point in points]
