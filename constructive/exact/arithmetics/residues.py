"""Attention modulo a prime: the image of the true one where x = exp(2^s) goes to a residue a.

Logits of floats are integers k in some unit 2^s, and exp(logit) = x^k. In its place stands a^k
modulo p, which depends on k modulo p - 1 alone: so numbers for logits are residues modulo p - 1,
and numbers for values are residues modulo p. `layers.residues` says what that proves.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.exact import modular
from constructive.exact.arithmetics.arithmetic import Hidden
from constructive.exact.arithmetics.floats import Arrays, averaged
from constructive.support.arrays import Array, Integers


class VanishingDenominatorError(ArithmeticError):
    """A softmax denominator is 0 modulo p: another point is needed (chance about T H / p)."""


@dataclass(frozen=True)
class Point:
    """A prime p and a value a modulo p at which Z is evaluated."""

    prime: int  # p
    value: int  # a


class Quotients(NamedTuple):
    """Matrices of the queries of a block, whose rows have one denominator each."""

    numerators: Array  # balanced residues (..., H, n) or (..., H, d)
    inverses: Array  # of the denominators (..., H)
    prime: int  # p

    def entries(self, heads: Integers, columns: Integers) -> Array:
        """Return some entries of each matrix as balanced residues: (..., C)."""
        chosen = self.numerators[..., heads, columns] * self.inverses[..., heads]
        return modular.reduce(chosen, self.prime)


class Residues(Arrays[Quotients]):
    """Residues modulo p - 1 for logits, modulo p for values, and powers of a for exponentials."""

    def __init__(self, point: Point, token_exponent: int, query_exponent: int) -> None:
        self.prime, self.order = point.prime, point.prime - 1
        self.exponents = token_exponent, query_exponent
        self.powers = modular.power_table(point.value, point.prime)

    def queries(self, array: Array) -> Array:
        """Return queries modulo p - 1."""
        return modular.residues(array, self.order, self.exponents[1])

    def keys(self, array: Array) -> Array:
        """Return tokens modulo p - 1."""
        return modular.residues(array, self.order, self.exponents[0])

    def values(self, array: Array) -> Array:
        """Return tokens modulo p."""
        return modular.residues(array, self.prime, self.exponents[0])

    def read(self, array: Array) -> Array:
        """Return W_Q or W_K modulo p - 1, in a unit of its own."""
        return modular.residues(array, self.order)

    def product(self, left: Array, right: Array) -> Array:
        """Return `left @ right` modulo p - 1."""
        return modular.product(left, right, self.order)

    def softmax(self, logits: Array, hidden: Hidden | None) -> Quotients:
        """Return powers of a, and the inverses of their sums."""
        numerators = self.powers(logits)
        if hidden is not None:
            np.copyto(numerators, 0.0, where=hidden[:, np.newaxis])
        denominators = modular.reduce(numerators.sum(axis=-1), self.prime)
        if not denominators.all():
            raise VanishingDenominatorError
        return Quotients(numerators, modular.inverse(denominators, self.prime), self.prime)

    def averages(self, attention: Quotients, values: Array) -> Quotients:
        """Return sums of tokens, and the same inverses."""
        sums = averaged(
            lambda left, right: modular.product(left, right, self.prime),
            attention.numerators,
            values,
        )
        return attention._replace(numerators=sums)
