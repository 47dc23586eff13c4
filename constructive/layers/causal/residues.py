"""The representation of a causal layer modulo a prime: so many independent rows prove its rank.

By the theorem of `layers.residues`: with x = exp(2^s) the entries of Z are in Q(x), whose elements
without a vanishing denominator go to F_p as x goes to a. A minor of Z(a) which is not zero is the
image of one of Z which is not zero. Masks and skip connections change nothing of that.
"""

from collections.abc import Iterator

import numpy as np

from constructive.exact import modular
from constructive.layers.causal.geometry import BLOCK_BYTES, Block, blocks
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.residues import Point, VanishingDenominatorError
from constructive.support.arrays import Array


def chunks(
    layer: CausalLayer,
    tokens: Array,
    point: Point,
    exponent: int,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[Block, Array]]:
    """Blocks of positions, with the rows of Z(a) there, times one power of two: (s, b, K).

    Residues are balanced.

    Args:
        layer: its W_Q and W_K, (H, d, d_h)
        tokens: (S, N, d) which fit the layer
        point: p and a
        exponent: all tokens are multiples of 2^exponent (`modular.least_exponent`); the same one
            for all calls whose rows are put together
        block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

    Raises:
        VanishingDenominatorError: where a softmax denominator is 0 modulo p
    """
    prime, order = point.prime, point.prime - 1
    powers = modular.power_table(point.value, prime)
    w_q, w_k = (
        modular.residues(weights, order, modular.least_exponent(weights))
        for weights in (layer.query_weights, layer.key_weights)
    )
    absorbed = modular.product(w_q, w_k.transpose(0, 2, 1), order)
    absorbed = np.ascontiguousarray(absorbed.transpose(1, 0, 2)).reshape(layer.width, -1)
    asking = modular.residues(tokens, order, exponent)
    values = modular.residues(tokens, prime, exponent)
    count, length, width = tokens.shape
    for block in blocks(count, length, layer.num_heads, layer.window, block_bytes):
        own, seen = asking[block.sequences, block.rows], asking[block.sequences, block.keys]
        together, rows = own.shape[:2]
        query = modular.product(own, absorbed, order).reshape(together, -1, width)
        logits = modular.product(query, seen.transpose(0, 2, 1), order)
        numerators = powers(logits).reshape(together, rows, layer.num_heads, -1)
        np.copyto(numerators, 0.0, where=block.hidden[:, np.newaxis])
        denominators = modular.reduce(numerators.sum(axis=3), prime)
        if not denominators.all():
            raise VanishingDenominatorError
        flat = numerators.reshape(together, rows * layer.num_heads, -1)
        sums = modular.product(flat, values[block.sequences, block.keys], prime)
        sums *= modular.inverse(denominators, prime).reshape(together, -1, 1)
        z = modular.reduce(sums, prime).reshape(together, rows, -1)
        own = values[block.sequences, block.rows]
        yield block, np.concatenate([own, z], axis=2) if layer.skip else z
