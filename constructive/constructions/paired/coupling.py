"""The entries x_{t,p} of paired heads which are not zero: the blocks, and the leftover coupling.

Only these are ever evaluated: T rows in the diagonal blocks, and a few beside them. Z, of T x H d
entries, is not formed.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from constructive.constructions.paired.ordering import Integers, Ordered
from constructive.layers.attention import attend, softmax_in_place
from constructive.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Coupling:
    """The system for the readouts of all pairs, by position.

    own:      (T', d), x_{t,p} at the pair p of t; T' positions belong to a pair
    leftover: (T, P d), sparse: x_{t,p} elsewhere, where the pair p is not saturated on t
    entries:  the number of pairs (t, p) in it
    """

    own: Array
    leftover: csr_array
    entries: int


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of some pairs: query_weights, key_weights (P', 2, d, d_h)."""

    query_weights: Array
    key_weights: Array


def assemble(
    ordered: Ordered, own: Array, positions: Integers, columns: Integers, values: Array
) -> Coupling:
    """The system of all pairs, from x_{t,p} of some positions t and pairs p: values (k, d)."""
    width = ordered.width
    index = columns[:, np.newaxis] * width + np.arange(width)
    leftover = csr_array(
        (values.ravel(), (np.repeat(positions, width), index.ravel())),
        shape=(len(ordered.queries), ordered.num_pairs * width),
    )
    return Coupling(own, leftover, len(positions))


def differences(ordered: Ordered, heads: Heads, positions: Integers, columns: Integers) -> Array:
    """x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}) for some t and p: (k, d)."""
    out = np.empty((len(positions), ordered.width))
    for part in ordered.chunks(positions):
        contexts = ordered.contexts(positions[part])
        attention = _attention(ordered, heads, positions[part], columns[part], contexts)
        difference = attention[:, 0] - attention[:, 1]
        out[part] = np.matmul(difference[:, np.newaxis], contexts)[:, 0]
    return out


def second_head(ordered: Ordered, heads: Heads, pair: int) -> Array:
    """z_{t,2p+1}, what the second head of one pair reads from every example: (T, d)."""
    out = np.empty(ordered.queries.shape)
    weights = heads.query_weights[pair, 1:], heads.key_weights[pair, 1:]
    for positions in ordered.chunks(np.arange(len(out))):
        contexts, queries = ordered.contexts(positions), ordered.queries[positions]
        for chunk in attend(*weights, contexts, queries):
            out[positions[chunk.rows]] = chunk.representation[:, 0]
    return out


def _attention(
    ordered: Ordered, heads: Heads, positions: Integers, columns: Integers, contexts: Array
) -> Array:
    """Softmax attention of both heads of a pair: (k, 2, n)."""
    queries = ordered.queries[positions, np.newaxis, np.newaxis]
    inner = np.matmul(queries, heads.query_weights[columns])  # (k, 2, 1, d_h)
    keys = np.matmul(inner, heads.key_weights[columns].transpose(0, 1, 3, 2))[:, :, 0]
    return softmax_in_place(np.matmul(keys, contexts.transpose(0, 2, 1)))
