"""Another order of the examples, where the given one does not suit the construction."""

import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, Booleans, Integers, Rebuilt, private
from constructive.support.errors import (
    CapacityError,
    ParameterError,
    in_three_parts,
    require_positive,
    require_seed,
    shown,
)
from constructive.support.verdict import Claim, Verdict
from constructive.support.work import report
from constructive.theory import grouping, kruskal
from constructive.theory.bounds import require_heads
from constructive.theory.capacity import context_capacity, generic_rows
from constructive.theory.grouping import Groups, consecutive, context_of_each, group_sizes
from constructive.theory.kruskal import dependent_contexts

# Searches for groups: an order of the examples is proved, or what stands in the way of all orders.
#
# *Obstruction.* Let m queries lie in a subspace F of dimension k. A group that has k or more of
# them spans F, and so all m are its own, or it is the first: it has at most k. So a grouping needs
# m <= H(k - 1) + 1 (Lemma 2.2). With k = 1: two parallel queries defeat every grouping. (That says
# something only where groups may have more than k examples.)


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
class Subspace:
    """A subspace spanned by queries, and all queries in it."""

    dimension: int
    members: tuple[int, ...]
    dependency: Dependency

    @classmethod
    def of(cls, queries: Array, dependency: Dependency) -> "Subspace":
        """Return the span of a dependency's queries (T, d)."""
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
        return kruskal.enumerated_dependency(queries, 1, rng) or kruskal.enumerated_dependency(
            queries, 2, rng
        )
    except kruskal.CollidingImagesError:
        return None


# How groups are looked for, in passes.
#
# Examples are dealt out to groups like cards, and what a group does not take is put elsewhere. That
# a group is independent makes it a set of a matroid, and to share all examples among H such sets is
# Edmonds' matroid partition: where an example fits nowhere, a shortest chain of examples, each in
# the place of the next, makes room for it. Where a group has to be independent in two matroids, an
# exchange has to suit both. That is no longer sure to find what there is, but queries are dependent
# by exception.
#
# A group may then have the query of another group in its span. Such queries lie in a subspace. They
# are dealt out first, next time, so that no group has many of them.
#
# All tests are modulo a prime. A chance collision refuses an example that would fit; what comes out
# is proved by `theory.grouping`.


_PASSES = 20
_BLAMED = 4  # Dependencies among queries that are looked at after each pass


