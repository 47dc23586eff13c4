"""What a search for groups finds: an order of the examples, or what stands in the way of all."""

from dataclasses import dataclass

import numpy as np

from constructive.exact import dyadic
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, Integers, Rebuilt, private
from constructive.support.verdict import Verdict
from constructive.theory.assumptions import enumeration
from constructive.theory.bounds import Groups


@dataclass(frozen=True, eq=False)
class Regrouping(Rebuilt):
    """An order of the examples in which consecutive groups meet what the construction needs.

    Attributes:
        verdict: PROVED if `order` is such an order, REFUTED if none exists, else UNDECIDED
        order: the T examples, group after group, for `Dataset.take` (read-only); or None
        groups: (start, stop) of each head's group in that order
        detail: how it was found or why not
        dependency: queries (or tokens, if a context has rank below n) that stand in the way, or
            None
        members: all queries in the span of these, or examples whose contexts span too little
    """

    verdict: Verdict
    order: Integers | None
    groups: Groups
    detail: str
    dependency: Dependency | None = None
    members: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", private("order", self.order))


@dataclass(frozen=True)
class Flat:
    """A subspace spanned by queries, and all queries in it."""

    dimension: int
    members: tuple[int, ...]
    dependency: Dependency | None

    @classmethod
    def of(cls, queries: Array, dependency: Dependency | None) -> "Flat":
        """Return the span of a dependency's queries, or all of the space where there is none.

        Args:
            queries: (T, d)
            dependency: among them
        """
        if dependency is None:  # no room was left, for no other reason
            return cls(queries.shape[1], (), None)
        members = dyadic.span_members(queries, dependency.rows)
        return cls(len(dependency.rows) - 1, tuple(members.tolist()), dependency)

    def held_by(self, num_heads: int) -> int:
        """Return how many of the members H groups can hold: H(k - 1) + 1, and no zero query."""
        return num_heads * (self.dimension - 1) + 1 if self.dimension else 0

    def refutation(self, groups: Groups) -> Regrouping:
        """Return the refutation: no order works, as there are too many of the members.

        Args:
            groups: of the order given
        """
        detail = (
            f"{len(self.members)} queries span {self.dimension} dimensions; of these "
            f"{len(groups)} groups take at most {self.held_by(len(groups))}"
        )
        return Regrouping(Verdict.REFUTED, None, groups, detail, self.dependency, self.members)


def zero_or_parallel(queries: Array, rng: np.random.Generator) -> Dependency | None:
    """Return a zero query, or two that are parallel; or None if none were found.

    Args:
        queries: (T, d)
        rng: of the maps by which they are looked for
    """
    try:
        return enumeration.dependent_subset(queries, 1, rng) or enumeration.dependent_subset(
            queries, 2, rng
        )
    except enumeration.UndecidedError:
        return None
