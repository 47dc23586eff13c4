"""The shortest readout with all outputs in their cells: block principal pivoting.

Minimize |u|^2 subject to lower <= Z u <= upper. The solution is u = Z^T a, where a is 0 at
positions whose bounds are slack, not negative where the lower bound is active, and not positive
where the upper one is. A step solves the equations of the active positions by a Cholesky factor of
their part of G = Z Z^T; then positions change sides where they break one of these conditions.

Source: Kostreva 1978 (block principal pivoting), Judice and Pires 1994.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from constructive.constructions.compact.cells import Cells
from constructive.support.arrays import Array, Booleans

_STEPS = 20  # Cholesky factors, at most: with enough heads there are 8 to 14
_TOLERANCE = 1e-6  # By which outputs may miss a bound, in units of the spacing


class Solved(NamedTuple):
    """A solution."""

    multipliers: Array  # a (N,)
    outputs: Array  # f = Z u (N,)
    active: Booleans  # which positions have an active bound (N,), booleans
    pivots: float  # the ratio of the largest pivot of the last factor and the smallest one


def solve_cells(product: Array, cells: Cells, columns: int, ridge: float) -> Solved | None:
    """Return the shortest solution; None where pivoting does not end, or G is singular.

    product: G, float64 (N, N);  columns: K, the rank of G at most
    ridge: what is added to the diagonal of the active part of G
    """
    lower, upper = cells.lower, cells.upper
    at_lower = (lower > 0.0) | cells.equations
    at_upper = (upper < 0.0) & ~at_lower
    fixed = cells.equations
    for _ in range(_STEPS):
        active = np.flatnonzero(at_lower | at_upper)
        if len(active) > columns:
            return None
        part = product[np.ix_(active, active)]
        part[np.diag_indices(len(active))] += ridge
        bound = np.where(at_upper[active], upper[active], lower[active])
        try:
            factor = cholesky(part, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        solution = cho_solve((factor, True), bound, check_finite=False)
        multipliers = np.zeros(len(lower))
        multipliers[active] = solution
        outputs = product @ multipliers
        free = ~(at_lower | at_upper)
        low = (at_lower & (fixed | (multipliers >= 0.0))) | (free & (outputs < lower - _TOLERANCE))
        high = (at_upper & (multipliers <= 0.0)) | (free & (outputs > upper + _TOLERANCE))
        if np.array_equal(low, at_lower) and np.array_equal(high, at_upper):
            pivots = np.diagonal(factor)
            ratio = float(pivots.max() / pivots.min()) if len(pivots) else 1.0
            return Solved(multipliers, outputs, low | high, ratio)
        at_lower, at_upper = low, high
    return None
