"""A decoder that recites: where its heads look, and by how much the next token wins.

Heads have random weights and large logits, so that each looks at few tokens, as if drawn by chance;
together they tell every position from every other one. Margins are those of real arithmetic, from
below, and the bound is on what a program in float32 may take of them.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.constructions.decoder import build_decoder
from constructive.data.corpus import Text
from constructive.data.real import english_text
from constructive.exact.arithmetics.floats import Floats
from constructive.exact.directed import percent
from constructive.figures import drawing
from constructive.figures.figure import Picture
from constructive.layers.attend import attend
from constructive.layers.causal.margins import Margins
from constructive.layers.decoder import Decoder
from constructive.layers.recital import recital
from constructive.layers.views import Causal
from constructive.support.arrays import Array, Integers

LAST = 100  # Positions whose attention is drawn, at most
HEADS = 3  # Heads whose attention is drawn, at most
SIZE = 11.0, 8.0  # Inches
_COLUMNS = 100  # Of an image of attention, at most: each is a few tokens side by side
_TICKS = np.array([0.0, 0.01, 0.1, 0.3, 0.6, 1.0])  # Attention weights that the colour bar names


def attention(decoder: Decoder, ids: npt.ArrayLike, *, last: int, heads: int) -> Array:
    """Return attention of the first h heads at the last b positions of a text (N,): (h, b, N)."""
    layer = decoder.layer
    view = Causal(decoder.embedded(np.asarray(ids)[np.newaxis]), layer.window)
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
class RecitalPicture(Picture):
    """A decoder for the beginning of an English text."""

    tokens: int = 1000  # of the text
    width: int = 128  # d

    title = "A decoder which recites (not of that paper)"
    name = "recital"
    inches = SIZE
    needs = "matplotlib", "sklearn"

    def paint(self, figure: Any, *, executor: Executor | None) -> None:  # noqa: ANN401, ARG002
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
        drawing.describe(
            axes, x="token that is seen", y="position that looks" if head == 1 else "",
            title=f"head {head} of {decoder.layer.num_heads}",
        )  # fmt: skip
    bar = figure.colorbar(image, ax=panels, ticks=np.sqrt(_TICKS), pad=0.02, fraction=0.05)
    bar.ax.set_yticklabels([f"{tick:.0%}" for tick in _TICKS])
    bar.set_label("attention weight")


def _draw_margins(figure: Any, margins: Margins, storage: str) -> None:  # noqa: ANN401
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
    figure.legend(frameon=False, markerscale=4, ncols=2, loc="outside lower center")
    total, doubtful = len(margins.share), int((margins.share >= 1.0).sum())
    said = (
        f"{doubtful:,} of {total:,} next tokens are not proved to win"
        if doubtful
        else f"each of {total:,} next tokens wins; rounding takes at most "
        f"{percent(float(margins.share.max()))} of a margin"
    )
    drawing.describe(axes, x="position", y="difference of logits", title=f"{storage}: {said}")
