"""A readout of integers for one output: the shortest real one, rounded at the least spacing."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky

from constructive.constructions.compact.cells import Cells
from constructive.constructions.compact.pivoting import Solved, solve_cells
from constructive.constructions.compact.rounding import nearest_plane, polished
from constructive.support.arrays import Array

_RIDGE = 1e-9  # Of the equations, relative to K: G is exact
_METRIC_RIDGE = 1e-3  # Of the metric of rounding, relative to K
_LEAST_WEIGHT = 1e-4  # In that metric, of a position that is far from its bound
_SPACINGS = 8  # Spacings that are tried at once
_FINER = 0.96  # Ratio of spacings when entries are changed singly
_PASSES = 3  # Of the search for the spacing; the distance of those that are tried shrinks
_LARGEST = 1 << 14  # Spacing that is tried
_SPREAD = 0.2  # Errors of the nearest plane are about this, times sqrt(K)


class Shortest(NamedTuple):
    """The shortest real readout of one output, in units of the spacing."""

    rows: npt.NDArray[Any]  # Z, integers (R, K)
    cells: Cells  # of the output
    entries: Array  # u (K,)
    solved: Solved  # how it was found


def shortest(rows: npt.NDArray[Any], cheap: Array, cells: Cells) -> Shortest | None:
    """Return the shortest readout; None where there is none, or pivoting does not end.

    rows: Z, integers (R, K)
    cheap: positive integers: the entry of a column with a larger one costs less (K,)
    """
    scaled = rows.astype(np.float32) * cheap.astype(np.float32)
    # Sums of integers below 2^24 are exact in float32, and numpy computes half of these.
    product = (scaled @ scaled.T).astype(np.float64)
    columns = scaled.shape[1]
    solved = solve_cells(product, cells, columns, _RIDGE * columns)
    if solved is None or not np.isfinite(solved.multipliers).all():
        return None
    return Shortest(rows, cells, (solved.multipliers @ scaled) * cheap, solved)


class _Rounding:
    """Integers near a readout, for any spacing of which `share` is room, below 1/2.

    Raises LinAlgError where the metric is singular.
    """

    def __init__(self, real: Shortest, share: float) -> None:
        self._real, self._share = real, share
        distance = np.maximum(real.cells.room(real.solved.outputs, 1.0) - 0.5, 0.0)
        weights = np.maximum((0.5 / (0.5 + distance)) ** 2, _LEAST_WEIGHT)
        weights[real.solved.active] = 1.0
        self._rows = real.rows.astype(np.float32)
        self._factor = _metric(self._rows, weights, _METRIC_RIDGE * len(real.entries))

    def least(self) -> int | None:
        """Return the least spacing at which the nearest plane leaves room; None if there is none.

        It is a first guess: changing single entries may go below it.
        """
        about = _SPREAD * len(self._real.entries) ** 0.5
        spacings = np.geomspace(max(2.0, about), 64.0 * about + 64.0, _SPACINGS)
        best = None
        for _ in range(_PASSES):
            spacings = np.unique(np.rint(spacings))
            rounded = nearest_plane(self._factor, self._real.entries[:, np.newaxis] * spacings)
            outputs = (self._rows @ rounded.astype(np.float32)).astype(np.float64)
            room = self._real.cells.room(outputs, spacings)
            fits = np.flatnonzero((room >= self._share * spacings).all(axis=0))
            if not len(fits):
                break
            best = int(spacings[fits[0]])
            below = spacings[fits[0] - 1] if fits[0] else max(1.0, best / 2)
            spacings = np.geomspace(below, best, _SPACINGS)
        return best

    def at(self, spacing: int) -> Array | None:
        """Return the integers of one spacing (K,); None where they leave a cell."""
        rounded = nearest_plane(self._factor, self._real.entries[:, np.newaxis] * spacing)[:, 0]
        needed = self._share * spacing
        return polished(self._rows, rounded, self._real.cells, spacing, needed)


def _metric(rows: Array, weights: Array, ridge: float) -> Array:
    """Return the upper triangular R (K, K) with R^T R = Z^T diag(weights) Z + ridge I, in float64.

    ridge: more than what float32 rounds in the product
    """
    floats = rows * np.sqrt(weights).astype(np.float32)[:, np.newaxis]
    product = (floats.T @ floats).astype(np.float64)
    product[np.diag_indices(len(product))] += ridge
    factor: Array = cholesky(product, lower=False, overwrite_a=True, check_finite=False)
    return factor


def rounded(
    real: list[Shortest], share: float, spacing: int | None = None
) -> tuple[Array, int] | None:
    """Return the integers (K, k) of several outputs, and their spacing S; None if there are none.

    real: the shortest readout of each output
    share: of the spacing that each position needs as room, below 1/2
    spacing: S; None for the least that is found
    """
    try:
        roundings = [_Rounding(each, share) for each in real]
    except LinAlgError:
        return None
    return _finest(roundings) if spacing is None else _at(roundings, spacing)


def _finest(roundings: list[_Rounding]) -> tuple[Array, int] | None:
    """The integers of all outputs at the least spacing that is found."""
    guesses = [rounding.least() for rounding in roundings]
    if None in guesses:
        return None
    spacing = max(guess for guess in guesses if guess is not None)
    best = None
    while best is None and spacing <= _LARGEST:
        best = _at(roundings, spacing)
        spacing = max(spacing + 1, round(spacing / _FINER))
    while best is not None and best[1] > 1:
        finer = _at(roundings, min(best[1] - 1, round(best[1] * _FINER)))
        if finer is None:
            break
        best = finer
    return best


def _at(roundings: list[_Rounding], spacing: int) -> tuple[Array, int] | None:
    """The integers of all outputs at one spacing; None where one leaves a cell."""
    columns = []
    for rounding in roundings:
        column = rounding.at(spacing)
        if column is None:
            return None
        columns.append(column)
    return np.stack(columns, axis=1), spacing
