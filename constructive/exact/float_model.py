"""What a program may do that evaluates attention in floating point: one model, and its bounds.

A *program* computes one output from stored arrays by these steps. Its errors are bounded by counts,
which follow from a `FloatModel`: a row of numbers. `FloatModel.of_decoders` says the same in
words, from the same numbers, and statements quote it. ::

    load      a number that was given is rounded to the format once
    contract  arrays are multiplied and summed over indices (see `Contraction`)
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
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from constructive.exact.upward import up
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, shown

# Formats of floating-point numbers, and float32 arrays of numbers that have fewer bits.


@dataclass(frozen=True)
class Format:
    """A format of floating-point numbers."""

    name: str  # as numpy and ml_dtypes call it
    digits: int  # bits of a significand: integers up to 2^digits are exact
    smallest: float  # its smallest normal number
    largest: float  # its largest number
    # the absolute error of storing a number that is nearly zero, underflow to zero included where
    # machines do that
    tiny: float

    @property
    def unit(self) -> float:
        """The unit roundoff u = 2^-digits of rounding to nearest."""
        return 2.0**-self.digits

    @property
    def gradual(self) -> bool:
        """Whether underflow is always gradual, and never to zero."""
        return self.tiny < self.smallest

    def holds(self, values: Array) -> bool:
        """Return whether these finite numbers are all numbers of the format."""
        if values.dtype.name == self.name:
            return True
        exact = values.astype(np.float64, copy=False)
        return bool((nearest(exact, self) == exact).all())


# By name.
FORMATS = {
    each.name: each
    for each in (
        Format("float64", 53, 2.0**-1022, (2.0 - 2.0**-52) * 2.0**1023, 2.0**-1022),
        Format("float32", 24, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127, 2.0**-126),
        Format("bfloat16", 8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126),
        Format("float16", 11, 2.0**-14, 65504.0, 2.0**-25),
        Format("float8_e4m3fn", 4, 2.0**-6, 448.0, 2.0**-10),
        Format("float8_e5m2", 3, 2.0**-14, 57344.0, 2.0**-17),
    )
}
# What tensor cores make of float32 factors. No array has this type.
TF32 = Format("TF32", 11, 2.0**-126, (2.0 - 2.0**-10) * 2.0**127, 2.0**-126)


def nearest(values: Array, form: Format) -> Array:
    """Return float64 rounded to nearest in a format, ties to even; infinite beyond its range.

    Underflow is gradual. Rounding is monotone, so it keeps bounds. NaN stays NaN.
    """
    dropped = FORMATS["float64"].digits - form.digits
    if not dropped:
        return values.copy()
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    kept = bits >> np.uint64(dropped)
    kept &= np.uint64(1)  # the last digit, so that ties go to even
    kept += np.uint64((1 << (dropped - 1)) - 1)
    kept += bits
    kept &= ~np.uint64((1 << dropped) - 1)
    found = kept.view(np.float64)
    sizes = np.abs(found)
    small, large = sizes < form.smallest, sizes > form.largest
    if small.any():
        step = form.smallest * 2.0 ** (1 - form.digits)
        found[small] = np.rint(values[small] / step) * step
    if large.any():  # or NaN whose last digits were dropped
        found[large] = np.where(np.isnan(values[large]), np.nan, np.inf * found[large])
    return found


def rounded(weights: Array, storage: str) -> Array:
    """Return float32 weights rounded to the nearest numbers of a format, still as float32.

    Raises ParameterError for weights beyond its range.
    """
    found = weights
    if storage != "float32":
        found = nearest(weights.astype(np.float64), FORMATS[storage]).astype(np.float32)
    if not np.isfinite(found).all():
        raise ParameterError(
            f"weights of size {np.abs(weights).max():.1e} are beyond {storage}",
            witness=float(np.abs(weights).max()),
            suggestion="storage='bfloat16', which has the range of float32",
        )
    return found


# What a program may multiply at once, and how many roundings that makes.
#
# A *contraction* multiplies arrays entry by entry and sums over one index or several. A path is
# one choice of all indices: the product of one entry of each array. A contraction of m arrays over
# sets of k_1, ..., k_r indices rounds each of its paths m - 1 times as it multiplies, and k_1 ...
# k_r - 1 times at most as it adds, whatever the order. So a program that is a tree of contractions
# is off by gamma_K times the sum of the sizes of all paths, K the roundings that a path meets on
# its way.
#
# *Pairwise* trees multiply two arrays and sum over one index at a time: a sum over k indices
# rounds a path k times, its product included. Heads may share a sum with the entries of tokens or
# with values; never with tokens.
#
# In *any* tree a path meets all its products, and additions of disjoint sets of indices. A product
# of sizes k_1 ... k_r - 1 is at least the sum of all k_i - 1, so the one flat sum over all indices
# is the worst tree.


@dataclass(frozen=True)
class Contraction:
    """How the arrays of a layer or of a decoder may be contracted."""

    free: bool  # whether any set of the arrays may be multiplied before anything is summed
    of_decoders: str  # what it allows for decoders, in words

    def logits(self, width: int, head_dim: int) -> int:
        """Count the roundings of a path of a logit x^T W_K W_Q^T e."""
        if self.free:  # one sum of products of four factors
            return width * head_dim * width + 2
        return 2 * width + head_dim  # three sums

    def readouts(self, tokens: npt.ArrayLike, rows: int, outputs: int) -> tuple[Array, int]:
        """Count those of the two products of a decoder, z^T U and its product with o_v.

        A tree that does not sum over the rows of U first has all of them in the first count: its
        errors are then bounded by sums of `|z| |U| |o_v|`.
        """
        if self.free:  # one sum of products of attention, tokens, U and the unembedding
            return np.asarray(tokens, dtype=np.float64) * rows * outputs + 2.0, 0
        return np.full(np.shape(tokens), float(rows)), outputs


_ANY_ARRAYS = (
    "products of any number of arrays, summed over any number of indices at once, in any order"
)
_PAIRS_FOR_DECODERS = (
    "products of two arrays at a time, each summed over one index (queries and keys first{}; "
    "heads together with entries of tokens, never with tokens; averages before the readout, and "
    "that before the unembedding)"
)
# Products of two arrays at a time.
PAIRWISE = Contraction(
    free=False,
    of_decoders=_PAIRS_FOR_DECODERS.format(", or their matrix first"),
)
# The same where logits are products of queries and keys.
PROJECTED = replace(PAIRWISE, of_decoders=_PAIRS_FOR_DECODERS.format(""))
# Products of any arrays, summed over any indices at once.
ANY_CONTRACTION = Contraction(free=True, of_decoders=_ANY_ARRAYS)


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
    contraction: Contraction = PAIRWISE
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
        """Count the roundings of a logit and of its distance to the largest one."""
        merges = _MERGES * self.merged
        paths = self.contraction.logits(width, head_dim) + _LOADS
        return paths + _DIFFERENCE + 2 * self.constants + merges

    def exponents(self, counts: npt.ArrayLike) -> Array:
        """Bound what errors of exponents do not owe to logits: zero but for merged parts."""
        logs = np.log(np.maximum(np.asarray(counts, dtype=np.float64), 1.0)) * (1.0 + 2.0**-40)
        whole = 5.0 * self.unit * logs + 2.0 * self.exp_error * (1.0 + logs)
        return up(whole) if self.merged else np.zeros_like(logs)

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
        """Bound gamma_k from above; infinite beyond `MOST_TERMS` and where k u is not small."""
        count = np.asarray(terms, dtype=np.float64)
        return self._small(count * self.unit, count)

    def average(self, counts: npt.ArrayLike) -> Array:
        """Bound zeta, the error of an average of n tokens relative to `sum_j a_j |x_j|`."""
        count = np.asarray(counts, dtype=np.float64)
        return self._ratio(count, self.gamma(self._nested * count), np.zeros_like(count))[0]

    def weighted(
        self, counts: npt.ArrayLike, large: npt.ArrayLike, rest: npt.ArrayLike
    ) -> tuple[Array, Array]:
        """Bound it where some tokens have nearly all weight; and what comes on top, times X."""
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
        """Bound what underflow adds to an average of n tokens with entries of at most one."""
        count = np.asarray(counts, dtype=np.float64)
        lost = 32.0 * count * self._blocks(count) * self.smallest
        return up(lost + (3.0 * count + 1.0) * self.stored_tiny)

    def lost(self, terms: int) -> float:
        """Bound what underflow takes from a sum of k products of numbers of at most one.

        Each product, and each factor that is below the smallest normal number, may become zero.
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
    """Write a number as a power of two."""
    return f"2^{math.log2(number):g}"


