"""|f - y| on every example, with bounds of the errors of that."""

import numpy as np

from constructive.attention import AttentionLayer
from constructive.claims.paired.entries import Entries, read
from constructive.claims.paired.examples import Examples, Integers, UndecidedError, layer_of
from constructive.dataset import Array
from constructive.exact.compensated import SLACK, TINY, UNIT, gamma
from constructive.memorizer import Memorizer


def residuals_of(examples: Examples, entries: Entries, memorizer: Memorizer) -> tuple[Array, Array]:
    """|f - y| (T, d_out) as evaluated, and bounds of the errors of that, by position."""
    layer, outputs = layer_of(memorizer), examples.dataset.target_dim
    pairs, width = len(examples.stops), examples.queries.shape[1]
    readouts = _readouts(layer)
    if np.abs(readouts[2 * pairs :]).any():
        raise UndecidedError("the last head belongs to no pair, and has a readout")
    first = readouts[: 2 * pairs : 2]
    both = first + readouts[1 : 2 * pairs : 2]
    targets = examples.dataset.target_matrix[examples.order].astype(np.float64)
    result, size, slack = np.zeros((3, *targets.shape))
    owner = examples.owner

    def add(positions: Integers, x: Array, radius: Array, u: Array) -> None:
        for column in range(outputs):
            used = u[:, :, column]
            terms = np.einsum("kd,kd->k", x, used)
            sizes = np.einsum("kd,kd->k", np.abs(x), np.abs(used))
            spread = radius * np.abs(used).sum(axis=1) * SLACK
            for total, part in ((result, terms), (size, sizes), (slack, spread)):
                total[:, column] += np.bincount(positions, part, len(total))

    add(np.arange(len(owner)), entries.own, entries.own_error, first[owner])
    add(entries.positions, entries.coupled, entries.coupled_error, first[entries.pairs])
    unlike = np.flatnonzero(np.abs(both).any(axis=(1, 2)))
    if len(unlike) > 1:
        raise UndecidedError("the readouts of more than one pair do not cancel")
    for pair in unlike:
        positions = np.arange(len(targets))
        second, radius = read(examples, positions, np.full(len(positions), pair), (0.0, 1.0))
        add(
            positions,
            second,
            radius,
            np.broadcast_to(both[pair], (len(positions), *both[pair].shape)),
        )
    per_head = np.abs(first).sum(axis=(0, 1)) * SLACK
    rounded = 2.0 * UNIT * np.abs(both).sum(axis=(0, 1)) * SLACK
    slack += examples.tail[:, np.newaxis] * per_head
    slack += examples.largest[:, np.newaxis] * rounded
    terms = width + 8 + int(np.bincount(entries.positions, minlength=1).max(initial=0))
    residual = np.abs(result - targets)
    slack += gamma(terms) * (size + residual) * SLACK + TINY
    return residual, slack * SLACK


def _readouts(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly."""
    identity = np.eye(layer.value_dim)
    copies = np.tile(identity, (layer.num_heads, 1)), identity[:, : layer.target_dim]
    stored = layer.output_weights, layer.readout_weights
    if not all(map(np.array_equal, stored, copies)):
        raise UndecidedError("W_O or W_D do more than copy; fold them into W_V")
    readouts: Array = layer.value_weights[:, :, : layer.target_dim].astype(np.float64)
    return readouts
