"""Another order of the examples, where the given one does not suit the construction.

The construction asks of the queries (`theory.grouping`): each group is independent, and no group
but the first has another query in its span. Every part of a group that meets this meets it too;
so groups are filled one example at a time, the troublesome ones first, and where an example finds
no place another is moved for it.

*Obstruction.* Let m queries lie in a subspace F of dimension k < n. A group that has k or more
of them spans F, and so all m are its own, or it is the first: it has at most k. So a grouping
needs m <= H(k - 1) + 1. (With k = 1: two parallel queries defeat every grouping.)

All tests are modulo a prime, of images of the queries under a random linear map to a few more
dimensions than a group has members, and with random vectors in the place of whole null spaces. A
chance collision refuses an example that would fit; what comes out is proved by `theory.grouping`.
"""

import operator

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.exact import dyadic, modular
from constructive.exact.dyadic import Dependency
from constructive.support.arguments import require_positive, require_seed
from constructive.support.arrays import Array, Integers
from constructive.support.errors import CapacityError, ParameterError, shown
from constructive.support.foreign import in_three_parts
from constructive.support.progress import report
from constructive.support.verdict import Verdict
from constructive.theory import grouping, wide_grouping
from constructive.theory.assumptions import wide_regrouping
from constructive.theory.assumptions.contexts import dependent_contexts
from constructive.theory.assumptions.obstacles import Flat, Regrouping, zero_or_parallel
from constructive.theory.bounds import Groups, consecutive, group_sizes
from constructive.theory.many_heads import require_heads

CONSTRUCTIONS = "saturated", "rank_one"
"""Those whose groups are looked for: of Theorems 1 and 2, and of Theorem 10."""
_PASSES = 20
"""Orders that are tried."""
_MORE = 4
"""Dimensions of the images of queries beyond those of a group: two for another query and one
example more, and two so that chance collisions are rare."""
_MOVES = 400
"""Examples that are tried in the place of one that finds none."""


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
    require_heads(operator.index(num_heads), dataset.num_examples, dataset.width)
    require_seed(seed)
    if construction not in CONSTRUCTIONS:
        raise ParameterError(
            f"construction={shown(construction)} has no groups that depend on the order",
            witness=shown(construction),
            suggestion=" or ".join(map(repr, CONSTRUCTIONS)),
        )
    wide = construction == "rank_one"
    total, size = dataset.num_examples, dataset.width if wide else dataset.context_size
    most, letter = num_heads * (size - 1) + 1, "d" if wide else "n"
    if total > most:
        other = "" if wide or size > dataset.width else "; or construction='rank_one'"
        ways = "more heads" + other
        least = "queries of d >= 2 entries" if wide else "contexts of n >= 2 tokens"
        raise CapacityError(
            f"{total} examples are more than H({letter} - 1) + 1 = {most}",
            witness=total,
            suggestion=ways if size > 1 else least,
        )
    rng = np.random.default_rng(seed)
    groups = consecutive(group_sizes(total, num_heads))
    order: Integers = np.arange(total)
    if wide:
        claim = wide_grouping.prove(dataset, groups, order, rng)
    else:
        claim = grouping.prove(dataset, groups, rng)
    if claim.verdict is Verdict.PROVED:
        return Regrouping(Verdict.PROVED, order, groups, "the given order")
    if wide:
        return wide_regrouping.search(dataset, num_heads, rng)
    return _search(dataset, groups, seed, rng)


def _search(dataset: Dataset, groups: Groups, seed: int, rng: np.random.Generator) -> Regrouping:
    """Return an order for the groups of Theorems 1 and 2, but for the given one."""
    total, size, num_heads = dataset.num_examples, dataset.context_size, len(groups)
    wrong = dependent_contexts(dataset, seed=seed)
    if wrong:
        detail = f"the context of example {wrong[0].example} has rank below n, in every order"
        return Regrouping(Verdict.REFUTED, None, groups, detail, wrong[0].tokens)

    obstacle = zero_or_parallel(dataset.queries, rng)
    if obstacle is not None:
        return Flat.of(dataset.queries, obstacle).refutation(groups)

    queue = list(range(total))
    for attempt in range(_PASSES):
        report("regroup", attempt, _PASSES)
        filling = _Filling(dataset.queries, groups, rng)
        stuck = [example for example in queue if not filling.place(example)]
        if not stuck:
            order = np.concatenate([np.array(g, dtype=np.int64) for g in filling.members])
            claim = grouping.prove(dataset.take(order), groups, rng)
            if claim.verdict is Verdict.PROVED:
                detail = f"found in pass {attempt + 1}"
                return Regrouping(Verdict.PROVED, order, groups, detail)
            continue
        flats = [Flat.of(dataset.queries, filling.obstacle(example)) for example in stuck]
        for flat in flats:
            if flat.dimension < size and len(flat.members) > flat.held_by(num_heads):
                return flat.refutation(groups)
        queue = _troublesome_first(queue, stuck, flats, rng)
        obstacle = flats[0].dependency
    detail = f"none found in {_PASSES} passes; more heads make smaller groups"
    return Regrouping(Verdict.UNDECIDED, None, groups, detail, obstacle)


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
