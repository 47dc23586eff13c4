"""Decoders of a text: where heads look and by how much the next token wins, and what a token costs.

Heads have random weights and large logits, so that each looks at few tokens, as if drawn by chance;
together they tell every position from every other one. Margins are those of real arithmetic, from
below, and the bound is on what a program in float32 may take of them.

For any labels at given contexts a readout needs a number for each position, as the rank of Z has
to be that of all positions (Proposition 21.5); and log2(V + 1) bits a token tell any of the texts
apart. For one text there is no limit but the length of its description: a list of tokens, or what
`xz` makes of it, takes fewer bits than any of these decoders.
"""

import lzma
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from constructive import checker
from constructive.exact.directed import percent
from constructive.exact.softmax import Floats
from constructive.figures import drawing
from constructive.figures.real_data import english_text
from constructive.layers.attention import CausalView, attend
from constructive.recite.build import build_decoder
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder, recital
from constructive.support.arrays import Array, Integers
from constructive.support.work import report

LAST, HEADS = 100, 3  # positions and heads whose attention is drawn, at most
HEIGHT = 7.4
_COLUMNS = 100  # of an image of attention, at most: each is a few tokens side by side
_TICKS = np.array([0.0, 0.01, 0.1, 0.3, 0.6, 1.0])  # weights that the colour bar names


def attention(decoder: Decoder, ids: npt.ArrayLike, *, last: int, heads: int) -> Array:
    """Return attention of the first h heads at the last b positions of a text (N,): (h, b, N)."""
    layer = decoder.layer
    view = CausalView(decoder.embedded(np.asarray(ids)[np.newaxis]), layer.window)
    weights = layer.query_weights[:heads], layer.key_weights[:heads]
    every = np.arange(view.shape[1])
    first = max(0, len(every) - last)
    out = np.zeros((len(weights[0]), len(every) - first, len(every)), np.float32)
    for chunk in attend(Floats(np.float32), weights, view):
        positions = every[chunk.rows[1]]
        late = positions >= first
        shares = chunk.attention[0, late].transpose(1, 0, 2)
        out[:, positions[late] - first, chunk.block.keys] = shares
    return out


def draw_recital(
    figure: Any,  # noqa: ANN401 - of matplotlib
    decoder: Decoder,
    text: Text,
) -> None:
    """Draw where a few heads look at the end of the longest text, and the margins of all positions.

    Raises DataError for another vocabulary, or a text that is too long, and PrecisionError where
    logits of heads are not exact.
    """
    upper, lower = figure.subfigures(2, 1, height_ratios=[3, 2])
    longest = int(text.lengths.argmax())
    start = int(text.lengths[:longest].sum())
    _draw_attention(upper, decoder, text.ids[start : start + text.longest])
    _draw_margins(lower, recital(decoder, text), decoder.record.storage)


@dataclass(frozen=True)
class RecitalPicture(drawing.Picture):
    """A decoder for the beginning of an English text."""

    tokens: int = 1000  # of the text
    width: int = 128  # d

    title = "A decoder which recites (not of that paper)"
    name = "recital"
    height = HEIGHT
    needs = "matplotlib", "sklearn"

    def paint(self, figure: Any) -> None:  # noqa: ANN401
        """Build the decoder, and draw it."""
        text = Text.words(english_text()).first(self.tokens)
        draw_recital(figure, build_decoder(text, width=self.width), text)


RECITAL = RecitalPicture()


