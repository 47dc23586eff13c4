"""The softmax of a head, in floats, fractions and modulo a prime; what an arithmetic is.

Attention of all heads is the same few steps in every arithmetic, with queries e and tokens x ::

    weights     W_Q W_K^T of all heads, once
    logits      x^T (W_K W_Q^T) e, of each query, head and token
    softmax     attention (H, n) of each query; 0 where a token is hidden
    averages    z = attention times tokens, (H, d) of each query

A block of queries has the shape (k, d), and sees groups of n tokens, (k, n, d) or one group for
all, (1, n, d); or each of k groups has b queries, (k, b, d).

`layers.attention` takes them one after the other for the blocks of a view. An arithmetic knows
arrays alone: neither layers nor datasets.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import flint
import numpy as np
import numpy.typing as npt

from constructive.exact import modular
from constructive.support.arrays import AnyArray, Array, Booleans, Integers

Weights = TypeVar("Weights")
Logits = TypeVar("Logits")
Matrices = TypeVar("Matrices")

# An array of the numbers of an arithmetic, with the shape of the floats that it was read from.
Numbers = AnyArray
Hidden = Booleans  # Which tokens a query of a block does not see: (b, n)


class Arithmetic(ABC, Generic[Weights, Logits, Matrices]):
    """Numbers for logits, numbers for values, and a softmax between them.

    Matrices, (H, n) or (H, d), are those of the queries of a block, in their order: an array that
    has the axes of these first, or a sequence that makes them one at a time.
    """

    itemsize: int = 8  # about how many bytes a number takes; blocks are made so large that they fit
    # whether blocks are for threads: numpy computes them, not objects of Python or of python-flint
    in_threads: ClassVar[bool] = False

    def queries(self, array: Numbers) -> Numbers:
        """Read queries of any shape, for logits; by default they stay as they are."""
        return array

    def keys(self, array: Numbers) -> Numbers:
        """Read tokens of any shape, for logits; by default they stay as they are."""
        return array

    def values(self, array: Numbers) -> Numbers:
        """Read tokens of any shape, for averages; by default they stay as they are."""
        return array

    def tokens(self, array: Numbers) -> tuple[Numbers, Numbers]:
        """Read tokens once, for logits and for averages."""
        return self.keys(array), self.values(array)

    @abstractmethod
    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Weights:
        """Multiply the weights of all heads, as `logits` takes them."""

    @abstractmethod
    def logits(self, weights: Weights, queries: Numbers, keys: Numbers) -> Logits:
        """Return the logits of a block."""

    @abstractmethod
    def softmax(self, logits: Logits, hidden: Hidden | None) -> Matrices:
        """Return attention (H, n) of each query; `logits` may be used up."""

    @abstractmethod
    def averages(self, attention: Matrices, values: Numbers) -> Matrices:
        """Return the averages (H, d) of each query."""


# Attention in floats, and what all arithmetics share whose numbers are in arrays.


class Absorbed(NamedTuple):
    """W_Q W_K^T of all heads side by side."""

    # (d, H d); or (d, H n), times the tokens that all queries share; or W_Q alone, (d, H d_h)
    matrix: Numbers
    heads: int  # H
    shared: bool  # whether these are in it
    keys: Numbers | None = None  # W_K^T (H, d_h, d) where it is not in it, else None


class Arrays(Arithmetic[Absorbed, Numbers, Matrices]):
    """An arithmetic whose logits are an array (k, H, n) or (k, b, H, n).

    W_K W_Q^T is absorbed into the query first, and the heads then act as a query axis of length H:
    one matrix product for all heads, and one batched product over the groups. With tokens that all
    queries share, keys are absorbed as well.
    """

    in_threads = True

    @abstractmethod
    def product(self, left: Numbers, right: Numbers) -> Numbers:
        """Return `left @ right` in numbers for logits, batched as numpy's matmul is."""

    @abstractmethod
    def projection(self, array: Numbers) -> Numbers:
        """Read W_Q or W_K (H, d, d_h), for logits."""

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Absorbed:
        """Multiply the weights of all heads, and the tokens that all queries share."""
        keys = self.projection(key_weights).transpose(0, 2, 1)
        if shared is not None:
            keys = self.product(keys, shared.T)
        matrix = side_by_side(self.product(self.projection(query_weights), keys))
        return Absorbed(matrix, len(query_weights), shared is not None)

    def logits(self, weights: Absorbed, queries: Numbers, keys: Numbers) -> Numbers:
        if not weights.shared:
            return absorbed_logits(self.product, weights.matrix, queries, keys)
        logits = self.product(queries, weights.matrix)
        return logits.reshape(*queries.shape[:-1], weights.heads, -1)


