"""Compact decoders: sign tokens, saturated heads, and a readout of short integers."""

import math
from typing import NamedTuple

import numpy as np

from constructive.recite.causal import EXACT, CausalLayer, Signs, picks
from constructive.recite.compact_readout import Shortest, rounded, shortest
from constructive.recite.compact_tokens import (
    ATTEMPTS,
    MORE_HEADS,
    Cells,
    CompactPlan,
    Contexts,
    columns,
    contexts,
    following_of,
    layout_of,
    order_of,
    points_of,
)
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder, DecoderRecord
from constructive.support.arrays import AnyArray, Array, Integers, row_chunks
from constructive.support.errors import (
    ParameterError,
    PrecisionError,
    require_known,
    require_positive,
)
from constructive.support.work import report

# The margins of an integer readout, exactly, and what float32 may take of them (Proposition 21.3).
#
# Outputs are exact in float32, and logits are off by at most gamma_{k+1} times the sizes of their
# products. So a spacing S has to leave room, half of what two logits 2 c f - c^2 S may be off by.


_UNIT = 2.0**-24  # Of rounding to nearest in float32
_MORE = 1.0 + 2.0**-20  # For what float64 rounds in the bound itself
_ENTRIES = 1 << 21  # Of the logits that are in memory at once
_SPARE = 1.1  # For outputs that grow when the readout is rounded


def margins(contexts: Contexts, readout: Array, unembedding: Array) -> tuple[float, float]:
    """Return the least margin of some positions, where outputs are exact, and its share.

    All numbers are integers below 2^53, so that float64 is exact.

    The share is what rounding may take of a margin, at most; 0 where logits are exact.

    readout: the rows of U that the positions meet (K, k);  unembedding: O (V + 1, k)
    """
    bound = _gamma(unembedding.shape[1])
    least, share = np.inf, 0.0
    largest = max(len(unembedding), len(readout))
    for part in row_chunks(len(contexts.following), largest, _ENTRIES):
        follows = contexts.following[part]
        outputs = contexts.rows[part].astype(np.float64) @ readout
        logits = outputs @ unembedding.T
        sizes = np.abs(outputs) @ np.abs(unembedding).T
        at = np.arange(len(follows))
        margin = logits[at, follows][:, np.newaxis] - logits
        error = bound * (sizes + sizes[at, follows][:, np.newaxis]) * _MORE
        if sizes.max() < EXACT:
            error[:] = 0.0
        margin[at, follows] = np.inf
        least = min(least, float(margin.min()))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(margin > 0.0, error / margin, np.inf)
        share = max(share, float(shares.max()))
    return least, share


def least_share(plan: CompactPlan) -> float:
    """Return the share of the spacing that rounding of logits may take, for outputs at points."""
    size = float((3.0 * plan.centred.astype(np.float64) ** 2).sum(axis=1).max())
    return _gamma(plan.points.shape[1] + 1) * size


def share_of(plan: CompactPlan, outputs: Array) -> float:
    """Return the same for outputs (R, k), in units of the spacing."""
    sizes = np.abs(plan.centred).astype(np.float64)
    reach = 2.0 * np.abs(outputs - plan.shift) @ sizes.T + (sizes**2).sum(axis=1)
    return _SPARE * _gamma(plan.points.shape[1] + 1) * float(reach.max())


def _gamma(terms: int) -> float:
    """Return gamma_n = n u / (1 - n u), the relative error of a sum of n products."""
    return terms * _UNIT / (1.0 - terms * _UNIT)


# A compact decoder from its parts: tokens, heads and integers become the arrays of a `Decoder`.


class Part(NamedTuple):
    """Positions that are one system of equations, and their integers."""

    seen: Contexts  # contexts; the first entry of each row is 1
    entries: Array  # of U for the columns of Z (K, k)
    condition: float  # of Z, an estimate


def assembled(
    plan: CompactPlan, heads: tuple[Array, Array], readout: Array, parts: list[Part], spacing: int
) -> Decoder:
    """Return the decoder, with its exact margins in the record.

    heads: W_Q and W_K (H, d, 1);  readout: U without what moves the points ((H + 1) d, k)
    parts: what all of its positions meet;  spacing: S
    """
    layout, unembedding = plan.layout, _unembedding(plan, spacing)
    whole = _moved(readout, plan, spacing)
    least, share = np.inf, 0.0
    for part in parts:
        margin, taken = margins(part.seen, _moved(part.entries, plan, spacing), unembedding)
        least, share = min(least, margin), max(share, taken)
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


