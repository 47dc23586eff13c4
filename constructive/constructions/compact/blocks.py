"""Long texts, block by block: each block of positions has heads and a readout of its own.

The heads of a block come in pairs with one key and opposite queries, and U has opposite entries
for them. Inside the block they read different tokens. Outside of it both read the same token, so a
pair adds exactly zero, as all sums are of integers below 2^24. So each block is a system of its
own, and memory is that of a block. The skip connection is part of the first one: at the first
position of a text a pair reads one token twice.
"""

import math
from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.assemble import Part, assembled
from constructive.constructions.compact.contexts import Contexts, following_of
from constructive.constructions.compact.exact import share_of
from constructive.constructions.compact.plan import ATTEMPTS, MORE_HEADS, Plan
from constructive.constructions.compact.readout import Shortest, rounded, shortest
from constructive.layers.causal.saturated import EXACT, Signs, picks
from constructive.layers.decoder import Decoder
from constructive.support.arrays import Array, Integers
from constructive.support.progress import report

# Spacings of all blocks that are tried, relative to the least one of the first block.
_ROOMS = 1.25, 1.6, 2.2


class _Block(NamedTuple):
    """A block: W_Q and W_K of its pairs (2, P, d, 1), their integers, and what adds up there."""

    heads: tuple[Array, Array]
    entries: Array
    part: Part


class _Skip(NamedTuple):
    """The readout of the token itself, which the first block finds, and S, for all blocks."""

    entries: Array
    spacing: int


def build_blocks(plan: Plan) -> Decoder | None:
    """Build a decoder block by block; None where there is no such readout."""
    guess = _built(plan, 0, 0, None, None)
    if guess is None:
        return None
    for room in _ROOMS:
        built = _at(plan, math.ceil(room * guess[1].spacing) + 1)
        if built is not None:
            return built
    return None


def _at(plan: Plan, spacing: int) -> Decoder | None:
    """A decoder with one spacing for all blocks; None where a block has no readout."""
    total = ((plan.text.longest - 1) >> plan.layout.period) + 1
    found: list[_Block] = []
    skip, pairs, size = None, 0, 0.0
    for number in range(total):
        report("blocks", number, total)
        if not len(_positions(plan, number)):
            continue
        built = _built(plan, number, pairs, skip, spacing)
        if built is None:
            return None
        block, skip = built
        sizes = np.abs(block.entries)
        size += 2.0 * float(sizes.sum(axis=0).max())
        expected = size / (number + 1) * total
        if sizes.max() >= plan.largest or max(size, 0.8 * expected) >= EXACT:
            return None
        found.append(block)
        pairs += block.heads[0].shape[1]
    return None if skip is None else _together(plan, found, skip)


def _together(plan: Plan, found: list[_Block], skip: _Skip) -> Decoder | None:
    """The decoder of all blocks: the first heads of all pairs, and then the second ones."""
    layout = plan.layout
    heads = [
        np.concatenate([block.heads[which] for block in found], axis=1).reshape(-1, layout.width, 1)
        for which in (0, 1)
    ]
    outputs, inner = plan.points.shape[1], slice(1, layout.width - layout.blocks)
    entries = np.concatenate([block.entries for block in found])
    pairs = len(heads[0]) // 2
    readout = np.zeros((2 * pairs + 1, layout.width, outputs))
    readout[0, inner] = skip.entries
    readout[1 : pairs + 1, inner] = entries.reshape(pairs, -1, outputs)
    readout[pairs + 1 :, inner] = -readout[1 : pairs + 1, inner]
    flat = readout.reshape(-1, outputs)
    parts = [block.part for block in found]
    built = assembled(plan, (heads[0], heads[1]), flat, parts, skip.spacing)
    return built if built.record.share < 1.0 else None


def _built(
    plan: Plan, number: int, first: int, skip: _Skip | None, spacing: int | None
) -> tuple[_Block, _Skip] | None:
    """A block by its number and that of its first pair; and the readout of tokens.

    The latter is found with the first block.
    """
    wanted = _positions(plan, number)
    following = following_of(plan.text, wanted)
    own = _own(plan, wanted)
    cells = plan.cells(following)
    moved = np.zeros((len(wanted), len(cells)))
    if skip is not None:
        moved = own.astype(np.float64) @ skip.entries / skip.spacing
        cells = [cell.moved(-off) for cell, off in zip(cells, moved.T, strict=True)]
    pairs = max(1, math.ceil(plan.columns_for(cells) / own.shape[1]))
    for _ in range(ATTEMPTS):
        heads = plan.layout.gated_heads(first, pairs, number)
        met = _met(plan, wanted, heads)
        rows = met if skip is not None else np.concatenate([own, met], axis=1)
        real = [shortest(rows, np.ones(rows.shape[1]), cell) for cell in cells]
        solved: list[Shortest] = [one for one in real if one is not None]
        if len(solved) == len(real):
            outputs = np.stack([one.solved.outputs for one in solved], axis=1) + moved
            found = rounded(solved, share_of(plan, outputs), spacing)
            if found is not None:
                entries, taken = found
                if skip is None:
                    skip = _Skip(entries[: own.shape[1]], taken)
                    entries = entries[own.shape[1] :]
                ones = np.ones((len(rows), 1), np.int8)
                seen = Contexts(np.concatenate([ones, own, met], axis=1), following)
                condition = max(one.solved.pivots for one in solved)
                constant = np.zeros((1, entries.shape[1]))
                together = np.concatenate([constant, skip.entries, entries])
                part = Part(seen, together, condition)
                return _Block(heads, entries, part), skip
        pairs = max(pairs + 1, math.ceil(pairs * MORE_HEADS))
    return None


def _positions(plan: Plan, number: int) -> Integers:
    """Places of the contexts of a block."""
    chosen: Integers = plan.wanted[_places(plan, plan.wanted) >> plan.layout.period == number]
    return chosen


def _places(plan: Plan, wanted: Integers) -> Integers:
    """The positions within their texts."""
    starts = plan.text.starts
    places: Integers = wanted - starts[np.searchsorted(starts, wanted, side="right") - 1]
    return places


def _own(plan: Plan, wanted: Integers) -> Signs:
    """The tokens themselves, without the constant and the digits of blocks (R, d')."""
    layout, text = plan.layout, plan.text
    tokens = plan.embedding[text.ids[wanted]]
    tokens += layout.positions()[_places(plan, wanted)]
    return tokens[:, 1 : layout.width - layout.blocks].astype(np.int8)


def _met(plan: Plan, wanted: Integers, heads: tuple[Array, Array]) -> Signs:
    """What pairs of heads add: the differences of the tokens that they read (R, P (d - 1))."""
    layout, text = plan.layout, plan.text
    embedding, table = plan.embedding, layout.positions()
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
