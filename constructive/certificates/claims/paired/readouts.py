"""Targets, and what heads do with what they read, at size one."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.certificates.claims.paired.examples import Examples, UndecidedError
from constructive.exact.upward import exponent_of, up
from constructive.layers.attention import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array, Integers, row_chunks

_MORE = "W_O or W_D do more than copy; fold them into W_V"


class Unlike(NamedTuple):
    """The pair whose readouts do not cancel: what its second head reads counts by itself."""

    pair: int  # p
    readouts: Array  # V 2^(a - c), of shape (P, d, d_out)


@dataclass(frozen=True, eq=False)
class Readouts:
    """Targets and readouts, times powers of two."""

    targets: Array  # y_t 2^-c (T, d_out), by position
    first: Array  # U_{2p} 2^(a - c), of shape (P, d, d_out)
    both: Array  # V_p = U_{2p} + U_{2p+1} (P, d, d_out), so scaled, and rounded if it is not zero
    unlike: Unlike | None  # the pair whose V_p is not zero; None if there is none
    exponent: int  # c, for which targets, and readouts of contexts of size one, are below 1

    @classmethod
    def of(cls, examples: Examples, memorizer: Memorizer) -> "Readouts":
        """Read targets and readouts in the order of the examples."""
        pairs = len(examples.stops)
        readouts = _effective(memorizer.layer.leading)
        if readouts[2 * pairs :].any():
            raise UndecidedError("the last head belongs to no pair, and has a readout")
        targets = examples.dataset.target_matrix[examples.order].astype(np.float64)
        exponent = max(exponent_of(targets), exponent_of(readouts) + examples.exponent)
        # What is lost here, 2^-1075 of an entry, is covered as what underflows below.
        targets = np.ldexp(targets, -exponent)
        readouts = np.ldexp(readouts, examples.exponent - exponent)
        first = readouts[: 2 * pairs : 2]
        both = first + readouts[1 : 2 * pairs : 2]
        unlike = [Unlike(int(pair), both) for pair in np.flatnonzero(both.any(axis=(1, 2)))]
        if len(unlike) > 1:
            raise UndecidedError("the readouts of more than one pair do not cancel")
        return cls(targets, first, both, next(iter(unlike), None), exponent)


class Terms(NamedTuple):
    """What is read times readouts, for k entries of Z: parts of f, and of bounds on its error."""

    values: Array  # x.u (k, d_out)
    sizes: Array  # `|x|.|u|` (k, d_out), for the rounding of these
    errors: Array  # (k, d_out), what they are off by for errors of x

    @classmethod
    def room(cls, count: int, outputs: int) -> "Terms":
        """Return arrays to be filled."""
        return cls(*np.empty((3, count, outputs)))

    @classmethod
    def of(cls, x: Array, radius: Array, readouts: Array, pairs: Integers) -> "Terms":
        """Multiply, a few entries at a time."""
        terms = cls.room(len(x), readouts.shape[2])
        for part in row_chunks(len(x), 8 * readouts[0].size):
            chosen = readouts[pairs[part]]
            for column in range(readouts.shape[2]):
                read, u = x[part], chosen[:, :, column]
                terms.values[part, column] = np.einsum("kd,kd->k", read, u)
                terms.sizes[part, column] = np.einsum("kd,kd->k", np.abs(read), np.abs(u))
                terms.errors[part, column] = up(radius[part] * up(np.abs(u).sum(axis=1)))
        return terms


def _effective(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly.

    A copy may have another sign, and be multiplied by a power of two (`layers.attention.drawn`).
    """
    heads, value_dim = layer.num_heads, layer.value_dim
    read, last = _copies(layer.readout_weights[np.newaxis].astype(np.float64))
    output = layer.output_weights.reshape(heads, value_dim, -1).astype(np.float64)
    rows, entries = _copies(output[:, :, read[0]])
    columns = rows[:, np.newaxis]
    values = np.take_along_axis(layer.value_weights, columns, axis=2).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is refused
        factors = (entries * last)[:, np.newaxis]
        readouts: Array = values * factors
        exact = _powers(factors) and np.array_equal(readouts / factors, values)
    if not exact:
        raise UndecidedError("W_V W_O W_D leaves the range of float64")
    return readouts


def _copies(matrices: Array) -> tuple[Integers, Array]:
    """The row of the one entry in each column of matrices (k, m, c), and the entry: (k, c)."""
    if not ((matrices != 0).sum(axis=1) == 1).all() or not _powers(matrices[matrices != 0]):
        raise UndecidedError(_MORE)
    return np.abs(matrices).argmax(axis=1), matrices.sum(axis=1)


def _powers(entries: Array) -> bool:
    """Return whether all are powers of two, with signs: neither zero nor infinite."""
    return bool((np.frexp(np.abs(entries))[0] == 0.5).all())  # noqa: PLR2004
