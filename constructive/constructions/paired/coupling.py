"""The entries x_{t,p} of paired heads that are not zero: the blocks, and the leftover coupling.

Only these are ever evaluated: T rows in the diagonal blocks, and a few beside them. Z, of T x H d
entries, is not formed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from constructive.constructions.paired.ordering import Ordered
from constructive.exact.arithmetics.floats import Floats, softmax_in_place
from constructive.layers.attend import attend
from constructive.layers.views import examples
from constructive.support.arrays import Array, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Weights = tuple[Array, Array]  # W_Q and W_K of some heads


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive pairs, and all that the readout needs to know of them.

    query_weights, key_weights: (P', 2, d, d_h);  sharpness: (P',)
    own: (T'', d), x_{t,p} of the examples of these pairs;  again: the same in a forward pass
    extra: (T'',), what the extra example adds to each of them (`Reader`)
    positions, pairs: (k,), the unsaturated entries off the diagonal blocks;  coupled: (k, d)
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    own: Array
    again: Array
    extra: Array
    positions: Integers
    pairs: Integers
    coupled: Array


@dataclass(frozen=True, eq=False)
class Reader:
    """The second head of pair 0, which reads one token x* from the extra example.

    weights: both (1, d, d_h);  dual: (d,), x* / |x*|^2
    """

    weights: Weights
    dual: Array

    @classmethod
    def of(cls, ordered: Ordered, query_weights: Array, key_weights: Array) -> "Reader":
        """Read it from the weights (2, d, d_h) of pair 0."""
        last = slice(len(ordered.order) - 1, None)
        weights = query_weights[1:], key_weights[1:]
        token = _read(weights, ordered.contexts(last), ordered.queries[last])[0, 0]
        return cls(weights, token / (token @ token))

    def along(self, contexts: Array, queries: Array) -> Array:
        """Return kappa_t = z_t.x* / |x*|^2 for what the head reads there: (k,)."""
        read = _read(self.weights, contexts, queries)
        along: Array = read[:, 0] @ self.dual
        return along


@dataclass(frozen=True, eq=False)
class Coupling:
    """The system for the readouts of all pairs, by position.

    own:      (T', d), x_{t,p} at the pair p of t; T' positions belong to a pair
    again:    (T', d), the same as a forward pass has it, which rounds elsewhere
    leftover: (T, P d), sparse: x_{t,p} elsewhere, where the pair p is not saturated on t
    extra:    (T,), kappa_t of the reader;  reader: of the extra example, or None without one
    """

    own: Array
    again: Array
    leftover: "csr_array"
    extra: Array
    reader: Reader | None


def assemble(ordered: Ordered, block: Block, reader: Reader | None) -> Coupling:
    """Return the system of all pairs, which are in the block."""
    total, width = ordered.queries.shape
    index = block.pairs[:, np.newaxis] * width + np.arange(width)
    from scipy.sparse import csr_array  # noqa: PLC0415 - long to import

    matrix = csr_array(
        (block.coupled.ravel(), (np.repeat(block.positions, width), index.ravel())),
        shape=(total, ordered.num_pairs * width),
    )
    extra = block.extra if reader is None else np.append(block.extra, 1.0)  # x* is read as x*
    return Coupling(block.own, block.again, matrix, extra, reader)


def differences(
    ordered: Ordered, weights: Weights, positions: Integers, columns: Integers
) -> Array:
    """Return x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}) for some t and p: (k, d).

    weights: of all pairs p, both (P', 2, d, d_h)
    """
    out = np.empty((len(positions), ordered.width))
    for part in ordered.chunks(positions):
        contexts = ordered.contexts(positions[part])
        attention = _attention(ordered, weights, positions[part], columns[part], contexts)
        difference = attention[:, 0] - attention[:, 1]
        out[part] = np.matmul(difference[:, np.newaxis], contexts)[:, 0]
    return out


def read_own(
    ordered: Ordered, rows: slice, weights: Weights, reader: Reader | None
) -> tuple[Array, Array, Array]:
    """Return `own`, `again` and `extra` of a `Block` for one pair, of weights (2, d, d_h)."""
    contexts, queries = ordered.contexts(rows), ordered.queries[rows]
    keys = np.matmul(np.matmul(queries, weights[0]), weights[1].transpose(0, 2, 1))
    attention = softmax_in_place(np.matmul(keys.transpose(1, 0, 2), contexts.transpose(0, 2, 1)))
    difference = attention[:, 0] - attention[:, 1]
    first, second = _read(weights, contexts, queries).transpose(1, 0, 2)
    return (
        np.matmul(difference[:, np.newaxis], contexts)[:, 0],
        first - second,
        np.zeros(len(queries)) if reader is None else reader.along(contexts, queries),
    )


def _read(weights: Weights, contexts: Array, queries: Array) -> Array:
    """What some heads read from some examples in a forward pass: (k, heads, d)."""
    out = np.empty((len(queries), *weights[0].shape[:2]))
    for chunk in attend(Floats(np.float64), weights, examples(contexts, queries)):
        out[chunk.rows] = chunk.representation
    return out


def _attention(
    ordered: Ordered, weights: Weights, positions: Integers, columns: Integers, contexts: Array
) -> Array:
    """Return softmax attention of both heads of a pair: (k, 2, n)."""
    queries = ordered.queries[positions, np.newaxis, np.newaxis]
    inner = np.matmul(queries, weights[0][columns])  # (k, 2, 1, d_h)
    keys = np.matmul(inner, weights[1][columns].transpose(0, 1, 3, 2))[:, :, 0]
    return softmax_in_place(np.matmul(keys, contexts.transpose(0, 2, 1)))
