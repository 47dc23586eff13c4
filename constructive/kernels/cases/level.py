"""The winner's logit is far from 0: maxima that are not subtracted, finite values for -inf."""

import numpy as np

from constructive.kernels.cases.case import Case, Draft, board, gap, power
from constructive.kernels.cases.random import addressed
from constructive.kernels.encoding import factors
from constructive.kernels.formats import holds
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans

# Levels before the scale must stay below it where float16 holds the products.
_HALF_RANGE = 2.0**14


class Level(Case):
    """`random`, with the same product added to all logits of every other query.

    The gap to other keys is the level or more: a logit may be off by a quarter of it. Queries
    between have a winner at 0, so rows of a block do not share a maximum.
    """

    def __init__(self, name: str, level: float, purpose: str) -> None:
        self.name = name  # type: ignore[misc] # one class, three cases
        self.purpose = purpose  # type: ignore[misc]
        self.level = level

    def refuses(self, spec: Spec) -> str | None:
        """Return why: another logit of fixed size, or a format with too small a range."""
        if spec.soft_cap is not None or spec.alibi:
            return "a soft cap or a slope has a level of its own"
        if spec.sink and power(spec.factor) != spec.factor:
            return "the logit of a sink is exact where the scale is a power of two"
        product = power(abs(self.level) / spec.factor)
        number, key = factors(product, 1.0)
        if not holds(spec.inputs, [2.0 * number, key]):
            return f"{spec.dtype} does not hold the numbers of such a logit"
        if spec.dtype == "float16" and product > _HALF_RANGE:
            return "q k is beyond float16"
        return None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read keys of their own, at the level."""
        product = power(abs(self.level) / spec.factor)
        least = max(gap(spec), product)
        chosen = board(spec, visible, "random", reserved=1, least=least)
        signed = product if self.level > 0 else -product
        every = np.arange(spec.queries) % (1 if spec.sink else 2) == 0
        slot = np.where(every, signed / chosen.key, 0.0), np.asarray(chosen.key)
        return chosen.draft(addressed(chosen), slot, level=signed)


HIGH = Level("level", 256.0, "maxima that are not subtracted")
LOW = Level("low level", -256.0, "maxima that start at 0, blocks without a visible key")
LOWEST = Level("lowest level", -131072.0, "finite numbers in place of -inf")
