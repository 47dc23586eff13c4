"""What is known of a construction: when it applies, what it holds and costs, and how it is built.

A construction is three functions: one plans, one estimates costs, and one builds. `choice.py` has
the table of them, through which `explain` and "auto" walk (docs/contributing.md has the steps).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from constructive.data.shapes import ExampleShapes
from constructive.layers.layer import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array, Integers
from constructive.support.errors import AssumptionError
from constructive.theory.bounds import Plan

SEED = 0  # Of eliminations modulo a prime that say what contexts allow


class Cost(NamedTuple):
    """Estimates from the leading terms: floating-point operations, and bytes beside the data."""

    operations: float
    memory: float


@dataclass(frozen=True, eq=False)
class FixedHeads:
    """Heads that do not depend on the targets, whose readout is still to be found.

    query_weights, key_weights: W_Q and W_K (H, d, d_h)
    stops: (H,), where their groups end, which are consecutive examples
    sharpness, saturating: c (H,) and w (H, d) of each head, or None if no head saturates
    """

    query_weights: Array
    key_weights: Array
    stops: Integers
    sharpness: Array | None = None
    saturating: Array | None = None


@dataclass(frozen=True, eq=False)
class Built:
    """A layer, and what was found on the way."""

    layer: AttentionLayer  # heads with their readout
    residuals: Array  # (d_out,), how well the readout was solved: the largest `|Z U - Y|`
    condition: float  # estimated condition number of Z, or the largest one among the systems solved
    heads: tuple[HeadRecord, ...]  # a record for each head
    saturating: Array | None = None  # w of each head (H, d), or None if no head saturates
    # the examples in the order in which heads take them; empty where it is as given
    order: tuple[int, ...] = ()
    coupled: int = 0  # entries beside the groups that are not saturated, and were solved for
    formula: str = ""  # how many examples such heads memorize, if the construction has several
    scale: float = 1.0  # by which readouts were multiplied, so that steps contract
    labels: bool = False  # whether the largest output is that of the label, and nothing else is met


# What a construction gives: heads, of several of which the best conditioned are taken; or heads
# with their readout; or what the data do not meet, as a value: "auto" goes on to another
# construction, and otherwise it is raised.
Found: TypeAlias = Iterable[FixedHeads] | Built | AssumptionError


@dataclass(frozen=True)
class Construction:
    """One way to build a memorizer: its facts, and three functions.

    `plan` and `cost` look at the shapes of the examples, H, and d_h or None. `plan` raises
    AssumptionError, CapacityError or ParameterError where nothing can be built. `build` takes the
    survey of the examples, the H and d_h of a plan and `rng`, and from grouped heads
    `saturated_fraction`; it raises what its steps raise, where no other construction would do
    better.

    The laws, which `check_construction` of the tests checks: what is built by a plan has the plan's
    heads, reproduces the targets but for rounding, and two builds from one state of `rng` are one.
    """

    name: str  # what users ask for
    formula: str  # how many examples it holds
    theorem: str  # where that is proved
    plan: Callable[[ExampleShapes, int, int | None], Plan]
    cost: Callable[[ExampleShapes, int, int | None], Cost]
    build: Callable[..., Found]
    # H by default, or fewer, for shapes and d_h, and why; None for what contexts allow fixed heads
    fewest: Callable[[ExampleShapes, int | None], tuple[int, str]] | None = None
    # whether its groups are those of the theorems, of which the claim *grouping* speaks
    grouped: bool = False
    free: bool = False  # whether heads depend on the targets, so that no readout is left to choose
    lengths: bool = False  # whether it takes contexts of different lengths
