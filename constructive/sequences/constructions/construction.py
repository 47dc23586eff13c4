"""What a construction of a sequence memorizer is: how tokens are embedded, and how it compares.

A token is projected to an integer z and reduced modulo q (`projection`), and embedded as h(z).
Attention adds up h over a context. Examples with different labels must get different sums (or
residues of their own token); that is checked, and chance is asked again until it holds, so that
nothing rests on luck.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from constructive.sequences.comparisons import Comparison
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.network import Affine, Column, Program, Step
from constructive.sequences.projection import Projection

_FLOAT64, _FLOAT32 = 53, 24


@dataclass(frozen=True, eq=False)
class Embedded:
    """A token-wise network: its program, and what it does to the tokens."""

    # from the d entries of a token to the stream (h, t, 0), or (h, 0) where examples need no token
    # of their own
    program: Program
    hashes: Column  # h of each token (V,), long ones as objects
    prime: int = 0  # P of a power hash, else 0
    kept: int = 0  # the number of residues of a separating set, else 0
    heaviest: int = 0  # W above their weights, else 0


class SequenceConstruction(ABC):
    """One way to build a sequence memorizer.

    The laws: sums of `hashes` over contexts, beside the residues of own tokens, tell examples with
    different labels apart (`SequenceDataset.told_apart`); the program computes these hashes
    exactly; and two embeddings from one state of `rng` are one.
    """

    name: ClassVar[str]  # what users ask for
    comparison: ClassVar[Comparison]  # by which its networks compare

    @abstractmethod
    def embed(
        self,
        examples: SequenceDataset,
        projected: Projection,
        max_word_bits: int | None,
        rng: np.random.Generator,
    ) -> Embedded:
        """Return an embedding of the tokens that tells the examples apart."""

    def program(
        self,
        examples: SequenceDataset,
        projected: Projection,
        steps: Iterable[Step],
        register: str,
    ) -> Program:
        """Return the program from the entries of a token to the stream."""
        inputs = tuple(f"x{k}" for k in range(len(projected.weights)))
        start = {"z": Affine(dict(zip(inputs, projected.weights, strict=True)), projected.offset)}
        own = [Affine({"z": 1})] if examples.per_position else []
        reduced = self.comparison.remainder("z", projected.modulus, projected.size)
        outputs = Affine({register: 1}), *own, Affine()
        return Program(inputs, start, (*reduced, *steps), outputs)


def rounding(units: int, max_word_bits: int | None) -> int:
    """Return rounding in last bits of a float64; of a float32 where words are made for it.

    Example:
        >>> rounding(4, 52), rounding(4, 23) == 4 * 2**29
        (4, True)
    """
    short = max_word_bits is not None and max_word_bits <= _FLOAT32
    return units << (_FLOAT64 - _FLOAT32) if short else units