class GroupSearch(ABC):
    """A search for groups of at most H(size - 1) + 1 examples: passes, until one decides."""

    letter: ClassVar[str]  # what the theory calls `size`
    least: ClassVar[str]  # data for which it is 2 or more, in words

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        self.dataset, self.num_heads, self.rng = dataset, num_heads, rng
        # (start, stop) of groups of even sizes, which the given order has
        self.even = consecutive(group_sizes(dataset.num_examples, num_heads))
        self.flats: list[Subspace] = []  # of queries that stood in the way of passes

    @staticmethod
    @abstractmethod
    def size(dataset: Dataset) -> int:
        """Return how many examples the first group may have; the others have one less."""

    @abstractmethod
    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove that groups of the examples in this order meet what heads need."""

    @abstractmethod
    def sharing(self, queue: Integers) -> "_Sharing":
        """Deal out the examples to groups, which take what is independent in their matroids."""

    @abstractmethod
    def in_order(self, sharing: "_Sharing") -> list[int] | None:
        """Return the groups such that none has a query in its span that it may not; or None."""

    def given(self) -> Regrouping | None:
        """Return the order that is given, with even groups, if it will do."""
        order: Integers = np.arange(self.dataset.num_examples)
        return self.proved(self.even, order, "the given order")

    def search(self) -> Regrouping:
        """Find groups in some order of the examples, but for the given one with even groups."""
        queries = self.dataset.queries
        obstacle = _zero_or_parallel(queries, self.rng)
        if obstacle is not None:
            return Subspace.of(queries, obstacle).refutation(self.even)
        for number in range(_PASSES):
            report("regroup", number, _PASSES)
            found = self._attempt(number)
            if found is not None:
                return found
        detail = f"none found in {_PASSES} passes; more heads make smaller groups"
        dependency = self.flats[-1].dependency if self.flats else None
        return Regrouping(Verdict.UNDECIDED, None, self.even, detail, dependency)

    def _attempt(self, number: int) -> Regrouping | None:
        """Deal out the examples, exchange them, and sort the groups: what that proves, or None."""
        sharing = self.sharing(_queue(self.dataset, self.flats, self.rng))
        sharing.place_all()
        if sharing.loose and number == 0:
            narrow = self._too_narrow()
            if narrow is not None:
                return narrow
        heads = None if sharing.loose else self.in_order(sharing)
        if heads is not None:
            members = [sharing.members[head] for head in heads]
            groups, order = consecutive(map(len, members)), np.concatenate(members)
            found = self.proved(groups, order, f"found in pass {number + 1}")
            if found is not None:
                return found
        self.flats += [
            flat for flat in sharing.flats(self.dataset.queries) if flat not in self.flats
        ]
        crowded = (flat for flat in self.flats if len(flat.members) > flat.held_by(self.num_heads))
        return next((flat.refutation(self.even) for flat in crowded), None)

    def _too_narrow(self) -> Regrouping | None:
        """That no order will do, where contexts hold less than all examples (Theorem 8)."""
        found = context_capacity(self.dataset, self.num_heads, self.rng)
        if found.upper >= self.dataset.num_examples or not len(found.blamed):
            return None
        spans, members = found.spans, tuple(found.blamed.tolist())
        most = spans.tokens + (self.num_heads - 1) * spans.differences
        detail = (
            f"the contexts of {len(members)} examples span {spans.tokens} dimensions, and their "
            f"differences of tokens {spans.differences}; of these {self.num_heads} groups take at "
            f"most {most}"
        )
        return Regrouping(Verdict.REFUTED, None, self.even, detail, None, members)

    def proved(self, groups: Groups, order: Integers, detail: str) -> Regrouping | None:
        """Return these groups if they are proved to meet what heads need."""
        if self.prove(groups, order).verdict is not Verdict.PROVED:
            return None
        return Regrouping(Verdict.PROVED, order, groups, detail)


def _queue(dataset: Dataset, flats: list[Subspace], rng: np.random.Generator) -> Integers:
    """The order in which examples are dealt out: by subspaces of queries, then by contexts."""
    total = dataset.num_examples
    contexts = context_of_each(dataset).reshape(total, -1)
    _, kind = np.unique(contexts, axis=0, return_inverse=True)
    flat = np.full(total, len(flats))
    for index in rng.permutation(len(flats)):
        flat[list(flats[index].members)] = index
    ties, kinds = np.arange(total), np.arange(total)
    if flats:
        ties, kinds = rng.permutation(total), rng.permutation(total)
    order: Integers = np.lexsort((ties, kinds[kind.reshape(-1)], flat))
    return order


class EvenGroups(GroupSearch):
    """The groups of Theorems 1 and 2: n - 1 examples, n in the first, whose contexts have rank n.

    The queries of each group are independent, and no group but the first has another query in its
    span (`theory.grouping`).
    """

    letter = "n"
    least = "contexts of n >= 2 tokens"

    @staticmethod
    def size(dataset: Dataset) -> int:
        """Return n."""
        return dataset.context_size

    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove the claim *grouping*."""
        given = np.array_equal(order, np.arange(len(order)))
        return grouping.prove(self.dataset if given else self.dataset.take(order), groups, self.rng)

    def search(self) -> Regrouping:
        """Find groups, if the contexts allow any."""
        wrong = dependent_contexts(self.dataset)
        if wrong:
            detail = f"the context of example {wrong[0].example} has rank below n, in every order"
            return Regrouping(Verdict.REFUTED, None, self.even, detail, wrong[0].tokens)
        return super().search()

    def sharing(self, queue: Integers) -> "_Sharing":
        """Deal out the examples to groups of independent queries, of even sizes."""
        queries = _Matroid.of_queries(self.dataset, self.rng)
        rooms = [stop - start for start, stop in self.even]
        return _Sharing(rooms, [(queries,)] * self.num_heads, queue, self.rng)

    def in_order(self, sharing: "_Sharing") -> list[int] | None:
        """Return the groups as they are, if no later one has another query in its span."""
        crossed = any(len(spanned) for spanned in sharing.spanned()[1:])
        return None if crossed else list(range(self.num_heads))


