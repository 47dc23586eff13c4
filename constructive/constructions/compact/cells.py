"""Tokens as points of a lattice, and the cells in which an output gives a token.

The place of a token in the order of frequency is written with k digits in base b, k outputs. Token
v is the point c_v of its digits with a minus, and o_v = (2 S c_v, -|S c_v|^2) / S: so

    f . o_v = |f|^2 / S - |f - S c_v|^2 / S

and the largest logit is that of the nearest point. A digit is right where the output lies within
S / 2 of its point; and the first digit and the last one have half-lines for cells. So a position
that the most frequent token follows has inequalities, and no equation.
"""

import math
from typing import NamedTuple

import numpy as np

from constructive.layers.packed.packing import order_of as places_of
from constructive.support.arrays import Array, Booleans, Integers


class Cells(NamedTuple):
    """What each output has to be at each position, in units of the spacing."""

    centres: Array  # the point (N,)
    lower: Array  # the least output without rounding (N,), -inf if there is none
    upper: Array  # the largest one (N,), inf if there is none

    @property
    def equations(self) -> Booleans:
        """Which positions have an equation (N,)."""
        same: Booleans = self.lower == self.upper
        return same

    def moved(self, offsets: Array) -> "Cells":
        """Return the cells, moved by offsets in units of the spacing (N,)."""
        return Cells(self.centres + offsets, self.lower + offsets, self.upper + offsets)

    def room(self, outputs: Array, spacing: float | Array) -> Array:
        """Return the distance of outputs to the border of their cells, negative outside.

        outputs: f (N,), or (N, m) for several spacings (m,)
        """
        lower, upper = (np.multiply.outer(bound, spacing) for bound in (self.lower, self.upper))
        room: Array = np.minimum(outputs - lower, upper - outputs) + np.asarray(spacing) / 2
        return room


def order_of(following: Integers, count: int) -> Integers:
    """Return the place of each output token, the one that follows most often first (count,).

    Behind it are those that follow about as often together, by the bit length of the number of
    times, and in one such class tokens keep their order: so a few bits a token tell the places.

    Example:
        >>> order_of(np.array([1, 2, 1, 0, 1, 3, 3]), 4).tolist()
        [2, 0, 3, 1]
    """
    times = np.bincount(following, minlength=count)
    classes = np.array([int(number).bit_length() for number in times.tolist()])
    classes[times.argmax()] = classes.max() + 1
    return places_of(classes)


def base_of(count: int, outputs: int) -> int:
    """Return b, the least base in which numbers below count have so many digits.

    Example:
        >>> base_of(519, 1), base_of(519, 2), base_of(512, 3)
        (519, 23, 8)
    """
    base = max(2, math.floor(math.pow(count, 1 / outputs)))
    while base**outputs < count:
        base += 1
    return base


def points_of(order: Integers, outputs: int) -> Integers:
    """Return the points of tokens (V + 1, k): minus the digits of places, the lowest first."""
    base = base_of(len(order), outputs)
    digits = order[:, np.newaxis] // base ** np.arange(outputs) % base
    points: Integers = -digits
    return points


def cells_of(points: Integers, following: Integers, *, every: bool) -> list[Cells]:
    """Return the cells of each output at positions that these tokens follow (N,).

    every: whether all positions have equations
    """
    listed = []
    for column in points.T:
        centres = column[following].astype(np.float64)
        first = (centres == column.max()) & (not every)
        last = (centres == column.min()) & (not every)
        lower = np.where(last, -np.inf, centres)
        upper = np.where(first, np.inf, centres)
        listed.append(Cells(centres, lower, upper))
    return listed
