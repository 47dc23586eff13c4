"""Tokens to small integers: z = D_c u.x + offset for a random integer vector u, modulo a small q.

Examples with different labels stay different as multisets of residues, which is checked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.sequences.examples import SequenceDataset
from constructive.support.arrays import Integers
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
    values: npt.NDArray[Any],
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
