"""What a program may do that evaluates attention in floating point: one model, and its bounds.

A *program* computes one output from stored arrays by these steps. Its errors are bounded by counts,
which follow from a `FloatModel`: a row of numbers. `FloatModel.of_layers` says the same in
words, from the same numbers, and statements quote it. ::

    load      a number that was given is rounded to the format once
    contract  arrays are multiplied and summed over indices (exact.contractions)
    scale     constants multiply queries, keys, logits or exponents, in constants roundings at
              most: a scale and its inverse, log2 e for exp2; a power of two costs nothing, and
              an exponent l - m is as large as two logits, so each rounding counts twice
    softmax   exp(l_j - m), m the largest logit so far; in blocks of block tokens or more; divided
              once, before the average or after it; where merged, also by exp(l - (m + log L)),
              and parts are merged by (m, L) or by logsumexp
    sum       in any order, with or without fused multiply-add, to nearest
    store     some results have fewer bits (storage)

*Standard model* (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 2.2
and 3.1). Every addition, product and division is rounded to nearest, with or without fused
multiply-add: its result is the exact one times 1 + delta, `|delta| <= u`. A sum or an inner
product of k terms, in any order, is off by at most gamma_k times the sum of sizes `|a_i b_i|`,
gamma_k = k u / (1 - k u).

*Exponentials* of numbers that are not positive are assumed to be off by a part of `exp_error` at
most, where they are twice the smallest normal number or more; where they are less, by as much as
that (so they may become zero, as in flash attention on some machines); and exp(0) = 1.

*Softmax* of exact logits l_1, ..., l_n: exp(l_j - m) over their sum, where m is the largest logit,
divided before the tokens are averaged or afterwards; in one piece, or in blocks, with the largest
logit so far, whose sums are rescaled by exp(m_old - m_new), as flash attention does. Blocks begin
anywhere, before the first token that is seen, too (of a window, or after what fills a sequence up
on the left), so these n tokens are in B = 1 + ceil((n - 1) / block) blocks or fewer. A term is a
product of at most B exponentials, and of as many roundings. ::

    eta  = t / (1 - t),  t = B exp_error + B u        >= what these do to a term
    beta = eta + gamma_n + eta gamma_n                >= with the sum of n terms
    rho  = (1 + u)^2 (1 + s)^2 / (1 - s) - 1          two roundings divide; exponentials or a_j,
                                                      and averages or numerators, may be stored in
                                                      fewer bits, s, before they are summed
    zeta = (2 beta + rho + beta rho) / (1 - beta)     |z - sum_j a_j x_j| <= zeta sum_j a_j |x_j|

since the numerator is off by a factor 1 + beta at most, the denominator, which is positive, by
1 - beta at least. What underflows, to zero or gradually, comes on top (`flushed`, `lost`): each
exponential, product and rescaled sum loses twice the smallest normal number at most, times the n
terms that a sum has so far, and the denominator is 1 or more, as the largest logit has the
exponential 1. What was lost is summed, divided and stored with all others, so it counts 1 + zeta =
(1 + beta) (1 + rho) / (1 - beta) times.

*Few tokens with much weight* (`weighted`). Let m of n terms be large, and the sizes of all others
together tau, of all n together W. In a sum in any order an addition is off by u times its result at
most, and by no more than either operand, as it rounds to nearest. At most m - 1 additions have
large terms in both operands. Of every other one some operand has small terms only; those operands
that meet a large term are disjoint, and the other additions are within them. With a rounding for
each product the sum is off by ::

    (1 + gamma_n) (m u W + (1 + n u) tau)  at most; and gamma_n W is another bound.

Let g = (1 + gamma_n) m u and h = (1 + gamma_n) (1 + n u) tau, where W = 1. The denominator is off
by b = eta + (1 + eta) (g + h), and for tokens of size X at most the numerator by c times
`sum_j a_j |x_j|` and (1 + eta) h X, where c = eta + g + eta g. So
zeta = (b + rho + (1 + rho) c) / (1 - b), and (1 + rho) (1 + eta) h X / (1 - b) comes on top.

No numerator overflows where n X (1 + zeta) is in the range of the operations, X the largest `|x|`.

*Merged parts.* A token's weight may be exp(l - lse_s) exp(lse_s - lse), lse_s = m + log L of its
part, with logarithms off by `exp_error` (1 + log L). Twice, a logarithm is rounded and added to a
logit (u (M + log n), M bounds the logits), and a difference is rounded (u (2M + log n),
u (2M + 2 log n)). So exponents are off by 6 u M + 5 u log n + 2 exp_error (1 + log n)
(`exponents`, and 6 roundings in `logit_roundings`). Sums are nested twice: n, m and B are doubled,
since (1 + gamma_n)^2 <= 1 + gamma_2n, and two more roundings divide.

All bounds are sums, products and quotients of positive numbers, and `up` covers their rounding.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.exact.contractions import Contraction, Pairwise
from constructive.exact.formats import Format
from constructive.exact.upward import up
from constructive.support.arrays import Array

MOST_TERMS = 1 << 20  # Terms of a sum for which bounds are finite
STRETCH = 2.0**16  # Products of constants, on the way, are from its inverse to this
_HALF = 0.5  # Beyond it a relative error is not small
_LOADS = 4  # Factors of a path that are rounded before it starts
_DIFFERENCE = 2  # Roundings of l - m, in units of a bound of both
_MERGES = 6  # More of them where parts are merged by logsumexp
OPERATIONS = {2.0**-24: "float32", 2.0**-53: "float64"}  # By their unit roundoff


@dataclass(frozen=True)
class FloatModel:
    """How evaluation rounds."""

    name: str  # as `certify` and `bounds` take it
    storage: Format  # the format of what is stored between steps
    unit: float  # u of additions, products and divisions
    # relative error of exponentials that are at least twice the smallest normal number, and of
    # logarithms
    exp_error: float
    block: int  # tokens of a block of softmax, at least
    smallest: float  # the smallest normal number of the operations
    overflow: float  # the largest number of the operations
    contraction: Contraction = Pairwise()  # noqa: RUF009 - it has no state
    constants: int = 0  # roundings by constants on the way to an exponential
    merged: bool = False  # whether parts may be divided and merged by logsumexp
    # the format that factors of products are rounded to; None where they are not. Bounds here are
    # of programs that do not round them.
    factors: Format | None = None

    @property
    def stored_unit(self) -> float:
        """The rounding of what is stored; 0 where storage has the numbers of the operations."""
        return self.storage.unit if self.storage.unit > self.unit else 0.0

    @property
    def stored_tiny(self) -> float:
        """The absolute error of storing what is nearly zero; 0 where nothing is rounded."""
        return self.storage.tiny if self.storage.unit > self.unit else 0.0

    @property
    def stretch(self) -> float:
        """By how much constants may scale what is on the way to an exponent; or its inverse."""
        return STRETCH if self.constants else 1.0

    @property
    def keeps_logits(self) -> bool:
        """Whether sums without error give exponents without error."""
        return not (self.constants or self.merged)

    def logit_roundings(self, width: int, head_dim: int) -> int:
        """Count the roundings of a logit and of its distance to the largest one.

        Args:
            width: d
            head_dim: d_h
        """
        merges = _MERGES * self.merged
        paths = self.contraction.logits(width, head_dim) + _LOADS
        return paths + _DIFFERENCE + 2 * self.constants + merges

    def output_roundings(
        self, heads: int, tokens: int, width: int, value_dim: int, between: int
    ) -> int:
        """Count the roundings of an output of a layer, but for softmax.

        Args:
            heads: H
            tokens: n
            width: d
            value_dim: d_v
            between: d_o, the columns of W_O
        """
        return self.contraction.outputs(heads, tokens, width, value_dim, between) + _LOADS

    def exponents(self, counts: npt.ArrayLike) -> Array:
        """Bound what errors of exponents do not owe to logits: zero but for merged parts.

        Args:
            counts: n, of any shape
        """
        logs = np.log(np.maximum(np.asarray(counts, dtype=np.float64), 1.0)) * (1.0 + 2.0**-40)
        whole = 5.0 * self.unit * logs + 2.0 * self.exp_error * (1.0 + logs)
        return up(whole) if self.merged else np.zeros_like(logs)

    def of_layers(self, *, exact: bool = False) -> str:
        """Say what a program of this model is that evaluates a layer.

        Args:
            exact: whether all its logits are exact
        """
        logits = "each logit computed once" + ", without error" * exact
        loaded = f"weights and data rounded to {self.storage.name} first"
        return "; ".join([loaded, logits, self.contraction.of_layers, *self._clauses()])

    def of_networks(self) -> str:
        """Say what a program of this model is that evaluates a sum of softmax heads.

        Its logits are affine functions of an input (`instances.network`).
        """
        logits = "each logit computed once, as one sum of products with inputs and an offset"
        outputs = "each output one sum over tokens for each head and one over heads, or one of both"
        return "; ".join([logits, outputs, *self._clauses()])

    def of_decoders(self) -> str:
        """Say what a program of this model is that evaluates a decoder."""
        once = "each logit of a head computed once"
        return "; ".join([once, self.contraction.of_decoders, *self._clauses()])

    def _clauses(self) -> Iterator[str]:
        """Say how a program sums, stores, scales and averages, from the numbers alone."""
        tiny = power(2.0 * self.smallest)
        yield (
            f"sums in {OPERATIONS[self.unit]}, in any order, rounding to nearest, with or without "
            "fused multiply-add"
        )
        if self.factors is not None:
            yield (
                f"factors of all products rounded to {self.factors.name} first, but those of "
                "outputs with the unembedding and those that rescale sums; a readout that "
                f"{self.factors.name} does not hold in two parts, 128 times U / 128 rounded to "
                "integers, and the rest"
            )
            yield "tokens that a position does not see have no logit, or one of -2^24 or less"
        if self.stored_unit:
            yield (
                "tokens, queries, keys, either exponentials or attention weights, averages, "
                f"outputs of the layer and the last logits stored in {self.storage.name}"
                + ", where underflow is gradual"
                * self.storage.gradual
            )
            yield (
                "logits of heads, the product of W_K and W_Q and its products, denominators, and "
                "factors that rescale sums in float32"
            )
        if self.constants:
            yield (
                "constants scale W_Q, queries, keys, logits or exponents, in "
                f"{self.constants} roundings at most, and their product is 1 (log2 e for exp2), "
                f"and from {power(1.0 / self.stretch)} to {power(self.stretch)} on the way"
            )
        yield (
            "softmax less the largest logit so far, in one piece or in blocks of "
            f"{self.block} tokens or more, divided by its sum once, before or after the average"
        )
        if self.merged:
            yield (
                "or in parts that are divided by their sum L, or are exp(l - (m + log L)), and "
                f"merged once by logsumexp, with log off by at most {power(self.exp_error)} "
                "(1 + |log|)"
            )
        yield "underflow to zero or gradual"
        exponential = "exp or exp2" if self.constants else "exp"
        yield (
            f"if {exponential} is off by at most {round(self.exp_error / self.unit / 2)} units in "
            f"the last place where it is {tiny} or more, by {tiny} where it is less, and is 1 at 0"
        )

    def gamma(self, terms: npt.ArrayLike) -> Array:
        """Bound gamma_k from above; infinite beyond `MOST_TERMS` and where k u is not small.

        Args:
            terms: k, of any shape

        Example:
            >>> from constructive.exact.models import FLOAT32
            >>> bool(1e-3 < FLOAT32.gamma(20000) < 2e-3)
            True
        """
        count = np.asarray(terms, dtype=np.float64)
        return self._small(count * self.unit, count)

    def average(self, counts: npt.ArrayLike) -> Array:
        """Bound zeta, the error of an average of n tokens relative to `sum_j a_j |x_j|`.

        Args:
            counts: n, of any shape

        Example:
            >>> from constructive.exact.models import FLOAT32
            >>> bool(1e-4 < FLOAT32.average(1000) < 2e-4)
            True
        """
        count = np.asarray(counts, dtype=np.float64)
        return self._ratio(count, self.gamma(self._nested * count), np.zeros_like(count))[0]

    def weighted(
        self, counts: npt.ArrayLike, large: npt.ArrayLike, rest: npt.ArrayLike
    ) -> tuple[Array, Array]:
        """Bound it where some tokens have nearly all weight; and what comes on top, times X.

        Args:
            counts: n, of any shape
            large: m, how many of these tokens have much weight, one or more
            rest: tau, a bound of the weight of all others together

        Example:
            >>> from constructive.exact.models import FLOAT32
            >>> zeta, more = FLOAT32.weighted(10000, 20, 1e-6)
            >>> bool(zeta + more < FLOAT32.average(10000) / 5)
            True
        """
        count = np.asarray(counts, dtype=np.float64)
        plain = self.gamma(self._nested * count)
        main = up((1.0 + plain) * (self._nested * np.asarray(large, dtype=np.float64) * self.unit))
        with np.errstate(invalid="ignore"):  # what is infinite, times zero
            others = self._nested * np.asarray(rest, dtype=np.float64)
            more = up((1.0 + plain) * (1.0 + self._nested * count * self.unit) * others)
        better = main + more < plain
        return self._ratio(count, np.where(better, main, plain), np.where(better, more, 0.0))

    def _ratio(self, count: Array, main: Array, more: Array) -> tuple[Array, Array]:
        """zeta, and what comes on top, from g and h."""
        eta = self._small(self._nested * self._blocks(count) * (self.exp_error + self.unit), count)
        above, below = up(_both(eta, main)), up(_both(eta, main + more))
        once, kept = _both(self._nested * self.unit, self.stored_unit), self.stored_unit
        rho = up((_both(once, once) + kept) / (1.0 - kept))
        known = below < _HALF
        least = 1.0 - np.minimum(below, _HALF)
        zeta = up((below + rho + above * (1.0 + rho)) / least)
        with np.errstate(invalid="ignore"):  # what is infinite, times zero
            top = up((1.0 + rho) * (1.0 + eta) * more / least)
        return np.where(known, zeta, np.inf), np.where(known, top, np.inf)

    def flushed(self, counts: npt.ArrayLike) -> Array:
        """Bound what underflow adds to an average of n tokens with entries of at most one.

        Args:
            counts: n, of any shape
        """
        count = np.asarray(counts, dtype=np.float64)
        lost = 32.0 * count * self._blocks(count) * self.smallest
        return up(lost + (3.0 * count + 1.0) * self.stored_tiny)

    def lost(self, terms: int) -> float:
        """Bound what underflow takes from a sum of k products of numbers of at most one.

        Each product, and each factor that is below the smallest normal number, may become zero.

        Args:
            terms: k
        """
        return 8.0 * terms * self.smallest

    @property
    def _nested(self) -> int:
        """How often sums over tokens are nested."""
        return 2 if self.merged else 1

    def _blocks(self, count: Array) -> Array:
        return 1.0 + self.merged + np.ceil((count - 1.0) / self.block)

    @staticmethod
    def _small(share: Array, count: Array) -> Array:
        """Return bounds t / (1 - t) for t < 1/2, else infinite ones."""
        inside = (share < _HALF) & (count <= MOST_TERMS)
        safe = np.minimum(share, _HALF)
        return np.where(inside, up(safe / (1.0 - safe)), np.inf)


def power(number: float) -> str:
    """Write a number as a power of two.

    Example:
        >>> power(0.125)
        '2^-3'
    """
    return f"2^{math.log2(number):g}"


def _both(one: npt.ArrayLike, other: npt.ArrayLike) -> Array:
    """(1 + a) (1 + b) - 1, as a sum of positive numbers."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    both: Array = a + b + a * b
    return both
