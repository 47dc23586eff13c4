"""Groups for Theorem 10 in another order of the examples, of sizes that need not be even.

What is asked of groups is of three kinds (`theory.wide_grouping`).

*Contexts.* Let r_t be a random difference of tokens of context t. A group is wide enough if its r_t
are independent (Proposition 15.3), and it may have d - 1 examples: it is independent in a matroid.
To share all examples among H such sets is Edmonds' matroid partition: where an example fits
nowhere, a shortest chain of examples, each in the place of the next, makes room for it. (In the
first group r_t is a random sum of tokens, and it may have d.)

*Independent queries.* The same, in a second matroid: an exchange has to suit both. That is no
longer sure to find what there is, but queries are dependent by exception.

*No earlier query in the span of a later group.* A group with another's query in its span goes
before it; so groups are sorted in the end. Where that is impossible, the queries to blame lie in a
subspace; they are dealt out first, next time.

Examples are dealt out to groups like cards, those with equal contexts one after the other, so that
little is left to exchange. What comes out is proved by `theory.wide_grouping`.

*Obstruction.* Of the examples J groups hold k_J + (H - 1) delta_J at most: the first one k_J, by
(2), and the others delta_J.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.verdict import Claim, Verdict
from constructive.theory import wide_grouping
from constructive.theory.assumptions.group_search import Flat, GroupSearch, Regrouping
from constructive.theory.bounds import Groups, consecutive
from constructive.theory.context_capacity import context_capacity, generic_rows
from constructive.theory.wide_grouping import context_of_each

_BLAMED = 4  # Dependencies among queries that are looked at after each pass


class WideGroups(GroupSearch):
    """Groups of any sizes, up to d - 1 examples, and d in the first."""

    letter = "d"
    least = "queries of d >= 2 entries"
    passes = 8

    def __init__(self, dataset: Dataset, num_heads: int, rng: np.random.Generator) -> None:
        super().__init__(dataset, num_heads, rng)
        self._flats: list[Flat] = []

    @staticmethod
    def size(dataset: Dataset) -> int:
        """Return d."""
        return dataset.width

    def prove(self, groups: Groups, order: Integers) -> Claim:
        """Prove the claim *wide_grouping*."""
        return wide_grouping.prove(self.dataset, groups, order, self.rng)

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
        new = [flat for flat in sharing.flats(self.dataset.queries) if flat not in self._flats]
        for flat in new:
            self._flats.append(flat)
            self.dependency = flat.dependency
        return self.refuted(new)

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


def _queue(dataset: Dataset, flats: list[Flat], rng: np.random.Generator) -> Integers:
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

    def flats(self, queries: Array) -> list[Flat]:
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
                found.append(Flat.of(queries, dependency))
        return found
