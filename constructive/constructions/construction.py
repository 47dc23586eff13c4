"""What is known of a construction: when it applies, what it holds and costs, and how it is built.

One class a construction, one line in `registry`: `explain` and "auto" walk through the registry,
the command line takes its choices from it, tables take the formula, and `certify` asks it whether
its groups are those of the theorems. A record keeps the name only.
"""

from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from constructive.data.shapes import ExampleShapes
from constructive.layers.layer import Layer
from constructive.layers.record import HeadRecord
from constructive.layers.shapes import FLOAT64
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, shown
from constructive.theory.bounds import Plan, TheoremHeads

FLOAT, RATIONAL = "float", "rational"
"""Kinds of arithmetic."""


class Cost(NamedTuple):
    """Estimates from the leading terms: floating-point operations, and bytes beside the data."""

    operations: float
    memory: float


@dataclass(frozen=True)
class Options:
    """What `build_memorizer` hands on.

    Attributes:
        shared_keys: all heads score tokens along one key direction
        fraction: share of the examples off its group on which a head has to saturate
        value_dim: d_v, or None for d_out
        precision: bits of the readout which are asked for; those beyond a float are added to what
            is built
        exact_logits: W_Q and W_K of so few bits that float32 makes no error in logits
        executor: where pieces of the work are done, or None for here
        checkpoint: a folder in which finished pieces are kept, or None
    """

    shared_keys: bool = False
    fraction: float = 0.99
    value_dim: int | None = None
    precision: int | str = FLOAT64
    exact_logits: bool = False
    executor: Executor | None = None
    checkpoint: Path | None = None

    @property
    def pieces(self) -> dict[str, object]:
        """The options, by name, which only a construction in pieces has."""
        given = {"executor": self.executor, "checkpoint": self.checkpoint}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Built:
    """A layer, and what was found on the way.

    Attributes:
        layer: heads with their readout
        residuals: (d_out,), the largest `|f - y|` for each entry of the targets, as measured
        condition: estimated condition number of Z, or the largest one among the systems solved
        heads: a record for each head
        shared_keys: whether all heads score tokens along one key direction
        order: the examples in the order in which heads take them; empty where it is as given
        coupled: entries beside the groups which are not saturated, and were solved for
        fraction: share of the examples on which heads had to saturate
    """

    layer: Layer
    residuals: Array
    condition: float
    heads: tuple[HeadRecord, ...]
    shared_keys: bool = False
    order: tuple[int, ...] = ()
    coupled: int = 0
    fraction: float = 0.0


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

    @property
    def in_pieces(self) -> bool:
        """Whether it is built in independent pieces, for an executor or a checkpoint."""
        ...

    def in_arithmetic(self, arithmetic: str) -> "Construction":
        """The same with weights in another arithmetic; ParameterError where there are none."""
        ...

    def with_values(self, value_dim: int | None, target_dim: int) -> "Construction":
        """The same with values of d_v entries, None for d_out; ParameterError where it has none."""
        ...

    def with_exact_logits(self) -> "Construction":
        """The same with W_Q and W_K of few bits; ParameterError where they need more."""
        ...

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """What would be built. CapacityError or ParameterError says why nothing can be."""
        ...

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """What that would take."""
        ...

    def build(
        self,
        dataset: Any,  # noqa: ANN401 - in its arithmetic
        plan: Plan,
        options: Options,
        *,
        rng: np.random.Generator,
    ) -> Built:
        """Build by the plan; raises what its steps raise."""
        ...


def require_arithmetic(arithmetic: object) -> None:
    """Raise ParameterError for what is no kind of arithmetic."""
    if arithmetic not in (FLOAT, RATIONAL):
        raise ParameterError(
            f"unknown arithmetic={shown(arithmetic)}",
            witness=shown(arithmetic),
            suggestion=f"{FLOAT!r} or {RATIONAL!r}",
        )


