"""The smallest construction there is: random heads of rank one, and the shortest readout."""

import numpy as np

from constructive import AttentionLayer, CapacityError
from constructive.constructions.construction import (
    FLOAT,
    WIDE,
    Built,
    Construction,
    Cost,
    unsaturated_heads,
)
from constructive.constructions.multihead.readout import largest
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes, rank_one_capacity


class Toy(Construction):
    def plan(self, shapes, num_heads, options):
        holds = rank_one_capacity(num_heads, shapes.context_size)
        if shapes.num_examples > holds:
            raise CapacityError(f"a toy holds {holds}", suggestion="fewer examples")
        inner = options.head_dim or 1
        return Plan(self.name, num_heads, inner, holds, rank_one=inner == 1)

    def cost(self, shapes, num_heads, options):  # noqa: ARG002
        return Cost(2.0 * shapes.num_examples**2 * num_heads * shapes.width, 0.0)

    def build(self, survey, plan, options, *, rng):
        if survey.repeated is not None:
            return survey.repeated
        report("play", 0, 1)
        dataset = survey.dataset
        shape = plan.num_heads, dataset.width, plan.head_dim
        weights = 3 * rng.standard_normal((2, *shape))
        nothing = np.zeros((plan.num_heads * dataset.width, dataset.target_dim))
        layer = AttentionLayer.from_effective_readout
        z = layer(*weights, nothing).intermediate(dataset.contexts, dataset.queries)
        effective = np.linalg.lstsq(z, dataset.target_matrix)[0]
        stops = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads)).tolist()
        return Built(
            layer(*weights, effective, options.value_dim),
            largest(z @ effective - dataset.target_matrix),
            float(np.linalg.cond(z)),
            unsaturated_heads(stops, stops),
        )


TAKES = {FLOAT: frozenset({WIDE, "value_dim", "precision"})}
TOY = Toy("toy", "H(n - 1) + 1", "no theorem", options=TAKES)
