"""Compact decoders: sign tokens, saturated heads, and a readout of short integers."""

import math
from typing import NamedTuple

import numpy as np

from constructive.recite.causal import EXACT, CausalLayer
from constructive.recite.compact_readout import Shortest, rounded, shortest
from constructive.recite.compact_tokens import (
    ATTEMPTS,
    MORE_HEADS,
    CompactPlan,
    Contexts,
    columns,
    contexts,
    layout_of,
    order_of,
    points_of,
)
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder, DecoderRecord, measured
from constructive.support.arrays import Array
from constructive.support.errors import (
    ParameterError,
    PrecisionError,
    require_known,
    require_memory,
    require_positive,
)
from constructive.support.work import report

# The room that a spacing S has to leave: half of what two logits 2 c f - c^2 S may be off by.
#
# Outputs are exact in float32, and logits are off by at most gamma_{k+1} times the sizes of their
# products (Proposition 21.3).


_UNIT = 2.0**-24  # Of rounding to nearest in float32
_SPARE = 1.1  # For outputs that grow when the readout is rounded


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


class RoundedReadout(NamedTuple):
    """Integers of all outputs (K, k), their spacing S, and the condition of the system."""

    entries: Array
    spacing: int
    condition: float


def assembled(
    plan: CompactPlan, heads: tuple[Array, Array], seen: Contexts, solved: RoundedReadout
) -> Decoder | None:
    """Return the decoder, with its exact margins in the record; None where outputs are not exact.

    heads: W_Q and W_K (H, d, 1);  seen: what all of its positions meet
    """
    layout, unembedding = plan.layout, _unembedding(plan, solved.spacing)
    moved = _moved(solved.entries, plan, solved.spacing)
    whole = np.zeros(((len(heads[0]) + 1) * layout.width, moved.shape[1]))
    whole[columns(layout, len(heads[0]))] = moved
    if np.abs(whole).sum(axis=0).max() >= EXACT:
        return None
    decoder = Decoder(
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
        DecoderRecord(layout.seed, len(seen.following), solved.condition, -math.inf, math.inf),
        longest=plan.text.longest,
    )
    return measured(decoder, plan.text, whole=True)


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


def _solved(plan: CompactPlan, seen: Contexts, cheap: Array) -> RoundedReadout | None:
    """Solve for all outputs, and round; None where there is no such readout.

    Also None where all positions have equations, and these depend.
    """
    cells = plan.cells(seen.following)
    real: list[Shortest] = []
    for number, each in enumerate(cells):
        report("solve", number, len(cells))
        one = shortest(seen.rows, cheap, each)
        if one is None or (plan.every and one.solved.pivots > _DEPENDENT):
            return None
        real.append(one)
    report("round", 0, 1)
    outputs = np.stack([one.solved.outputs for one in real], axis=1)
    found = rounded(real, share_of(plan, outputs))
    condition = max(one.solved.pivots for one in real)
    return None if found is None else RoundedReadout(*found, condition)


# The number of heads: all positions are one system of equations, with the skip connection.


_CONSTANT = 100  # How much cheaper the entries of the constant and of "not the most frequent" are
_CODE = 5  # How much cheaper those of the token's own code are
_HOPELESS = 2.0  # Times the format: more heads do not make entries so much smaller
_MOST = 4  # Columns for each position, at most


def build_dense(plan: CompactPlan) -> Decoder | None:
    """Build a decoder with the fewest heads that are tried; None where there is no such readout."""
    following = plan.text.following[plan.wanted]
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
    found = _solved(plan, seen, cheap)
    return None if found is None else assembled(plan, weights, seen, found)


# `build_decoder(text, parameters="few")`: a decoder of few numbers, most of them short integers.
#
# Tokens are signs, and each head reads one token exactly (Proposition 21.2), so that Z is a matrix
# of signs, without a softmax (`compact_tokens`). The readout has few outputs: tokens are
# points of a lattice, and the nearest one to the output is the next token (`Cells`). The shortest
# real readout is found from Gram matrices that are exact in float32 (`shortest`), and rounded to
# integers (`rounded`).
#
# The unembedding has k + 1 columns for k outputs. The last column of U is a single 1, which takes
# the constant entry of the token: it adds -|c_v|^2 S to the logits.
#
# Source: Propositions 21.2 to 21.5 (proofs/21); the construction is ours.


# Binary digits of the entries of U; float32 has all integers of 24.
_FORMATS = {"int8": 7, "int16": 15, "float32": 24}
# Of the spacing, as room for what float32 rounds; with more outputs less is needed.
_LARGEST_SHARE = 0.15
_MOST_OUTPUTS = 8
_WINDOW = 8  # Tokens that a position sees by default: readouts are shortest for 8
_LARGEST_WINDOW = 256
_BYTES = 30  # For each pair of positions, at the peak: measured at 4,652 positions


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
    order = order_of(text.following[wanted], text.end + 1)
    require_memory(
        f"the equations of {len(wanted):,} positions",
        _BYTES * len(wanted) ** 2,
        "a shorter text, as Text.first makes it",
    )
    layout = layout_of(text, window, seed)
    counts = [outputs] if outputs else range(1, _MOST_OUTPUTS + 1)
    for count in counts:
        points, largest = points_of(order, count), 2.0 ** _FORMATS[readout]
        plan = CompactPlan(text, wanted, order, layout, points, bool(every), largest)
        if least_share(plan) > _LARGEST_SHARE:
            continue
        built = build_dense(plan)
        if built is not None:
            return built
    raise PrecisionError(
        f"no readout of {readout} with {counts[-1]} outputs gives every next token",
        witness=(readout, counts[-1]),
        suggestion="outputs=None, readout='float32' or another seed=",
    )
