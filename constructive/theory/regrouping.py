"""Another order of the examples, where the given one does not suit the construction."""

import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
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
from constructive.theory.bounds import Groups, consecutive, group_sizes, require_heads
from constructive.theory.context_capacity import context_capacity, generic_rows
from constructive.theory.grouping import context_of_each
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
    dependency: Dependency | None

    @classmethod
    def of(cls, queries: Array, dependency: Dependency | None) -> "Subspace":
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
        return kruskal.enumerated_dependency(queries, 1, rng) or kruskal.enumerated_dependency(
            queries, 2, rng
        )
    except kruskal.CollidingImagesError:
        return None


class GroupSearch(ABC):
    """A search for groups of at most H(size - 1) + 1 examples: passes, until one decides."""

    letter: ClassVar[str]  # what the theory calls `size`
    least: ClassVar[str]  # data for which it is 2 or more, in words
    passes: ClassVar[int]  # how many there are

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        self.dataset, self.num_heads, self.rng = dataset, num_heads, rng
        # (start, stop) of groups of even sizes, which the given order has
        self.even = consecutive(group_sizes(dataset.num_examples, num_heads))
        # queries that stood in the way of the last passes, or None
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
            return Subspace.of(queries, obstacle).refutation(self.even)
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

    def refuted(self, flats: Iterable[Subspace]) -> Regrouping | None:
        """Return the refutation by the first subspace with more queries than groups can hold."""
        crowded = (flat for flat in flats if len(flat.members) > flat.held_by(self.num_heads))
        return next((flat.refutation(self.even) for flat in crowded), None)


# The groups of Theorems 1 and 2 in another order of the examples.
#
# What is asked of the queries (`theory.grouping`): each group is independent, and no group but the
# first has another query in its span. Every part of a group that meets this meets it too; so
# groups are filled one example at a time, the troublesome ones first, and where an example finds
# no place another is moved for it.
#
# All tests are modulo a prime, of images of the queries under a random linear map to a few more
# dimensions than a group has members, and with random vectors in the place of whole null spaces. A
# chance collision refuses an example that would fit; what comes out is proved by
# `theory.grouping`.


# Dimensions of the images of queries beyond those of a group: two for another query and one example
# more, and two so that chance collisions are rare.
_MORE = 4
_MOVES = 400  # Examples that are tried in the place of one that finds none


class EvenGroups(GroupSearch):
    """Groups of n - 1 examples, and n in the first, whose contexts have rank n."""

    letter = "n"
    least = "contexts of n >= 2 tokens"
    passes = 20

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        super().__init__(dataset, num_heads, rng)
        self._queue = list(range(dataset.num_examples))

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

    def attempt(self, number: int) -> Regrouping | None:
        """Fill groups with all examples, those first that found no place before."""
        queries = self.dataset.queries
        filling = _Filling(queries, self.even, self.rng)
        stuck = [example for example in self._queue if not filling.place(example)]
        if not stuck:
            order = np.concatenate([np.array(g, dtype=np.int64) for g in filling.members])
            return self.proved(self.even, order, f"found in pass {number + 1}")
        flats = [Subspace.of(queries, filling.obstacle(example)) for example in stuck]
        self._queue = _troublesome_first(self._queue, stuck, flats, self.rng)
        self.dependency = flats[0].dependency
        return self.refuted(flats)


def _troublesome_first(
    queue: list[int], stuck: list[int], flats: list[Subspace], rng: np.random.Generator
) -> list[int]:
    """Return the examples that found no place, and those in their way, before all others."""
    first = sorted({*stuck, *(member for flat in flats for member in flat.members)})
    rest = sorted(set(queue) - set(first))
    return [*rng.permutation(first).tolist(), *rng.permutation(rest).tolist()]


