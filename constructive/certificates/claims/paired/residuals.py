"""`|f - y|` on every example, with bounds of the errors of that."""

from dataclasses import dataclass

import numpy as np

from constructive.certificates.claims.paired.entries import Entries
from constructive.certificates.claims.paired.examples import Examples
from constructive.certificates.claims.paired.readouts import Readouts, Terms
from constructive.exact.upward import UNIT, gamma, up
from constructive.support.arrays import Array, Integers


@dataclass(frozen=True, eq=False)
class Residuals:
    """`|f - y| 2^-c` by position, as float64 has it, and how far that is off."""

    evaluated: Array  # (T, d_out)
    slack: Array  # (T, d_out), bounds the errors of these
    exponent: int  # c, for which targets, and readouts of contexts of size one, are below 1

    @property
    def bounds(self) -> Array:
        """Upper bounds of `|f - y| 2^-c`, of shape (T, d_out)."""
        return up(self.evaluated + self.slack)


def residuals_of(
    examples: Examples, entries: Entries, second: Terms | None, readouts: Readouts
) -> Residuals:
    """Evaluate f - y at every position, at size one.

    `second` is what the second head of the pair whose readouts do not cancel adds to f.
    """
    result, size, slack = sums = np.zeros((3, *readouts.targets.shape))
    first, both, owner = readouts.first, readouts.both, examples.owner

    def add(positions: Integers, pairs: Integers, x: Array, radius: Array) -> None:
        terms = Terms.of(x, radius, first, pairs)
        for total, part in zip(sums, terms, strict=True):
            for column in range(total.shape[1]):
                total[:, column] += np.bincount(positions, part[:, column], len(total))

    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        add(np.arange(len(owner)), owner, entries.own, entries.own_error)
        add(entries.positions, entries.pairs, entries.coupled, entries.coupled_error)
        if second is not None:
            sums += second
        per_head = up(np.abs(first).sum(axis=(0, 1)))
        rounded = up(2.0 * UNIT * np.abs(both).sum(axis=(0, 1)))
        slack += entries.tail[:, np.newaxis] * per_head
        slack += entries.largest[:, np.newaxis] * rounded
        width = examples.queries.shape[1]
        terms = width + 8 + int(np.bincount(entries.positions, minlength=1).max(initial=0))
        residual = np.abs(result - readouts.targets)
        bound = up(slack + up(gamma(terms) * up(size + residual)))
    return Residuals(residual, bound, readouts.exponent)
