"""What is known of a data set: each fact is computed when it is first asked for, and then kept.

A survey is made once for a build and handed to planning, to the construction and to the text of
errors, so that none of them looks at the data again.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from constructive.constructions.multihead import assumptions
from constructive.constructions.multihead.assumptions import Assumptions
from constructive.support.errors import AssumptionError
from constructive.theory.context_capacity import (
    ContextCapacity,
    LeastHeads,
    context_capacity,
    least_heads,
)
from constructive.theory.heads import FewestHeads, with_room

_SEED = 0  # Of eliminations modulo a prime


@dataclass(frozen=True)
class Survey:
    """Facts about T examples."""

    dataset: Any  # a `Dataset`; a `RationalDataset` or mere shapes, of which it knows nothing else
    _capacities: dict[int, ContextCapacity] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def repeated(self) -> AssumptionError | None:
        """Why no weights memorize the inputs as they are, or None: one of them occurs twice.

        Raises DataError for equal inputs with different targets, and for numbers that are too large
        or too small for float64.
        """
        return assumptions.repeated(self.dataset)

    @cached_property
    def contexts(self) -> Assumptions | AssumptionError:
        """How independent the tokens of each context are; or `repeated`, or which has rank < n."""
        obstacle = assumptions.too_many_tokens(self.dataset) or self.repeated
        return obstacle or assumptions.context_ranks(self.dataset)

    @cached_property
    def least_heads(self) -> LeastHeads:
        """The smallest H that the contexts allow for all different inputs, and why."""
        return least_heads(self.dataset, np.random.default_rng(_SEED))

    @cached_property
    def fewest_heads(self) -> FewestHeads:
        """The same with some room. Raises CapacityError where no number of heads will do."""
        return with_room(self.dataset, self.least_heads)

    def capacity(self, num_heads: int) -> ContextCapacity:
        """Return bounds of c(E; H) for H heads."""
        if num_heads not in self._capacities:
            rng = np.random.default_rng(_SEED)
            self._capacities[num_heads] = context_capacity(self.dataset, num_heads, rng)
        return self._capacities[num_heads]