def _draw_attention(figure: Any, decoder: Decoder, ids: Integers) -> None:  # noqa: ANN401
    """One image for each of a few heads: positions that look, by tokens that are seen."""
    length, window = len(ids), decoder.layer.window or len(ids)
    weights = attention(decoder, ids, last=LAST, heads=HEADS)
    rows = weights.shape[1]
    first = max(0, length - rows + 1 - window)  # nobody sees what is before it
    starts = np.unique(np.linspace(first, length, _COLUMNS + 1).astype(int))[:-1]
    shares = np.add.reduceat(weights, starts, axis=2)
    panels = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0].tolist()
    image = None
    for head, (axes, share) in enumerate(zip(panels, shares, strict=True), start=1):
        image = axes.imshow(
            np.sqrt(share), aspect="auto", cmap=drawing.COLOUR_MAP, vmin=0.0, vmax=1.0,
            interpolation="nearest", extent=(first, length, length, length - rows),
        )  # fmt: skip
        axes.set_xticks([first, (first + length) // 2])  # one at the end would touch the next panel
        title = f"head {head} of {decoder.layer.num_heads}"
        drawing.describe(axes, x="", y="position that looks" if head == 1 else "", title=title)
    figure.supxlabel("token that is seen", fontsize="medium")
    bar = figure.colorbar(image, ax=panels, ticks=np.sqrt(_TICKS), pad=0.02, fraction=0.05)
    bar.ax.set_yticklabels([f"{tick:.0%}" for tick in _TICKS])
    bar.set_label("attention weight")


def _draw_margins(figure: Any, margins: checker.Margins, storage: str) -> None:  # noqa: ANN401
    """Draw margins and bounds at all positions; nothing where they are infinite, or nothing at all.

    Bounds below a unit in the last place of the least margin, as of exact sums, are left out, too.
    """
    positive = margins.least[np.isfinite(margins.least) & (margins.least > 0.0)]
    floor = 2.0**-24 * float(positive.min()) if len(positive) else 0.0
    shown = (
        (
            margins.least,
            drawing.BLUE,
            "by how much the next token's logit is the largest, at least",
        ),
        (margins.error, drawing.VERMILLION, "what rounding may take of it, at most"),
    )
    axes, ends = figure.subplots(), []
    for values, colour, label in shown:
        drawable = np.where((values > floor) & np.isfinite(values), values, np.nan)
        axes.plot(margins.places, drawable, ".", color=colour, markersize=3, label=label)
        if not np.isnan(drawable).all():
            ends += [np.nanmin(drawable), np.nanmax(drawable)]
    axes.set_yscale("log")
    if ends:  # whole powers of ten
        axes.set_ylim(10.0 ** np.floor(np.log10(min(ends))), 10.0 ** np.ceil(np.log10(max(ends))))
    figure.legend(frameon=False, markerscale=4, loc="outside lower center")
    total, doubtful = len(margins.share), int((margins.share >= 1.0).sum())
    said = (
        f"{doubtful:,} of {total:,} next tokens are not proved to win"
        if doubtful
        else f"each of {total:,} next tokens wins;\nrounding takes at most "
        f"{percent(float(margins.share.max()))} of a margin"
    )
    drawing.describe(axes, x="position", y="difference of logits", title=f"{storage}: {said}")


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
class TokenCost:
    """What a decoder takes for each token of its text."""

    kind: str  # which decoder
    heads: int  # H
    readout: float  # numbers of the readout that are not zero, a token
    stored: float  # all numbers that a file stores, without those that a formula gives, a token
    bits: float  # of these, a token
    share: float  # of a margin that float32 may take, at most; below 1 every program recites


def costs(text: Text, kinds: Iterable[str] = tuple(KINDS)) -> Iterator[TokenCost]:
    """Build the decoders of a text, one after the other, and count."""
    for number, kind in enumerate(kinds):
        report("curve", number, len(KINDS))
        decoder, tokens = build_decoder(text, **KINDS[kind]), text.num_positions
        yield TokenCost(
            kind,
            decoder.layer.num_heads,
            int(np.count_nonzero(decoder.layer.readout_weights)) / tokens,
            decoder.num_stored / tokens,
            decoder.num_bits / tokens,
            decoder.record.share,
        )


def limits_of(text: Text) -> tuple[float, float]:
    """Return the bits a token that any text takes, and those that this one takes under xz."""
    joined = [text.joined(tokens) for tokens in text.texts]
    content = b"".join(j.encode() if isinstance(j, str) else bytes(j) for j in joined)
    packed = 8 * len(lzma.compress(content, preset=9)) / len(text)
    return math.log2(len(text.vocabulary) + 1), packed


@dataclass(frozen=True)
class Curve(drawing.Picture):
    """The curve for the beginning of an English text."""

    tokens: int = 1000  # of the text
    kinds: tuple[str, ...] = tuple(KINDS)  # of decoders, names in `KINDS`

    title = "What recitation costs, down to the limit (not of that paper)"
    name = "curve"
    height = 6.6
    needs = "matplotlib", "sklearn"

    def quick(self) -> Self:
        """Take a shorter text."""
        return replace(self, tokens=200)

    def paint(self, figure: Any) -> None:  # noqa: ANN401
        """Build the decoders, and draw bits over numbers, and the limits."""
        text = Text.words(english_text()).first(self.tokens)
        _draw_curve(figure, text, list(costs(text, self.kinds)))


CURVE = Curve()


def _draw_curve(figure: Any, text: Text, found: list[TokenCost]) -> None:  # noqa: ANN401
    axes, any_text, packed = figure.subplots(), *limits_of(text)
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
    axes.axvline(1.0, color=drawing.GREY, ls="--", label="limit for any labels, numbers")
    axes.axhline(packed, color=drawing.ORANGE, ls="-.", label="the text under xz")
    axes.axhline(any_text, color=drawing.GREEN, ls=":", label="limit for any labels, bits")
    # Points rise to the right, so that there is room above each for its number.
    axes.margins(x=0.06, y=0.1)
    for number, cost in enumerate(found, start=1):
        axes.annotate(
            str(number), (cost.readout, cost.bits), textcoords="offset points",
            # Off the line of the limit.
            xytext=(-3, 4) if cost.readout < 1.0 else (0, 5),
            ha="right" if cost.readout < 1.0 else "center",
        )  # fmt: skip
    drawing.describe(
        axes, x="numbers of the readout, a token", y="bits of all that is stored, a token"
    )
    handles, labels = axes.get_legend_handles_labels()
    names = [f"{number}  {cost.kind}" for number, cost in enumerate(found, start=1)]
    nothing = axes.plot([], [], linestyle="") * len(names)
    figure.legend([*nothing, *handles], [*names, *labels], loc="outside lower center", ncols=2,
                  frameon=False)  # fmt: skip
