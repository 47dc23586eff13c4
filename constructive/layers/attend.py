"""Attention, once: in any arithmetic, and for any view of which tokens a query sees."""

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple

from constructive.exact.arithmetics.arithmetic import (
    Arithmetic,
    Logits,
    Matrices,
    Numbers,
    Weights,
)
from constructive.layers.views import Block, View
from constructive.support.arrays import Array


class Chunk(NamedTuple, Generic[Matrices]):
    """Some queries, after attention."""

    block: Block  # the queries, and the tokens that they see
    attention: Matrices  # a matrix (H, n) for each query
    representation: Matrices  # a matrix z (H, d) for each query

    @property
    def rows(self) -> Any:  # noqa: ANN401 - what numpy takes for an index
        """Where the queries are, in an array that has the axes of the queries of the view first."""
        return self.block.rows


def attend(
    arithmetic: Arithmetic[Weights, Logits, Matrices],
    weights: tuple[Numbers, Numbers],
    view: View,
    *,
    chunk_bytes: int | None = None,
) -> Iterator[Chunk[Matrices]]:
    """Yield softmax attention of all heads, a bounded number of queries at a time.

    Args:
        arithmetic: in what numbers
        weights: W_Q and W_K, both (H, d, d_h)
        view: queries, tokens, and who sees whom
        chunk_bytes: about the size of temporary arrays, in bytes; by default that of the view

    Example:
        >>> import numpy as np
        >>> from constructive.exact.arithmetics.floats import Floats
        >>> from constructive.layers.views import Causal
        >>> weights, tokens = np.zeros((1, 1, 1)), np.array([[[3.0], [5.0], [1.0]]])
        >>> chunks = attend(Floats(np.float64), (weights, weights), Causal(tokens))
        >>> [chunk.representation.ravel().tolist() for chunk in chunks]  # means of what came before
        [[3.0, 4.0, 3.0]]
    """
    shared = arithmetic.keys(view.tokens[0]) if view.is_shared else None
    products = arithmetic.weights(*weights, shared)
    size = view.chunk_bytes if chunk_bytes is None else chunk_bytes
    read: slice | None = None
    for block in view.blocks(len(weights[0]), size, arithmetic.itemsize):
        if block.groups != read:
            read, tokens = block.groups, view.tokens[block.groups]
            keys, values = arithmetic.tokens(tokens)
        queries = arithmetic.queries(view.queries[block.rows])
        logits = arithmetic.logits(products, queries, keys[:, block.keys])
        attention = arithmetic.softmax(logits, block.hidden)
        representation = arithmetic.averages(attention, values[:, block.keys])
        yield Chunk(block, attention, representation)


def flat(matrices: Array) -> Array:
    """Return the matrix (..., H, d) of each query as a row: (..., H d)."""
    return matrices.reshape(*matrices.shape[:-2], -1)
