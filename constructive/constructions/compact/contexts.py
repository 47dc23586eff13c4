"""What the heads read at the positions of texts: rows of Z, without the columns that are constant.

The first entry of every token is 1, so the heads give it back: only the skip connection keeps it.
"""

from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.plan import Plan
from constructive.constructions.compact.tokens import Layout
from constructive.data.corpus import Text
from constructive.layers.causal.saturated import Signs, picks, read
from constructive.support.arrays import Array, Integers
from constructive.support.progress import report


class Contexts(NamedTuple):
    """Different contexts of texts."""

    rows: Signs  # Z (R, K), int8
    following: Integers  # the token that follows each of them (R,)


def following_of(text: Text, wanted: Integers) -> Integers:
    """Return the tokens that follow some positions, both (R,)."""
    after = np.append(text.ids[1:], text.end)
    after[np.cumsum(text.lengths) - 1] = text.end
    chosen: Integers = after[wanted]
    return chosen


def contexts(plan: Plan, heads: tuple[Array, Array]) -> Contexts:
    """Return the rows of all different contexts, for heads W_Q and W_K (H, d, 1)."""
    text, wanted = plan.text, plan.wanted
    embedding, positions = plan.embedding, plan.layout.positions()
    used = columns(plan.layout, len(heads[0]))
    rows = np.empty((len(wanted), len(used)), np.int8)
    number = np.full(len(text), -1)
    number[wanted] = np.arange(len(wanted))
    done = 0
    for batch in text.batches():
        place = np.arange(batch.ids.shape[1]) % len(positions)
        tokens = embedding[batch.ids] + positions[place]
        picked = picks(tokens, *heads, plan.layout.window).tokens
        for sequence, at, places in zip(tokens, picked, batch.places, strict=True):
            report("read", done, len(text))
            inside = places >= 0
            index = number[places[inside]]
            kept = index >= 0
            rows[index[kept]] = read(sequence, at)[: len(index)][kept][:, used]
            done += len(index)
    return Contexts(rows, following_of(text, wanted))


def columns(layout: Layout, heads: int) -> Integers:
    """Return which rows of U have entries: all but those of the constant that the H heads read."""
    every = np.arange((heads + 1) * layout.width)
    used: Integers = every[(every % layout.width != 0) | (every == 0)]
    return used
