"""What a compact decoder is asked for, and what follows from it: tokens, and how many columns."""

from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.cells import Cells
from constructive.constructions.compact.exact import gamma
from constructive.constructions.compact.tokens import Layout
from constructive.data.corpus import Text
from constructive.support.arrays import Array, Integers

FORMATS = {"int8": 7, "int16": 15, "float32": 24}
"""Binary digits of the entries of U; float32 has all integers of 24."""
PARITIES = 16
"""Signs of a position; one more where d would be even."""
_LEAST_PERIOD = 8
"""Binary digits of a position: enough for that many different masks."""
_FOR_EQUATIONS, _FOR_OTHERS, _FOR_EVERY = 1.2, 0.4, 1.1
"""Columns for a position with an equation, with an inequality, and where all have equations."""
ATTEMPTS = 12
"""Numbers of heads that are tried."""
MORE_HEADS = 1.08
"""Factor from one of them to the next one."""
_SPARE = 1.1
"""For outputs that grow when the readout is rounded."""


class Options(NamedTuple):
    """What is asked for.

    Attributes:
        outputs: k; None for the fewest that work
        readout: the format of the entries of U, one of `FORMATS`
        every: whether all positions have equations
        window: w, a power of two, 2 or more
        seed: of signs
    """

    outputs: int | None
    readout: str
    every: bool
    window: int
    seed: int


def layout_of(text: Text, options: Options, *, block: int | None) -> Layout:
    """Return the entries of tokens.

    Args:
        text: one text or several
        options: sizes
        block: binary digits of a position within a block; None for one block
    """
    code = 1 + max(1, (len(text.vocabulary) - 1).bit_length())
    odd = block is None  # queries have an odd number of signs: with the constant, or without it
    parities = PARITIES + (code + PARITIES + (not odd)) % 2
    whole = max(_LEAST_PERIOD, options.window.bit_length() - 1, (text.longest - 1).bit_length())
    blocks = 0 if block is None else whole - block
    return Layout(options.window, code, parities, whole - blocks, blocks, options.seed)


def least_share(points: Integers) -> float:
    """Return the part of the spacing that rounding of logits may take, for outputs at the points.

    Args:
        points: of tokens, centred (V + 1, k)
    """
    size = float((3.0 * points.astype(np.float64) ** 2).sum(axis=1).max())
    return gamma(points.shape[1] + 1) * size


def columns_for(cells: list[Cells], *, every: bool) -> float:
    """Return the number of columns of Z that is tried first.

    Args:
        cells: of all outputs
        every: whether all positions have equations
    """
    total = len(cells[0].centres)
    if every:
        return _FOR_EVERY * total
    equations = max(int(each.equations.sum()) for each in cells)
    return _FOR_EQUATIONS * equations + _FOR_OTHERS * (total - equations)


def share_of(outputs: Array, points: Integers) -> float:
    """Return the part of the spacing that rounding of logits may take.

    Args:
        outputs: in units of the spacing, centred (R, k)
        points: of tokens, centred (V + 1, k)
    """
    sizes = np.abs(points).astype(np.float64)
    largest = float((2.0 * np.abs(outputs) @ sizes.T + (sizes**2).sum(axis=1)).max())
    return _SPARE * gamma(points.shape[1] + 1) * largest
