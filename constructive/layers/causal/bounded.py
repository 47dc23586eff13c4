"""A causal layer in float64 with bounds of all that was rounded, where its logits are exact.

Where tokens and W_Q, W_K are short integers times powers of two, logits are as well, and float64
makes no error in them (`layers.exact_logits`). What is left are exponentials of multiples of one
power of two, from 0 down, which are read from a table that ball arithmetic made, and sums of
positive size, for which there are bounds (`exact.float_model`).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from constructive.exact.arithmetics.tabulated import Tabulated
from constructive.exact.upward import up
from constructive.layers.attend import attend, flat
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.exact_logits import ExactLogits
from constructive.layers.views import BLOCK_BYTES, Block, Causal
from constructive.support.arrays import Array

LARGE = 2.0**-24
"""Of attention weights that are worth to be counted: those of others are summed up."""


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
    arithmetic = Tabulated(known.unit, known.most)
    weights, view = (layer.query_weights, layer.key_weights), Causal(tokens, layer.window)
    absolute = np.abs(tokens)
    narrow = absolute.astype(np.float32)
    for chunk in attend(arithmetic, weights, view, chunk_bytes=block_bytes):
        block, attention, z = chunk.block, chunk.attention, flat(chunk.representation)
        together, rows = z.shape[:2]
        by_group = attention.reshape(together, -1, attention.shape[-1])
        averages = average_sizes(by_group, narrow[block.groups, block.keys])
        sizes = averages.reshape(together, rows, -1)
        if layer.skip:
            z = np.concatenate([tokens[chunk.rows], z], axis=2)
            sizes = np.concatenate([absolute[chunk.rows], sizes], axis=2)
        heavy = attention >= LARGE
        large = np.count_nonzero(heavy, axis=3).astype(np.float64)
        np.copyto(attention, 0.0, where=heavy)
        yield Enclosed(block, z, sizes, large, up(up(attention.sum(axis=3))))


def average_sizes(weights: Array, sizes: Array) -> Array:
    """Bound averages of sizes |x|, by products in float32, which are off by little.

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
