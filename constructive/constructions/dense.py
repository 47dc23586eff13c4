"""The theorems' own constructions (`multihead`): heads, Z, and the shortest readout of all."""

from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import Built, Cost, Options
from constructive.constructions.multihead import assumptions, grouping, heads, intermediate, readout
from constructive.data.dataset import Dataset, ExampleShapes
from constructive.layers.record import HeadRecord
from constructive.support.progress import Progress
from constructive.theory import bounds
from constructive.theory.bounds import Plan


@dataclass(frozen=True)
class Dense:
    """Heads of a theorem, and a readout by a dense factorization of Z. A `Construction`."""

    name: str
    formula: str
    theorem: str
    shortest: bool = True
    grouped: bool = True

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As the theorem says (`bounds.plan`)."""
        return bounds.plan(
            num_examples=shapes.num_examples,
            context_size=shapes.context_size,
            num_heads=num_heads,
            head_dim=head_dim,
            construction=self.name,
        )

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """Z, and its factors: T^3."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        columns = num_heads * width
        keys = size if shapes.shared_context else width + size
        forward = 2.0 * total * columns * (keys + size)
        operations = forward + 2.0 * total**2 * columns + total**3 / 3
        return Cost(operations, 8.0 * total * (columns + total))

    def build(
        self,
        dataset: Dataset,
        plan: Plan,
        options: Options,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Built:
        """The five steps of the proof."""
        assumed = assumptions.check(dataset)
        groups = grouping.partition(dataset, plan.num_heads)
        progress("build heads", 0, plan.num_heads)
        built = heads.construct(
            dataset,
            assumed,
            groups,
            plan,
            shared_keys=options.shared_keys,
            fraction=options.fraction,
            rng=rng,
        )
        z = intermediate.assemble(dataset, built, progress=progress)
        progress("solve for the readout", 0, 1)
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
            z.query_weights,
            z.key_weights,
            solution.effective,
            solution.residuals,
            solution.condition,
            records,
            options.shared_keys,
        )


SATURATED = Dense("saturated", "H(min(n, d_h) - 1) + 1", "Theorem 1")
RANK_ONE = Dense("rank_one", "H(n - 1) + 1", "Theorem 2")
