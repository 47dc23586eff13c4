"""Own contexts: heads in pairs, and a small system for each pair, without a T x T matrix.

The steps: `ordering`, `own`, `pairs`, `coupling`, `readout`.
"""

import numpy as np

from constructive.constructions import paired_heads, paired_search
from constructive.constructions.construction import Built, Construction, Cost, Outcome
from constructive.constructions.multihead.assumptions import too_many_tokens
from constructive.constructions.multihead.readout import largest
from constructive.constructions.options import FLOAT, PIECES, USUAL, Options
from constructive.constructions.paired import readout, work
from constructive.constructions.paired_search import SWEEP
from constructive.constructions.survey import Survey
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array, Integers
from constructive.support.errors import AssumptionError, CapacityError, ParameterError
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes, paired_capacity, rank_one_capacity


class Paired(Construction):
    """Heads 2p and 2p + 1 read nearly the same but from their own examples."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan for contexts of their own, of two tokens at least."""
        if shapes.shared_context:
            raise ParameterError(
                "construction='paired' needs own contexts: on a shared one the rows of a pair lie "
                f"in a space of n - 1 = {shapes.context_size - 1} dimensions",
                witness="one shared context",
                suggestion="construction='saturated'",
            )
        if shapes.context_size == 1:
            raise ParameterError(
                "construction='paired' needs contexts with n >= 2 tokens",
                witness=shapes.context_size,
                suggestion="construction='saturated', which memorizes one example here",
            )
        holds = paired_capacity(num_heads, shapes.width)
        inner = options.inner_dim
        plan = Plan(self.name, num_heads, inner, holds, rank_one=inner == 1)
        if shapes.num_examples > holds:
            needed = 2 * max(1, -(-(shapes.num_examples - 1) // max(shapes.width - 1, 1)))
            suggestion = f"num_heads={needed}"
            dense = rank_one_capacity(num_heads, shapes.context_size)
            if dense >= shapes.num_examples:
                suggestion += (
                    f"; construction='saturated', which memorizes {dense} with these heads"
                )
            formula = (
                f"{self.formula} = {holds}" if num_heads > 1 else "none: one head is not a pair"
            )
            raise CapacityError(
                f"{shapes.num_examples} examples are too many for {num_heads} heads in pairs: a "
                f"pair takes at most d - 1 = {shapes.width - 1}, so all memorize {formula}",
                witness=shapes.num_examples,
                suggestion=suggestion,
            )
        return plan

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:  # noqa: ARG002
        """Estimate sweeps over angles, and a system of d for each pair."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        sweep = total * num_heads / 2 * (2 * 4 * width + SWEEP)
        return Cost(sweep + 4.0 * total * width**2, 8.0 * total * (4 * width + 2 * size))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Order the examples so that pairs take those with the smallest gaps first."""
        dataset: Dataset = survey.dataset
        obstacle = too_many_tokens(dataset) or survey.repeated
        if obstacle is not None:
            return obstacle
        half = -(-group_sizes(dataset.num_examples, plan.num_heads // 2)[0] // 2)
        full_rank = plan.head_dim > half
        seen = paired_search.look(dataset, rng, full_rank=full_rank)
        if isinstance(seen, AssumptionError):
            return seen
        ordered = paired_search.arrange(dataset, seen, plan.num_heads)
        recipe = paired_heads.Recipe(
            plan.head_dim, full_rank, seen.assumed, int(rng.integers(2**63))
        )
        built = work.build_all(ordered, recipe, dataset, options)
        report("solve for the readout", 0, 1)
        targets = dataset.target_matrix[ordered.order].astype(np.float64, copy=False)
        reader = work.reader_of(ordered, built)
        entries = paired_heads.assemble(ordered, built, reader)
        solution = readout.solve(ordered, entries, targets)

        idle = plan.num_heads % 2  # a head without a partner does nothing
        shape = (plan.num_heads - idle, dataset.width, -1)
        pad = ((0, idle), (0, 0), (0, 0))
        missed = np.bincount(built.pairs, minlength=ordered.num_pairs)
        layer = AttentionLayer.from_effective_readout(
            np.pad(built.query_weights.reshape(shape), pad),
            np.pad(built.key_weights.reshape(shape), pad),
            np.pad(solution.effective.reshape(shape), pad).reshape(-1, dataset.target_dim),
            options.value_dim,
        )
        return Built(
            layer,
            largest(solution.residual),
            solution.condition,
            _pair_records(ordered, built.sharpness, missed, solution.ranks, idle),
            shared_keys=True,
            order=tuple(ordered.order.tolist()),
            coupled=len(built.positions),
            fraction=options.saturated_fraction,
        )


def _pair_records(
    ordered: paired_search.Ordered,
    sharpness: Array,
    missed: Integers,
    ranks: Integers,
    idle: int,
) -> tuple[HeadRecord, ...]:
    records = []
    stops, reached = [0, *ordered.stops.tolist()], [0, *np.cumsum(ranks).tolist()]
    total = len(ordered.queries)
    for pair in range(ordered.num_pairs):
        start, stop = stops[pair], stops[pair + 1]
        half = start + (stop - start + 1) // 2
        saturated = 1.0 - missed[pair] / max(total - (stop - start), 1)
        reached_by = float(sharpness[pair])
        rank = reached[pair] + min(half - start, int(ranks[pair]))
        records.append(HeadRecord(start, half, reached_by, float(saturated), rank))
        records.append(HeadRecord(half, stop, reached_by, float(saturated), reached[pair + 1]))
    records += [HeadRecord(stops[-1], stops[-1], 0.0, 0.0, reached[-1])] * idle
    return tuple(records)


PAIRED = Paired("paired", "(H // 2)(d - 1) + 1", "Theorem 6", options={FLOAT: USUAL | PIECES})