def _both(one: npt.ArrayLike, other: npt.ArrayLike) -> Array:
    """(1 + a) (1 + b) - 1, as a sum of positive numbers."""
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    both: Array = a + b + a * b
    return both


# Named models of floating-point programs, each a row of numbers (`exact.float_model`).
#
# "pairwise" is what usual libraries do; "any contraction" is what einsum of many arrays may do;
# "scaled" is for libraries that multiply by 1 / sqrt(d_h) or fold log2 e, and for split softmax.
# "products" are for tensor cores, which round factors: certificates know them for decoders of
# integers only (`recite.causal.integers`).


EXP_ULPS = 32  # Units in the last place by which exponentials in float32 may be off: 64 u
# Tokens of a block of softmax, at least: in usual libraries, and in fused kernels.
BLOCK, SMALL_BLOCK = 512, 16
# Roundings by constants: a scale on W_Q and its inverse on queries and keys (two for a constant,
# one for a product, each twice), log2 e and its product.
SCALES = 8


STORAGES = "float32", "bfloat16", "float16"  # Formats in which decoders may be stored


def _rows() -> Iterator[FloatModel]:
    """Yield all models of certificates."""
    in_float32 = FORMATS["float32"]
    for storage in STORAGES:
        pairwise = FloatModel(
            f"{storage}, pairwise",
            FORMATS[storage],
            in_float32.unit,
            2.0 * EXP_ULPS * in_float32.unit,
            BLOCK,
            in_float32.smallest,
            in_float32.largest,
        )
        small = replace(pairwise, name=f"{pairwise.name}, blocks of 16", block=SMALL_BLOCK)
        yield from (pairwise, small)
        if storage == "float32":
            yield replace(small, name="float32, scaled", constants=SCALES, merged=True)
            yield replace(small, name="float32, any contraction", contraction=ANY_CONTRACTION)


