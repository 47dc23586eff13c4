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


@dataclass(frozen=True, eq=False)
class Own:
    """What pairs read from their own examples, and their reader from these.

    entries: (k, d), x_{t,p};  again: the same as a forward pass has it, which rounds elsewhere
    extra: (k,), kappa_t of a `Reader`; zeros without one
    """

    entries: Array
    again: Array
    extra: Array


@dataclass(frozen=True, eq=False)
class Reader:
    """The second head of pair 0, which reads one token x* from the extra example.

    query_weights, key_weights: (1, d, d_h);  dual: (d,), x* / |x*|^2
    """

    query_weights: Array
    key_weights: Array
    dual: Array

    @classmethod
    def of(cls, ordered: Ordered, query_weights: Array, key_weights: Array) -> "Reader":
        """Read it from the weights (2, d, d_h) of pair 0."""
        last = slice(len(ordered.order) - 1, None)
        weights = query_weights[1:], key_weights[1:]
        token = _read(*weights, ordered.contexts(last), ordered.queries[last])[0, 0]
        return cls(*weights, token / (token @ token))

    def along(self, contexts: Array, queries: Array) -> Array:
        """Return kappa_t = z_t.x* / |x*|^2 for what the head reads there: (k,)."""
        read = _read(self.query_weights, self.key_weights, contexts, queries)
        along: Array = read[:, 0] @ self.dual
        return along


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of some pairs: query_weights, key_weights (P', 2, d, d_h)."""

    query_weights: Array
    key_weights: Array


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


def assemble(
    ordered: Ordered,
    own: Own,
    leftover: tuple[Integers, Integers, Array],
    reader: Reader | None,
) -> Coupling:
    """Return the system of all pairs.

    own: of all pairs;  leftover: positions t (k,), pairs p (k,) and x_{t,p} (k, d)
    """
    positions, columns, values = leftover
    total, width = ordered.queries.shape
    index = columns[:, np.newaxis] * width + np.arange(width)
    from scipy.sparse import csr_array  # noqa: PLC0415 - long to import

    matrix = csr_array(
        (values.ravel(), (np.repeat(positions, width), index.ravel())),
        shape=(total, ordered.num_pairs * width),
    )
    extra = own.extra if reader is None else np.append(own.extra, 1.0)  # x* is read as x*
    return Coupling(own.entries, own.again, matrix, extra, reader)


def differences(ordered: Ordered, heads: Heads, positions: Integers, columns: Integers) -> Array:
    """Return x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}) for some t and p: (k, d)."""
    out = np.empty((len(positions), ordered.width))
    for part in ordered.chunks(positions):
        contexts = ordered.contexts(positions[part])
        attention = _attention(ordered, heads, positions[part], columns[part], contexts)
        difference = attention[:, 0] - attention[:, 1]
        out[part] = np.matmul(difference[:, np.newaxis], contexts)[:, 0]
    return out


def read_own(
    ordered: Ordered,
    rows: slice,
    query_weights: Array,
    key_weights: Array,
    reader: Reader | None,
) -> Own:
    """Read what one pair, of weights (2, d, d_h), needs from its own positions."""
    contexts, queries = ordered.contexts(rows), ordered.queries[rows]
    keys = np.matmul(np.matmul(queries, query_weights), key_weights.transpose(0, 2, 1))
    attention = softmax_in_place(np.matmul(keys.transpose(1, 0, 2), contexts.transpose(0, 2, 1)))
    difference = attention[:, 0] - attention[:, 1]
    first, second = _read(query_weights, key_weights, contexts, queries).transpose(1, 0, 2)
    return Own(
        np.matmul(difference[:, np.newaxis], contexts)[:, 0],
        first - second,
        np.zeros(len(queries)) if reader is None else reader.along(contexts, queries),
    )


def _read(query_weights: Array, key_weights: Array, contexts: Array, queries: Array) -> Array:
    """What some heads read from some examples in a forward pass: (k, heads, d)."""
    out = np.empty((len(queries), *query_weights.shape[:2]))
    weights, view = (query_weights, key_weights), examples(contexts, queries)
    for chunk in attend(Floats(np.float64), weights, view):
        out[chunk.rows] = chunk.representation
    return out


def _attention(
    ordered: Ordered, heads: Heads, positions: Integers, columns: Integers, contexts: Array
) -> Array:
    """Return softmax attention of both heads of a pair: (k, 2, n)."""
    queries = ordered.queries[positions, np.newaxis, np.newaxis]
    inner = np.matmul(queries, heads.query_weights[columns])  # (k, 2, 1, d_h)
    keys = np.matmul(inner, heads.key_weights[columns].transpose(0, 1, 3, 2))[:, :, 0]
    return softmax_in_place(np.matmul(keys, contexts.transpose(0, 2, 1)))
