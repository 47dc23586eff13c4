"""What floating-point evaluations of attention may do: one model, and its bounds.

*Standard model* (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 2.2
and 3.1). Every addition, product and division is rounded to nearest, with or without fused
multiply-add: its result is the exact one times 1 + delta, `|delta| <= u`. A sum or an inner
product of k terms, in any order, is off by at most gamma_k times the sum of sizes `|a_i b_i|`,
gamma_k = k u / (1 - k u).

*Exponentials* of numbers which are not positive are assumed to be off by a part of `exp_error` at
most, where they are twice the smallest normal number or more; where they are less, by as much as
that (so they may become zero, as in flash attention on some machines); and exp(0) = 1.

*Softmax* of exact logits l_1, ..., l_n: exp(l_j - m) over their sum, where m is the largest logit,
divided before the tokens are averaged or afterwards; in one piece, or in blocks, with the largest
logit so far, whose sums are rescaled by exp(m_old - m_new), as flash attention does. Blocks begin
anywhere, before the first token which is seen, too (of a window, or after what fills a sequence up
on the left), so these n tokens are in B = 1 + ceil((n - 1) / block) blocks or fewer. A term is a
product of at most B exponentials, and of as many roundings. ::

    eta  = t / (1 - t),  t = B exp_error + B u        >= what these do to a term
    beta = eta + gamma_n + eta gamma_n                >= with the sum of n terms
    rho  = (1 + u)^2 (1 + stored)^2 - 1               two roundings divide; weights a_j and
                                                      averages may be stored in fewer bits
    zeta = (2 beta + rho + beta rho) / (1 - beta)     |z - sum_j a_j x_j| <= zeta sum_j a_j |x_j|

since the numerator is off by a factor 1 + beta at most, the denominator, which is positive, by
1 - beta at least. What underflows, to zero or gradually, comes on top (`flushed`, `lost`): each
exponential, product and rescaled sum loses twice the smallest normal number at most, times the n
terms which a sum has so far, and the denominator is 1 or more, as the largest logit has the
exponential 1. What was lost is summed, divided and stored with all others, so it counts 1 + zeta =
(1 + beta) (1 + rho) / (1 - beta) times.

*Few tokens with much weight* (`weighted`). Let m of n terms be large, and the sizes of all others
together tau, of all n together W. In a sum in any order an addition is off by u times its result at
most, and by no more than either operand, as it rounds to nearest. At most m - 1 additions have
large terms in both operands. Of every other one some operand has small terms only; those operands
which meet a large term are disjoint, and the other additions are within them. With a rounding for
each product the sum is off by ::

    (1 + gamma_n) (m u W + (1 + n u) tau)  at most; and gamma_n W is another bound.

Let g = (1 + gamma_n) m u and h = (1 + gamma_n) (1 + n u) tau, where W = 1. The denominator is off
by b = eta + (1 + eta) (g + h), and for tokens of size X at most the numerator by c times
`sum_j a_j |x_j|` and (1 + eta) h X, where c = eta + g + eta g. So
zeta = (b + rho + (1 + rho) c) / (1 - b), and (1 + rho) (1 + eta) h X / (1 - b) comes on top.

No numerator overflows where n X (1 + zeta) is in the range of the operations, X the largest `|x|`.

All bounds are sums, products and quotients of positive numbers, and `up` covers their rounding.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.exact.directed import up
from constructive.support.arrays import Array

MOST_TERMS = 1 << 20
"""Terms of a sum for which bounds are finite."""
_HALF = 0.5
"""Beyond it a relative error is no small one."""


@dataclass(frozen=True)
class FloatModel:
    """How evaluation rounds.

    Attributes:
        name: of the format in which numbers are stored
        unit: u of additions, products and divisions
        exp_error: relative error of exponentials which are at least twice the smallest normal
            number
        block: tokens of a block of softmax, at least
        smallest: the smallest normal number of the operations
        stored_unit: rounding of attention weights, averages, outputs and logits when they are
            stored between operations; 0 where that is the format of these
        stored_tiny: absolute error of storing a number which is nearly zero
        digits: bits of a significand in storage: integers up to 2^digits are exact
        stored_smallest: the smallest normal number of storage
        largest: the largest number of storage
        overflow: the largest number of the operations; by default that of float32
    """

    name: str
    unit: float
    exp_error: float
    block: int
    smallest: float
    stored_unit: float
    stored_tiny: float
    digits: int
    stored_smallest: float
    largest: float
    overflow: float = (2.0 - 2.0**-23) * 2.0**127

    def gamma(self, terms: npt.ArrayLike) -> Array:
        """gamma_k, rounded up; infinite beyond `MOST_TERMS` and where k u is no small number.

        Args:
            terms: k, of any shape

        Example:
            >>> bool(1e-3 < EXECUTED["float32"].gamma(20000) < 2e-3)
            True
        """
        count = np.asarray(terms, dtype=np.float64)
        return self._small(count * self.unit, count)

    def average(self, counts: npt.ArrayLike) -> Array:
        """zeta: the relative error of an average of n tokens, to `sum_j a_j |x_j|`; rounded up.

        Args:
            counts: n, of any shape

        Example:
            >>> bool(1e-4 < EXECUTED["float32"].average(1000) < 2e-4)
            True
        """
        count = np.asarray(counts, dtype=np.float64)
        return self._ratio(count, self.gamma(count), np.zeros_like(count))[0]

    def weighted(
        self, counts: npt.ArrayLike, large: npt.ArrayLike, rest: npt.ArrayLike
    ) -> tuple[Array, Array]:
        """The same, where some tokens have nearly all weight; and what comes on top, times X.

        Args:
            counts: n, of any shape
            large: m, how many of these tokens have much weight, one or more
            rest: tau, a bound of the weight of all others together

        Example:
            >>> zeta, more = EXECUTED["float32"].weighted(10000, 20, 1e-6)
            >>> bool(zeta + more < EXECUTED["float32"].average(10000) / 5)
            True
        """
        count = np.asarray(counts, dtype=np.float64)
        plain = self.gamma(count)
        main = up((1.0 + plain) * (np.asarray(large, dtype=np.float64) * self.unit))
        with np.errstate(invalid="ignore"):  # what is infinite, times zero
            more = up((1.0 + plain) * (1.0 + count * self.unit) * np.asarray(rest))
        better = main + more < plain
        return self._ratio(count, np.where(better, main, plain), np.where(better, more, 0.0))

    def _ratio(self, count: Array, main: Array, more: Array) -> tuple[Array, Array]:
        """zeta, and what comes on top, from g and h."""
        eta = self._small(self._blocks(count) * (self.exp_error + self.unit), count)
        above, below = up(_both(eta, main)), up(_both(eta, main + more))
        once = _both(self.unit, self.stored_unit)
        rho = up(np.asarray(_both(once, once)))
        known = below < _HALF
        least = 1.0 - np.minimum(below, _HALF)
        zeta = up((below + rho + above * (1.0 + rho)) / least)
        with np.errstate(invalid="ignore"):  # what is infinite, times zero
            top = up((1.0 + rho) * (1.0 + eta) * more / least)
        return np.where(known, zeta, np.inf), np.where(known, top, np.inf)

    def flushed(self, counts: npt.ArrayLike) -> Array:
        """What underflow adds to an average of n tokens with entries of at most one; rounded up.

        Args:
            counts: n, of any shape
        """
        count = np.asarray(counts, dtype=np.float64)
        lost = 32.0 * count * self._blocks(count) * self.smallest
        return up(lost + (count + 1.0) * self.stored_tiny)

    def lost(self, terms: int) -> float:
        """What underflow takes from a sum of k products of numbers of at most one; rounded up.

        Each product, and each factor which is below the smallest normal number, may become zero.

        Args:
            terms: k
        """
        return 8.0 * terms * self.smallest

    def _blocks(self, count: Array) -> Array:
        return 1.0 + np.ceil((count - 1.0) / self.block)

    @staticmethod
    def _small(share: Array, count: Array) -> Array:
        """Bounds t / (1 - t) for t < 1/2, else infinite ones."""
        inside = (share < _HALF) & (count <= MOST_TERMS)
        safe = np.minimum(share, _HALF)
        return np.where(inside, up(safe / (1.0 - safe)), np.inf)


def _both(one: npt.ArrayLike, other: npt.ArrayLike) -> Array:
    """(1 + a) (1 + b) - 1, as a sum of positive numbers."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    both: Array = a + b + a * b
    return both


