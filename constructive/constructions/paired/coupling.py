"""The entries x_{t,p} of paired heads which are not zero: the blocks, and the leftover coupling.

Only these are ever evaluated: T rows in the diagonal blocks, and a few beside them. Z, of T x H d
entries, is not formed.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from constructive.constructions.paired.ordering import Integers, Ordered
from constructive.constructions.paired.pairs import Pairs
from constructive.layers.attention import softmax_in_place
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


def evaluate(ordered: Ordered, pairs: Pairs) -> Coupling:
    """Evaluate the blocks and the leftover coupling, a bounded number of contexts at a time."""
    owner = ordered.owner
    own = differences(ordered, pairs, np.arange(len(owner)), owner)
    positions, columns = pairs.leftover_positions, pairs.leftover_pairs
    values = differences(ordered, pairs, positions, columns)
    width = ordered.dataset.width
    index = columns[:, np.newaxis] * width + np.arange(width)
    leftover = csr_array(
        (values.ravel(), (np.repeat(positions, width), index.ravel())),
        shape=(len(ordered.queries), ordered.num_pairs * width),
    )
    return Coupling(own, leftover, len(positions))


def differences(ordered: Ordered, pairs: Pairs, positions: Integers, columns: Integers) -> Array:
    """x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}) for some t and p: (k, d)."""
    out = np.empty((len(positions), ordered.dataset.width))
    for part in ordered.chunks(positions):
        contexts = ordered.contexts(positions[part])
        attention = _attention(ordered, pairs, positions[part], columns[part], contexts)
        difference = attention[:, 0] - attention[:, 1]
        out[part] = np.matmul(difference[:, np.newaxis], contexts)[:, 0]
    return out


def second_head(ordered: Ordered, pairs: Pairs, pair: int) -> Array:
    """z_{t,2p+1}, what the second head of one pair reads from every example: (T, d)."""
    out = np.empty(ordered.queries.shape)
    for positions in ordered.chunks(np.arange(len(out))):
        contexts = ordered.contexts(positions)
        columns = np.full(len(positions), pair)
        attention = _attention(ordered, pairs, positions, columns, contexts)
        out[positions] = np.matmul(attention[:, 1:], contexts)[:, 0]
    return out


def _attention(
    ordered: Ordered, pairs: Pairs, positions: Integers, columns: Integers, contexts: Array
) -> Array:
    """Softmax attention of both heads of a pair: (k, 2, n)."""
    queries = ordered.queries[positions, np.newaxis, np.newaxis]
    inner = np.matmul(queries, pairs.query_weights[columns])  # (k, 2, 1, d_h)
    keys = np.matmul(inner, pairs.key_weights[columns].transpose(0, 1, 3, 2))[:, :, 0]
    return softmax_in_place(np.matmul(keys, contexts.transpose(0, 2, 1)))
