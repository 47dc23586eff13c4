"""What is known of a construction: when it applies, what it holds and costs, and how it is built.

One class a construction, one line in `registry`: `explain` and "auto" walk through the registry,
the command line takes its choices from it, tables take the formula, and `certify` the claims. A
record keeps the name only.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from constructive.data.dataset import Dataset, ExampleShapes
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array
from constructive.support.progress import Progress
from constructive.theory.bounds import Plan


class Cost(NamedTuple):
    """Estimates from the leading terms: floating-point operations, and bytes beside the data."""

    operations: float
    memory: float


@dataclass(frozen=True)
class Options:
    """What `build_memorizer` hands on.

    shared_keys: all heads score tokens along one key direction
    fraction:    share of the examples off its group on which a head has to saturate
    """

    shared_keys: bool
    fraction: float


@dataclass(frozen=True, eq=False)
class Built:
    """Heads with an effective readout, and what was found on the way.

    query_weights, key_weights: (H, d, d_h);  effective: U (H d, d_out)
    residuals: (d_out,), the largest |f - y| for each entry of the targets, as measured
    condition: estimated condition number of Z, or the largest one among the systems solved
    order:     the examples in the order in which heads take them; empty where it is as given
    coupled:   entries beside the groups which are not saturated, and were solved for
    """

    query_weights: Array
    key_weights: Array
    effective: Array
    residuals: Array
    condition: float
    heads: tuple[HeadRecord, ...]
    shared_keys: bool
    order: tuple[int, ...] = ()
    coupled: int = 0


class Construction(Protocol):
    """One way to build a memorizer.

    The laws: `build` of a plan that `plan` gave has the plan's heads, reproduces the targets as far
    as `residuals` say, and two builds from one state of `rng` are one. `plan` looks at shapes only,
    and so does `cost`.
    """

    @property
    def name(self) -> str:
        """What users ask for."""
        ...

    @property
    def formula(self) -> str:
        """How many examples it holds."""
        ...

    @property
    def theorem(self) -> str:
        """Where that is proved."""
        ...

    @property
    def shortest(self) -> bool:
        """Whether its readout is the shortest one, by a dense factorization of Z.

        "auto" takes the first such one as long as it is cheap.
        """
        ...

    @property
    def grouped(self) -> bool:
        """Whether its groups are those of the theorems, of which the claim *grouping* speaks."""
        ...

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """What would be built. CapacityError or ParameterError says why nothing can be."""
        ...

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """What that would take."""
        ...

    def build(
        self,
        dataset: Dataset,
        plan: Plan,
        options: Options,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Built:
        """Build by the plan; raises what its steps raise."""
        ...


def largest(residuals: Array) -> Array:
    """Max |f - y| for each entry of the targets (d_out,), infinite where it is not a number.

    residuals: (T, d_out)
    """
    found = np.abs(residuals).max(axis=0)
    return np.where(np.isfinite(found), found, np.inf)
