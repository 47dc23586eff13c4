"""A readout of integers for one output: the shortest real one, rounded at the least spacing.

A spacing S has to leave room: an output is a sum of integers and exact in float32, but the logits
2 c f - c^2 S may be rounded. With k outputs they have k + 1 terms, so two of them are off by at
most 2 gamma_{k+1} max(2 |c f| + c^2 S) together (Proposition 21.3), and the room is half of this.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError

from constructive.constructions.compact.cells import Cells
from constructive.constructions.compact.gram import gram, metric
from constructive.constructions.compact.pivoting import Solved, solve_cells
from constructive.constructions.compact.rounding import nearest_plane, polished
from constructive.support.arrays import Array

_RIDGE = 1e-9
"""Of the equations, relative to K: G is exact."""
_METRIC_RIDGE = 1e-3
"""Of the metric of rounding, relative to K."""
_LEAST_WEIGHT = 1e-4
"""In that metric, of a position that is far from its bound."""
_SPACINGS = 8
"""Spacings that are tried at once."""
_FINER = 0.96
"""Ratio of spacings when entries are changed singly."""
_PASSES = 3
"""Of the search for the spacing; the distance of those that are tried shrinks."""
_LARGEST = 1 << 14
"""Spacing that is tried."""
_SPREAD = 0.2
"""Errors of the nearest plane are about this, times sqrt(K)."""


class Problem(NamedTuple):
    """What the readout of one output has to do.

    Attributes:
        rows: Z, integers (R, K)
        cheap: factors of columns, positive integers: the entry of a column with a larger one costs
            less (K,)
        cells: of the output
    """

    rows: npt.NDArray[Any]
    cheap: Array
    cells: Cells


class Shortest(NamedTuple):
    """The shortest real readout, in units of the spacing.

    Attributes:
        problem: that it solves
        entries: u (K,)
        solved: how it was found
    """

    problem: Problem
    entries: Array
    solved: Solved


def shortest(problem: Problem) -> Shortest | None:
    """Return the shortest readout; None where there is none, or pivoting does not end.

    Args:
        problem: rows and cells
    """
    scaled = problem.rows.astype(np.float32) * problem.cheap.astype(np.float32)
    columns = scaled.shape[1]
    solved = solve_cells(gram(scaled).astype(np.float64), problem.cells, columns, _RIDGE * columns)
    if solved is None or not np.isfinite(solved.multipliers).all():
        return None
    entries = (solved.multipliers @ scaled) * problem.cheap
    return Shortest(problem, entries, solved)


class Rounding:
    """Integers near a readout, for any spacing.

    Args:
        real: the shortest readout
        share: of the spacing that each position needs as room, below 1/2

    Raises:
        LinAlgError: where the metric is singular
    """

    def __init__(self, real: Shortest, share: float) -> None:
        self._real, self._share = real, share
        problem, solved = real.problem, real.solved
        distance = np.maximum(problem.cells.room(solved.outputs, 1.0) - 0.5, 0.0)
        weights = np.maximum((0.5 / (0.5 + distance)) ** 2, _LEAST_WEIGHT)
        weights[solved.active] = 1.0
        columns = len(real.entries)
        self._rows = problem.rows.astype(np.float32)
        self._factor = metric(problem.rows, weights, _METRIC_RIDGE * columns)

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
            room = self._real.problem.cells.room(outputs, spacings)
            fits = np.flatnonzero((room >= self._share * spacings).all(axis=0))
            if not len(fits):
                break
            best = int(spacings[fits[0]])
            below = spacings[fits[0] - 1] if fits[0] else max(1.0, best / 2)
            spacings = np.geomspace(below, best, _SPACINGS)
        return best

    def at(self, spacing: int) -> Array | None:
        """Return the integers of one spacing (K,); None where they leave a cell.

        Args:
            spacing: S
        """
        rounded = nearest_plane(self._factor, self._real.entries[:, np.newaxis] * spacing)[:, 0]
        needed = self._share * spacing
        return polished(self._rows, rounded, self._real.problem.cells, spacing, needed)


def rounded_together(real: list[Shortest], share: float) -> tuple[Array, int] | None:
    """Return the integers of several outputs with one spacing, the least that is found.

    Args:
        real: the shortest readout of each output
        share: of the spacing that each position needs as room, below 1/2

    Returns:
        (K, k) and S; None where there is no such spacing
    """
    try:
        roundings = [Rounding(each, share) for each in real]
    except LinAlgError:
        return None
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


def rounded_at(real: list[Shortest], share: float, spacing: int) -> tuple[Array, int] | None:
    """Return the integers of several outputs at one spacing; None where one leaves a cell.

    Args:
        real: the shortest readout of each output
        share: of the spacing that each position needs as room, below 1/2
        spacing: S
    """
    try:
        return _at([Rounding(each, share) for each in real], spacing)
    except LinAlgError:
        return None


def _at(roundings: list[Rounding], spacing: int) -> tuple[Array, int] | None:
    """The integers of all outputs at one spacing; None where one leaves a cell."""
    columns = []
    for rounding in roundings:
        column = rounding.at(spacing)
        if column is None:
            return None
        columns.append(column)
    return np.stack(columns, axis=1), spacing
