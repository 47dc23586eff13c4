"""Keys of other sequences and other heads would win: reads across borders in memory."""

from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Case, Draft, board
from constructive.kernels.cases.random import addressed
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans

_PART = 4
_FOREIGN = 16.0  # More than the digits of a key can take away, in units of the number in queries


class Batch(Case):
    """`random`, with one more digit: a colour of the sequence and the KV head.

    A query has 0 in the slot of its own colour and 16 A in all others. A key of another sequence or
    head has a positive logit, whatever its digits are.
    """

    name: ClassVar[str] = "batch"
    purpose: ClassVar[str] = "reads across the borders of sequences and heads"

    def refuses(self, spec: Spec) -> str | None:
        """Return why: nothing lies beside the only head of the only sequence."""
        if _pairs(spec) == 1:
            return "there is one sequence with one KV head"
        return "head_dim is too small for colours" if spec.head_dim < 2 * _PART else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries which all other heads would win."""
        colours = min(_pairs(spec), max(2, spec.head_dim // _PART))
        chosen = board(spec, visible, "random", reserved=colours, times=_FOREIGN)
        sequence = np.zeros(spec.batch, int) if spec.shared else np.arange(spec.batch)
        step = spec.heads[1] if _pairs(spec) == colours else 1
        colour = (sequence[:, None] * step + np.arange(spec.heads[1])) % colours
        own = np.repeat(colour, spec.group, axis=1)[..., None]
        extra = [
            (
                np.where(own == index, 0.0, _FOREIGN * chosen.number),
                np.where(colour[..., None] == index, chosen.key, 0.0),
            )
            for index in range(colours)
        ]
        return chosen.draft(addressed(chosen), *extra)


def _pairs(spec: Spec) -> int:
    return (1 if spec.shared else spec.batch) * spec.heads[1]