class _Filling:
    """Groups that are being filled, with the null space of each: of images modulo a prime."""

    def __init__(self, queries: Array, groups: Groups, rng: np.random.Generator) -> None:
        self.queries = queries
        self.prime = next(modular.safe_primes())
        residues = modular.residues(queries, self.prime)
        self.rooms = [stop - start for start, stop in groups]
        self.width = min(queries.shape[1], max(self.rooms) + _MORE)
        mixing = modular.random_residues(rng, (queries.shape[1], self.width), self.prime)
        self.residues = modular.product(residues, mixing, self.prime)
        self.members: list[list[int]] = [[] for _ in groups]
        self.normals: list[Array] = [np.eye(self.width) for _ in groups]
        self.home = np.repeat(np.arange(len(groups)), self.rooms)
        self.rng = rng

    def place(self, example: int) -> bool:
        """Put an example into a group, its own if possible; or move another one for it."""
        own = int(self.home[example])
        heads = [own, *(h for h in self.rng.permutation(len(self.rooms)).tolist() if h != own)]
        for head in heads:
            if self._has_room(head) and self._fits(example, head, self.normals[head]):
                self._add(example, head)
                return True
        return self._exchange(example, heads)

    def obstacle(self, example: int) -> Dependency | None:
        """Return a dependency that keeps an example out of a group."""
        for head in np.argsort(
            [len(members) - room for members, room in zip(self.members, self.rooms, strict=True)]
        ).tolist():
            kept = self.members[head]
            found = dyadic.dependency(self.queries, [*kept, example])
            if found is not None:
                return found
            for other in self._spanned(example, self.normals[head], kept):
                found = dyadic.dependency(self.queries, [*kept, example, other])
                if found is not None:
                    return found
        return None

    def _has_room(self, head: int) -> bool:
        return len(self.members[head]) < self.rooms[head]

    def _fits(self, example: int, head: int, normals: Array) -> bool:
        """Whether the example is outside of the group's span, and spans no other query with it."""
        if not modular.product(self.residues[example : example + 1], normals, self.prime).any():
            return False
        return head == 0 or not len(self._spanned(example, normals, self.members[head]))

    def _spanned(self, example: int, normals: Array, kept: list[int]) -> list[int]:
        """Queries that seem to be in the span of a group and an example, but not of the group."""
        mixing = modular.random_residues(self.rng, (normals.shape[1], 3), self.prime)
        seen = modular.product(normals, mixing, self.prime)
        images = modular.product(self.residues, seen, self.prime)
        own, turned = images[example], np.roll(images[example], 1)
        areas = modular.reduce(images * turned - np.roll(images, 1, axis=1) * own, self.prime)
        parallel = np.flatnonzero(~areas.any(axis=1))
        return [i for i in parallel.tolist() if i != example and i not in kept]

    def _add(self, example: int, head: int) -> None:
        self.members[head].append(example)
        self.normals[head] = modular.null_vectors(self.residues[self.members[head]], self.prime)

    def _exchange(self, example: int, heads: list[int]) -> bool:
        """Move one member of a full group to one with room, and put the example in its place."""
        open_heads = [head for head in heads if self._has_room(head)]
        moves = [(head, other) for head in heads for other in self.members[head]]
        for head, other in (moves[i] for i in self.rng.permutation(len(moves))[:_MOVES]):
            kept = [member for member in self.members[head] if member != other]
            normals: Array = np.eye(self.width)
            if kept:
                normals = modular.null_vectors(self.residues[kept], self.prime)
            before = self.members[head], self.normals[head]
            self.members[head], self.normals[head] = kept, normals
            if self._fits(example, head, normals):
                self._add(example, head)
                for target in open_heads:
                    if self._has_room(target) and self._fits(other, target, self.normals[target]):
                        self._add(other, target)
                        return True
            self.members[head], self.normals[head] = before
        return False


# Groups for Theorem 10 in another order of the examples, of sizes that need not be even.
#
# What is asked of groups is of three kinds (`theory.grouping`).
#
# *Contexts.* Let r_t be a random difference of tokens of context t. A group is wide enough if its
# r_t are independent (Proposition 15.3), and it may have d - 1 examples: it is independent in a
# matroid. To share all examples among H such sets is Edmonds' matroid partition: where an example
# fits nowhere, a shortest chain of examples, each in the place of the next, makes room for it. (In
# the first group r_t is a random sum of tokens, and it may have d.)
#
# *Independent queries.* The same, in a second matroid: an exchange has to suit both. That is no
# longer sure to find what there is, but queries are dependent by exception.
#
# *No earlier query in the span of a later group.* A group with another's query in its span goes
# before it; so groups are sorted in the end. Where that is impossible, the queries to blame lie in
# a subspace; they are dealt out first, next time.
#
# Examples are dealt out to groups like cards, those with equal contexts one after the other, so
# that little is left to exchange. What comes out is proved by `theory.grouping`.
#
# *Obstruction.* Of the examples J groups hold k_J + (H - 1) delta_J at most: the first one k_J, by
# (2), and the others delta_J.


_BLAMED = 4  # Dependencies among queries that are looked at after each pass


