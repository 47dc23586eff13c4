"""Intervals of all outputs, a piece at a time."""

import numpy as np

from constructive.exact.float_model import nearest
from constructive.exact.kernel_model import KernelModel
from constructive.kernels.enclosure.averages import averages
from constructive.kernels.enclosure.inputs import Inputs
from constructive.kernels.enclosure.logits import LogitErrors
from constructive.kernels.enclosure.rows import pieces
from constructive.kernels.enclosure.weights import weights
from constructive.support.arrays import Array


def enclose(given: Inputs, model: KernelModel) -> tuple[Array, Array]:
    """Return bounds (B, H, T_q, d_v) of every admissible output; infinite in rows not judged."""
    batch, heads, queries, _ = given.q.shape
    groups, width = given.k.shape[1], given.v.shape[3]
    split, whole = (batch, groups, heads // groups), (batch, heads, queries, width)
    lower, upper = np.empty((*split, queries, width)), np.empty((*split, queries, width))
    of_logits = LogitErrors(given, model)
    for rows in pieces(given):
        center, distance = averages(
            rows, weights(rows, of_logits.of(rows), of_logits, model), model
        )
        # Rounding here is within what `averages` adds for our own.
        piece = (len(rows.q), split[2], -1, width)
        lower[rows.place] = (center - distance).reshape(piece)
        upper[rows.place] = (center + distance).reshape(piece)
    hidden = ~given.judged
    found = []
    for bounds, side in ((lower.reshape(whole), -1.0), (upper.reshape(whole), 1.0)):
        bounds[hidden] = side * np.inf
        found.append(_stored(bounds, model, side))
    return found[0], found[1]


def _stored(bounds: Array, model: KernelModel, side: float) -> Array:
    """Bounds in the format of outputs; what is nearly zero may have become zero."""
    found = nearest(bounds, model.output)
    if not model.output.gradual:
        found[(np.abs(bounds) < model.output.smallest) & (bounds * side < 0.0)] = 0.0
    return found
