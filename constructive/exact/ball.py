"""Matrices in ball arithmetic: every number comes with a proved bound on its error.

Precision is an argument, `prec` in bits, and is set only while an enclosure is computed.
"""

import numpy as np
from flint import arb, arb_mat

from constructive.exact.precision import working_precision
from constructive.support.arrays import Array


def exact_matrix(array: Array) -> arb_mat:
    """Return a float matrix as exact balls of radius 0."""
    rows, columns = array.shape
    return arb_mat(rows, columns, array.astype(np.float64, copy=False).ravel().tolist())


def solve(square: arb_mat, targets: arb_mat, prec: int) -> arb_mat | None:
    """Enclose the U with A U = Y, or None where the balls do not show that A is invertible."""
    with working_precision(prec):
        try:
            return square.solve(targets)
        except ZeroDivisionError:
            return None


def right_inverse_bound(z: arb_mat, prec: int) -> arb:
    """Bound the norm of Z^T (Z Z^T)^-1 from above; infinity where the balls are too wide.

    For every residual r some c has Z c = r, and entries of at most this bound times `max |r|`.
    """
    with working_precision(prec):
        transposed = z.transpose()
        try:
            inverse = transposed * (z * transposed).inv()
        except ZeroDivisionError:
            return arb.pos_inf()
        bound = arb(0)
        for row in inverse.tolist():
            bound = bound.max(sum((x.abs_upper() for x in row), arb(0)))
        return bound.upper()


def largest(matrix: arb_mat) -> arb:
    """Return an upper bound, exact, of the size of all entries; NaN if one is not bounded."""
    bound = arb(0)
    for entry in matrix.entries():
        size = entry.abs_upper()
        if not size.is_finite():
            return arb.nan()
        bound = bound.max(size)
    return bound
