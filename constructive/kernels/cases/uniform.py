"""All logits are equal: one visible key more or less changes the average."""

import math
from typing import ClassVar

import numpy as np

from constructive.kernels.cases.case import Case, Draft
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans

_NUMBER = 8.0
_CAPS = 6.0
_SLOPE = 128.0


class Uniform(Case):
    """Every query is orthogonal to every key, term by term.

    With a soft cap all logits are -6 caps, hence -cap after it: a mask that is added before the cap
    hides nothing then.
    """

    name: ClassVar[str] = "uniform"
    purpose: ClassVar[str] = "any key more or less, soft caps after masks"
    has_digits: ClassVar[bool] = False

    def slope(self, spec: Spec) -> float:
        """Return a slope with which the nearest key wins."""
        del spec
        return _SLOPE

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read all visible keys alike."""
        del visible
        random = np.random.default_rng((spec.seed, 5))
        k = random.choice(
            [-_NUMBER, _NUMBER], (spec.batch, spec.heads[1], spec.keys, spec.head_dim)
        )
        if spec.shared:
            k[:] = k[:1]
        q = np.zeros((spec.batch, spec.heads[0], spec.queries, spec.head_dim))
        if spec.soft_cap is None or spec.sink or spec.alibi:
            return Draft(q, k)
        slot = int(random.integers(spec.head_dim))
        least = _CAPS * spec.soft_cap / spec.factor / _NUMBER
        q[..., slot], k[..., slot] = -(2.0 ** math.ceil(math.log2(least))), _NUMBER
        return Draft(q, k, float(q[0, 0, 0, slot] * _NUMBER), slot)


class Orthogonal(Uniform):
    """The same at logits of 0, where a soft cap does nothing."""

    name: ClassVar[str] = "orthogonal"
    purpose: ClassVar[str] = "any key more or less, at logits of 0"

    def lacks(self, spec: Spec) -> str | None:
        """Return why: without a soft cap it is `uniform`."""
        return "it is `uniform` without a soft cap" if spec.soft_cap is None else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries of zeros."""
        drawn = super().draft(spec, visible)
        return Draft(np.zeros_like(drawn.q), drawn.k)
