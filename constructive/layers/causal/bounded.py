"""A causal layer in float64 with bounds of all that was rounded, where its logits are exact.

Where tokens and W_Q, W_K are short integers times powers of two, logits are as well, and float64
makes no error in them (`layers.exact_logits`). What is left are exponentials of multiples
of one power of two, from 0 down, which are read from a table that ball arithmetic made, and sums
of positive size, for which there are bounds (`exact.float_model`).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import flint
import numpy as np

from constructive.exact.precision import working_precision
from constructive.exact.upward import up
from constructive.layers.causal.geometry import BLOCK_BYTES, Block, blocks
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.exact_logits import ENOUGH, ExactLogits
from constructive.support.arrays import Array

LARGE = 2.0**-24
"""Of attention weights which are worth to be counted: those of others are summed up."""
_TABLE_BITS = 80


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


def exponentials(unit: float, most: float) -> Array:
    """exp(-k unit) for k = 0, 1, ..., up to the first which float64 rounds to 0, or k unit <= most.

    Each is off by a factor of 1 + 2^-51 at most, or where it underflows by 2^-1022.

    Args:
        unit: a power of two
        most: the largest exponent there is

    Example:
        >>> exponentials(0.5, 1.0).tolist()
        [1.0, 0.6065306597126334, 0.36787944117144233]
    """
    count = min(math.ceil(ENOUGH / unit), int(most / unit)) + 1
    with working_precision(_TABLE_BITS):
        return np.array([float(flint.arb(-k * unit).exp()) for k in range(count)])


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
    # One zero more, for what is hidden, and for what is less than float64 holds.
    table = np.append(exponentials(known.unit, known.most), 0.0)
    absorbed = np.matmul(
        layer.query_weights.astype(np.float64),
        layer.key_weights.astype(np.float64).transpose(0, 2, 1),
    )
    absorbed = absorbed.transpose(1, 0, 2).reshape(layer.width, -1) * (1.0 / known.unit)
    count, length, width = tokens.shape
    absolute = np.abs(tokens)
    narrow = absolute.astype(np.float32)
    for block in blocks(count, length, layer.num_heads, layer.window, block_bytes):
        own, seen = tokens[block.sequences, block.rows], tokens[block.sequences, block.keys]
        together, rows = own.shape[:2]
        logits = (own @ absorbed).reshape(together, -1, width) @ seen.transpose(0, 2, 1)
        by_head = logits.reshape(together, rows, layer.num_heads, -1)
        np.copyto(by_head, -np.inf, where=block.hidden[:, np.newaxis])
        np.subtract(logits.max(axis=2, keepdims=True), logits, out=logits)
        np.minimum(logits, len(table) - 1, out=logits)
        weights = table.take(logits.astype(np.int64))
        weights /= weights.sum(axis=2, keepdims=True)
        z = (weights @ seen).reshape(together, rows, -1)
        sizes = _averages(weights, narrow[block.sequences, block.keys]).reshape(together, rows, -1)
        if layer.skip:
            z = np.concatenate([own, z], axis=2)
            sizes = np.concatenate([absolute[block.sequences, block.rows], sizes], axis=2)
        heavy = weights >= LARGE
        large = np.count_nonzero(heavy, axis=2).astype(np.float64).reshape(together, rows, -1)
        np.copyto(weights, 0.0, where=heavy)
        rest = up(up(weights.sum(axis=2)).reshape(together, rows, -1))
        yield Enclosed(block, z, sizes, large, rest)


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