class WideGroups(GroupSearch):
    """Groups of any sizes, up to d - 1 examples, and d in the first."""

    letter = "d"
    least = "queries of d >= 2 entries"
    passes = 8

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        super().__init__(dataset, num_heads, rng)
        self._flats: list[Subspace] = []

    @staticmethod
    def size(dataset: Dataset) -> int:
        """Return d."""
        return dataset.width

    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove the claim *wide_grouping*."""
        return grouping.prove_wide(self.dataset, groups, order, self.rng)

    def attempt(self, number: int) -> Regrouping | None:
        """Deal out the examples, exchange them, and sort the groups."""
        queue = _queue(self.dataset, self._flats, self.rng)
        sharing = _Sharing(self.dataset, self.num_heads, queue, self.rng)
        sharing.place_all()
        if sharing.loose and number == 0:
            narrow = self._too_narrow()
            if narrow is not None:
                return narrow
        heads = sharing.sorted_heads()
        if not sharing.loose and heads is not None:
            order = np.concatenate([sharing.members[head] for head in heads])
            groups = consecutive([len(sharing.members[head]) for head in heads])
            found = self.proved(groups, order, f"found in pass {number + 1}")
            if found is not None:
                return found
        for flat in sharing.flats(self.dataset.queries):
            if flat not in self._flats:
                self._flats.append(flat)
                self.dependency = flat.dependency
        return self.refuted(self._flats)

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


def _queue(dataset: Dataset, flats: list[Subspace], rng: np.random.Generator) -> Integers:
    """The order in which examples are dealt out: by subspaces of queries, then by contexts."""
    total = dataset.num_examples
    contexts = context_of_each(dataset).reshape(total, -1)
    _, kind = np.unique(contexts, axis=0, return_inverse=True)
    flat = np.full(total, len(flats))
    for index in rng.permutation(len(flats)):
        flat[list(flats[index].members)] = index
    ties = rng.permutation(total) if flats else np.arange(total)
    order: Integers = np.lexsort((ties, kind.reshape(-1), flat))
    return order


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
        self, dataset: Dataset, num_heads: int, queue: Integers, rng: np.random.Generator
    ) -> None:
        """Deal out the examples, and take back what a group does not hold."""
        prime = next(modular.safe_primes())
        total, queries = dataset.num_examples, dataset.queries
        self.rng = rng
        residues = modular.residues(queries, prime)
        self.queries = _Matroid.of(residues, prime, rng)
        contexts = context_of_each(dataset)
        tokens, differences = (
            _Matroid.of(generic_rows(contexts, 1, prime, rng, np.full(total, which)), prime, rng)
            for which in (False, True)
        )
        self.contexts = [tokens, *[differences] * (num_heads - 1)]
        self.rooms = [dataset.width, *[dataset.width - 1] * (num_heads - 1)]
        self.members: list[Integers] = []
        self.loose: list[int] = []
        self.known: dict[int, tuple[Booleans, Booleans]] = {}
        for head in range(num_heads):
            given = np.sort(queue[head::num_heads])
            kept = self.queries.basis(self.contexts[head].basis(given))[: self.rooms[head]]
            self.members.append(kept)
            self.loose += np.setdiff1d(given, kept).tolist()

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
            members = self.members[head]
            (one, ones), (other, others) = (
                matroid.swaps(members) for matroid in (self.contexts[head], self.queries)
            )
            self.known[head] = one & other, ones & others
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
            for matroid in (self.contexts[head], self.queries):
                if len(matroid.basis(self.members[head])) < len(self.members[head]):
                    self.members = before
                    return False
        for head in changed:
            self.known.pop(head, None)
        return True

    def _spanned(self) -> list[Integers]:
        """Return queries beside each group that seem to be in its span."""
        rows, prime = self.queries.rows, self.queries.prime
        found = []
        for members in self.members:
            null = modular.null_vectors(rows[members], prime)
            mixing = modular.random_residues(self.rng, (null.shape[1], 1), prime)
            normal = modular.product(null, mixing, prime)
            inside = ~modular.product(rows, normal, prime).any(axis=1)
            found.append(np.setdiff1d(np.flatnonzero(inside), members))
        return found

    def sorted_heads(self) -> list[int] | None:
        """Return the groups in an order where none has an earlier query in its span, or None."""
        home = np.full(len(self.queries.rows), -1)
        for head, members in enumerate(self.members):
            home[members] = head
        later = [set(home[spanned].tolist()) - {-1} for spanned in self._spanned()]
        order: list[int] = []
        left = list(range(len(self.members)))
        while left:
            # Empty groups span nothing, and come last, as heads of even groups do.
            free = [h for h in left if not any(h in later[g] for g in left if g != h)]
            if not free:
                return None
            order.append(free[0])
            left.remove(free[0])
        return sorted(order, key=lambda h: not len(self.members[h]))

    def flats(self, queries: Array) -> list[Subspace]:
        """Return a few subspaces with more queries than groups allow."""
        heads = self.rng.permutation(len(self.members))[:_BLAMED].tolist()
        suspects = [(self.members[head], x) for x in self.loose[-1:] for head in heads]
        suspects += [
            (members, int(x))
            for members, spanned in zip(self.members, self._spanned(), strict=True)
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
