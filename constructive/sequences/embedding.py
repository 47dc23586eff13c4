"""Tokens to integers whose sums tell contexts apart.

A token x is projected to an integer z = D_c u.x + offset, reduced modulo a small q, and embedded as
h(z). Attention adds up h over a context. What is asked for is that examples with different labels
get different sums (and residues of their own token); it is checked, and chance is asked again until
it holds, so that nothing rests on luck.

*Power hash.* h(z) = alpha^z mod P. *Lemma.* Let c_1, ..., c_N be distinct count vectors of total n,
on the residues 0, ..., q - 1, and P > n a prime. For uniform alpha the probability that some two of
the sums sum_z c_i(z) h(z) agree is at most C(N, 2) (q - 1) / P.
*Proof.* Equal sums are equal modulo P, so alpha is a root of sum_z (c_i - c_j)(z) X^z modulo P.
That polynomial is not zero, since `0 < |c_i - c_j|(z) <= n < P` for some z, and it has degree
below q, so at most q - 1 roots. There are C(N, 2) pairs. QED

*Product hash.* h(z) is the product of a_i over the bits i that are set in z, an integer. *Lemma.*
Let the residues have J bits, and let a_1, ..., a_J be drawn uniformly from a set of A integers. The
probability that some two of the sums agree is at most C(N, 2) J / A.
*Proof.* The difference of two sums is a polynomial in a_1, ..., a_J, of degree at most J, whose
coefficients are the numbers (c_i - c_j)(z), since different z have different bits. They are not all
zero, so it vanishes with probability at most J / A (Schwartz and Zippel). QED
It takes no remainders, and so about log(q) weights, where a power hash takes log(q) log(P).

*Separating set.* Begin with one class of all N multisets, and walk through the residues: keep one
if its counts split a class. Each kept residue adds a class, so at most N - 1 are kept, and counts
of these tell all multisets apart. Weights are then chosen one after the other, each a positive
integer which keeps the partial sums of different classes apart: a pair of classes whose counts of
this residue differ forbids at most one value, so some weight up to C(N, 2) + 1 will do. All other
residues count 0, exactly.

Source: the separating set is Bondy's theorem; both hashes are ours.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from math import lcm, prod
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from constructive.sequences import dictionary
from constructive.sequences.dictionary import Costs, Layout
from constructive.sequences.examples import Integers, SequenceDataset
from constructive.sequences.gadgets import Comparison, remainder, where_at_least
from constructive.sequences.network import Affine, Column, Program, Step
from constructive.support.errors import PrecisionError

_TRIES = 32
"""Random choices of one size before a larger one is tried."""
_MOST_BITS = 61
"""Of a modulus, so that remainders fit into int64."""
_WIDEST = 1 << 40
"""Of the entries of a projection."""
_FEW = 16
"""Sums up to which sets are quicker than sorting."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """A token-wise network: its program, and what it does to the tokens.

    Attributes:
        program: from the d entries of a token to the stream (h, t, 0), or (h, 0) where examples
            need no token of their own
        hashes: h of each token (V,), long ones as objects
        residues: t of each token (V,)
        size: U, above all projections
        modulus: q, above all residues
        prime: P of a power hash, else 0
        kept: the number of residues of a separating set, else 0
        heaviest: W above their weights, else 0
    """

    program: Program
    hashes: Column
    residues: Integers
    size: int
    modulus: int
    prime: int = 0
    kept: int = 0
    heaviest: int = 0


@dataclass(frozen=True, eq=False)
class Projection:
    """Tokens as integers z in 0, ..., size - 1, and z mod q, which still tells examples apart.

    Attributes:
        weights: (d,), of z = weights.x + offset, with x as it was given
        offset: what makes all z of the examples 0 or more
        size: U, above all z
        modulus: q
        residues: z mod q of each token (V,)
    """

    weights: tuple[Any, ...]
    offset: int
    size: int
    modulus: int
    residues: Integers

    @property
    def bits(self) -> int:
        """Of the residues."""
        return max((self.modulus - 1).bit_length(), 1)


def project(examples: SequenceDataset, rng: np.random.Generator) -> Projection:
    """Random integer combinations of the entries, then the smallest modulus that was found.

    Args:
        examples: whose tokens are projected
        rng: of all random choices

    Raises:
        PrecisionError: where no projection of weights up to 2^40 tells the examples apart, or no
            modulus which fits into int64
    """
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
            raise _none_found("projection", _WIDEST.bit_length())
    offset = -int(combined.min())
    values = combined + offset
    size = int(values.max()) + 1
    modulus, residues = smallest_modulus(values, size, told_apart, rng)
    return Projection(tuple(int(x) * unit for x in u), offset, size, modulus, residues)


def smallest_modulus(
    values: npt.NDArray[Any],
    size: int,
    suits: Callable[[Integers], bool],
    rng: np.random.Generator,
) -> tuple[int, Integers]:
    """A modulus, of as few bits as were found, whose residues suit; all values suit as they are.

    Args:
        values: integers (V,), not negative
        size: above all values
        suits: says whether residues (V,) will do
        rng: of all random choices

    Returns:
        the modulus, and the residues (V,)

    Raises:
        PrecisionError: where none was found which fits into int64, or the values do not suit
    """
    if size.bit_length() <= _MOST_BITS:
        values = values.astype(np.int64)  # quicker than objects
    for bits in chain(range(2, _MOST_BITS), repeat(_MOST_BITS, 1000)):
        if bits >= size.bit_length():
            residues = values.astype(np.int64)
            if not suits(residues):
                break
            return size, residues
        for _ in range(_TRIES):
            modulus = int(rng.integers(1 << (bits - 1), 1 << bits))
            if 1 < modulus < size:
                residues = (values % modulus).astype(np.int64)
                if suits(residues):
                    return modulus, residues
    raise _none_found("modulus", _MOST_BITS)


def power_hash(
    examples: SequenceDataset,
    projected: Projection,
    comparison: Comparison,
    rng: np.random.Generator,
) -> Embedding:
    """h(z) = alpha^z modulo the smallest prime for which sums tell examples apart.

    Args:
        examples: to be told apart
        projected: their tokens (`project`)
        comparison: "ramp" or "saturating"
        rng: of all random choices

    Raises:
        PrecisionError: where no prime was found whose sums fit into int64
    """
    most = _MOST_BITS - examples.ids.shape[1].bit_length()
    for bits in range(2, most):
        for _ in range(_TRIES):
            prime = _prime_from(int(rng.integers(1 << (bits - 1), 1 << bits)))
            base = int(rng.integers(1, prime))
            factors = [pow(base, 1 << bit, prime) for bit in range(projected.bits)]
            found = _hashed(examples, projected, factors, prime, comparison)
            if found is not None:
                return found
    raise _none_found("prime", most)


def product_hash(
    examples: SequenceDataset,
    projected: Projection,
    comparison: Comparison,
    rng: np.random.Generator,
) -> Embedding:
    """h(z) = the product of a_i over the bits i of z, with the smallest factors that were found.

    Args:
        examples: to be told apart
        projected: their tokens (`project`)
        comparison: "ramp" or "saturating"
        rng: of all random choices

    Raises:
        PrecisionError: where none were found up to 2^61, which the lemma makes unlikely
    """
    for half_bits in range(2, 2 * _MOST_BITS):
        largest = int(2 ** (half_bits / 2))
        for _ in range(_TRIES):
            factors = rng.integers(2, largest, projected.bits, endpoint=True).tolist()
            found = _hashed(examples, projected, factors, None, comparison)
            if found is not None:
                return found
    raise _none_found("factors", _MOST_BITS)


def _hashed(
    examples: SequenceDataset,
    projected: Projection,
    factors: Sequence[int],
    prime: int | None,
    comparison: Comparison,
) -> Embedding | None:
    """The embedding by products of these factors, or None if it does not tell examples apart."""
    largest = prod(factors) if prime is None else prime * max(factors)
    short = largest * examples.ids.shape[1] < 1 << _MOST_BITS
    hashes = np.ones(len(projected.residues), dtype=np.int64 if short else object)
    for bit, factor in enumerate(factors):
        hashes[(projected.residues >> bit) & 1 == 1] *= factor
        if prime is not None:
            hashes %= prime
    sums = hashes[examples.ids].sum(axis=1)
    if not short:
        sums = np.unique(sums, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if not examples.told_apart(*examples.with_own(sums, projected.residues)):
        return None
    steps = [*_reduced(projected, comparison), *_products(factors, prime, comparison)]
    program = _program(examples, projected, steps, "h")
    return Embedding(
        program, hashes, projected.residues, projected.size, projected.modulus,
        prime=prime or 0,
    )  # fmt: skip


def _none_found(what: str, bits: int) -> PrecisionError:
    """What is hardly ever said: nearly all numbers of so many bits will do."""
    return PrecisionError(
        f"no {what} of up to {bits} bits tells the examples apart",
        witness=bits,
        suggestion="another seed=",
    )


def _prime_from(number: int) -> int:
    """The smallest prime which is not below a number."""
    while not flint.fmpz(number).is_prime():
        number += 1
    return number


def _products(factors: Sequence[int], prime: int | None, comparison: Comparison) -> Iterator[Step]:
    """`h`, the product of factors over the bits of 0 <= z < 2^len(factors), modulo a prime or not.

    Bits are read highest first. Where h <= bound, a bit b times h is relu(h - bound (1 - b)).
    """
    source, bound = "z", 1
    for bit in reversed(range(len(factors))):
        factor = factors[bit]
        rest = {"rest": -(1 << bit)}
        start = {"rest": Affine({source: 1})}
        if source == "z":  # h is still 1
            change = rest | {"h": factor - 1}
            yield from where_at_least("z", 1 << bit, change, comparison=comparison,
                                      start=start | {"h": Affine({}, 1)})  # fmt: skip
        else:
            yield from where_at_least("rest", 1 << bit, rest | {"b": 1}, comparison=comparison,
                                      start=start | {"b": Affine()})  # fmt: skip
            gated = Affine({"h": 1, "b": bound}, -bound)
            yield Step({"gated": gated}, {"h": Affine({"h": 1, "gated": factor - 1})})
        source, bound = "rest", bound * factor
        if prime is not None:
            yield from remainder("h", prime, bound + 1, comparison=comparison)
            bound = min(bound, prime - 1)


def separating_set(
    examples: SequenceDataset,
    projected: Projection,
    comparison: Comparison,
    layout: Layout,
    costs: Costs,
    max_word_bits: int | None,
    noise: int,
    rng: np.random.Generator,
) -> Embedding:
    """`h` is a weight on at most N - 1 residues, and 0 on all others.

    Args:
        examples: to be told apart
        projected: their tokens (`project`)
        comparison: "ramp" or "saturating"
        layout: of the dictionary of weights, "deep" or "wide"
        costs: of that dictionary
        max_word_bits: of its code words (`dictionary.plan`); None for any number
        noise: of z, in last bits of a float64
        rng: of all random choices
    """
    weights = separating_weights(projected.residues[examples.ids], rng)
    hashes = np.array([weights.get(int(z), 0) for z in projected.residues], dtype=np.int64)
    blocks = dictionary.plan(
        weights or {0: 0}, projected.modulus, costs=costs, max_word_bits=max_word_bits
    )
    steps = [
        *_reduced(projected, comparison),
        *dictionary.steps(blocks, layout=layout, comparison=comparison, noise=noise),
    ]
    program = _program(examples, projected, steps, "T")
    return Embedding(
        program, hashes, projected.residues, projected.size, projected.modulus,
        kept=sum(map(len, blocks.members)), heaviest=blocks.scale,
    )  # fmt: skip


def separating_weights(rows: Integers, rng: np.random.Generator) -> dict[int, int]:
    """Positive weights of a few residues, such that different multisets have different sums.

    Args:
        rows: (N, n), the residues of each sequence
        rng: of all random choices

    Returns:
        weights by residues; all others have 0

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
    """Each residue with the multisets which hold it, and how often."""
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
    """A weight for which all sums are different: sums + weight counts, and those which are taken.

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
        for trial in rng.integers(weight, 2 * weight, size=_TRIES * _FEW).tolist():
            everything = np.concatenate([values + trial * counts, fixed])
            everything.sort()
            if (everything[1:] != everything[:-1]).all():
                return int(trial)
        weight *= 2


def _reduced(projected: Projection, comparison: Comparison) -> list[Step]:
    return remainder("z", projected.modulus, projected.size, comparison=comparison)


def _program(
    examples: SequenceDataset, projected: Projection, steps: list[Step], name: str
) -> Program:
    """From the entries of a token to the stream: h, its residue where keys have one, and 0."""
    inputs = tuple(f"x{k}" for k in range(len(projected.weights)))
    start = {"z": Affine(dict(zip(inputs, projected.weights, strict=True)), projected.offset)}
    own = [Affine({"z": 1})] if examples.per_position else []
    return Program(inputs, start, tuple(steps), (Affine({name: 1}), *own, Affine()))
