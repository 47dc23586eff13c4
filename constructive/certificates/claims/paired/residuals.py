"""`|f - y|` on every example, with bounds of the errors of that."""

from dataclasses import dataclass

import numpy as np

from constructive.certificates.claims.paired.entries import Entries, read
from constructive.certificates.claims.paired.examples import Examples, Integers, UndecidedError
from constructive.exact.directed import UNIT, exponent_of, gamma, up
from constructive.layers.attention import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Residuals:
    """`|f - y| 2^-c` by position, as float64 has it, and how far that is off.

    Attributes:
        evaluated: (T, d_out)
        slack: (T, d_out), bounds the errors of these
        exponent: c, for which targets, and readouts of contexts of size one, are below 1
    """

    evaluated: Array
    slack: Array
    exponent: int

    @property
    def bounds(self) -> Array:
        """Upper bounds of `|f - y| 2^-c`, of shape (T, d_out)."""
        return up(self.evaluated + self.slack)


def residuals_of(examples: Examples, entries: Entries, memorizer: Memorizer) -> Residuals:
    """Evaluate f - y at every position, at size one."""
    layer, outputs = memorizer.layer.leading, examples.dataset.target_dim
    pairs, width = len(examples.stops), examples.queries.shape[1]
    readouts = _readouts(layer)
    if readouts[2 * pairs :].any():
        raise UndecidedError("the last head belongs to no pair, and has a readout")
    targets = examples.dataset.target_matrix[examples.order].astype(np.float64)
    exponent = max(exponent_of(targets), exponent_of(readouts) + examples.exponent)
    # What is lost here, 2^-1075 of an entry, is covered as what underflows below.
    targets = np.ldexp(targets, -exponent)
    readouts = np.ldexp(readouts, examples.exponent - exponent)
    first = readouts[: 2 * pairs : 2]
    both = first + readouts[1 : 2 * pairs : 2]
    result, size, slack = np.zeros((3, *targets.shape))
    owner = examples.owner

    def add(positions: Integers, x: Array, radius: Array, u: Array) -> None:
        for column in range(outputs):
            used = u[:, :, column]
            terms = np.einsum("kd,kd->k", x, used)
            sizes = np.einsum("kd,kd->k", np.abs(x), np.abs(used))
            spread = up(radius * up(np.abs(used).sum(axis=1)))
            for total, part in ((result, terms), (size, sizes), (slack, spread)):
                total[:, column] += np.bincount(positions, part, len(total))

    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        add(np.arange(len(owner)), entries.own, entries.own_error, first[owner])
        add(entries.positions, entries.coupled, entries.coupled_error, first[entries.pairs])
        unlike = np.flatnonzero(both.any(axis=(1, 2)))
        if len(unlike) > 1:
            raise UndecidedError("the readouts of more than one pair do not cancel")
        for pair in unlike:
            positions = np.arange(len(targets))
            second, radius = read(examples, positions, np.full(len(positions), pair), (0.0, 1.0))
            everywhere = np.broadcast_to(both[pair], (len(positions), *both[pair].shape))
            add(positions, second, radius, everywhere)
        per_head = up(np.abs(first).sum(axis=(0, 1)))
        rounded = up(2.0 * UNIT * np.abs(both).sum(axis=(0, 1)))
        slack += examples.tail[:, np.newaxis] * per_head
        slack += examples.largest[:, np.newaxis] * rounded
        terms = width + 8 + int(np.bincount(entries.positions, minlength=1).max(initial=0))
        residual = np.abs(result - targets)
        return Residuals(residual, up(slack + up(gamma(terms) * up(size + residual))), exponent)


def _readouts(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly."""
    identity = np.eye(layer.value_dim)
    copies = np.tile(identity, (layer.num_heads, 1)), identity[:, : layer.target_dim]
    stored = layer.output_weights, layer.readout_weights
    if not all(map(np.array_equal, stored, copies)):
        raise UndecidedError("W_O or W_D do more than copy; fold them into W_V")
    readouts: Array = layer.value_weights[:, :, : layer.target_dim].astype(np.float64)
    return readouts
