"""The theorems' own constructions (`multihead`): heads, Z, and the shortest readout of all.

In rational numbers the heads are others, of small integers (`rational`), for the same examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constructive.constructions import rational
from constructive.constructions.construction import (
    Built,
    Construction,
    Cost,
    Outcome,
    operations_of_z,
)
from constructive.constructions.multihead import grouping, heads, intermediate, readout
from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.options import FLOAT, RATIONAL, USUAL, WIDE, Options
from constructive.constructions.survey import Survey
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.errors import AssumptionError
from constructive.support.progress import report
from constructive.theory import bounds
from constructive.theory.bounds import Plan, TheoremHeads, group_sizes

TAKES = {FLOAT: USUAL, RATIONAL: frozenset({WIDE})}


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

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:
        """Return Z, and its factors: T^3."""
        total, size, columns = shapes.num_examples, shapes.context_size, num_heads * shapes.width
        solve = 2.0 * total**2 * columns + total**3 / 3
        if options.arithmetic == RATIONAL:
            return Cost(solve, total * columns * rational.bits(total, size) / 8.0)
        forward = operations_of_z(shapes, num_heads)
        return Cost(forward + solve, 8.0 * total * (columns + total))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Return the five steps of the proof; or in rational numbers, random integers."""
        if options.arithmetic == RATIONAL:
            return rational.build(survey.dataset, plan, rng)
        assumed = self._assumed(survey, plan, rng)
        if isinstance(assumed, AssumptionError):
            return assumed
        sizes = group_sizes(survey.dataset.num_examples, plan.num_heads)
        return self._of_groups(survey.dataset, plan, options, assumed, sizes, rng=rng)

    def _assumed(
        self,
        survey: Survey,
        plan: Plan,  # noqa: ARG002 - others ask for less
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Assumptions | AssumptionError:
        """What the theorem asks of contexts."""
        return survey.contexts

    def _of_groups(
        self,
        dataset: Dataset,
        plan: Plan,
        options: Options,
        assumed: Assumptions,
        sizes: Sequence[int],
        *,
        rng: np.random.Generator,
    ) -> Outcome:
        """Return the steps after the first one, for groups of these sizes."""
        groups = grouping.partition(dataset, sizes)
        if isinstance(groups, AssumptionError):
            return groups
        report("build heads", 0, plan.num_heads)
        built = heads.construct(
            dataset,
            assumed,
            groups,
            plan,
            shared_keys=options.shared_keys,
            fraction=options.saturated_fraction,
            rng=rng,
        )
        if isinstance(built, AssumptionError):
            return built
        z, saturated = intermediate.assemble(dataset, built)
        report("solve for the readout", 0, 1)
        solution = readout.solve(z.representation, dataset.target_matrix, z.group_ends)
        records = tuple(
            HeadRecord(
                start=head.group.start,
                stop=head.group.stop,
                sharpness=head.sharpness,
                saturated_fraction=float(share),
                rank_reached=rank,
            )
            for head, share, rank in zip(built, saturated, solution.ranks, strict=True)
        )
        return Built(
            AttentionLayer.from_effective_readout(
                z.query_weights, z.key_weights, solution.effective, options.value_dim
            ),
            solution.residuals,
            solution.condition,
            records,
            options.shared_keys,
            fraction=options.saturated_fraction,
        )


SATURATED = Dense(
    bounds.SATURATED.name,
    bounds.SATURATED.formula,
    bounds.SATURATED.theorem,
    has_min_norm_readout=True,
    grouped=True,
    options=TAKES,
)
