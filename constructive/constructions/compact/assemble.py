"""A compact decoder from its parts: tokens, heads and integers become the arrays of a `Decoder`."""

from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.contexts import Contexts
from constructive.constructions.compact.exact import margins
from constructive.constructions.compact.plan import Plan
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.causal.saturated import EXACT
from constructive.layers.decoder import Decoder
from constructive.layers.decoder_record import DecoderRecord
from constructive.support.arrays import Array


class Part(NamedTuple):
    """Positions that are one system of equations, and their integers."""

    seen: Contexts  # contexts; the first entry of each row is 1
    entries: Array  # of U for the columns of Z (K, k)
    condition: float  # of Z, an estimate


def assembled(
    plan: Plan, heads: tuple[Array, Array], readout: Array, parts: list[Part], spacing: int
) -> Decoder:
    """Return the decoder, with its exact margins in the record.

    heads: W_Q and W_K (H, d, 1);  readout: U without what moves the points ((H + 1) d, k)
    parts: what all of its positions meet;  spacing: S
    """
    layout, unembedding = plan.layout, _unembedding(plan, spacing)
    whole = _moved(readout, plan, spacing)
    least, share = np.inf, 0.0
    for part in parts:
        found = margins(part.seen, _moved(part.entries, plan, spacing), unembedding)
        least, share = min(least, found.least), max(share, found.share)
    if np.abs(whole).sum(axis=0).max() >= EXACT:
        share = np.inf  # sums are not exact
    number = sum(len(part.seen.following) for part in parts)
    condition = max(part.condition for part in parts)
    return Decoder(
        plan.embedding,
        layout.positions(),
        CausalLayer(
            heads[0].astype(np.float32),
            heads[1].astype(np.float32),
            (whole + 0.0).astype(np.float32),  # there is one zero
            window=layout.window,
        ),
        unembedding.astype(np.float32),
        plan.text.vocabulary,
        plan.text.unit,
        DecoderRecord(layout.seed, number, condition, least, share),
        longest=plan.text.longest,
    )


def _moved(entries: Array, plan: Plan, spacing: int) -> Array:
    """Return entries of U (K, k) with what moves the points and the last column (K, k + 1)."""
    moved = np.pad(entries, ((0, 0), (0, 1)))
    moved[0] += np.append(-plan.shift * float(spacing), 1.0)
    return moved


def _unembedding(plan: Plan, spacing: int) -> Array:
    """Return O (V + 1, k + 1): 2 c_v and -|c_v|^2 S."""
    points = plan.centred.astype(np.float64)
    squares = (points**2).sum(axis=1, keepdims=True) * spacing
    return np.concatenate([2.0 * points, 0.0 - squares], axis=1) + 0.0  # there is one zero
