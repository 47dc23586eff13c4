"""What is known of a construction: when it applies, what it holds and costs, and how it is built.

One class a construction, one line in `registry`: `explain` and "auto" walk through the registry,
and the command line takes its choices from it. A record keeps what a reader of the file asks for:
its name, the formula, the theorem, and whether its groups are those of the theorems.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from constructive.constructions.options import FLOAT, PIECES, USUAL, Options, Takes
from constructive.constructions.survey import Survey
from constructive.data.shapes import ExampleShapes
from constructive.layers.layer import Layer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array
from constructive.support.errors import AssumptionError
from constructive.theory.bounds import Plan


class Cost(NamedTuple):
    """Estimates from the leading terms: floating-point operations, and bytes beside the data."""

    operations: float
    memory: float


@dataclass(frozen=True, eq=False)
class Built:
    """A layer, and what was found on the way."""

    layer: Layer  # heads with their readout
    residuals: Array  # (d_out,), the largest `|f - y|` for each entry of the targets, as measured
    condition: float  # estimated condition number of Z, or the largest one among the systems solved
    heads: tuple[HeadRecord, ...]  # a record for each head
    shared_keys: bool = False  # whether all heads score tokens along one key direction
    # the examples in the order in which heads take them; empty where it is as given
    order: tuple[int, ...] = ()
    coupled: int = 0  # entries beside the groups that are not saturated, and were solved for
    fraction: float = 0.0  # share of the examples on which heads had to saturate


# What was built; or what the data do not meet, as a value: "auto" goes on to another construction,
# and otherwise it is raised.
Outcome = Built | AssumptionError


@dataclass(frozen=True)
class Construction(ABC):
    """One way to build a memorizer: its facts as fields, and three methods.

    The laws, which `check_construction` of the tests checks: `build` of a plan that `plan` gave has
    the plan's heads, reproduces the targets as far as `residuals` say, and two builds from one
    state of `rng` are one. `plan` and `cost` look at shapes only. No option that is not listed
    reaches any of them (`refusals.refusal`).
    """

    name: str  # what users ask for
    formula: str  # how many examples it holds
    theorem: str  # where that is proved
    # whether its readout is the shortest one, by a dense factorization of Z; "auto" takes the first
    # such construction as long as it is cheap
    has_min_norm_readout: bool = False
    # whether its groups are those of the theorems, of which the claim *grouping* speaks
    grouped: bool = False
    # names of the options that it takes, for each arithmetic that it has
    options: Takes = field(default_factory=lambda: {FLOAT: USUAL}, hash=False)

    @property
    def is_parallel(self) -> bool:
        """Whether it is built in independent pieces, for an executor or a checkpoint."""
        return self.options[FLOAT] >= PIECES

    @abstractmethod
    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan a build. CapacityError or ParameterError says why nothing can be built."""

    @abstractmethod
    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:
        """Estimate what the build takes."""

    @abstractmethod
    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Build by the plan. Returns an AssumptionError where the data do not meet what it assumes.

        Raises what its steps raise, where no other construction would do better.
        """


def unsaturated_heads(stops: Iterable[int], ranks: Iterable[int]) -> tuple[HeadRecord, ...]:
    """Return records of heads without a saturating part.

    stops: (H,), where the groups end, which are consecutive examples
    ranks: (H,), the rank of Z on the examples up to there

    Example:
        >>> [(head.start, head.stop) for head in unsaturated_heads([2, 3], [2, 3])]
        [(0, 2), (2, 3)]
    """
    return tuple(
        HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=rank)
        for (start, stop), rank in zip(pairwise([0, *stops]), ranks, strict=True)
    )


def operations_of_z(shapes: ExampleShapes, num_heads: int) -> float:
    """Estimate the operations that Z takes, which all T x T systems are made of."""
    size = shapes.context_size
    keys = size if shapes.shared_context else shapes.width + size
    return 2.0 * shapes.num_examples * num_heads * shapes.width * (keys + size)
