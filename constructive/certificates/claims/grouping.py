"""The claims *grouping* and *wide_grouping*: what a construction requires of the data, exactly.

The first is about the groups of Theorems 1 and 2, the second about those of Theorem 10.
"""

import numpy as np

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.layers.memorizer import Memorizer
from constructive.support.verdict import Claim
from constructive.support.work import report
from constructive.theory import grouping


class Grouping(ClaimKind):
    """The claim *grouping*: usual where groups are small, and in the order given."""

    name = "grouping"
    statement = grouping.STATEMENT
    options = frozenset({"seed"})

    def applies(self, weights: Memorizer) -> bool:
        """Return whether heads have groups, as neither paired heads nor trained weights have."""
        return weights.record.grouped

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether these are groups of Theorems 1 and 2."""
        return not _are_wide(weights)

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Look at every context and every group."""
        report("check the groups", 0, 1)
        groups = _groups(subject.weights)
        if subject.weights.record.order:
            return grouping.reordered(subject.data, groups)
        return grouping.prove(subject.data, groups, subject.rng)


class WideGrouping(Grouping):
    """The claim *wide_grouping*: usual where *grouping* is not."""

    name = "wide_grouping"
    statement = grouping.WIDE_STATEMENT

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether these are groups of Theorem 10."""
        return _are_wide(weights)

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Look at every group, in the order of the heads."""
        report("check the groups", 0, 1)
        given = subject.weights.record.order or range(subject.data.num_examples)
        order = np.array(given, dtype=np.int64)
        return grouping.prove_wide(subject.data, _groups(subject.weights), order, subject.rng)


def _are_wide(memorizer: Memorizer) -> bool:
    """Return whether groups are large, or in an order of their own."""
    record = memorizer.record
    too_large = not record.small_groups or record.context_size > memorizer.layer.width
    return too_large or bool(record.order)


def _groups(memorizer: Memorizer) -> tuple[tuple[int, int], ...]:
    return tuple((head.start, head.stop) for head in memorizer.record.heads)


GROUPING, WIDE_GROUPING = Grouping(), WideGrouping()
