"""Searches for groups: an order of the examples is proved, or what stands in the way of all orders.

*Obstruction.* Let m queries lie in a subspace F of dimension k. A group that has k or more of them
spans F, and so all m are its own, or it is the first: it has at most k. So a grouping needs
m <= H(k - 1) + 1 (Lemma 2.2). With k = 1: two parallel queries defeat every grouping. (That says
something only where groups may have more than k examples.)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, Integers, Rebuilt, private
from constructive.support.progress import report
from constructive.support.verdict import Claim, Verdict
from constructive.theory.assumptions import enumeration
from constructive.theory.bounds import Groups, consecutive, group_sizes


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
        """Return the span of a dependency's queries (T, d), or all of the space without one."""
        if dependency is None:  # no room was left, for no other reason
            return cls(queries.shape[1], (), None)
        members = dyadic.span_members(queries, dependency.rows)
        return cls(len(dependency.rows) - 1, tuple(members.tolist()), dependency)

    def held_by(self, num_heads: int) -> int:
        """Return how many of the members H groups can hold: H(k - 1) + 1, and no zero query."""
        return num_heads * (self.dimension - 1) + 1 if self.dimension else 0

    def refutation(self, groups: Groups) -> Regrouping:
        """Return the refutation: no order works, as there are too many of the members."""
        detail = (
            f"{len(self.members)} queries span {self.dimension} dimensions; of these "
            f"{len(groups)} groups take at most {self.held_by(len(groups))}"
        )
        return Regrouping(Verdict.REFUTED, None, groups, detail, self.dependency, self.members)


def _zero_or_parallel(queries: Array, rng: np.random.Generator) -> Dependency | None:
    """Return a zero query, or two that are parallel, of (T, d); or None if none were found."""
    try:
        return enumeration.dependent_subset(queries, 1, rng) or enumeration.dependent_subset(
            queries, 2, rng
        )
    except enumeration.UndecidedError:
        return None


class GroupSearch(ABC):
    """A search for groups of at most H(size - 1) + 1 examples: passes, until one decides."""

    letter: ClassVar[str]  # what the theory calls `size`
    least: ClassVar[str]  # data for which it is 2 or more, in words
    passes: ClassVar[int]  # how many there are

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        self.dataset, self.num_heads, self.rng = dataset, num_heads, rng
        self.even = consecutive(group_sizes(dataset.num_examples, num_heads))
        self.dependency: Dependency | None = None

    @staticmethod
    @abstractmethod
    def size(dataset: Dataset) -> int:
        """Return how many examples the first group may have; the others have one less."""

    @abstractmethod
    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove that groups of the examples in this order meet what heads need."""

    @abstractmethod
    def attempt(self, number: int) -> Regrouping | None:
        """Return what a pass proves or refutes, or None."""

    def given(self) -> Regrouping | None:
        """Return the order that is given, with even groups, if it will do."""
        order: Integers = np.arange(self.dataset.num_examples)
        return self.proved(self.even, order, "the given order")

    def search(self) -> Regrouping:
        """Find groups in some order of the examples, but for the given one with even groups."""
        queries = self.dataset.queries
        obstacle = _zero_or_parallel(queries, self.rng)
        if obstacle is not None:
            return Flat.of(queries, obstacle).refutation(self.even)
        for number in range(self.passes):
            report("regroup", number, self.passes)
            found = self.attempt(number)
            if found is not None:
                return found
        detail = f"none found in {self.passes} passes; more heads make smaller groups"
        return Regrouping(Verdict.UNDECIDED, None, self.even, detail, self.dependency)

    def proved(self, groups: Groups, order: Integers, detail: str) -> Regrouping | None:
        """Return these groups if they are proved to meet what heads need."""
        if self.prove(groups, order).verdict is not Verdict.PROVED:
            return None
        return Regrouping(Verdict.PROVED, order, groups, detail)

    def refuted(self, flats: Iterable[Flat]) -> Regrouping | None:
        """Return the refutation by the first subspace with more queries than groups can hold."""
        crowded = (flat for flat in flats if len(flat.members) > flat.held_by(self.num_heads))
        return next((flat.refutation(self.even) for flat in crowded), None)