def _moved(entries: Array, plan: CompactPlan, spacing: int) -> Array:
    """Return entries of U (K, k) with what moves the points and the last column (K, k + 1)."""
    moved = np.pad(entries, ((0, 0), (0, 1)))
    moved[0] += np.append(-plan.shift * float(spacing), 1.0)
    return moved


def _unembedding(plan: CompactPlan, spacing: int) -> Array:
    """Return O (V + 1, k + 1): 2 c_v and -|c_v|^2 S."""
    points = plan.centred.astype(np.float64)
    squares = (points**2).sum(axis=1, keepdims=True) * spacing
    return np.concatenate([2.0 * points, 0.0 - squares], axis=1) + 0.0  # there is one zero


# Ratio of pivots: equations that are independent have some tens, others 10^4.
_DEPENDENT = 1e3


class _Solved(NamedTuple):
    """Integers of all outputs (K, k), their spacing S, and the condition of the system."""

    entries: Array
    spacing: int
    condition: float


def _solved(
    plan: CompactPlan,
    rows: AnyArray,
    cheap: Array,
    cells: list[Cells],
    *,
    moved: Array | float = 0.0,
    spacing: int | None = None,
) -> _Solved | None:
    """Solve for all outputs, and round; None where there is no such readout.

    Also None where all positions have equations, and these depend.

    moved: what the rest of the readout adds to outputs (N, k), in units of the spacing
    spacing: S; None for the least that is found
    """
    real: list[Shortest] = []
    for number, each in enumerate(cells):
        report("solve", number, len(cells))
        one = shortest(rows, cheap, each)
        if one is None or (plan.every and one.solved.pivots > _DEPENDENT):
            return None
        real.append(one)
    report("round", 0, 1)
    outputs = np.stack([one.solved.outputs for one in real], axis=1) + moved
    found = rounded(real, share_of(plan, outputs), spacing)
    return None if found is None else _Solved(*found, max(one.solved.pivots for one in real))


# Texts whose positions are one system of equations, with the skip connection and all heads.


_CONSTANT = 100  # How much cheaper the entries of the constant and of "not the most frequent" are
_CODE = 5  # How much cheaper those of the token's own code are
_HOPELESS = 2.0  # Times the format: more heads do not make entries so much smaller
_MOST = 4  # Columns for each position, at most


def build_dense(plan: CompactPlan) -> Decoder | None:
    """Build a decoder with the fewest heads that are tried; None where there is no such readout."""
    following = following_of(plan.text, plan.wanted)
    wished = plan.columns_for(plan.cells(following))
    each = plan.layout.width - 1
    heads = max(1, math.ceil(wished / each) - 1)
    for _ in range(ATTEMPTS):
        built = _with_heads(plan, heads)
        if built is not None and built.record.share < 1.0:
            size = float(np.abs(built.layer.readout_weights).max())
            if size < plan.largest:
                return built
            if size >= _HOPELESS * plan.largest:
                return None
        heads = max(heads + 1, math.ceil(heads * MORE_HEADS))
        if heads > _MOST * len(following) / each + _MOST:
            break
    return None


def _with_heads(plan: CompactPlan, heads: int) -> Decoder | None:
    """A decoder with so many heads; None where there is no such readout."""
    weights = plan.layout.heads(heads)
    seen = contexts(plan, weights)
    cheap = np.ones(seen.rows.shape[1])
    if not plan.every:
        cheap[: 1 + plan.layout.code] = _CODE
        cheap[:2] = _CONSTANT
    found = _solved(plan, seen.rows, cheap, plan.cells(seen.following))
    if found is None:
        return None
    readout = np.zeros(((heads + 1) * plan.layout.width, found.entries.shape[1]))
    readout[columns(plan.layout, heads)] = found.entries
    part = Part(seen, found.entries, found.condition)
    return assembled(plan, weights, readout, [part], found.spacing)


# Long texts, block by block: each block of positions has heads and a readout of its own.
#
# The heads of a block come in pairs, which add exactly zero outside of it (Proposition 21.6). So
# each block is a system of its own, and memory is that of a block. The skip connection is part of
# the first one: at the first position of a text a pair reads one token twice.


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


def build_blocks(plan: CompactPlan) -> Decoder | None:
    """Build a decoder block by block; None where there is no such readout."""
    guess = _built(plan, 0, 0, None, None)
    if guess is None:
        return None
    for room in _ROOMS:
        built = _at(plan, math.ceil(room * guess[1].spacing) + 1)
        if built is not None:
            return built
    return None


def _at(plan: CompactPlan, spacing: int) -> Decoder | None:
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


