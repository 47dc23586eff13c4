"""Heads of Theorem 2, with groups as large as contexts allow (Theorem 10).

Up to H(n - 1) + 1 examples the groups are those of Theorem 2, and contexts have rank n. Beyond, a
group may have d - 1 examples, and the first one d, if contexts of their own have directions enough;
they may be dependent then, and of more than d tokens, but of different ones. Nothing else changes.
"""

import numpy as np

from constructive.constructions.dense import Dense
from constructive.constructions.multihead import assumptions
from constructive.data.dataset import Dataset, ExampleShapes
from constructive.support.errors import AssumptionError, CapacityError
from constructive.theory import bounds
from constructive.theory.bounds import Plan, group_sizes
from constructive.theory.group_spans import too_narrow


class RankOne(Dense):
    """Rank-one heads with groups of up to d - 1 examples. A `Construction`."""

    @property
    def formula(self) -> str:
        """How many examples the theorems promise."""
        return f"{self.of.formula} or, for own contexts, H(d - 1) + 1"

    @property
    def theorem(self) -> str:
        """Theorem 2, and what goes beyond."""
        return f"{self.of.theorem}, Theorem 10"

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As Theorem 2 says, and where that holds too few, as Theorem 10 does."""
        size, width, total = shapes.context_size, shapes.width, shapes.num_examples
        narrow = self.of.capacity(num_heads, size, 1) if size <= width else 0
        if shapes.shared_context or size == 1 or total <= narrow:
            return super().plan(shapes, num_heads, head_dim)
        wide = num_heads * (width - 1) + 1
        if total > max(narrow, wide):
            more = f"num_heads={-(-(total - 1) // (width - 1))}; or " if width > 1 else ""
            raise CapacityError(
                f"{total} examples are too many for {num_heads} rank_one heads: groups of d - 1 "
                f"examples, and one more, hold H(d - 1) + 1 = {wide} (d={width})",
                witness=total,
                suggestion=f"{more}construction='generic', which holds Hd where "
                f"contexts are generic; or keep {wide} of the examples",
            )
        inner = 1 if head_dim is None else head_dim
        return Plan(self.name, num_heads, inner, wide, rank_one=True)

    def _assumed(
        self, dataset: Dataset, plan: Plan, rng: np.random.Generator
    ) -> assumptions.Assumptions:
        """What Theorem 2 asks of contexts, or of groups Theorem 10."""
        size = dataset.context_size
        if size <= dataset.width and plan.capacity == self.of.capacity(plan.num_heads, size, 1):
            return super()._assumed(dataset, plan, rng)
        assumptions.check_inputs(dataset)
        found = too_narrow(dataset, group_sizes(dataset.num_examples, plan.num_heads), rng)
        if found is not None:
            what = "tokens" if found.tokens else "differences of tokens"
            raise AssumptionError(
                f"the {what} of {len(found.examples)} examples of one group span "
                f"{found.dimension} dimensions; Theorem 10 needs as many as examples",
                witness=found.examples,
                suggestion="more heads and so smaller groups, another order of the examples, or "
                "construction='generic'",
            )
        return assumptions.Assumptions(least_token_distance=0.0)


RANK_ONE = RankOne(bounds.RANK_ONE)
