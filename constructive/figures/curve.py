"""Decoders of one text, from many numbers to few: what each token costs, and what is proved.

For any labels at given contexts a readout needs a number for each position, as the rank of Z has
to be that of all positions (Proposition 21.5); and log2(V + 1) bits a token tell any of the texts
apart. For one text there is no limit but the length of its description: a list of tokens, or what
`xz` makes of it, takes fewer bits than any of these decoders.
"""

import lzma
import math
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from constructive.constructions.decoder import build_decoder
from constructive.data.corpus import Text
from constructive.data.real import english_text
from constructive.exact.directed import percent
from constructive.figures import drawing
from constructive.figures.figure import Figure
from constructive.support import tables
from constructive.support.files import replacing
from constructive.support.progress import report

_RANK_ONE = {"width": 32, "head_dim": 1, "window": 16}
# Options of `build_decoder`, from many numbers to few.
KINDS: dict[str, dict[str, Any]] = {
    "full heads, d = 256": {"width": 256},
    "full heads, d = 128": {"width": 128},
    "rank one, d = 32": _RANK_ONE,
    "rank one, outputs of 16": {**_RANK_ONE, "code_width": 16},
    "rank one, outputs of 8": {**_RANK_ONE, "code_width": 8},
    "any labels, 3 integers": {"parameters": "few", "every": True, "outputs": 3},
    "any labels, 2 integers": {"parameters": "few", "every": True, "outputs": 2},
    "any labels, 1 integer": {"parameters": "few", "every": True, "outputs": 1},
    "inequalities, 2 integers": {"parameters": "few", "outputs": 2},
    "inequalities, 1 integer": {"parameters": "few", "outputs": 1},
}


@dataclass(frozen=True)
class Cost:
    """What a decoder takes for each token of its text."""

    kind: str  # which decoder
    heads: int  # H
    readout: float  # numbers of the readout that are not zero, a token
    stored: float  # all numbers that a file stores, without those that a formula gives, a token
    bits: float  # of these, a token
    share: float  # of a margin that float32 may take, at most; below 1 every program recites


def costs(text: Text, kinds: Iterable[str] = tuple(KINDS)) -> Iterator[Cost]:
    """Build the decoders of a text, one after the other, and count.

    Example:
        >>> [cost] = costs(Text.words("the cat sat on the mat"), ["any labels, 1 integer"])
        >>> cost.kind, cost.share < 1
        ('any labels, 1 integer', True)
    """
    for number, kind in enumerate(kinds):
        report("curve", number, len(KINDS))
        decoder, tokens = build_decoder(text, **KINDS[kind]), text.num_positions
        yield Cost(
            kind,
            decoder.layer.num_heads,
            int(np.count_nonzero(decoder.layer.readout_weights)) / tokens,
            decoder.num_stored / tokens,
            decoder.num_bits / tokens,
            decoder.record.share,
        )


@dataclass(frozen=True)
class Limits:
    """What nothing goes below, and what files take, a token."""

    bits: float  # for any text
    listed: int  # bits of a list of tokens
    packed: float  # bits of the text under xz


def limits_of(text: Text) -> Limits:
    """Return the limits for a text."""
    count = len(text.vocabulary)
    joined = [text.joined(tokens) for tokens in text.texts]
    content = b"".join(j.encode() if isinstance(j, str) else bytes(j) for j in joined)
    packed = 8 * len(lzma.compress(content, preset=9)) / len(text)
    return Limits(math.log2(count + 1), max(1, (count - 1).bit_length()), packed)


def render(text: Text, found: list[Cost]) -> str:
    """Return the table as text."""
    table = tables.new_table(
        "decoder", "heads", "readout numbers", "stored numbers", "stored bits", "proved",
        left=("decoder",),
    )  # fmt: skip
    for cost in found:
        proved = f"yes, {percent(cost.share, 0)}" if cost.share < 1.0 else "no"
        table.add_row(
            cost.kind, str(cost.heads), f"{cost.readout:,.2f}", f"{cost.stored:,.2f}",
            f"{cost.bits:,.1f}", proved,
        )  # fmt: skip
    known = limits_of(text)
    table.add_row("limit for any labels", "", "1.00", "", f"{known.bits:.1f}", "yes")
    table.add_row("a list of tokens", "", "", "", f"{known.listed}", "")
    table.add_row("the text under xz", "", "", "", f"{known.packed:.1f}", "")
    about = (
        f"N = {len(text):,} tokens, V = {len(text.vocabulary):,}; numbers and bits are those of "
        "each token, without the vocabulary. Proved: by how much of a margin float32 may be off.\n"
    )
    return "\n".join([about, *tables.lines(table, 120)]) + "\n"


@dataclass(frozen=True)
class Curve(Figure):
    """The curve for the beginning of an English text, as a picture and as a table."""

    tokens: int = 1000  # of the text
    kinds: tuple[str, ...] = tuple(KINDS)  # of decoders, names in `KINDS`

    title = "What recitation costs, down to the limit (not of that paper)"
    files = (*drawing.both("curve"), "curve.txt")
    needs = "matplotlib", "sklearn"

    def draw(self, folder: Path, *, executor: Executor | None = None) -> tuple[Path, ...]:
        """Build the decoders once, and write all files."""
        del executor
        text = Text.words(english_text()).first(self.tokens)
        found = list(costs(text, self.kinds))
        figure = drawing.new_figure(8.0, 5.0)
        draw_curve(figure, text, found)
        pictures = drawing.save_both(figure, folder, "curve")
        path = folder / "curve.txt"
        with replacing(path) as file:
            file.write(render(text, found).encode())
        return (*pictures, path)


CURVE = Curve()


def draw_curve(figure: Any, text: Text, found: list[Cost]) -> None:  # noqa: ANN401 - of matplotlib
    """Draw bits over numbers, and the limits, in an empty figure."""
    axes, known = figure.subplots(), limits_of(text)
    for proved, colour, label in (
        (True, drawing.BLUE, "proved for every float32 program"),
        (False, drawing.VERMILLION, "not proved"),
    ):
        some = [cost for cost in found if (cost.share < 1.0) == proved]
        if some:
            axes.loglog(
                [cost.readout for cost in some], [cost.bits for cost in some], "o",
                color=colour, label=label,
            )  # fmt: skip
    right = max(cost.readout for cost in found)
    for cost in found:
        angle = 65 * (cost.readout < right)  # the last one has no room above it
        axes.annotate(
            cost.kind, (cost.readout, cost.bits), textcoords="offset points",
            xytext=(4, 4) if angle else (8, -14), ha="left" if angle else "right",
            rotation=angle, rotation_mode="anchor", fontsize=7,
        )  # fmt: skip
    axes.axvline(1.0, color=drawing.GREY, ls="--", label="limit for any labels, numbers")
    axes.axhline(known.bits, color=drawing.GREEN, ls=":", label="limit for any labels, bits")
    axes.axhline(known.packed, color=drawing.ORANGE, ls="-.", label="the text under xz")
    axes.legend(frameon=False)
    drawing.describe(
        axes, x="numbers of the readout, a token", y="bits of all that is stored, a token"
    )
