"""What is known of a construction: when it applies, what it holds and costs, and how it is built.

One class a construction, one line in `build.CONSTRUCTIONS`, through which `explain` and "auto"
walk, and one name in `constructions.NAMES` (docs/contributing.md has the steps). A record keeps
what a reader of the file asks for: its name, the formula, the theorem, and whether its groups are
those of the theorems.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from constructive.constructions.multihead import assumptions
from constructive.data.shapes import ExampleShapes
from constructive.layers.extended import FloatLayer
from constructive.layers.layer import FLOAT64_BITS
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array
from constructive.support.errors import AssumptionError
from constructive.theory.bounds import Plan
from constructive.theory.capacity import (
    ContextCapacity,
    FewestHeads,
    context_capacity,
    fewest_heads,
)

# What can be asked of a construction, by names as an error has them. A construction lists those
# that it takes. Planning asks for lengths; the others say how a plan is built.

LENGTHS = "contexts of different lengths"

# What most constructions take, or have no use for.
USUAL = frozenset({"value_dim=", "saturated_fraction=", "precision="})


@dataclass(frozen=True)
class Options:
    """What is asked of a construction, beside the number of heads."""

    head_dim: int | None = None  # d_h, or None for what suits the construction
    value_dim: int | None = None  # d_v of d_out or more, or None for d_out
    # share of the examples off its group on which a head has to saturate
    saturated_fraction: float = 0.99
    # bits of the readout; those beyond a float are added to what is built
    precision: int | str = FLOAT64_BITS
    lengths: bool = False  # contexts have different lengths

    @property
    def inner_dim(self) -> int:
        """d_h, by default that of heads of rank one."""
        return 1 if self.head_dim is None else self.head_dim

    def asked(self) -> dict[str, object]:
        """Return what is asked for, and its values."""
        found: dict[str, object] = {LENGTHS: True} if self.lengths else {}
        for name in ("value_dim", "saturated_fraction", "precision"):
            value = getattr(self, name)
            if value != getattr(Options, name):
                found[f"{name}="] = value
        return found


# What is known of a dataset: each fact is computed when it is first asked for, and then kept.
#
# A survey is made once for a build and handed to planning, to the construction and to the text of
# errors, so that none of them looks at the data again.


_SEED = 0  # Of eliminations modulo a prime


@dataclass(frozen=True)
class Survey:
    """Facts about T examples."""

    dataset: Any  # a `Dataset`, or mere shapes, of which it knows nothing else

    @cached_property
    def repeated(self) -> AssumptionError | None:
        """Why no weights memorize the inputs as they are, or None: one of them occurs twice.

        Raises DataError for equal inputs with different targets, and for numbers that are too large
        or too small for float64.
        """
        return assumptions.repeated(self.dataset)

    @cached_property
    def contexts(self) -> float | AssumptionError:
        """Return `assumptions.context_ranks`, unless tokens are too many or inputs repeated."""
        obstacle = assumptions.too_many_tokens(self.dataset) or self.repeated
        return obstacle or assumptions.context_ranks(self.dataset)

    @cached_property
    def fewest_heads(self) -> FewestHeads:
        """The fewest fixed heads that the contexts allow. CapacityError if no number is enough."""
        return fewest_heads(self.dataset, seed=_SEED)

    def capacity(self, num_heads: int) -> ContextCapacity:
        """Return bounds of c(E; H) for H heads."""
        return context_capacity(self.dataset, num_heads, np.random.default_rng(_SEED))


class Cost(NamedTuple):
    """Estimates from the leading terms: floating-point operations, and bytes beside the data."""

    operations: float
    memory: float


@dataclass(frozen=True, eq=False)
class Built:
    """A layer, and what was found on the way."""

    layer: FloatLayer  # heads with their readout
    residuals: Array  # (d_out,), how well the readout was solved: the largest `|Z U - Y|`
    condition: float  # estimated condition number of Z, or the largest one among the systems solved
    heads: tuple[HeadRecord, ...]  # a record for each head
    # the examples in the order in which heads take them; empty where it is as given
    order: tuple[int, ...] = ()
    coupled: int = 0  # entries beside the groups that are not saturated, and were solved for
    formula: str = ""  # how many examples such heads memorize, if the construction has several
    scale: float = 1.0  # by which readouts were multiplied, so that steps contract
    labels: bool = False  # whether the largest output is that of the label, and nothing else is met
    fraction: float = 0.0  # share of the examples on which heads had to saturate
    saturating: Array | None = None  # w of each head (H, d), zero where sharpness is 0


# What was built; or what the data do not meet, as a value: "auto" goes on to another construction,
# and otherwise it is raised.
Outcome = Built | AssumptionError


@dataclass(frozen=True)
class Construction(ABC):
    """One way to build a memorizer: its facts as fields, and three methods.

    The laws, which `check_construction` of the tests checks: `build` of a plan that `plan` gave has
    the plan's heads, reproduces the targets but for rounding, and two builds from one
    state of `rng` are one. `plan` and `cost` look at shapes only. No option that is not listed
    reaches any of them (`build.refusal`).
    """

    name: str  # what users ask for
    formula: str  # how many examples it holds
    theorem: str  # where that is proved
    # whether its readout is the shortest one, by a dense factorization of Z; "auto" takes the first
    # such construction as long as it is cheap
    has_min_norm_readout: bool = False
    # whether its groups are those of the theorems, of which the claim *grouping* speaks
    grouped: bool = False
    options: frozenset[str] = USUAL  # names of the options that it takes

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
