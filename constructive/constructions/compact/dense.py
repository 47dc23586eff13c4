"""Texts whose positions are one system of equations, with the skip connection and all heads."""

import math

import numpy as np

from constructive.constructions.compact.assemble import Part, assembled
from constructive.constructions.compact.contexts import columns, contexts, following_of
from constructive.constructions.compact.exact import share_of
from constructive.constructions.compact.plan import ATTEMPTS, MORE_HEADS, Plan
from constructive.constructions.compact.readout import Shortest, rounded, shortest
from constructive.layers.decoder import Decoder
from constructive.support.progress import report

_CONSTANT = 100  # How much cheaper the entries of the constant and of "not the most frequent" are
_CODE = 5  # How much cheaper those of the token's own code are
_HOPELESS = 2.0  # Times the format: more heads do not make entries so much smaller
_MOST = 4  # Columns for each position, at most


def build_dense(plan: Plan) -> Decoder | None:
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


def _with_heads(plan: Plan, heads: int) -> Decoder | None:
    """A decoder with so many heads; None where there is no such readout."""
    weights = plan.layout.heads(heads)
    seen = contexts(plan, weights)
    cells = plan.cells(seen.following)
    cheap = np.ones(seen.rows.shape[1])
    if not plan.every:
        cheap[: 1 + plan.layout.code] = _CODE
        cheap[:2] = _CONSTANT
    real: list[Shortest] = []
    for number, each in enumerate(cells):
        report("solve", number, len(cells))
        one = shortest(seen.rows, cheap, each)
        if one is None:
            return None
        real.append(one)
    report("round", 0, 1)
    outputs = np.stack([one.solved.outputs for one in real], axis=1)
    found = rounded(real, share_of(plan, outputs))
    if found is None:
        return None
    entries, spacing = found
    readout = np.zeros(((heads + 1) * plan.layout.width, entries.shape[1]))
    readout[columns(plan.layout, heads)] = entries
    condition = max(one.solved.pivots for one in real)
    part = Part(seen, entries, condition)
    return assembled(plan, weights, readout, [part], spacing)
