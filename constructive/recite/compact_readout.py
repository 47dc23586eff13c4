"""A readout of integers for one output: the shortest real one, rounded at the least spacing."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from constructive.recite.causal import Signs
from constructive.recite.compact_tokens import Cells
from constructive.support.arrays import Array, Booleans

# The shortest readout with all outputs in their cells: block principal pivoting.
#
# Minimize |u|^2 subject to lower <= Z u <= upper. The solution is u = Z^T a, where a is 0 at
# positions whose bounds are slack, not negative where the lower bound is active, and not positive
# where the upper one is. A step solves the equations of the active positions by a Cholesky factor
# of their part of G = Z Z^T; then positions change sides where they break one of these conditions.
#
# Source: Kostreva 1978 (block principal pivoting), Judice and Pires 1994.


_FACTORS = 20  # Cholesky factors, at most: with enough heads there are 8 to 14
_TOLERANCE = 1e-6  # By which outputs may miss a bound, in units of the spacing


class CellSolution(NamedTuple):
    """A solution."""

    multipliers: Array  # a (N,)
    outputs: Array  # f = Z u (N,)
    active: Booleans  # which positions have an active bound (N,), booleans
    pivots: float  # the ratio of the largest pivot of the last factor and the smallest one


def solve_cells(product: Array, cells: Cells, columns: int, ridge: float) -> CellSolution | None:
    """Return the shortest solution; None where pivoting does not end, or G is singular.

    product: G, float64 (N, N);  columns: K, the rank of G at most
    ridge: what is added to the diagonal of the active part of G
    """
    lower, upper = cells.lower, cells.upper
    at_lower = (lower > 0.0) | cells.equations
    at_upper = (upper < 0.0) & ~at_lower
    fixed = cells.equations
    for _ in range(_FACTORS):
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
            return CellSolution(multipliers, outputs, low | high, ratio)
        at_lower, at_upper = low, high
    return None


# Rounding a readout to integers: to the nearest plane, and then by single steps.
#
# Let R^T R = Z^T W Z + ridge, with weights W of positions. Entries are rounded one after the
# other, the last one first, and the error of those behind is compensated by those before as well
# as real numbers could do it (Babai's nearest plane; the order of GPTQ). This makes the weighted
# mean square of all errors small. What has to be small is the largest one: so single entries are
# changed by 1 as long as this lowers the sum of high powers of the errors.
#
# Source: Babai 1986.


_BLOCK = 64  # Entries whose errors are carried on together
_POWER = 10  # Of errors in units of what they may be; the largest ones count
_TRIED = 8  # Entries that are tried before a step is given up
_STEPS = 400
_SMALL = 1e-3  # Positions with less than this part of the largest slope do not choose a step


def nearest_plane(factor: Array, readouts: Array) -> Array:
    """Return integers near readouts (K, m), in the metric |R (q - u)|.

    factor: R, upper triangular (K, K)
    """
    rounded = np.empty_like(readouts)
    carried = np.zeros_like(readouts)  # R (q - u) of the entries behind
    for stop in range(len(readouts), 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        block = factor[start:stop, start:stop]
        errors = np.zeros((stop - start, readouts.shape[1]))
        for row in range(stop - start - 1, -1, -1):
            behind = carried[start + row] + block[row, row + 1 :] @ errors[row + 1 :]
            wanted = readouts[start + row] - behind / block[row, row]
            rounded[start + row] = np.rint(wanted)
            errors[row] = rounded[start + row] - readouts[start + row]
        carried[:start] += factor[:start, start:stop] @ errors
    return rounded


def polished(
    rows: Array, readout: Array, cells: Cells, spacing: float, needed: float
) -> Array | None:
    """Return integers (K,) near those given, with the needed room in all cells of the spacing.

    rows: Z, float32 (N, K).  None where single steps do not get there.
    """
    readout, outputs = readout.copy(), (rows @ readout.astype(np.float32)).astype(np.float64)
    allowed = spacing / 2 - needed
    low, high = cells.lower * spacing, cells.upper * spacing
    errors = _errors(outputs, low, high) / allowed
    loss = (np.abs(errors) ** _POWER).sum()
    for _ in range(_STEPS):
        if np.abs(errors).max() <= 1.0:
            return readout
        slopes = np.sign(errors) * np.abs(errors) ** (_POWER - 1)
        some = np.flatnonzero(np.abs(slopes) > _SMALL * np.abs(slopes).max())
        gains = slopes[some].astype(np.float32) @ rows[some]
        for entry in np.argsort(-np.abs(gains), kind="stable")[:_TRIED]:
            step = -float(np.sign(gains[entry]))
            moved = outputs + step * rows[:, entry]
            changed = _errors(moved, low, high) / allowed
            if (less := (np.abs(changed) ** _POWER).sum()) < loss:
                outputs, errors, loss = moved, changed, less
                readout[entry] += step
                break
        else:
            return None
    return None


def _errors(outputs: Array, low: Array, high: Array) -> Array:
    """By how much outputs leave their bounds, negative below."""
    errors: Array = np.maximum(outputs - high, 0.0) - np.maximum(low - outputs, 0.0)
    return errors


_RIDGE = 1e-9  # Of the equations, relative to K: G is exact
_METRIC_RIDGE = 1e-3  # Of the metric of rounding, relative to K
_LEAST_WEIGHT = 1e-4  # In that metric, of a position that is far from its bound
_SPACINGS = 8  # Spacings that are tried at once
_FINER = 0.96  # Ratio of spacings when entries are changed singly
_PASSES = 3  # Of the search for the spacing; the distance of those that are tried shrinks
_SPREAD = 0.2  # Errors of the nearest plane are about this, times sqrt(K)


class Shortest(NamedTuple):
    """The shortest real readout of one output, in units of the spacing."""

    rows: Signs  # Z (R, K)
    cells: Cells  # of the output
    entries: Array  # u (K,)
    solved: CellSolution  # how it was found


def shortest(rows: Signs, cheap: Array, cells: Cells) -> Shortest | None:
    """Return the shortest readout; None where there is none, or pivoting does not end.

    rows: Z (R, K)
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


def rounded(real: list[Shortest], share: float) -> tuple[Array, int] | None:
    """Return the integers (K, k) of several outputs at the least spacing S that is found, and S.

    None if there are none.

    real: the shortest readout of each output
    share: of the spacing that each position needs as room, below 1/2
    """
    try:
        roundings = [_Rounding(each, share) for each in real]
    except LinAlgError:
        return None
    guesses = [rounding.least() for rounding in roundings]
    if None in guesses:
        return None
    best = _at(roundings, max(guess for guess in guesses if guess is not None))
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