class WideGroups(GroupSearch):
    """The groups of Theorem 10, of any sizes, up to d - 1 examples, and d in the first.

    The queries of each group are independent, and no later group has an earlier query in its span:
    so groups are sorted in the end. Contexts of a group are wide enough if random differences of
    tokens, one of each, are independent (Proposition 15.3); of the first group, random sums of
    tokens. Of any examples J groups hold k_J + (H - 1) delta_J at most: the first one k_J, and the
    others delta_J.
    """

    letter = "d"
    least = "queries of d >= 2 entries"

    @staticmethod
    def size(dataset: Dataset) -> int:
        """Return d."""
        return dataset.width

    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove the claim *wide_grouping*."""
        return grouping.prove_wide(self.dataset, groups, order, self.rng)

    def sharing(self, queue: Integers) -> "_Sharing":
        """Deal out the examples to groups of independent queries, and of wide contexts."""
        total, width = self.dataset.num_examples, self.dataset.width
        queries = _Matroid.of_queries(self.dataset, self.rng)
        prime, contexts = queries.prime, context_of_each(self.dataset)
        tokens, differences = (
            _Matroid.of(
                generic_rows(contexts, 1, prime, self.rng, np.full(total, which)), prime, self.rng
            )
            for which in (False, True)
        )
        later = self.num_heads - 1
        matroids = [(tokens, queries), *[(differences, queries)] * later]
        return _Sharing([width, *[width - 1] * later], matroids, queue, self.rng)

    def in_order(self, sharing: "_Sharing") -> list[int] | None:
        """Return the groups in an order where none has an earlier query in its span, or None."""
        home = np.full(self.dataset.num_examples, -1)
        for head, members in enumerate(sharing.members):
            home[members] = head
        later = [set(home[spanned].tolist()) - {-1} for spanned in sharing.spanned()]
        order: list[int] = []
        left = list(range(self.num_heads))
        while left:
            # Empty groups span nothing, and come last, as heads of even groups do.
            free = [h for h in left if not any(h in later[g] for g in left if g != h)]
            if not free:
                return None
            order.append(free[0])
            left.remove(free[0])
        return sorted(order, key=lambda h: not len(sharing.members[h]))


@dataclass(frozen=True, eq=False)
class _Matroid:
    """Rows modulo a prime: a set of examples is independent if its rows are.

    rows: (T, d);  seen: (T, 2), random mixtures of their entries, which stand for them
    """

    rows: Array
    seen: Array
    prime: int

    @classmethod
    def of(cls, rows: Array, prime: int, rng: np.random.Generator) -> "_Matroid":
        mixing = modular.random_residues(rng, (rows.shape[1], 2), prime)
        return cls(rows, modular.product(rows, mixing, prime), prime)

    @classmethod
    def of_queries(cls, dataset: Dataset, rng: np.random.Generator) -> "_Matroid":
        prime = next(modular.safe_primes())
        return cls.of(modular.residues(dataset.queries, prime), prime, rng)

    def basis(self, examples: Integers) -> Integers:
        """Return as many of the examples as are independent."""
        factors = modular.factor(self.rows[examples], self.prime)
        return examples[np.sort(factors.rows[: factors.rank])]

    def swaps(self, members: Integers) -> tuple[Booleans, Booleans]:
        """Return which examples are outside of the span (T,), and may replace members (T, k)."""
        factors = modular.factor(self.rows[members], self.prime)
        inverse = modular.solve(factors, np.eye(len(members)))
        terms = modular.product(self.rows[:, factors.columns], inverse, self.prime)
        spanned = modular.product(terms, self.seen[members], self.prime)
        rest = modular.reduce(spanned - self.seen, self.prime)
        outside = np.asarray(rest.any(axis=1))
        return outside, np.logical_or(outside[:, np.newaxis], terms != 0)


class _Sharing:
    """Groups that are being filled, with the examples that found no place yet."""

    def __init__(
        self,
        rooms: list[int],
        matroids: Sequence[tuple[_Matroid, ...]],
        queue: Integers,
        rng: np.random.Generator,
    ) -> None:
        """Deal out the examples, and take back what a group does not hold.

        rooms: how many examples each group may have
        matroids: those in which each group has to be independent, the queries last
        """
        self.rooms, self.matroids, self.rng = rooms, matroids, rng
        self.members: list[Integers] = []
        self.loose: list[int] = []
        self.known: dict[int, tuple[Booleans, Booleans]] = {}
        for head, room in enumerate(rooms):
            given = np.sort(queue[head :: len(rooms)])
            kept = given
            for matroid in matroids[head]:
                kept = matroid.basis(kept)
            self.members.append(kept[:room])
            self.loose += np.setdiff1d(given, kept[:room]).tolist()

    def place_all(self) -> None:
        """Find places for loose examples, up to the first that finds none."""
        while self.loose and self._place(self.loose[-1]):
            self.loose.pop()

    def _place(self, example: int) -> bool:
        """Put an example into a group, by a shortest chain of exchanges."""
        came_from: dict[int, tuple[int, int] | None] = {example: None}
        waiting = deque([example])
        while waiting:
            found = waiting.popleft()
            heads = sorted(range(len(self.members)), key=lambda h: len(self.members[h]))
            for head in heads:
                if len(self.members[head]) < self.rooms[head] and self._swaps(head)[0][found]:
                    return self._move(found, head, came_from)
            for head in heads:
                if found in self.members[head]:
                    continue
                for other in self.members[head][self._swaps(head)[1][found]].tolist():
                    if other not in came_from:
                        came_from[other] = found, head
                        waiting.append(other)
        return False

    def _swaps(self, head: int) -> tuple[Booleans, Booleans]:
        """Which examples a group may have besides (T,), or in the place of a member (T, k)."""
        if head not in self.known:
            found = [matroid.swaps(self.members[head]) for matroid in self.matroids[head]]
            outside, swapped = zip(*found, strict=True)
            self.known[head] = np.logical_and.reduce(outside), np.logical_and.reduce(swapped)
        return self.known[head]

    def _move(self, example: int, head: int, came_from: dict[int, tuple[int, int] | None]) -> bool:
        """Move a chain of examples, unless a group would be dependent after all."""
        before = list(self.members)
        self.members[head] = np.append(self.members[head], example)
        changed = {head}
        while (step := came_from[example]) is not None:
            replacement, head = step
            kept = self.members[head][self.members[head] != example]
            self.members[head] = np.append(kept, replacement)
            changed.add(head)
            example = replacement
        for head in changed:
            for matroid in self.matroids[head]:
                if len(matroid.basis(self.members[head])) < len(self.members[head]):
                    self.members = before
                    return False
        for head in changed:
            self.known.pop(head, None)
        return True

    def spanned(self) -> list[Integers]:
        """Return queries beside each group that seem to be in its span."""
        queries = self.matroids[0][-1]
        rows, prime = queries.rows, queries.prime
        found = []
        for members in self.members:
            free = modular.random_residues(self.rng, (rows.shape[1], 1), prime)
            _, normal = modular.null_vector(rows[members], prime, free)
            inside = ~modular.product(rows, normal[:, np.newaxis], prime).any(axis=1)
            found.append(np.setdiff1d(np.flatnonzero(inside), members))
        return found

    def flats(self, queries: Array) -> list[Subspace]:
        """Return a few subspaces with more queries than groups allow."""
        heads = self.rng.permutation(len(self.members))[:_BLAMED].tolist()
        suspects = [(self.members[head], x) for x in self.loose[-1:] for head in heads]
        suspects += [
            (members, int(x))
            for members, spanned in zip(self.members, self.spanned(), strict=True)
            for x in spanned
        ]
        found = []
        for index in self.rng.permutation(len(suspects))[:_BLAMED]:
            members, example = suspects[index]
            dependency = dyadic.dependency(queries, [*members.tolist(), example])
            if dependency is not None:
                found.append(Subspace.of(queries, dependency))
        return found


# By the constructions whose groups are looked for: of Theorems 1 and 2, and of Theorem 10.
SEARCHES: dict[str, type[GroupSearch]] = {"saturated": EvenGroups, "rank_one": WideGroups}


@in_three_parts
def regroup(
    dataset: Dataset, num_heads: int, *, construction: str = "saturated", seed: int = 0
) -> Regrouping:
    """Find an order of the examples that meets the conditions of the construction, and prove it.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        num_heads: H
        construction: "saturated" for groups of n - 1 examples, and n in the first, as Theorems 1
            and 2 have them; "rank_one" for those of Theorem 10, which may have d - 1, and d
            (`build_memorizer` looks for these itself where the given order has none)
        seed: of all random choices

    Raises:
        ParameterError: unless H is positive, for a negative seed, and another construction
        CapacityError: for more than H(n - 1) + 1 examples; of "rank_one" more than H(d - 1) + 1

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> queries = np.round(100 * data.queries)
        >>> queries[2] = queries[0] + queries[1]  # by their places these are the first group
        >>> found = regroup(Dataset(data.contexts, queries, data.targets), num_heads=3)
        >>> found.verdict.name, len(set(found.order[:3]) & {0, 1, 2}) < 3
        ('PROVED', True)
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads)
    num_heads = operator.index(num_heads)
    require_heads(num_heads, dataset.num_examples, dataset.width)
    require_seed(seed)
    if construction not in SEARCHES:
        raise ParameterError(
            f"construction={shown(construction)} has no groups that depend on the order",
            witness=shown(construction),
            suggestion=" or ".join(map(repr, SEARCHES)),
        )
    kind = SEARCHES[construction]
    total, size = dataset.num_examples, kind.size(dataset)
    most = num_heads * (size - 1) + 1
    if total > most:
        sizes = {name: other.size(dataset) for name, other in SEARCHES.items()}
        enough = [
            name
            for name, each in sizes.items()
            if each <= dataset.width and total <= num_heads * (each - 1) + 1
        ]
        ways = ["more heads", *(f"construction={name!r}" for name in enough)]
        raise CapacityError(
            f"{total} examples are more than H({kind.letter} - 1) + 1 = {most}",
            witness=total,
            suggestion="; or ".join(ways) if size > 1 else kind.least,
        )
    searching = kind(dataset, num_heads, np.random.default_rng(seed))
    return searching.given() or searching.search()
