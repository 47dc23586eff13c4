"""The winner is the last visible key, or the first: edges of masks, tails of blocks."""

from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Board, Case, Draft, board
from constructive.kernels.encoding import MOST_DIGITS
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans


class Last(Case):
    """Logits grow with the position: 0 at the last visible key, more at every key after it.

    In the slot of a digit that is above the winner's by any amount a query has 4^p A, below it
    -4^p A, p the place of the digit. The highest digit in which two keys differ outweighs all lower
    ones, so logits are ordered as keys are.
    """

    name: ClassVar[str] = "last"
    purpose: ClassVar[str] = "right edges of masks, tails of blocks"

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read the last visible key."""
        chosen = board(spec, visible, "last", times=4.0 ** (MOST_DIGITS // 2))
        return chosen.draft(ordered(chosen))


class First(Case):
    """Logits fall with the position: 0 at the first visible key, more at every key before it."""

    name: ClassVar[str] = "first"
    purpose: ClassVar[str] = "left edges of masks, the first block"

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read the first visible key."""
        chosen = board(spec, visible, "first", times=4.0 ** (MOST_DIGITS // 2))
        return chosen.draft(-ordered(chosen))


def ordered(chosen: Board) -> Array:
    """Return slots by which logits grow with the position of keys, and are 0 at the winner."""
    weights = chosen.number * 4.0 ** np.arange(chosen.encoding.count)
    above = np.arange(chosen.encoding.radix) - chosen.digits[..., None]
    slots: Array = np.sign(above) * weights[:, None]
    return slots