def _together(plan: CompactPlan, found: list[_Block], skip: _Skip) -> Decoder | None:
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
    plan: CompactPlan, number: int, first: int, skip: _Skip | None, spacing: int | None
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
        cheap = np.ones(rows.shape[1])
        found = _solved(plan, rows, cheap, cells, moved=moved, spacing=spacing)
        if found is not None:
            entries = found.entries
            if skip is None:
                skip = _Skip(entries[: own.shape[1]], found.spacing)
                entries = entries[own.shape[1] :]
            ones = np.ones((len(rows), 1), np.int8)
            seen = Contexts(np.concatenate([ones, own, met], axis=1), following)
            constant = np.zeros((1, entries.shape[1]))
            together = np.concatenate([constant, skip.entries, entries])
            return _Block(heads, entries, Part(seen, together, found.condition)), skip
        pairs = max(pairs + 1, math.ceil(pairs * MORE_HEADS))
    return None


def _positions(plan: CompactPlan, number: int) -> Integers:
    """Places of the contexts of a block."""
    chosen: Integers = plan.wanted[_places(plan, plan.wanted) >> plan.layout.period == number]
    return chosen


def _places(plan: CompactPlan, wanted: Integers) -> Integers:
    """The positions within their texts."""
    starts = plan.text.starts
    places: Integers = wanted - starts[np.searchsorted(starts, wanted, side="right") - 1]
    return places


def _own(plan: CompactPlan, wanted: Integers) -> Signs:
    """The tokens themselves, without the constant and the digits of blocks (R, d')."""
    layout, text = plan.layout, plan.text
    tokens = plan.embedding[text.ids[wanted]]
    tokens += layout.positions()[_places(plan, wanted)]
    return tokens[:, 1 : layout.width - layout.blocks].astype(np.int8)


def _met(plan: CompactPlan, wanted: Integers, heads: tuple[Array, Array]) -> Signs:
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


# `build_decoder(text, parameters="few")`: a decoder of few numbers, most of them short integers.
#
# Tokens are signs, and each head reads one token exactly (Proposition 21.2), so that Z is a matrix
# of signs, without a softmax (`compact_tokens`). The readout has few outputs: tokens are
# points of a lattice, and the nearest one to the output is the next token (`Cells`). The shortest
# real readout is found from Gram matrices that are exact in float32 (`shortest`), and rounded to
# integers (`rounded`). Long texts are built block by block (`build_blocks`).
#
# The unembedding has k + 1 columns for k outputs. The last column of U is a single 1, which takes
# the constant entry of the token: it adds -|c_v|^2 S to the logits.
#
# Source: Propositions 21.2 to 21.6 (proofs/21); the construction is ours.


LARGEST = 6144  # Positions of one system of equations; with more of them there are blocks
BLOCK = 11  # Binary digits of a position within a block
# Binary digits of the entries of U; float32 has all integers of 24.
_FORMATS = {"int8": 7, "int16": 15, "float32": 24}
# Of the spacing, as room for what float32 rounds; with more outputs less is needed.
_LARGEST_SHARE = 0.15
_MOST_OUTPUTS = 8
_WINDOW = 8  # Tokens that a position sees by default: readouts are shortest for 8
_LARGEST_WINDOW = 256


def build_few(
    text: Text,
    seed: int,
    *,
    window: int = _WINDOW,
    outputs: int | None = None,
    readout: str = "int16",
    every: bool = False,
) -> Decoder:
    """Build a decoder of few numbers, with the fewest outputs that work if none are given."""
    require_positive(window=window)
    if not 1 < window <= _LARGEST_WINDOW or window & (window - 1):
        raise ParameterError(
            f"window={window} is not a power of two from 2 to {_LARGEST_WINDOW}",
            witness=window,
            suggestion=f"window={_WINDOW}, the default",
        )
    if outputs is not None:
        require_positive(outputs=outputs)
    require_known("readout", readout, _FORMATS)
    wanted = text.different(window)
    order = order_of(following_of(text, wanted), text.end + 1)
    long = len(wanted) > LARGEST and text.longest > 1 << BLOCK
    layout = layout_of(text, window, seed, block=BLOCK if long else None)
    build = build_blocks if long else build_dense
    counts = [outputs] if outputs else range(1, _MOST_OUTPUTS + 1)
    for count in counts:
        points, largest = points_of(order, count), 2.0 ** _FORMATS[readout]
        plan = CompactPlan(text, wanted, order, layout, points, bool(every), largest)
        if least_share(plan) > _LARGEST_SHARE:
            continue
        built = build(plan)
        if built is not None:
            return built
    raise PrecisionError(
        f"no readout of {readout} with {counts[-1]} outputs gives every next token",
        witness=(readout, counts[-1]),
        suggestion="outputs=None, readout='float32' or another seed=",
    )
