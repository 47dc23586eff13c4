"""Several keys win together: denominators, rescaling between blocks, merging of splits."""

from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Case, Draft, board, gap, power
from constructive.kernels.encoding import exponent_of_values
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans

MOST_WINNERS = 6  # The exponent of the largest number of winners


def most_winners(spec: Spec) -> int:
    """Return the largest m for which the average of 2^m values is a number of the output."""
    return max(0, min(MOST_WINNERS, spec.output.digits - exponent_of_values(spec) - 1))


class Ties(Case):
    """The winners are 2^m keys that differ in one digit, the output is the average of their values.

    A sink counts as one of them. Digits alternate with the query: winners are neighbours, or far
    apart.
    """

    name: ClassVar[str] = "ties"
    purpose: ClassVar[str] = "denominators, rescaling between blocks, merging of splits"

    def level(self, spec: Spec) -> float:
        """Return the logit of the winners before the scale."""
        del spec
        return 0.0

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read several keys alike."""
        level = self.level(spec)
        least = level + gap(spec) if level else None
        chosen = board(spec, visible, "random", reserved=int(level > 0.0), least=least)
        slots = np.where(chosen.equal(), 0.0, -2.0 * chosen.number)
        turn = np.arange(spec.queries) + np.arange(spec.heads[0])[:, None]
        position = np.broadcast_to(turn % chosen.encoding.count, chosen.winner.shape)
        keys, exists = chosen.line(position)
        seen = exists & chosen.seen(keys)
        own = np.take_along_axis(chosen.digits, position[..., None], axis=-1)
        order = np.where(seen, chosen.random.random(keys.shape), 2.0)
        np.put_along_axis(order, own, -1.0, axis=-1)
        rank = np.argsort(np.argsort(order, axis=-1), axis=-1)
        sinks = sink_weights(spec)[:, None]
        exponent = np.floor(np.log2((seen.sum(-1) + sinks).clip(1.0)))
        wanted = np.exp2(np.minimum(exponent, most_winners(spec))) - sinks
        wanted = wanted.clip(1.0)
        values = np.where(exists & ~seen, chosen.number, -2.0 * chosen.number)
        values[seen & (rank < wanted[..., None])] = 0.0
        np.put_along_axis(values, own, 0.0, axis=-1)
        chosen.put(slots, position, values)
        if not level:
            return chosen.draft(slots)
        slot = np.asarray(level / chosen.key), np.asarray(chosen.key)
        return chosen.draft(slots, slot, level=level)


class CappedTies(Ties):
    """Winners at about one cap, where the slope of a soft cap is neither 0 nor 1.

    All winners have the same product, so their weights are equal whatever the cap is: gradients
    show its slope.
    """

    name: ClassVar[str] = "soft cap ties"
    purpose: ClassVar[str] = "the slope of a soft cap, in gradients"

    def refuses(self, spec: Spec) -> str | None:
        """Return why: no soft cap, or another bias."""
        if spec.soft_cap is None:
            return "there is no soft cap"
        return "a sink or a slope has a level of its own" if spec.sink or spec.alibi else None

    def level(self, spec: Spec) -> float:
        """Return about one cap."""
        return power((spec.soft_cap or 1.0) / spec.factor)


def sink_weights(spec: Spec) -> np.ndarray:
    """Return the weight of the sink of each head beside a winner at 0, (H,): 1 or 0.

    Every other head has a sink at 0, the others have one far below.
    """
    even = np.arange(spec.heads[0]) % 2 == 0
    return np.asarray(even & spec.sink, dtype=np.float64)