def require_pieces(construction: Construction, options: Options, others: Iterable[str]) -> None:
    """Raise ParameterError for an executor or a checkpoint where there are no pieces.

    others: the names of the constructions which have some
    """
    if options.pieces and not construction.in_pieces:
        words = {"executor": "executor= (--jobs)", "checkpoint": "checkpoint="}
        names = " and ".join(words[name] for name in options.pieces)
        raise ParameterError(
            f"construction={construction.name!r} is not built in pieces, and has no {names}",
            witness=construction.name,
            suggestion=f"construction={' or '.join(map(repr, others))}, or no {names}",
        )


def require_wide_values(name: str, value_dim: int | None, target_dim: int) -> None:
    """Raise ParameterError for d_v < d_out, where every readout has to be a layer's (Lemma 5.1)."""
    if value_dim is not None and value_dim < target_dim:
        raise ParameterError(
            f"value_dim={value_dim} is less than the d_out={target_dim} of the targets, which "
            f"construction={name!r} does not do",
            witness=value_dim,
            suggestion=f"value_dim={target_dim} or more, or construction='auto'",
        )


def long_weights(name: str) -> ParameterError:
    """Why exact_logits=True is refused: heads which saturate need more bits than few."""
    return ParameterError(
        f"construction={name!r} has no exact logits: its W_Q and W_K need all their bits",
        witness=name,
        suggestion="construction='generic', whose heads are random, or exact_logits=False",
    )


@dataclass(frozen=True)
class Described:
    """What stands beside the name of a construction in floats.

    Attributes:
        name: what users ask for
        formula: how many examples it holds
        theorem: where that is proved
        shortest: whether its readout is the shortest one, by a dense factorization of Z
        grouped: whether its groups are those of the theorems, of which certificates speak then
        in_pieces: whether it is built in independent pieces, for an executor or a checkpoint
    """

    name: str
    formula: str
    theorem: str
    shortest: bool = False
    grouped: bool = False
    in_pieces: bool = False

    def in_arithmetic(self, arithmetic: str) -> Construction:
        """The construction itself, in floats. Raises ParameterError for other arithmetic."""
        if arithmetic != FLOAT:
            raise ParameterError(
                f"construction={self.name!r} has no {arithmetic} weights",
                witness=self.name,
                suggestion=f"construction='auto', or arithmetic={FLOAT!r}",
            )
        return self  # type: ignore[return-value] # those who inherit plan and build

    def with_values(self, value_dim: int | None, target_dim: int) -> Construction:
        """The construction itself. Raises ParameterError for values narrower than targets."""
        require_wide_values(self.name, value_dim, target_dim)
        return self  # type: ignore[return-value] # as above

    def with_exact_logits(self) -> Construction:
        """None, unless it says otherwise. Raises ParameterError."""
        raise long_weights(self.name)


@dataclass(frozen=True)
class OfTheorem:
    """What is known of heads that stand in a theorem."""

    of: TheoremHeads

    @property
    def name(self) -> str:
        """That of the heads."""
        return self.of.name

    @property
    def formula(self) -> str:
        """How many examples the theorem promises."""
        return self.of.formula

    @property
    def theorem(self) -> str:
        """Which one that is."""
        return self.of.theorem

    @property
    def shortest(self) -> bool:
        """Its readout is the shortest one."""
        return True

    @property
    def grouped(self) -> bool:
        """Its groups are those of the theorem."""
        return True

    @property
    def in_pieces(self) -> bool:
        """Its readout takes all heads at once."""
        return False

    def with_values(self, value_dim: int | None, target_dim: int) -> Construction:
        """The construction itself. Raises ParameterError for values narrower than targets."""
        require_wide_values(self.name, value_dim, target_dim)
        return self  # type: ignore[return-value] # those who inherit build

    def with_exact_logits(self) -> Construction:
        """None. Raises ParameterError."""
        raise long_weights(self.name)

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As the theorem says."""
        return self.of.plan(
            num_examples=shapes.num_examples,
            context_size=shapes.context_size,
            num_heads=num_heads,
            head_dim=head_dim,
        )


def largest(residuals: Array) -> Array:
    """The largest `|f - y|` for each entry of the targets (d_out,), infinite if it is no number.

    residuals: (T, d_out)
    """
    found = np.abs(residuals).max(axis=0)
    return np.where(np.isfinite(found), found, np.inf)
