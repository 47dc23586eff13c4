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

import flint
import numpy as np

from constructive.exact.directed import up
from constructive.exact.float_model import FloatModel
from constructive.exact.precision import working_precision
from constructive.layers.causal.geometry import BLOCK_BYTES, Block, blocks
from constructive.layers.causal.layer import CausalLayer
from constructive.support.arrays import Array

FLOAT32_BITS = 24
_SIGNIFICAND = 53
_LARGEST_TABLE = 1 << 22
_ENOUGH = 746.0
"""exp(-746) is less than half of the smallest float64."""
_TABLE_BITS = 80


@dataclass(frozen=True)
class ExactLogits:
    """What is known of the logits of a layer on some tokens.

    Attributes:
        unit: a power of two of which all logits are integer multiples
        bits: partial sums of queries, keys and logits, and differences of logits, are at most
            2^bits in units of their own, in whatever order they are summed
        projected_bits: the same for queries and keys alone, W_Q^T x and W_K^T x
    """

    unit: float
    bits: int
    projected_bits: int

    def exact_in(self, model: FloatModel) -> bool:
        """Whether an evaluation makes no error in logits, and stores queries and keys exactly.

        Args:
            model: how it rounds; logits themselves are kept in float32
        """
        return self.bits <= FLOAT32_BITS and self.projected_bits <= model.digits


class Enclosed(NamedTuple):
    """A block of positions.

    Attributes:
        block: which ones
        representation: z as float64 computed it (s, b, K)
        sizes: upper bounds of the averages of |x|, with the same weights, and of |x| itself (s, b,
            K)
    """

    block: Block
    representation: Array
    sizes: Array


def granularity(array: Array) -> int:
    """The largest e with every entry an integer multiple of 2^e (0 for a zero array).

    Args:
        array: finite floats, of any shape

    Example:
        >>> granularity(np.array([0.75, 3.0])), granularity(np.zeros(2))
        (-2, 0)
    """
    mantissas, exponents = np.frexp(array[array != 0].astype(np.float64))
    if not mantissas.size:
        return 0
    whole = (mantissas * 2.0**_SIGNIFICAND).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((lowest + exponents).min()) - _SIGNIFICAND


def exact_logits(layer: CausalLayer, tokens: Array) -> ExactLogits:
    """How large partial sums of logits may get, in units of their own.

    The orders which are covered: queries W_Q^T x_i and keys W_K^T x_j first, then their product;
    the matrix W_K W_Q^T first, or its product with x_i; each sum in any order.

    Args:
        layer: its W_Q and W_K
        tokens: (..., d), all that are evaluated
    """
    flat = np.abs(tokens.reshape(-1, layer.width).astype(np.float64))
    w_q, w_k = (np.abs(w.astype(np.float64)) for w in (layer.query_weights, layer.key_weights))
    steps = granularity(tokens), granularity(layer.query_weights), granularity(layer.key_weights)
    most = flat.max(axis=0)
    asking, keys = (_largest(flat, w) for w in (w_q, w_k))
    matrix = up(np.matmul(w_q, w_k.transpose(0, 2, 1)))
    absorbed = _largest(flat, matrix)
    x, q, k = steps
    sums = [
        (asking, x + q), (keys, x + k), (matrix, q + k), (absorbed, x + q + k),
        (2.0 * up((asking * keys).sum(axis=-1)), 2 * x + q + k),
        (2.0 * up(absorbed @ most), 2 * x + q + k),
    ]  # fmt: skip
    bits = [_bits(float(largest.max()), step) for largest, step in sums]
    return ExactLogits(2.0 ** (2 * x + q + k), max(bits), max(bits[:2]))


def _bits(largest: float, step: int) -> int:
    """The least b with largest <= 2^(b + step)."""
    mantissa, exponent = math.frexp(largest)  # a power of two is half of two to its exponent
    return exponent - step - (2.0 * mantissa == 1.0) if largest else 0


def _largest(tokens: Array, weights: Array) -> Array:
    """Bounds of the largest entries of |x| @ |W| over all tokens: (H, columns)."""
    found = np.zeros((len(weights), weights.shape[2]))
    step = max(1, BLOCK_BYTES // (8 * weights.shape[2]))
    for head, matrix in enumerate(weights):
        for start in range(0, len(tokens), step):
            part = up(tokens[start : start + step] @ matrix)
            np.maximum(found[head], part.max(axis=0), out=found[head])
    return found


def exponentials(unit: float, most: float) -> Array:
    """exp(-k unit) for k = 0, 1, ..., as far as a float64 sees it or k unit <= most.

    Each is off by a factor of 1 + 2^-51 at most, or where it underflows by 2^-1022.

    Args:
        unit: a power of two
        most: the largest exponent there is

    Example:
        >>> exponentials(0.5, 1.0).tolist()
        [1.0, 0.6065306597126334, 0.36787944117144233]
    """
    count = int(min(_ENOUGH, most) / unit) + 1
    with working_precision(_TABLE_BITS):
        return np.array([float(flint.arb(-k * unit).exp()) for k in range(count)])


def enclosed(
    layer: CausalLayer, tokens: Array, known: ExactLogits, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[Enclosed]:
    """The representation of a few positions at a time, in float64, with what bounds its errors.

    Args:
        layer: its W_Q and W_K
        tokens: (S, N, d), float64
        known: of these tokens, with at most 53 bits, and a table of at most 2^22 exponentials
            (`has_table`)
        block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB
    """
    table = exponentials(known.unit, known.unit * 2.0**known.bits)
    absorbed = np.matmul(
        layer.query_weights.astype(np.float64),
        layer.key_weights.astype(np.float64).transpose(0, 2, 1),
    )
    absorbed = absorbed.transpose(1, 0, 2).reshape(layer.width, -1) * (1.0 / known.unit)
    count, length, width = tokens.shape
    for block in blocks(count, length, layer.num_heads, layer.window, block_bytes):
        own, seen = tokens[block.sequences, block.rows], tokens[block.sequences, block.keys]
        together, rows = own.shape[:2]
        logits = (own @ absorbed).reshape(together, -1, width) @ seen.transpose(0, 2, 1)
        by_head = logits.reshape(together, rows, layer.num_heads, -1)
        np.copyto(by_head, -np.inf, where=block.hidden[:, np.newaxis])
        logits -= logits.max(axis=2, keepdims=True)
        places = np.minimum(-logits, len(table) - 1).astype(np.int64)
        weights = table.take(places)
        np.copyto(weights.reshape(by_head.shape), 0.0, where=block.hidden[:, np.newaxis])
        weights /= weights.sum(axis=2, keepdims=True)
        z = (weights @ seen).reshape(together, rows, -1)
        sizes = up(up(weights @ np.abs(seen)).reshape(together, rows, -1))
        if layer.skip:
            z = np.concatenate([own, z], axis=2)
            sizes = np.concatenate([np.abs(own), sizes], axis=2)
        yield Enclosed(block, z, sizes)


def has_table(known: ExactLogits) -> bool:
    """Whether exponentials of such logits fit into a table, and float64 has their bits.

    Args:
        known: of the logits
    """
    return known.bits < _SIGNIFICAND and min(_ENOUGH, known.unit * 2.0**known.bits) <= (
        _LARGEST_TABLE * known.unit
    )
