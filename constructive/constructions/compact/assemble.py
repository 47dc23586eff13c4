"""A compact decoder from its parts: tokens, heads and integers become the arrays of a `Decoder`."""

from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.contexts import Contexts, columns
from constructive.constructions.compact.exact import margins
from constructive.constructions.compact.tokens import Layout
from constructive.data.corpus import Text
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.decoder import Decoder
from constructive.layers.decoder_record import DecoderRecord
from constructive.support.arrays import Array, Integers


class Plan(NamedTuple):
    """All of a decoder but its heads and its readout.

    Attributes:
        text: one text or several
        wanted: places of the different contexts (R,)
        order: places of the V + 1 tokens
        layout: of tokens
        points: of tokens (V + 1, k)
    """

    text: Text
    wanted: Integers
    order: Integers
    layout: Layout
    points: Integers

    @property
    def shift(self) -> Integers:
        """The middle of the points, which they are moved by (k,)."""
        middle: Integers = self.points.min(axis=0) // 2
        return middle

    @property
    def centred(self) -> Integers:
        """The points when they are moved: about as short as possible."""
        return self.points - self.shift


class Readout(NamedTuple):
    """Integers, and how they were found.

    Attributes:
        entries: of U, without the columns that are constant (K, k)
        spacing: S
        condition: of Z, an estimate
    """

    entries: Array
    spacing: int
    condition: float


def assembled(plan: Plan, heads: tuple[Array, Array], seen: Contexts, readout: Readout) -> Decoder:
    """Return the decoder, with its exact margins in the record.

    Args:
        plan: tokens and points
        heads: W_Q and W_K (H, d, 1)
        seen: contexts and what follows them
        readout: integers
    """
    layout, outputs, spacing = plan.layout, readout.entries.shape[1], readout.spacing
    entries = np.zeros((readout.entries.shape[0], outputs + 1))
    entries[:, :outputs] = readout.entries
    entries[0, :outputs] -= plan.shift * spacing
    entries[0, outputs] = 1.0
    points = plan.centred
    squares = -(points**2).sum(axis=1, keepdims=True) * spacing
    unembedding = np.concatenate([2 * points, squares], axis=1)
    found = margins(seen, entries, unembedding.astype(np.float64))
    weights = np.zeros(((len(heads[0]) + 1) * layout.width, outputs + 1), np.float32)
    weights[columns(layout, len(heads[0]))] = entries
    record = DecoderRecord(
        layout.seed, len(seen.following), readout.condition, found.least, found.share
    )
    return Decoder(
        layout.embedding(plan.order[: plan.text.end]),
        layout.positions(),
        CausalLayer(*heads, weights, window=layout.window),
        unembedding.astype(np.float32),
        plan.text.vocabulary,
        plan.text.unit,
        record,
        longest=plan.text.longest,
    )
