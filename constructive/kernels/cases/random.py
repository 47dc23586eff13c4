"""The winner is any visible key: addresses of rows, heads, pages and sequences; large values."""

from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Board, Case, Draft, board
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans

_BEYOND = 2.0**17  # More than float16 holds
_ENOUGH = 2.0**100  # The range of formats in which no sum of such values overflows


class Random(Case):
    """Each query reads a key of its own; hidden keys that differ in one digit would win.

    A query has -2A in all slots but those of the winner. In one digit the slots of hidden keys
    that agree with the winner in all others have +A. A visible key with such a slot differs in
    another digit, so it is at -A or below.
    """

    name: ClassVar[str] = "random"
    purpose: ClassVar[str] = "addresses: strides, heads, pages, sequences"

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read keys of their own."""
        chosen = board(spec, visible, "random")
        return chosen.draft(addressed(chosen))


class LargeValues(Random):
    """`random`, with values from 2^17 on: all outputs are as much larger, without rounding."""

    name: ClassVar[str] = "large values"
    purpose: ClassVar[str] = "formats of too small a range, outputs that are cut off"

    @property
    def unit(self) -> float:
        """The smallest value."""
        return _BEYOND

    def refuses(self, spec: Spec) -> str | None:
        """Return why: a format that has no such numbers."""
        if min(spec.inputs.largest, spec.output.largest) < _ENOUGH:
            return f"{spec.dtype} has no such values"
        return None


def addressed(chosen: Board) -> Array:
    """Return slots of queries that read the winner, with decoys in one digit."""
    slots = np.where(chosen.equal(), 0.0, -2.0 * chosen.number)
    position = chosen.random.integers(0, chosen.encoding.count, chosen.winner.shape)
    keys, exists = chosen.line(position)
    decoys = exists & ~chosen.seen(keys)
    values = np.where(decoys, chosen.number, -2.0 * chosen.number)
    own = np.take_along_axis(chosen.digits, position[..., None], axis=-1)
    np.put_along_axis(values, own, 0.0, axis=-1)
    chosen.put(slots, position, values)
    return slots
