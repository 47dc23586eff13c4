"""The groups of Theorems 1 and 2 in another order of the examples.

What is asked of the queries (`theory.grouping`): each group is independent, and no group but the
first has another query in its span. Every part of a group that meets this meets it too; so groups
are filled one example at a time, the troublesome ones first, and where an example finds no place
another is moved for it.

All tests are modulo a prime, of images of the queries under a random linear map to a few more
dimensions than a group has members, and with random vectors in the place of whole null spaces. A
chance collision refuses an example that would fit; what comes out is proved by `theory.grouping`.
"""

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, Integers
from constructive.support.verdict import Claim, Verdict
from constructive.theory import grouping
from constructive.theory.assumptions.contexts import dependent_contexts
from constructive.theory.assumptions.group_search import Flat, GroupSearch, Regrouping
from constructive.theory.bounds import Groups

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
        flats = [Flat.of(queries, filling.obstacle(example)) for example in stuck]
        self._queue = _troublesome_first(self._queue, stuck, flats, self.rng)
        self.dependency = flats[0].dependency
        return self.refuted(flats)


def _troublesome_first(
    queue: list[int], stuck: list[int], flats: list[Flat], rng: np.random.Generator
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
