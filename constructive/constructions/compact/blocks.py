"""Long texts, block by block: each block of positions has heads and a readout of its own.

The heads of a block come in pairs with one key and opposite queries, and U has opposite entries
for them. Inside the block they read different tokens. Outside of it both read the same token, so a
pair adds exactly zero, as all sums are of integers below 2^24. So each block is a system of its
own, and memory is that of a block.
"""

import math
from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.assemble import Part, Plan, assembled
from constructive.constructions.compact.cells import cells_of
from constructive.constructions.compact.contexts import Contexts, following_of
from constructive.constructions.compact.options import ATTEMPTS, MORE_HEADS, columns_for, share_of
from constructive.constructions.compact.readout import (
    Problem,
    Shortest,
    rounded_at,
    rounded_together,
    shortest,
)
from constructive.layers.causal.saturated import EXACT, Signs, picks
from constructive.layers.decoder import Decoder
from constructive.support.arrays import Array, Integers
from constructive.support.progress import report

_ROOM = 1.25
"""The spacing of all blocks, relative to the least one of the first block."""


class _Block(NamedTuple):
    """A block: W_Q and W_K of its pairs of heads (2, P, d, 1), what they meet, and S."""

    heads: tuple[Array, Array]
    part: Part
    spacing: int


def build_blocks(plan: Plan, *, every: bool, largest: float) -> Decoder | None:
    """Build a decoder block by block.

    Args:
        plan: tokens and points
        every: whether every position has an equation
        largest: what entries of U have to be smaller than

    Returns:
        None where there is no such readout
    """
    layout = plan.layout
    total = ((plan.text.longest - 1) >> layout.period) + 1
    found: list[_Block] = []
    spacing, pairs, size = None, 0, 0.0
    for number in range(total):
        report("blocks", number, total)
        if not len(_positions(plan, number)):
            continue
        block = _built(plan, number, pairs, spacing, every=every)
        if block is None:
            return None
        if spacing is None:  # all blocks have one, so the first one is built again
            spacing = math.ceil(_ROOM * block.spacing)
            block = _built(plan, number, pairs, spacing, every=every)
            if block is None:
                return None
        entries = np.abs(block.part.entries)
        size += 2.0 * float(entries.sum(axis=0).max())
        expected = size / (number + 1) * total
        if entries.max() >= largest or max(size, 0.8 * expected) >= EXACT:
            return None
        found.append(block)
        pairs += block.heads[0].shape[1]
    return None if spacing is None else _together(plan, found, spacing)


def _together(plan: Plan, found: list[_Block], spacing: int) -> Decoder | None:
    """The decoder of all blocks: the first heads of all pairs, and then the second ones."""
    layout = plan.layout
    heads = [
        np.concatenate([block.heads[which] for block in found], axis=1).reshape(-1, layout.width, 1)
        for which in (0, 1)
    ]
    outputs, inner = plan.points.shape[1], slice(1, layout.width - layout.blocks)
    entries = np.concatenate([block.part.entries for block in found])
    pairs = len(heads[0]) // 2
    readout = np.zeros((2 * pairs + 1, layout.width, outputs))
    readout[1 : pairs + 1, inner] = entries.reshape(pairs, -1, outputs)
    readout[pairs + 1 :, inner] = -readout[1 : pairs + 1, inner]
    parts = [block.part for block in found]
    flat = readout.reshape(-1, outputs)
    built = assembled(plan, (heads[0], heads[1]), flat, parts, spacing)
    return built if built.record.share < 1.0 else None


def _built(
    plan: Plan, number: int, first: int, spacing: int | None, *, every: bool
) -> _Block | None:
    """A block, with its pairs numbered from the first; None where there is no readout."""
    wanted = _positions(plan, number)
    following = following_of(plan.text, wanted)
    cells = cells_of(plan.points, following, every=every)
    each = plan.layout.width - plan.layout.blocks - 1
    pairs = max(1, math.ceil(columns_for(cells, every=every) / each))
    for _ in range(ATTEMPTS):
        heads = plan.layout.gated_heads(first, pairs, number)
        rows = _rows(plan, wanted, heads)
        cheap = np.ones(rows.shape[1])
        real = [shortest(Problem(rows, cheap, cell)) for cell in cells]
        solved: list[Shortest] = [one for one in real if one is not None]
        if len(solved) == len(real):
            outputs = np.stack([one.solved.outputs for one in solved], axis=1)
            share = share_of(outputs - plan.shift, plan.centred)
            rounded = (
                rounded_together(solved, share)
                if spacing is None
                else rounded_at(solved, share, spacing)
            )
            if rounded is not None:
                entries, taken = rounded
                seen = np.concatenate([np.ones((len(rows), 1), np.int8), rows], axis=1)
                condition = max(one.solved.pivots for one in solved)
                constant = np.zeros(entries.shape[1])
                part = Part(Contexts(seen, following), entries, constant, condition)
                return _Block(heads, part, taken)
        pairs = max(pairs + 1, math.ceil(pairs * MORE_HEADS))
    return None


def _positions(plan: Plan, number: int) -> Integers:
    """Places of the contexts of a block."""
    chosen: Integers = plan.wanted[_places(plan, plan.wanted) >> plan.layout.period == number]
    return chosen


def _places(plan: Plan, wanted: Integers) -> Integers:
    """The positions within their texts."""
    starts = np.cumsum(plan.text.lengths) - plan.text.lengths
    text = np.searchsorted(starts, wanted, side="right") - 1
    places: Integers = wanted - starts[text]
    return places


def _rows(plan: Plan, wanted: Integers, heads: tuple[Array, Array]) -> Signs:
    """What pairs of heads add: the differences of the tokens that they read (R, P (d - 1))."""
    layout, text = plan.layout, plan.text
    embedding, table = layout.embedding(plan.order[: text.end]), layout.positions()
    pairs = heads[0].shape[1]
    queries, keys = (weights.reshape(-1, layout.width, 1) for weights in heads)
    inner = slice(1, layout.width - layout.blocks)
    places, parts = _places(plan, wanted), []
    for own in np.split(np.arange(len(wanted)), np.flatnonzero(np.diff(wanted - places)) + 1):
        start = int(wanted[own[0]] - places[own[0]])  # of one text
        low = max(0, int(places[own[0]]) - layout.window + 1)
        at = np.arange(low, int(places[own[-1]]) + 1)
        tokens = embedding[text.ids[start + at]] + table[at]
        picked = picks(tokens, queries, keys, layout.window).tokens[places[own] - low]
        signs = tokens.astype(np.int8)[:, inner]
        difference = signs[picked[:, :pairs]] - signs[picked[:, pairs:]]
        parts.append(difference.reshape(len(own), -1))
    return np.concatenate(parts)
