"""Hashes that are products: a factor for each bit of z, modulo a prime or not."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from constructive.sequences.comparisons import Comparison
from constructive.sequences.constructions.construction import Embedded, SequenceConstruction
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.network import Affine, Step
from constructive.sequences.projection import MOST_BITS, Projection


class Hash(SequenceConstruction):
    """Products of the first factors that tell the examples apart."""

    @abstractmethod
    def factors(
        self, examples: SequenceDataset, projected: Projection, rng: np.random.Generator
    ) -> Iterator[tuple[list[int], int | None]]:
        """Yield factors that are drawn, and the prime that products are reduced by, if any."""

    def embed(
        self,
        examples: SequenceDataset,
        projected: Projection,
        max_word_bits: int | None,  # noqa: ARG002 - hashes have no code words
        rng: np.random.Generator,
    ) -> Embedded:
        """Return the embedding of the first factors that tell the examples apart."""
        drawn = self.factors(examples, projected, rng)
        tried = (hashed(self, examples, projected, *each) for each in drawn)
        return next(embedded for embedded in tried if embedded is not None)


def hashed(
    construction: SequenceConstruction,
    examples: SequenceDataset,
    projected: Projection,
    factors: Sequence[int],
    prime: int | None = None,
) -> Embedded | None:
    """Return the embedding by products of these factors, or None if examples get equal sums."""
    largest = prod(factors) if prime is None else prime * max(factors)
    short = largest * examples.ids.shape[1] < 1 << MOST_BITS
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
    steps = products(factors, construction.comparison, prime)
    program = construction.program(examples, projected, steps, "h")
    return Embedded(program, hashes, prime=prime or 0)


def products(
    factors: Sequence[int], comparison: Comparison, prime: int | None = None
) -> Iterator[Step]:
    """Yield steps that make h, the product of factors over the bits of 0 <= z < 2^len(factors).

    Bits are read highest first. Where h <= bound, a bit b times h is relu(h - bound (1 - b)).

    Example:
        >>> from constructive.sequences.comparisons import RAMP
        >>> len(list(products([2, 3, 5], RAMP)))
        5
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
            yield Step({"gated": gated}, {"h": Affine({"h": 1, "gated": factor - 1})})
        source, bound = "rest", bound * factor
        if prime is not None:
            yield from comparison.remainder("h", prime, bound + 1)
            bound = min(bound, prime - 1)
