"""Rounding a readout to integers: to the nearest plane, and then by single steps.

Let R^T R = Z^T W Z + ridge, with weights W of positions. Entries are rounded one after the other,
the last one first, and the error of those behind is compensated by those before as well as real
numbers could do it (Babai's nearest plane; the order of GPTQ). This makes the weighted mean square
of all errors small. What has to be small is the largest one: so single entries are changed by 1
as long as this lowers the sum of high powers of the errors.

Source: Babai 1986.
"""

import numpy as np

from constructive.constructions.compact.cells import Cells
from constructive.support.arrays import Array

_BLOCK = 64  # Entries whose errors are carried on together
_POWER = 10  # Of errors in units of what they may be; the largest ones count
_TRIED = 8  # Entries that are tried before a step is given up
_STEPS = 400
_SMALL = 1e-3  # Positions with less than this part of the largest slope do not choose a step


def nearest_plane(factor: Array, readouts: Array) -> Array:
    """Return integers near readouts (K, m), in the metric |R (q - u)|.

    factor: R, upper triangular (K, K)

    Example:
        >>> factor = np.array([[1.0, 0.9], [0.0, 0.1]])
        >>> nearest_plane(factor, np.array([[0.4], [0.6]])).tolist()  # 0.4 + 0.9 * 0.6 = 0.94
        [[0.0], [1.0]]
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
