"""The smallest construction there is: random heads of rank one, and the shortest readout."""

import numpy as np

from constructive import AttentionLayer, CapacityError, HeadRecord
from constructive.constructions.construction import Built, Cost, Described, largest
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes, rank_one_capacity


class Toy(Described):
    def plan(self, shapes, num_heads, head_dim):
        holds = rank_one_capacity(num_heads, shapes.context_size)
        if shapes.num_examples > holds:
            raise CapacityError(f"a toy holds {holds}", suggestion="fewer examples")
        return Plan(self.name, num_heads, head_dim or 1, holds, rank_one=not head_dim)

    def cost(self, shapes, num_heads):
        return Cost(2.0 * shapes.num_examples**2 * num_heads * shapes.width, 0.0)

    def build(self, dataset, plan, options, *, rng):
        report("play", 0, 1)
        shape = plan.num_heads, dataset.width, plan.head_dim
        weights = 3 * rng.standard_normal((2, *shape))
        nothing = np.zeros((plan.num_heads * dataset.width, dataset.target_dim))
        layer = AttentionLayer.from_effective_readout
        z = layer(*weights, nothing).intermediate(dataset.contexts, dataset.queries)
        effective = np.linalg.lstsq(z, dataset.target_matrix)[0]
        stops = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads)).tolist()
        heads = tuple(
            HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=stop)
            for start, stop in zip([0, *stops[:-1]], stops, strict=True)
        )
        residuals = largest(z @ effective - dataset.target_matrix)
        condition = float(np.linalg.cond(z))
        return Built(layer(*weights, effective, options.value_dim), residuals, condition, heads)


TOY = Toy("toy", "H(n - 1) + 1", "no theorem")
