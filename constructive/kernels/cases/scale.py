"""Two keys share the weight: the factor of logits can be read off."""

import math
from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Board, Case, Draft, board, gap, power
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans


class Scale(Case):
    """The winner is at 0, a second key about 1 below it, all others far below.

    The weights depend on the scale. They are not exact: the check is an interval that allows a
    logit to be off by 1/16 of its size.
    """

    name: ClassVar[str] = "scale"
    purpose: ClassVar[str] = "the factor of logits: 1 / sqrt(head_dim), log2(e)"

    def lacks(self, spec: Spec) -> str | None:
        """Return why: no second key."""
        return "a second key is needed" if spec.keys == 1 or spec.alibi else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read two keys."""
        chosen = board(spec, visible, "random")
        near = power(1.0 / spec.factor)
        return chosen.draft(with_second(chosen, near), near=-near)


class SoftCap(Case):
    """Two keys at some caps, whose logits differ by about 1 after the soft cap alone."""

    name: ClassVar[str] = "soft cap"
    purpose: ClassVar[str] = "soft caps that are missing or of another size"
    extra: ClassVar[int] = 1

    def lacks(self, spec: Spec) -> str | None:
        """Return why: no soft cap, or another bias."""
        if spec.soft_cap is None:
            return "there is no soft cap"
        return "a sink or a slope has a level of its own" if spec.sink or spec.alibi else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read two keys above the cap."""
        cap = spec.soft_cap or 1.0
        level, near = min(
            ((power(cap * 2.0**a / spec.factor), power(cap * 2.0**b / spec.factor))
             for a in (0, 1, 2) for b in range(a - 4, a)),
            key=lambda pair: abs(math.log(_difference(spec, *pair))),
        )  # fmt: skip
        least = level + gap(spec)
        chosen = board(spec, visible, "random", reserved=self.extra, least=least)
        slot = np.asarray(level / chosen.key), np.asarray(chosen.key)
        return chosen.draft(with_second(chosen, near), slot, level=level, near=-near)


def _difference(spec: Spec, level: float, near: float) -> float:
    """Return how far two logits are apart after the soft cap."""
    cap, factor = spec.soft_cap or 1.0, spec.factor
    high, low = (cap * math.tanh(value * factor / cap) for value in (level, level - near))
    return high - low


def with_second(chosen: Board, near: float) -> Array:
    """Return slots of queries that read the winner, and a second key whose product is -near."""
    slots = np.where(chosen.equal(), 0.0, -2.0 * chosen.number)
    position = chosen.random.integers(0, chosen.encoding.count, chosen.winner.shape)
    keys, exists = chosen.line(position)
    own = np.take_along_axis(chosen.digits, position[..., None], axis=-1)
    order = np.where(exists & chosen.seen(keys), chosen.random.random(keys.shape), 2.0)
    np.put_along_axis(order, own, 3.0, axis=-1)
    second = np.argmin(order, axis=-1)[..., None]
    values = np.where(exists & ~chosen.seen(keys), chosen.number, -2.0 * chosen.number)
    found = np.take_along_axis(order, second, axis=-1) < 1.0
    there = np.take_along_axis(values, second, axis=-1)
    np.put_along_axis(values, second, np.where(found, -near / chosen.key, there), axis=-1)
    np.put_along_axis(values, own, 0.0, axis=-1)
    chosen.put(slots, position, values)
    return slots