class Floats(Arrays[Array]):
    """Floats of one dtype, without bounds."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)  # float32 or float64
        self.itemsize = self.dtype.itemsize

    def projection(self, array: Numbers) -> Array:
        """Round an array to the dtype, without a copy if it has it."""
        return array.astype(self.dtype, copy=False)

    queries = keys = values = projection

    def tokens(self, array: Numbers) -> tuple[Array, Array]:
        rounded = self.projection(array)
        return rounded, rounded

    def product(self, left: Array, right: Array) -> Array:
        result: Array = np.matmul(left, right)
        return result

    def softmax(self, logits: Array, hidden: Hidden | None) -> Array:
        if hidden is not None:
            np.copyto(logits, -np.inf, where=hidden[:, np.newaxis])
        return softmax_in_place(logits)

    def averages(self, attention: Array, values: Array) -> Array:
        return averaged(self.product, attention, values)


class FactoredFloats(Floats):
    """Floats that multiply queries by W_Q, and that by W_K, where it is less work.

    Last digits are not those of `Floats`, which multiplies W_Q by W_K first.
    """

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Absorbed:
        """Multiply the weights of all heads, unless 3 d_h <= d."""
        heads, width, head_dim = query_weights.shape
        if shared is not None or 3 * head_dim > width:
            return super().weights(query_weights, key_weights, shared)
        keys = self.projection(key_weights).transpose(0, 2, 1)
        matrix = side_by_side(self.projection(query_weights))
        return Absorbed(matrix, heads, shared=False, keys=np.ascontiguousarray(keys))

    def logits(self, weights: Absorbed, queries: Numbers, keys: Numbers) -> Numbers:
        if weights.keys is None:
            return super().logits(weights, queries, keys)
        heads, head_dim, width = weights.keys.shape
        read = self.product(queries, weights.matrix).reshape(-1, heads, head_dim)
        absorbed = np.empty((len(read), heads, width), self.dtype)
        np.matmul(read.transpose(1, 0, 2), weights.keys, out=absorbed.transpose(1, 0, 2))
        grouped = absorbed.reshape(len(queries), -1, width)
        logits = self.product(grouped, keys.transpose(0, 2, 1))
        return logits.reshape(*queries.shape[:-1], heads, -1)


class NudgedFloats(FactoredFloats):
    """Floats whose inputs are moved by their last bits, up or down at random.

    Outputs move by about as much as they do with another order of all sums.
    """

    def __init__(self, dtype: npt.DTypeLike, seed: int) -> None:
        super().__init__(dtype)
        self.seed = seed

    def queries(self, array: Numbers) -> Array:
        """Round an array to the dtype, and move it."""
        rounded = self.projection(array)
        signs = np.random.default_rng(self.seed).choice([-1.0, 1.0], rounded.shape[-2:])
        nudged: Array = rounded * (1.0 + np.finfo(self.dtype).eps * signs)
        return nudged

    keys = queries

    def tokens(self, array: Numbers) -> tuple[Array, Array]:
        nudged = self.keys(array)
        return nudged, nudged


def softmax_in_place(logits: Array) -> Array:
    """Apply softmax over the last axis, in the array itself, less the largest logit first."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


def side_by_side(matrices: Numbers) -> Numbers:
    """Return matrices (H, d, k) as one, (d, H k)."""
    flat: Numbers = matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)
    return flat


def absorbed_logits(
    product: Callable[[Numbers, Numbers], Numbers],
    matrix: Numbers,
    queries: Numbers,
    keys: Numbers,
) -> Numbers:
    """Multiply queries by W_Q W_K^T of all heads side by side, and that by the tokens.

    Queries are (k, d) or (k, b, d), tokens (k, n, d) or (1, n, d) for all, and logits (k, H, n) or
    (k, b, H, n).
    """
    absorbed = product(queries, matrix).reshape(len(queries), -1, queries.shape[-1])
    logits = product(absorbed, keys.transpose(0, 2, 1))
    return logits.reshape(*queries.shape[:-1], -1, keys.shape[1])


def averaged(
    product: Callable[[Numbers, Numbers], Numbers], attention: Numbers, values: Numbers
) -> Numbers:
    """Multiply attention of each query by the tokens that it sees: (k, H, d) or (k, b, H, d).

    Tokens are (k, n, d), or (1, n, d) for all.
    """
    flat = attention.reshape(len(attention), -1, attention.shape[-1])
    return product(flat, values).reshape(*attention.shape[:-1], -1)


# Matrices that are made one at a time: those of a block of queries would not fit into memory.


Made = TypeVar("Made")


class PerQuery(Generic[Made]):
    """What `make` returns for the number of each query of a block, whenever it is taken."""

    def __init__(self, count: int, make: Callable[[int], Made]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, query: int) -> Made:
        return self._make(query)

    def __iter__(self) -> Iterator[Made]:
        return map(self._make, range(self._count))

    def group(self, query: int, groups: int) -> int:
        """Return which group of tokens a query sees; all groups have as many queries."""
        return query * groups // self._count


# Matrices of rational numbers: arrays of Fractions, and those of python-flint.


Fractions = AnyArray  # An object array of `fractions.Fraction`.


