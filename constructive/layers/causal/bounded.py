"""A causal layer in float64 with bounds of all that was rounded, where its logits are exact.

Where tokens and W_Q, W_K are short integers times powers of two, logits are, too: `exact_logits`
shows that all partial sums of any order of evaluation are integers below 2^24 in their units, so
that float32 makes no error at all, and float64 neither. What is left are exponentials of multiples
of one power of two, from 0 down, which are read from a table that ball arithmetic made, and sums
of positive size, for which there are bounds (`exact.float_model`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.exact.arithmetics.tabulated import ENOUGH, Tabulated
from constructive.exact.dyadic import granularity
from constructive.exact.float_model import FloatModel
from constructive.exact.models import FLOAT32
from constructive.exact.upward import up
from constructive.layers.attend import attend, flat
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.views import BLOCK_BYTES, Block, Causal
from constructive.support.arrays import Array

LARGE = 2.0**-24
"""Of attention weights which are worth to be counted: those of others are summed up."""
_SIGNIFICAND = 53
_LARGEST_TABLE = 1 << 20
_SMALL = 0.25
"""Up to it exp(2 eps) - 1 is at most 2 eps + 4 eps^2: the series is 2 eps + 2 eps^2 (1 + ...)."""


class Sums(NamedTuple):
    """Sums of short integers times a power of two, in whatever order they are taken.

    Attributes:
        unit: the power of two
        largest: bound of the size of all partial sums
    """

    unit: float
    largest: float

    @property
    def bits(self) -> int:
        """The least b such that all partial sums are at most 2^b units."""
        return math.frexp(self.largest / self.unit)[1]

    def exact(self, digits: int, smallest: float, largest: float) -> bool:
        """Whether numbers of so many bits, and of this range, hold all of them."""
        return self.bits <= digits and self.unit >= smallest and self.largest <= largest


@dataclass(frozen=True)
class ExactLogits:
    """What is known of the logits of a layer on some tokens.

    Attributes:
        stored: tokens, queries W_Q^T x and keys W_K^T x, which are stored between operations
        summed: all that is summed on the way to differences of logits, if products are pairwise
        free: what else may be summed if any arrays may be multiplied first
        logits: differences of logits
        paths: d^2 d_h times the largest sizes of all factors, or 1
        width: d
        head_dim: d_h
    """

    stored: tuple[Sums, ...]
    summed: tuple[Sums, ...]
    free: tuple[Sums, ...]
    logits: Sums
    paths: float
    width: int
    head_dim: int

    def exact_in(self, model: FloatModel) -> bool:
        """Whether an evaluation makes no error in logits.

        Args:
            model: how it rounds; sums and logits themselves are kept in float32
        """
        single, kept = FLOAT32.storage, model.storage
        summed = self.summed + self.free * model.contraction.free
        return (
            model.keeps_logits
            and all(sums.exact(single.digits, single.smallest, single.largest) for sums in summed)
            and all(sums.exact(kept.digits, kept.smallest, kept.largest) for sums in self.stored)
            and (self.in_range(model) or not model.contraction.free)
        )

    def in_range(self, model: FloatModel) -> bool:
        """Whether no product of some factors overflows, whichever are multiplied first.

        Args:
            model: whose constants may scale them
        """
        return 2.0 * self.paths * model.stretch <= FLOAT32.storage.largest

    def growth(self, model: FloatModel, tokens: int) -> float:
        """Bound exp(2 eps) - 1, where exponents are off by eps: 0 where logits are exact.

        An attention weight a_j becomes a_j w_j / sum_i a_i w_i with all w in exp(+-eps), so it
        moves by a_j (exp(2 eps) - 1) at most. Infinite where eps is more than 1/4, or where an
        evaluation stores tokens, queries or keys in fewer bits than they have.

        Args:
            model: how evaluation rounds
            tokens: n, the most that a position sees
        """
        if self.exact_in(model):
            return 0.0
        steps = model.logit_roundings(self.width, self.head_dim)
        flushed = 2.0**-120 * (self.paths * model.stretch + tokens)
        merging = model.exponents(tokens) + flushed
        eps = float(up(model.gamma(steps) * self.logits.largest / 2.0 + merging))
        if model.stored_unit or not (eps <= _SMALL and self.in_range(model)):
            return math.inf
        return float(up(np.array(2.0 * eps + 4.0 * eps**2)))

    @property
    def tabulated(self) -> bool:
        """Whether exponentials of such logits fit into a table, and float64 makes no error."""
        range_of = 2.0**-900, 2.0**900
        exact = all(sums.exact(_SIGNIFICAND - 1, *range_of) for sums in self.summed)
        return exact and min(ENOUGH, self.logits.largest) <= _LARGEST_TABLE * self.logits.unit


class Enclosed(NamedTuple):
    """A block of positions.

    Attributes:
        block: which ones
        representation: z as float64 computed it (s, b, K)
        sizes: upper bounds of the averages of |x|, with the same weights, and of |x| itself (s, b,
            K)
        large: how many tokens have a weight of `LARGE` or more (s, b, H)
        rest: upper bounds of the weight of all others together (s, b, H)
    """

    block: Block
    representation: Array
    sizes: Array
    large: Array
    rest: Array


def exact_logits(layer: CausalLayer, tokens: Array, model: FloatModel | None = None) -> ExactLogits:
    """How large partial sums of logits may get, in units of their own.

    The orders which are covered: queries W_Q^T x_i and keys W_K^T x_j first, then their product;
    the matrix W_K W_Q^T first, and its product with x_i or with x_j; each sum in any order.

    Args:
        layer: its W_Q and W_K
        tokens: (..., d), all that are evaluated
        model: how evaluation rounds, if that is what the answer is for: where the largest entries
            of tokens show that it makes no error, as is usual, no token is multiplied
    """
    x, q, k = (
        2.0 ** granularity(array) for array in (tokens, layer.query_weights, layer.key_weights)
    )
    units = x, q, k
    signed = tokens.reshape(-1, layer.width)
    most = np.maximum(signed.max(axis=0), -signed.min(axis=0)).astype(np.float64)
    known = _known(layer, units, most)
    if model is not None and known.exact_in(model) and known.tabulated:
        return known
    return _known(layer, units, most, signed.astype(np.float64))


def _known(
    layer: CausalLayer,
    units: tuple[float, float, float],
    most: Array,
    tokens: Array | None = None,
) -> ExactLogits:
    """From the units of tokens, W_Q and W_K, the largest sizes of entries, and tokens (R, d).

    Without tokens the largest sizes stand for all, and sums of sizes for those with signs.
    """
    x, q, k = units
    weights = [w.astype(np.float64) for w in (layer.query_weights, layer.key_weights)]
    flat = most[np.newaxis] if tokens is None else np.abs(tokens)
    w_q, w_k = (np.abs(w) for w in weights)
    asking, keys = (_largest(flat, w) for w in (w_q, w_k))
    matrix = up(np.matmul(w_q, w_k.transpose(0, 2, 1)))
    absorbed = _largest(flat, matrix)
    queries, own = asking, keys
    if tokens is not None:
        queries, own = (_largest(tokens, w) for w in weights)
    stored = _sums(x, most), _sums(x * q, queries), _sums(x * k, own)
    projected = _sums(x * q, asking), _sums(x * k, keys)
    each = up((asking * keys).sum(axis=-1)), up(absorbed @ most)
    logits = _sums(x * x * q * k, 2.0 * np.maximum(*each))
    other = up(matrix @ most)  # the matrix, times x_j
    between = _sums(q * k, matrix), _sums(x * q * k, np.maximum(absorbed, other))
    width, head_dim = w_q.shape[1:]
    factors = np.array([most.max(), most.max(), w_q.max(), w_k.max()])
    count = float(width * width * head_dim)
    # In its own unit, a sum of some factors over any indices is less than that of all.
    least = min(1.0, x) ** 2 * min(1.0, q) * min(1.0, k)
    free = _sums(x * x * q * k, up(count * factors.prod())), Sums(least, least)
    paths = float(up(count * np.maximum(factors, 1.0).prod()))
    return ExactLogits(stored, (*projected, *between, logits), free, logits, paths, width, head_dim)


def _sums(unit: float, bounds: Array) -> Sums:
    return Sums(unit, float(bounds.max()))


def _largest(tokens: Array, weights: Array) -> Array:
    """Bounds of the largest |x @ W| over tokens, for W >= 0 or exact sums: (H, columns)."""
    found = np.zeros((len(weights), weights.shape[2]))
    step = max(1, BLOCK_BYTES // (8 * weights.shape[2]))
    for head, matrix in enumerate(weights):
        for start in range(0, len(tokens), step):
            part = up(np.abs(tokens[start : start + step] @ matrix))
            np.maximum(found[head], part.max(axis=0), out=found[head])
    return found


def enclosed(
    layer: CausalLayer, tokens: Array, known: ExactLogits, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[Enclosed]:
    """The representation of a few positions at a time, in float64, with what bounds its errors.

    Args:
        layer: its W_Q and W_K
        tokens: (S, N, d), float64
        known: of these tokens; they are `tabulated`
        block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB
    """
    arithmetic = Tabulated(known.logits.unit, known.logits.largest)
    weights, view = (layer.query_weights, layer.key_weights), Causal(tokens, layer.window)
    absolute = np.abs(tokens)
    narrow = absolute.astype(np.float32)
    for chunk in attend(arithmetic, weights, view, chunk_bytes=block_bytes):
        block, attention, z = chunk.block, chunk.attention, flat(chunk.representation)
        together, rows = z.shape[:2]
        by_group = attention.reshape(together, -1, attention.shape[-1])
        averages = _averages(by_group, narrow[block.groups, block.keys])
        sizes = averages.reshape(together, rows, -1)
        if layer.skip:
            z = np.concatenate([tokens[chunk.rows], z], axis=2)
            sizes = np.concatenate([absolute[chunk.rows], sizes], axis=2)
        heavy = attention >= LARGE
        large = np.count_nonzero(heavy, axis=3).astype(np.float64)
        np.copyto(attention, 0.0, where=heavy)
        yield Enclosed(block, z, sizes, large, up(up(attention.sum(axis=3))))


def _averages(weights: Array, sizes: Array) -> Array:
    """Bounds of averages of sizes |x|, by products in float32, which are off by little.

    Rounding weights, sizes and n products in any order takes a part of gamma_(n+2) at most, with
    u = 2^-24, and less than (n + 4) 2^-23; underflow takes 2^-125 from each term, times 1 or |x|.

    Args:
        weights: of attention, one or less in sum (S, R, n), float64
        sizes: (S, n, d), rounded to float32
    """
    terms = sizes.shape[1]
    with np.errstate(over="ignore"):  # an infinity bounds everything
        products = (weights.astype(np.float32) @ sizes).astype(np.float64)
    lost = 2.0**-120 * terms * (1.0 + float(sizes.max()))
    return up(up(products * (1.0 + (terms + 4) * 2.0**-23)) + lost)
