"""A separating set: a weight on at most N - 1 residues, and 0, exactly, on all others.

Begin with one class of all N multisets, and walk through the residues: keep one if its counts split
a class. Each kept residue adds a class, so at most N - 1 are kept, and counts of these tell all
multisets apart. Weights are then chosen one after the other, each a positive integer that keeps the
partial sums of different classes apart: a pair of classes whose counts of this residue differ
forbids at most one value, so some weight up to C(N, 2) + 1 is allowed.

Source: Bondy's theorem.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

import numpy as np

from constructive.sequences import dictionary
from constructive.sequences.comparisons import RAMP, SATURATING, Comparison
from constructive.sequences.constructions.construction import (
    Embedded,
    SequenceConstruction,
    rounding,
)
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.projection import TRIES, Projection
from constructive.support.arrays import Integers

_FEW = 16  # Sums up to which sets are quicker than sorting


class SeparatingSet(SequenceConstruction):
    """A dictionary of weights: the fewest in all where few tokens tell contexts apart."""

    name = "separating_set"
    comparison: ClassVar[Comparison] = RAMP

    def embed(
        self,
        examples: SequenceDataset,
        projected: Projection,
        max_word_bits: int | None,
        rng: np.random.Generator,
    ) -> Embedded:
        """Return the embedding by `separating_weights`; there is always one."""
        weights = separating_weights(projected.residues[examples.ids], rng)
        hashes = np.array([weights.get(int(z), 0) for z in projected.residues], dtype=np.int64)
        blocks = dictionary.plan(
            weights or {0: 0}, projected.modulus,
            comparison=self.comparison, max_word_bits=max_word_bits,
        )  # fmt: skip
        noise = rounding(4 * projected.size, max_word_bits)
        steps = dictionary.steps(blocks, self.comparison, noise)
        program = self.program(examples, projected, steps, "T")
        kept = sum(map(len, blocks.members))
        return Embedded(program, hashes, kept=kept, heaviest=blocks.scale)


class FloatSeparatingSet(SeparatingSet):
    """The same, by comparisons that forgive rounding."""

    name = "float_separating_set"
    comparison = SATURATING


SEPARATING_SET, FLOAT_SEPARATING_SET = SeparatingSet(), FloatSeparatingSet()


def separating_weights(rows: Integers, rng: np.random.Generator) -> dict[int, int]:
    """Find positive weights of a few residues that give different multisets different sums.

    Example:
        >>> rows = np.array([[1, 1, 2], [1, 2, 2], [1, 2, 3]])
        >>> separating_weights(rows, np.random.default_rng(0))
        {1: 1, 2: 2}
    """
    multisets = np.unique(np.sort(rows, axis=1), axis=0)
    total = len(multisets)
    classes, sizes, sums = np.zeros(total, dtype=np.int64), [total], [0]  # a sum for each class
    taken = {0}
    weights: dict[int, int] = {}
    for residue, members, counts in _occurrences(multisets):
        if len(sizes) == total:
            break
        parts = _split(classes, sizes, members, counts)
        if parts is None:
            continue
        touched = {new: (sums[old], count) for new, (old, count) in parts.items()}
        for index in touched:
            if index < len(sums):
                taken.remove(sums[index])
        weight = _weight(touched, taken, rng)
        sums += [0] * (len(sizes) - len(sums))
        for index, (value, count) in touched.items():
            sums[index] = value + weight * count
            taken.add(sums[index])
        weights[residue] = weight
    return weights


def _occurrences(multisets: Integers) -> Iterator[tuple[int, Integers, Integers]]:
    """Yield each residue with the multisets that hold it, and how often."""
    total, size = multisets.shape
    values, places = np.unique(multisets, return_inverse=True)
    # Places, not residues, which may be long, so that pairs are numbers below n N^2.
    pairs = places.reshape(-1) * total + np.repeat(np.arange(total), size)
    distinct, counts = np.unique(pairs, return_counts=True)
    owners, members = np.divmod(distinct, total)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for start, stop in pairwise([*starts.tolist(), len(distinct)]):
        yield int(values[owners[start]]), members[start:stop], counts[start:stop]


def _split(
    classes: Integers, sizes: list[int], members: Integers, counts: Integers
) -> dict[int, tuple[int, int]] | None:
    """Divide classes by the counts of their members; None if no class is divided.

    Else for each class with members: the class it was part of, and the count, once divided.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for member, count in zip(members.tolist(), counts.tolist(), strict=True):
        groups.setdefault((int(classes[member]), count), []).append(member)
    touched: dict[int, int] = {}
    for (old, _), found in groups.items():
        touched[old] = touched.get(old, 0) + len(found)
    if all(len(found) == sizes[old] for (old, _), found in groups.items()):
        return None
    parts: dict[int, tuple[int, int]] = {}
    for (old, count), found in groups.items():
        whole = touched[old] == sizes[old]  # nobody is left with count 0
        if whole and old not in parts:
            parts[old] = old, count
            continue
        new = len(sizes)
        sizes.append(len(found))
        classes[found] = new
        parts[new] = old, count
    for new, (old, _) in parts.items():
        if new != old:
            sizes[old] -= sizes[new]
    return parts


def _weight(touched: dict[int, tuple[int, int]], taken: set[int], rng: np.random.Generator) -> int:
    """A weight for which all sums are different: sums + weight counts, and those that are taken.

    The least one where few sums change; else one of as few bits as some random ones have.
    """
    weight = 1
    if len(touched) < _FEW:
        while True:
            tried = {value + weight * count for value, count in touched.values()}
            if len(tried) == len(touched) and taken.isdisjoint(tried):
                return weight
            weight += 1
    values, counts = np.array(list(touched.values()), dtype=np.int64).T
    fixed = np.fromiter(taken, dtype=np.int64, count=len(taken))
    while True:
        for trial in rng.integers(weight, 2 * weight, size=TRIES * _FEW).tolist():
            everything = np.concatenate([values + trial * counts, fixed])
            everything.sort()
            if (everything[1:] != everything[:-1]).all():
                return int(trial)
        weight *= 2
