"""The theorems' own constructions: saturated and rank-one heads, in the steps of `multihead`."""

from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import (
    Built,
    Construction,
    Cost,
    Options,
    Outcome,
    Survey,
    operations_of_z,
)
from constructive.constructions.multihead import grouping, heads, intermediate, readout
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.layer import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.errors import (
    AssumptionError,
)
from constructive.support.work import report
from constructive.theory import bounds
from constructive.theory.bounds import Plan, TheoremHeads
from constructive.theory.grouping import group_sizes


@dataclass(frozen=True)
class Dense(Construction):
    """Heads of a theorem, and a readout by a dense factorization of Z."""

    of: TheoremHeads = bounds.SATURATED  # what the theorem says of its heads

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan as the theorem says."""
        return self.of.plan(
            num_examples=shapes.num_examples,
            context_size=shapes.context_size,
            num_heads=num_heads,
            head_dim=options.head_dim,
        )

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:  # noqa: ARG002
        """Return Z, and its factors: T^3."""
        total, columns = shapes.num_examples, num_heads * shapes.width
        solve = 2.0 * total**2 * columns + total**3 / 3
        forward = operations_of_z(shapes, num_heads)
        return Cost(forward + solve, 8.0 * total * (columns + total))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Return the five steps of the proof."""
        token_distance = survey.contexts
        if isinstance(token_distance, AssumptionError):
            return token_distance
        dataset: Dataset = survey.dataset
        groups = grouping.partition(dataset, group_sizes(dataset.num_examples, plan.num_heads))
        if isinstance(groups, AssumptionError):
            return groups
        report("build heads", 0, plan.num_heads)
        built = heads.construct(
            dataset,
            groups,
            plan,
            token_distance=token_distance,
            fraction=options.saturated_fraction,
            rng=rng,
        )
        if isinstance(built, AssumptionError):
            return built
        z, saturated = intermediate.assemble(dataset, built)
        report("solve for the readout", 0, 1)
        solution = readout.solve(z.representation, dataset.target_matrix)
        records = tuple(
            HeadRecord(
                start=head.group.start,
                stop=head.group.stop,
                sharpness=head.sharpness,
                saturated_fraction=float(share),
                rank_reached=rank,
            )
            for head, share, rank in zip(
                built, saturated, solution.ranks(z.group_ends), strict=True
            )
        )
        return Built(
            AttentionLayer.from_effective_readout(
                z.query_weights, z.key_weights, solution.effective, options.value_dim
            ),
            solution.residuals,
            solution.condition,
            records,
            fraction=options.saturated_fraction,
            saturating=np.stack([head.w for head in built]),
        )


SATURATED = Dense(
    bounds.SATURATED.name,
    bounds.SATURATED.formula,
    bounds.SATURATED.theorem,
    has_min_norm_readout=True,
    grouped=True,
)


RANK_ONE = Dense(
    bounds.RANK_ONE.name,
    bounds.RANK_ONE.formula,
    bounds.RANK_ONE.theorem,
    has_min_norm_readout=True,
    grouped=True,
    of=bounds.RANK_ONE,
)