def array_of(values: list[Any], shape: tuple[int, ...]) -> Fractions:
    """Return an object array of Fractions, from Fractions or flint's rationals in nested lists."""
    flat = np.empty(math.prod(shape), dtype=object)
    entries = [x for row in values for x in (row if isinstance(row, list) else [row])]
    flat[:] = [x if isinstance(x, Fraction) else Fraction(int(x.p), int(x.q)) for x in entries]
    return flat.reshape(shape)


def matrix_of(array: Fractions) -> flint.fmpq_mat:
    """Return a matrix of Fractions, integers or floats for python-flint."""
    rows, columns = array.shape
    entries = [flint.fmpq(*x.as_integer_ratio()) for x in array.ravel().tolist()]
    return flint.fmpq_mat(rows, columns, entries)


# Attention in rational numbers: logits are integer multiples k ln 2, and exp(k ln 2) = 2^k.


LARGEST_LOGIT = 1 << 12  # Largest `|k|`, for numbers of some thousand bits

Products = tuple[flint.fmpq_mat, ...]
RationalMatrices = PerQuery[flint.fmpq_mat]


class UnfitLogitsError(ArithmeticError):
    """Logits of a query that are not integers, or whose powers of two would be too long."""

    def __init__(self, fraction: flint.fmpq | None, spread: int = 0) -> None:
        super().__init__(fraction, spread)
        # fraction: one that is not an integer, or None; spread: by how much two of them differ, if
        # all are
        self.fraction, self.spread = fraction, spread


class Rationals(Arithmetic[Products, RationalMatrices, RationalMatrices]):
    """Rational numbers, where W_K is in units of ln 2. Matrices are made one at a time."""

    itemsize = 64

    def weights(
        self, query_weights: Fractions, key_weights: Fractions, shared: Fractions | None = None
    ) -> Products:
        pairs = zip(query_weights, key_weights, strict=True)
        return tuple(matrix_of(w_q) * matrix_of(w_k).transpose() for w_q, w_k in pairs)

    def logits(self, weights: Products, queries: Fractions, keys: Fractions) -> RationalMatrices:
        """Return the logits of each query, in units of ln 2: (H, n)."""
        rows = queries.reshape(-1, 1, queries.shape[-1])

        def logits(query: int) -> flint.fmpq_mat:
            tokens = matrix_of(keys[matrices.group(query, len(keys))]).transpose()
            row = matrix_of(rows[query])
            entries = [k for product in weights for k in (row * product * tokens).entries()]
            return flint.fmpq_mat(len(weights), tokens.ncols(), entries)

        matrices = PerQuery(len(rows), logits)
        return matrices

    def softmax(self, logits: RationalMatrices, hidden: Hidden | None) -> RationalMatrices:
        """Return the shares of powers of two: (H, n)."""

        def shares(query: int) -> flint.fmpq_mat:
            table = logits[query]
            seen = list(range(table.ncols()))
            if hidden is not None:
                seen = np.flatnonzero(~hidden[query % len(hidden)]).tolist()
            return flint.fmpq_mat([_shares(row, seen) for row in table.tolist()])

        return PerQuery(len(logits), shares)

    def averages(self, attention: RationalMatrices, values: Fractions) -> RationalMatrices:
        groups = len(values)
        return PerQuery(
            len(attention),
            lambda query: attention[query] * matrix_of(values[attention.group(query, groups)]),
        )


def _shares(logits: list[flint.fmpq], seen: list[int]) -> list[flint.fmpq]:
    """Return softmax of one head: 0 for what is not seen."""
    for i in seen:
        if logits[i].q != 1:
            raise UnfitLogitsError(logits[i])
    powers = [int(logits[i].p) for i in seen]
    lowest, highest = min(powers), max(powers)
    if highest - lowest > LARGEST_LOGIT:
        raise UnfitLogitsError(None, highest - lowest)
    weights = [1 << (k - lowest) for k in powers]
    total, shares = sum(weights), [flint.fmpq(0)] * len(logits)
    for i, weight in zip(seen, weights, strict=True):
        shares[i] = flint.fmpq(weight, total)
    return shares


# Attention modulo a prime: the image of the true one where x = exp(2^s) goes to a residue a.
#
# Logits of floats are integers k in some unit 2^s, and exp(logit) = x^k. In its place stands a^k
# modulo p, which depends on k modulo p - 1 alone: so numbers for logits are residues modulo p - 1,
# and numbers for values are residues modulo p. `layers.residues` says what that proves.


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
        self.powers = modular.PowerTable(point.value, point.prime)

    def queries(self, array: Array) -> Array:
        return modular.residues(array, self.order, self.exponents[1])

    def keys(self, array: Array) -> Array:
        return modular.residues(array, self.order, self.exponents[0])

    def values(self, array: Array) -> Array:
        return modular.residues(array, self.prime, self.exponents[0])

    def projection(self, array: Array) -> Array:
        """Return W_Q or W_K modulo p - 1, in a unit of its own."""
        return modular.residues(array, self.order)

    def product(self, left: Array, right: Array) -> Array:
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