EXP_ULPS = 32
"""Units in the last place by which exponentials in float32 may be off: 64 u."""
BLOCK = 512
"""Tokens of a block of softmax which is computed in blocks, at least."""
IN_WORDS = (
    "sums in any order, with or without fused multiply-add, softmax less the largest logit, in one "
    "piece or in blocks of {} tokens or more, underflow to zero or gradual; if exp is off by at "
    "most {} units in the last place where it is 2^-125 or more, by 2^-125 where it is less, and "
    "is 1 at 0"
)
"""What an evaluation in float32 is, and is assumed to be, as statements say it of `BLOCK` and
`EXP_ULPS`."""

_F32 = 2.0**-24, 2.0 * EXP_ULPS * 2.0**-24, BLOCK, 2.0**-126

EXECUTED = {
    "float32": FloatModel("float32", *_F32, 0.0, 0.0, 24, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127),
    "bfloat16": FloatModel(
        "bfloat16", *_F32, 2.0**-8, 2.0**-126, 8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127
    ),
    "float16": FloatModel("float16", *_F32, 2.0**-11, 2.0**-25, 11, 2.0**-14, 65504.0),
}
"""By the format in which numbers are stored; sums and products are float32 in all."""

FLOAT64 = FloatModel(
    "float64",
    2.0**-53,
    2.0**-51,
    MOST_TERMS,
    2.0**-1022,
    0.0,
    0.0,
    53,
    2.0**-1022,
    2.0**1023,
    2.0**1023,
)
"""Our own evaluation, with exponentials from a table which arb made."""
