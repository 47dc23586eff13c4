"""Values of fewer entries than targets, d_v < d_out: random heads, and one of two readouts.

The heads are those of `generic`. Of the two shapes of a readout (`readout_shapes`) that hold the
examples the better conditioned is taken, over a few draws of heads.
"""

from dataclasses import dataclass

import numpy as np

from constructive.constructions import generic
from constructive.constructions.construction import (
    FLOAT,
    NARROW,
    USUAL,
    WIDE,
    Cost,
    Options,
    operations_of_z,
)
from constructive.constructions.readout_shapes import RandomValues, Shape, Slots
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.support.errors import CapacityError
from constructive.theory.bounds import Plan
from constructive.theory.values import ValueBounds, generic_bounds, heads_for_values


@dataclass(frozen=True)
class NarrowValues(generic.Generic):
    """Random heads whose values have fewer entries than targets."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan for as many examples as Proposition 18.1 promises where contexts are generic."""
        inner = options.inner_dim
        value_dim = _value_dim(shapes, options)
        bounds = generic_bounds(shapes, num_heads, inner, value_dim)
        if shapes.num_examples > bounds.holds:
            raise self._too_many(shapes, num_heads, (inner, value_dim), bounds)
        return Plan(self.name, num_heads, inner, bounds.holds, rank_one=inner == 1)

    def _too_many(
        self, shapes: ExampleShapes, num_heads: int, dims: tuple[int, int], bounds: ValueBounds
    ) -> CapacityError:
        total, (head_dim, value_dim) = shapes.num_examples, dims
        of = f"{num_heads} heads with d_h={head_dim}, d_v={value_dim} and d_out="
        of += str(shapes.target_dim)
        if total > bounds.at_most:
            problem = f"no weights of {of} memorize every labelling of {total} examples: "
            problem += bounds.reason
        else:
            problem = f"{total} examples are too many for {of} as {self.name} builds them, which "
            problem += f"hold {bounds.holds}; that no weights do is proved above {bounds.at_most}"
        enough = heads_for_values(shapes, value_dim)
        ways = [] if enough is None else [f"num_heads={enough}"]
        wide = generic_bounds(shapes, num_heads, head_dim, shapes.target_dim)
        if total <= wide.holds:
            ways.append(f"value_dim={shapes.target_dim}")
        ways.append(f"keep {bounds.holds} of the examples")
        return CapacityError(problem, witness=total, suggestion=", or ".join(ways))

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:
        """Return Z, and the factors of one matrix for each entry of the targets, for each trial."""
        total, columns = shapes.num_examples, num_heads * shapes.width
        solves = 2.0 * total**2 * columns * (options.value_dim or 1)
        solves += shapes.target_dim * total**3 / 3
        once = operations_of_z(shapes, num_heads) + solves
        tried = len(generic.trials(total, columns))
        return Cost(once * tried, 8.0 * total * (2 * columns + total))

    def _readout_shapes(
        self, dataset: Dataset, plan: Plan, options: Options, rng: np.random.Generator
    ) -> list[Shape]:
        """Return those of the two that hold so many examples."""
        value_dim = _value_dim(dataset, options)
        sizes = plan.num_heads, dataset.width, value_dim, dataset.target_dim
        bounds = generic_bounds(dataset, plan.num_heads, plan.head_dim, value_dim)
        found: list[Shape] = []
        if dataset.num_examples <= bounds.by_rank:
            found.append(RandomValues.draw(*sizes, rng))
        if dataset.num_examples <= bounds.by_slots:
            found.append(Slots.share(*sizes))
        return found


def _value_dim(shapes: ExampleShapes, options: Options) -> int:
    return shapes.target_dim if options.value_dim is None else options.value_dim


NARROW_VALUES = NarrowValues(
    "narrow_values",
    "max(H d_v, floor(H d_v / d_out) d)",
    "Proposition 18.1",
    has_min_norm_readout=True,
    options={FLOAT: (USUAL - {WIDE, "precision"}) | {NARROW, "exact_logits", "lengths"}},
)
