"""The theorems' own constructions (`multihead`): heads, Z, and the shortest readout of all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import (
    RATIONAL,
    Built,
    Construction,
    Cost,
    OfTheorem,
    Options,
)
from constructive.constructions.multihead import assumptions, grouping, heads, intermediate, readout
from constructive.constructions.rational import Rational
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.progress import report
from constructive.theory import bounds
from constructive.theory.bounds import Plan, group_sizes


@dataclass(frozen=True)
class Dense(OfTheorem):
    """Heads of a theorem, and a readout by a dense factorization of Z. A `Construction`."""

    def in_arithmetic(self, arithmetic: str) -> Construction:
        """The same heads from small integers, where that is asked for."""
        return Rational(self.of) if arithmetic == RATIONAL else self

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """Z, and its factors: T^3."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        columns = num_heads * width
        keys = size if shapes.shared_context else width + size
        forward = 2.0 * total * columns * (keys + size)
        operations = forward + 2.0 * total**2 * columns + total**3 / 3
        return Cost(operations, 8.0 * total * (columns + total))

    def _assumed(
        self,
        dataset: Dataset,
        plan: Plan,  # noqa: ARG002 - others ask for less
        rng: np.random.Generator,  # noqa: ARG002
    ) -> assumptions.Assumptions:
        """What the theorem asks of contexts."""
        return assumptions.check(dataset)

    def build(
        self, dataset: Dataset, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Built:
        """The five steps of the proof."""
        assumed = self._assumed(dataset, plan, rng)
        sizes = group_sizes(dataset.num_examples, plan.num_heads)
        return self._of_groups(dataset, plan, options, assumed, sizes, rng=rng)

    def _of_groups(
        self,
        dataset: Dataset,
        plan: Plan,
        options: Options,
        assumed: assumptions.Assumptions,
        sizes: Sequence[int],
        *,
        rng: np.random.Generator,
    ) -> Built:
        """The steps after the first one, for groups of these sizes."""
        groups = grouping.partition(dataset, sizes)
        report("build heads", 0, plan.num_heads)
        built = heads.construct(
            dataset,
            assumed,
            groups,
            plan,
            shared_keys=options.shared_keys,
            fraction=options.fraction,
            rng=rng,
        )
        z = intermediate.assemble(dataset, built)
        report("solve for the readout", 0, 1)
        solution = readout.solve(z, dataset.target_matrix)
        records = tuple(
            HeadRecord(
                start=head.group.start,
                stop=head.group.stop,
                sharpness=head.sharpness,
                saturated_fraction=float(saturated),
                rank_reached=rank,
            )
            for head, saturated, rank in zip(
                built, z.saturated_fraction, solution.ranks, strict=True
            )
        )
        return Built(
            AttentionLayer.from_effective_readout(
                z.query_weights, z.key_weights, solution.effective, options.value_dim
            ),
            solution.residuals,
            solution.condition,
            records,
            options.shared_keys,
            fraction=options.fraction,
        )


SATURATED = Dense(bounds.SATURATED)
