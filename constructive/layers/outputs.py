"""W_O and W_D that differ from head to head, and leave the outputs of a layer as they are.

Identities for W_O and W_D give every effective readout (`AttentionLayer.from_effective_readout`).
But then all heads have the same block of W_O, and an attention kernel that concatenates heads in a
wrong order, transposes W_O or W_D, or leaves them out has the right outputs. So `drawn` replaces ::

    W_V,h by W_V,h P_h^-1,     W_O,h by P_h W_O,h Q^-1,     W_D by Q W_D

with P_h = R_h Q where d_v = d_o, and P_h = R_h elsewhere. Every R_h, and Q, is a *signed cycle*: a
permutation matrix of one cycle, with signs, times a power of two. So identities become R_h and Q.

*Proposition.* (1) In floats every product is exact, so W_V W_O W_D and |W_V| |W_O| |W_D| of each
head keep their bits. (2) A signed cycle is not symmetric where its size is 2 or more, and never
the identity. (3) R_h and R_g differ for 0 < |h - g| < 6. (4) R_h and R_(H-1-h) differ for some h if
H >= 2.
*Proof.* (1) Sums have one term that is not zero, and a power of two changes an exponent only, as
`_in_range` makes sure. (2) The inverse of a cycle of 3 or more is another cycle; for 2 the signs
differ; the power of two is not 1. (3) Six powers take turns. (4) By (3), for h = 0 unless H - 1 is
a multiple of 6, and else for h = 1. QED

Weights within 2^10 of either end of the range of floats get signed cycles without powers of two,
of which (1) holds too, and (2) but for size 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from constructive.support.arrays import Array, Integers

_POWERS = 0.125, 0.25, 0.5, 2.0, 4.0, 8.0
_MARGIN = 2.0**10  # More than products of three of these powers


class Outputs(NamedTuple):
    """Weights after attention."""

    values: tuple[Array, ...]  # W_V (H, d, d_v); several arrays where W_V is their sum
    output: Array  # W_O (H d_v, d_o)
    readout: Array  # W_D (d_o, d_out)


class SignedCycles(NamedTuple):
    """Matrices P (k, m, m) whose row i has one entry that is not zero."""

    columns: Integers  # where that is (k, m)
    entries: Array  # what it is, a power of two with a sign (k, m)

    @classmethod
    def draw(
        cls, count: int, size: int, powers: Sequence[float], rng: np.random.Generator
    ) -> "SignedCycles":
        """Draw `count` matrices of one size; matrices next to each other have other powers."""
        order = rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)
        columns = np.empty_like(order)
        np.put_along_axis(columns, order, np.roll(order, -1, axis=1), axis=1)
        signs = rng.choice([-1.0, 1.0], (count, size))
        signs[:, 1:2] = -signs[:, :1]
        return cls(columns, signs * np.resize(rng.permutation(powers), (count, 1)))

    def then(self, last: "SignedCycles") -> "SignedCycles":
        """Return P Q for the one matrix Q of `last`."""
        return SignedCycles(
            last.columns[0, self.columns], self.entries * last.entries[0, self.columns]
        )

    def times(self, matrices: Array) -> Array:
        """Return P M for M (k, m, ...)."""
        rows = np.take_along_axis(matrices, self.columns[:, :, np.newaxis], axis=1)
        product: Array = rows * self.entries[:, :, np.newaxis] + 0.0  # no negative zeros
        return product

    def undone(self, matrices: Array) -> Array:
        """Return M P^-1 for M (k, ..., m)."""
        columns = np.take_along_axis(matrices, self.columns[:, np.newaxis], axis=2)
        product: Array = columns / self.entries[:, np.newaxis] + 0.0
        return product


def drawn(given: Outputs, rng: np.random.Generator) -> Outputs:
    """Draw signed cycles, and fold them into float64 weights (see the module for what stays).

    Example:
        >>> given = Outputs((np.ones((2, 1, 1)),), np.ones((2, 1)), np.ones((1, 1)))
        >>> after = drawn(given, np.random.default_rng(1))
        >>> after.values[0].ravel(), after.output.ravel(), after.readout.ravel()
        (array([-0.5  ,  0.125]), array([ 0.5, -2. ]), array([-4.]))
    """
    heads, _, size = given.values[0].shape
    between = len(given.readout)
    powers = _POWERS if all(map(_in_range, (*given.values, given.output))) else (1.0,)
    last = SignedCycles.draw(1, between, powers, rng)
    first = SignedCycles.draw(heads, size, powers, rng)
    if size == between:
        first = first.then(last)
    output = first.times(given.output.reshape(heads, size, between))
    return Outputs(
        tuple(map(first.undone, given.values)),
        last.undone(output.reshape(1, -1, between))[0],
        last.times(given.readout[np.newaxis])[0],
    )


def _in_range(weights: Array) -> bool:
    """Return whether neither end of the range of floats is near."""
    limits, sizes = np.finfo(weights.dtype), np.abs(weights[weights != 0])
    least, most = limits.smallest_normal * _MARGIN, limits.max / _MARGIN
    return bool(((sizes >= least) & (sizes <= most)).all())
