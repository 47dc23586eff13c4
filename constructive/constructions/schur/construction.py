"""One shared context: elimination within heads, and a system of size 2H (`elimination`)."""

import numpy as np

from constructive.constructions.construction import Built, Cost, Described, Options, largest
from constructive.constructions.multihead import assumptions, grouping
from constructive.constructions.schur import elimination
from constructive.constructions.sweep import SWEEP
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.errors import ParameterError
from constructive.theory import bounds
from constructive.theory.bounds import Plan, group_sizes


class Schur(Described):
    """Heads of Theorem 1 on one shared context, without a T x T matrix. A `Construction`."""

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As Theorem 1 says, for one context of two tokens at least."""
        if not shapes.shared_context:
            raise ParameterError(
                "construction='schur' needs one shared context",
                witness="own contexts",
                suggestion="construction='paired', or contexts of shape (n, d)",
            )
        if shapes.context_size == 1:
            raise ParameterError(
                "construction='schur' needs a context with n >= 2 tokens",
                witness=shapes.context_size,
                suggestion="construction='saturated', which holds one example here",
            )
        plan = bounds.SATURATED.plan(
            num_examples=shapes.num_examples,
            context_size=shapes.context_size,
            num_heads=num_heads,
            head_dim=shapes.context_size + 1 if head_dim is None else head_dim,
        )
        return Plan(self.name, num_heads, plan.head_dim, plan.capacity, rank_one=False)

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """Sweeps over angles, and a system of 2H."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        sweep = total * num_heads * (2 * width * (size + 3) + SWEEP)
        memory = total * num_heads + 48.0 * num_heads**2 + 8.0 * total * (width + size)
        return Cost(sweep + 4.0 * num_heads**3, memory)

    def build(
        self, dataset: Dataset, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Built:
        """Heads saturate on all but their own groups, so that Z nearly falls apart."""
        assumed = assumptions.check(dataset)
        sizes = group_sizes(dataset.num_examples, plan.num_heads)
        groups = grouping.partition(dataset, sizes)
        built = elimination.construct(dataset, assumed, groups, plan.head_dim, rng=rng)
        solution = elimination.solve(dataset, groups, built)
        residual = elimination.measure(dataset, groups, built, solution.effective)
        missed = np.bincount(built.leftover_heads, minlength=plan.num_heads)
        records = tuple(
            HeadRecord(
                start=group.start,
                stop=group.stop,
                sharpness=float(sharpness),
                saturated_fraction=float(1.0 - miss / max(dataset.num_examples - group.size, 1)),
                rank_reached=group.stop,  # a singular system is refused
            )
            for group, sharpness, miss in zip(groups, built.sharpness, missed, strict=True)
        )
        return Built(
            AttentionLayer.from_effective_readout(
                built.query_weights,
                built.key_weights,
                solution.effective.reshape(-1, dataset.target_dim),
                options.value_dim,
            ),
            largest(residual),
            solution.condition,
            records,
            shared_keys=True,
            coupled=len(built.leftover_heads),
            fraction=options.fraction,
        )


SCHUR = Schur("schur", bounds.SATURATED.formula, bounds.SATURATED.theorem, grouped=True)
