"""Embeddings of tokens as integers whose sums tell contexts apart: what they share, and each kind.

First, tokens become small integers: z = D_c u.x + offset for a random integer vector u, modulo a
small q. Examples with different labels stay different as multisets of residues, which is checked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from math import lcm, prod
from typing import Any

import numpy as np

from constructive.sequences import dictionary
from constructive.sequences.dictionary import RAMP, SATURATING, Comparison
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.network import Affine, Column, Program, ProgramStep
from constructive.support.arrays import AnyArray, Integers
from constructive.support.errors import PrecisionError

TRIES = 32  # Random choices of one size before a larger one is tried
MOST_BITS = 61  # Of a modulus, so that remainders fit into int64
_WIDEST = 1 << 40  # Of the entries of a projection


@dataclass(frozen=True, eq=False)
class Projection:
    """Tokens as integers z in 0, ..., size - 1, and z mod q, which still tells examples apart."""

    weights: tuple[Any, ...]  # (d,), of z = weights.x + offset, with x as it was given
    offset: int  # what makes all z of the examples 0 or more
    size: int  # U, above all z
    modulus: int  # q
    residues: Integers  # z mod q of each token (V,)

    @property
    def bits(self) -> int:
        """Of the residues."""
        return max((self.modulus - 1).bit_length(), 1)


def project(examples: SequenceDataset, rng: np.random.Generator) -> Projection:
    """Return random integer combinations of the entries, and the smallest modulus found."""
    width = examples.tokens.shape[1]
    unit = lcm(*(x.denominator for x in examples.tokens.ravel()))
    whole = np.frompyfunc(int, 1, 1)(examples.tokens * unit)
    spread = 1
    salt = int(rng.integers(1 << 63))

    def told_apart(residues: Integers) -> bool:
        return examples.told_apart_by(residues, salt)

    while True:
        drawn = rng.integers(-spread, spread, size=(width,), endpoint=True)
        u = [1] if width == 1 else [int(x) for x in drawn]
        combined = whole @ np.array(u, dtype=object)
        places: Integers = np.unique(combined, return_inverse=True)[1].reshape(-1)
        if told_apart(places):
            break
        spread *= 2
        if spread > _WIDEST:
            raise none_found("projection", _WIDEST.bit_length())
    offset = -int(combined.min())
    values = combined + offset
    size = int(values.max()) + 1
    modulus, residues = smallest_modulus(values, size, told_apart, rng)
    return Projection(tuple(int(x) * unit for x in u), offset, size, modulus, residues)


def smallest_modulus(
    values: AnyArray,
    size: int,
    suits: Callable[[Integers], bool],
    rng: np.random.Generator,
) -> tuple[int, Integers]:
    """Find a modulus of few bits whose residues suit; all values suit as they are."""
    if size.bit_length() <= MOST_BITS:
        values = values.astype(np.int64)  # quicker than objects
    for bits in chain(range(2, MOST_BITS), repeat(MOST_BITS, 1000)):
        if bits >= size.bit_length():
            residues = values.astype(np.int64)
            if not suits(residues):
                break
            return size, residues
        for _ in range(TRIES):
            modulus = int(rng.integers(1 << (bits - 1), 1 << bits))
            if 1 < modulus < size:
                residues = (values % modulus).astype(np.int64)
                if suits(residues):
                    return modulus, residues
    raise none_found("modulus", MOST_BITS)


def none_found(what: str, bits: int) -> PrecisionError:
    """Return an error that is hardly ever raised: nearly all numbers of so many bits will do."""
    return PrecisionError(
        f"no {what} of up to {bits} bits tells the examples apart",
        witness=bits,
        suggestion="another seed=",
    )


# What a construction of a sequence memorizer is: how tokens are embedded, and how it compares.
#
# A token is projected to an integer z and reduced modulo q, and embedded as h(z).
# Attention adds up h over a context. Examples with different labels must get different sums (or
# residues of their own token); that is checked, and chance is asked again until it holds, so that
# nothing rests on luck.


_FLOAT64, _FLOAT32 = 53, 24


@dataclass(frozen=True, eq=False)
class Embedded:
    """A token-wise network: its program, and what it does to the tokens."""

    # from the d entries of a token to the stream (h, t, 0), or (h, 0) where examples need no token
    # of their own
    program: Program
    hashes: Column  # h of each token (V,), long ones as objects
    kept: int = 0  # the number of residues of a separating set, else 0
    heaviest: int = 0  # W above their weights, else 0


@dataclass(frozen=True)
class SequenceConstruction:
    """One way to build a sequence memorizer.

    The laws: sums of `hashes` over contexts, beside the residues of own tokens, tell examples with
    different labels apart (`SequenceDataset.told_apart`); the program computes these hashes
    exactly; and two embeddings from one state of `rng` are one.
    """

    name: str  # what users ask for
    # how tokens are embedded: of a comparison, the examples, their tokens projected, the most bits
    # of a code word, and a source of random numbers
    embed: Callable[
        [Comparison, SequenceDataset, Projection, int | None, np.random.Generator], Embedded
    ]
    comparison: Comparison  # by which its networks compare


def _program(
    comparison: Comparison,
    examples: SequenceDataset,
    projected: Projection,
    steps: Iterable[ProgramStep],
    register: str,
) -> Program:
    """Return the program from the entries of a token to the stream."""
    inputs = tuple(f"x{k}" for k in range(len(projected.weights)))
    start = {"z": Affine(dict(zip(inputs, projected.weights, strict=True)), projected.offset)}
    own = [Affine({"z": 1})] if examples.per_position else []
    reduced = comparison.remainder("z", projected.modulus, projected.size)
    outputs = Affine({register: 1}), *own, Affine()
    return Program(inputs, start, (*reduced, *steps), outputs)


def rounding(units: int, max_word_bits: int | None) -> int:
    """Return rounding in last bits of a float64; of a float32 where words are made for it."""
    short = max_word_bits is not None and max_word_bits <= _FLOAT32
    return units << (_FLOAT64 - _FLOAT32) if short else units


# Hashes that are products: a factor for each bit of z. They have no code
# words, so that the most bits of one do not matter.


def _hashed(
    comparison: Comparison,
    examples: SequenceDataset,
    projected: Projection,
    factors: Sequence[int],
) -> Embedded | None:
    """Return the embedding by products of these factors, or None if examples get equal sums."""
    short = prod(factors) * examples.ids.shape[1] < 1 << MOST_BITS
    hashes = np.ones(len(projected.residues), dtype=np.int64 if short else object)
    for bit, factor in enumerate(factors):
        hashes[(projected.residues >> bit) & 1 == 1] *= factor
    sums = hashes[examples.ids].sum(axis=1)
    if not short:
        sums = np.unique(sums, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if not examples.told_apart(*examples.with_own(sums, projected.residues)):
        return None
    steps = products(factors, comparison)
    program = _program(comparison, examples, projected, steps, "h")
    return Embedded(program, hashes)


def products(factors: Sequence[int], comparison: Comparison) -> Iterator[ProgramStep]:
    """Yield steps that make h, the product of factors over the bits of 0 <= z < 2^len(factors).

    Bits are read highest first. Where h <= bound, a bit b times h is relu(h - bound (1 - b)).
    """
    source, bound = "z", 1
    for bit in reversed(range(len(factors))):
        factor = factors[bit]
        rest = {"rest": -(1 << bit)}
        start = {"rest": Affine({source: 1})}
        if source == "z":  # h is still 1
            change = rest | {"h": factor - 1}
            one = {"h": Affine({}, 1)}
            yield from comparison.where_at_least("z", 1 << bit, change, start | one)
        else:
            zero = {"b": Affine()}
            yield from comparison.where_at_least("rest", 1 << bit, rest | {"b": 1}, start | zero)
            gated = Affine({"h": 1, "b": bound}, -bound)
            yield ProgramStep({"gated": gated}, {"h": Affine({"h": 1, "gated": factor - 1})})
        source, bound = "rest", bound * factor


# The product hash: h(z) is the product of a_i over the bits i that are set in z, an integer. Some
# two of the sums agree with probability C(N, 2) J / A at most, for J bits and A numbers to draw
# from (Lemma 14.4). It takes no remainders, and so about log(q) weights.


def product_hash(
    comparison: Comparison,
    examples: SequenceDataset,
    projected: Projection,
    max_word_bits: int | None,  # noqa: ARG001
    rng: np.random.Generator,
) -> Embedded:
    """Return products of the smallest factors that were found; by the lemma, of 2^61 at most."""
    for half_bits in range(2, 2 * MOST_BITS):
        largest = int(2 ** (half_bits / 2))
        for _ in range(TRIES):
            factors = rng.integers(2, largest, projected.bits, endpoint=True).tolist()
            embedded = _hashed(comparison, examples, projected, factors)
            if embedded is not None:
                return embedded
    raise none_found("factors", MOST_BITS)


# A separating set: a weight on at most N - 1 residues, and 0, exactly, on all others (Lemma 14.5,
# by Bondy's theorem). A residue is kept if its counts split a class of multisets; its weight is the
# least that keeps the sums of different classes apart.


_FEW = 16  # Sums up to which sets are quicker than sorting


def separating_set(
    comparison: Comparison,
    examples: SequenceDataset,
    projected: Projection,
    max_word_bits: int | None,
    rng: np.random.Generator,
) -> Embedded:
    """Return the embedding by a dictionary of `separating_weights`; there is always one."""
    weights = separating_weights(projected.residues[examples.ids], rng)
    hashes = np.array([weights.get(int(z), 0) for z in projected.residues], dtype=np.int64)
    blocks = dictionary.plan(
        weights or {0: 0}, projected.modulus, comparison=comparison, max_word_bits=max_word_bits
    )
    steps = dictionary.steps(blocks, comparison, rounding(4 * projected.size, max_word_bits))
    program = _program(comparison, examples, projected, steps, "T")
    kept = sum(map(len, blocks.members))
    return Embedded(program, hashes, kept=kept, heaviest=blocks.scale)


def separating_weights(rows: Integers, rng: np.random.Generator) -> dict[int, int]:
    """Find positive weights of a few residues that give different multisets different sums."""
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


# All constructions, by name.
# Those for floats compare by what forgives rounding: they alone reproduce all labels in float64
# beyond some 500 sequences (docs/sequences.md has the table).
CONSTRUCTIONS: dict[str, SequenceConstruction] = {
    known.name: known
    for known in (
        SequenceConstruction("product_hash", product_hash, RAMP),
        SequenceConstruction("separating_set", separating_set, RAMP),
        SequenceConstruction("float_separating_set", separating_set, SATURATING),
    )
}