# By name: "float32, pairwise", "float32, any contraction" and so on; sums and products are in
# float32 in all, whatever is stored.
MODELS = {model.name: model for model in _rows()}

# Models of decoders whose weights are integers: "float32, TF32 products" and so on.
INTEGER_MODELS = {
    model.name: model
    for form in (TF32, FORMATS["bfloat16"], FORMATS["float16"])
    for model in (
        replace(
            MODELS["float32, pairwise, blocks of 16"],
            name=f"float32, {form.name} products",
            factors=form,
            contraction=PROJECTED,
        ),
    )
}

FLOAT32 = MODELS["float32, pairwise"]

# Our own evaluation, with exponentials from a table that arb made.
FLOAT64 = FloatModel(
    "float64", FORMATS["float64"], 2.0**-53, 2.0**-51, MOST_TERMS, 2.0**-1022, 2.0**1023
)


def model_named(name: object, storage: str = "float32", *, decoder: bool = False) -> FloatModel:
    """Return a model of certificates."""
    wanted = f"{storage}, pairwise" if name is None else name
    models = MODELS | INTEGER_MODELS if decoder else MODELS
    known = [model.name for model in models.values() if model.storage.name == storage]
    if wanted not in known:
        raise ParameterError(
            f"model={shown(name)} is not a model of evaluations stored in {storage}",
            witness=shown(name),
            suggestion="one of " + ", ".join(map(repr, known)),
        )
    return models[str(wanted)]
