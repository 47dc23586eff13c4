"""The smallest construction there is: random heads of rank one, and the shortest readout."""

from dataclasses import dataclass

import numpy as np

from constructive import AttentionLayer, CapacityError, HeadRecord
from constructive.constructions.construction import Built, Cost, largest
from constructive.theory.bounds import Plan, group_sizes, rank_one_capacity


@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    formula: str = "H(n - 1) + 1"
    theorem: str = "no theorem"
    shortest: bool = False
    grouped: bool = False

    def plan(self, shapes, num_heads, head_dim):
        holds = rank_one_capacity(num_heads, shapes.context_size)
        if shapes.num_examples > holds:
            raise CapacityError(f"a toy holds {holds}", suggestion="fewer examples")
        return Plan(self.name, num_heads, head_dim or 1, holds)

    def cost(self, shapes, num_heads):
        return Cost(2.0 * shapes.num_examples**2 * num_heads * shapes.width, 0.0)

    def build(self, dataset, plan, options, *, rng, progress):
        progress("play", 0, 1)
        shape = plan.num_heads, dataset.width, plan.head_dim
        weights = 3 * rng.standard_normal((2, *shape))
        nothing = np.zeros((plan.num_heads * dataset.width, dataset.target_dim))
        z = AttentionLayer.from_effective_readout(*weights, nothing).intermediate(
            dataset.contexts, dataset.queries
        )
        effective = np.linalg.lstsq(z, dataset.target_matrix)[0]
        stops = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads)).tolist()
        heads = tuple(
            HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=stop)
            for start, stop in zip([0, *stops[:-1]], stops, strict=True)
        )
        residuals = largest(z @ effective - dataset.target_matrix)
        condition = float(np.linalg.cond(z))
        return Built(*weights, effective, residuals, condition, heads, options.shared_keys)


TOY = Toy()
