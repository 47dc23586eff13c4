"""Attention of all heads, once: in any arithmetic (`exact.softmax`), for any view of the tokens."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from constructive.data.padded import Padded
from constructive.exact.softmax import Arithmetic, Logits, Matrices, Numbers, Weights
from constructive.support.arrays import CHUNK_BYTES, Array, Booleans, Integers, row_chunks
from constructive.support.work import in_pieces

Result = TypeVar("Result")

# Which tokens each query sees: own contexts, one shared context, or what came before.
#
# Tokens come in groups, and each query sees tokens of one group: own contexts are T groups, a
# shared context is the only one, and sequences are groups whose tokens are the queries. A view
# cuts the queries into blocks, so that memory is bounded, and says which tokens of a block are
# hidden from which query.


Rows = slice | tuple[slice, slice]

# About the size of the logits of a block of positions, in bytes: large, so that products are.
BLOCK_BYTES = 1 << 25
_MOST_ROWS = 256  # Beyond this a block computes more of what it does not see than it gains


class Block(NamedTuple):
    """Queries that are computed together, and the tokens that they see."""

    # where the queries are, in an array that has the axes of the queries of the view first
    rows: Rows
    groups: slice  # which groups of tokens they see
    keys: slice  # which tokens of each group any of them sees: n
    # (b, n), which of these a query does not see, for the b queries of each group, or for all b
    # queries where each group has one; None if all see all
    hidden: Booleans | None

    @property
    def counts(self) -> Integers:
        """How many tokens each of the b queries sees: (b,), or (1,) where all see all."""
        if self.hidden is None:
            return np.array([self.keys.stop - self.keys.start])
        counts: Integers = (~self.hidden).sum(axis=1)
        return counts


class View(ABC):
    """Which tokens each query sees."""

    queries: Numbers  # (T, d), or (S, N, d) where each group has several queries
    # (G, n, d), G groups: one for each along the first axis of queries, or one for all
    tokens: Numbers
    # about the size of temporary arrays, in bytes, unless another is given
    chunk_bytes: ClassVar[int] = CHUNK_BYTES
    # whether all queries see the same tokens, so that these can be part of the weights
    is_shared: ClassVar[bool] = False
    # whether each block sees tokens that no other block sees
    is_own: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of the queries: (T,) or (S, N)."""
        return self.queries.shape[:-1]

    @property
    @abstractmethod
    def hidden(self) -> Booleans | None:
        """Which tokens each query does not see, or None if all see all.

        (T, n), or (N, n) for the N queries of each group, where groups have several.
        """

    @abstractmethod
    def blocks(self, num_heads: int, chunk_bytes: int, itemsize: int = 8) -> Iterator[Block]:
        """Cover all queries once. All blocks of some groups come one after the other."""


class Own(View):
    """Each query sees a context of its own."""

    is_own = True

    def __init__(self, contexts: Numbers, queries: Numbers) -> None:
        self.tokens, self.queries = contexts, queries

    @property
    def hidden(self) -> Booleans | None:
        return None

    def blocks(self, num_heads: int, chunk_bytes: int, itemsize: int = 8) -> Iterator[Block]:
        for rows in _examples(self, num_heads, chunk_bytes, itemsize):
            yield Block(rows, rows, slice(0, self.tokens.shape[1]), None)


class OfLengths(Own):
    """Each query sees the first tokens of a context of its own, as many as that has."""

    def __init__(self, contexts: Padded, queries: Numbers) -> None:
        super().__init__(contexts.tokens, queries)
        self._hidden: Booleans = ~contexts.mask

    @property
    def hidden(self) -> Booleans:
        """The tokens beyond the length of each context: (T, n)."""
        return self._hidden

    def blocks(self, num_heads: int, chunk_bytes: int, itemsize: int = 8) -> Iterator[Block]:
        for block in super().blocks(num_heads, chunk_bytes, itemsize):
            yield block._replace(hidden=self.hidden[block.rows])


class Shared(View):
    """All queries see one context."""

    is_shared = True

    def __init__(self, context: Numbers, queries: Numbers) -> None:
        self.tokens, self.queries = context[np.newaxis], queries

    @property
    def hidden(self) -> None:
        """None: all tokens are seen."""

    def blocks(self, num_heads: int, chunk_bytes: int, itemsize: int = 8) -> Iterator[Block]:
        for rows in _examples(self, num_heads, chunk_bytes, itemsize):
            yield Block(rows, slice(0, 1), slice(0, self.tokens.shape[1]), None)


class CausalView(View):
    """Each token of a sequence is a query, which sees the tokens up to itself.

    A block of b positions sees the tokens up to its last one, n of them. Its logits are H b n
    numbers for each sequence, never H N N.
    """

    chunk_bytes = BLOCK_BYTES

    def __init__(self, tokens: Numbers, window: int | None = None) -> None:
        self.tokens = self.queries = tokens
        self.window = window if window is None else min(window, tokens.shape[1])

    @property
    def hidden(self) -> Booleans:
        """Which tokens each position does not see: (N, N), so for short sequences alone."""
        every = np.arange(self.shape[1])
        return self.hides(every, every)

    def blocks(self, num_heads: int, chunk_bytes: int, itemsize: int = 8) -> Iterator[Block]:
        count, length = self.shape
        allowed = max(1, chunk_bytes // (8 * num_heads))  # entries of one head
        others = (self.window or length) - 1
        # b rows see at most N keys together, and at most b + window - 1.
        fitting = max(allowed // length, (math.isqrt(others**2 + 4 * allowed) - others) // 2)
        step = max(1, min(length, _MOST_ROWS, fitting))
        together = max(1, allowed // (step * min(length, step + others)))
        for first in range(0, count, together):
            sequences = slice(first, min(first + together, count))
            for start in range(0, length, step):
                stop = min(start + step, length)
                begin = 0 if self.window is None else max(0, start + 1 - self.window)
                hidden = self.hides(np.arange(start, stop), np.arange(begin, stop))
                rows = sequences, slice(start, stop)
                yield Block(rows, sequences, slice(begin, stop), hidden)

    def hides(self, rows: Integers, keys: Integers) -> Booleans:
        """Return which tokens positions do not see: (b, n)."""
        later: Booleans = keys > rows[:, np.newaxis]
        if self.window is not None:
            later |= keys <= rows[:, np.newaxis] - self.window
        return later


def examples(contexts: Numbers | Padded, queries: Numbers) -> Own | Shared:
    """View examples with a context each, or with one for all."""
    if isinstance(contexts, Padded):
        return OfLengths(contexts, queries)
    return Shared(contexts, queries) if contexts.ndim == 2 else Own(contexts, queries)


def _examples(view: View, num_heads: int, chunk_bytes: int, itemsize: int) -> Iterator[slice]:
    """Return slices of examples whose queries, logits and averages fit together."""
    size, width = view.tokens.shape[1:]
    row = num_heads * (2 * width + size) * itemsize
    return row_chunks(len(view.queries), row, chunk_bytes)


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

    weights: W_Q and W_K, both (H, d, d_h);  view: queries, tokens, and who sees whom
    chunk_bytes: about the size of temporary arrays; by default that of the view
    """
    return after_attention(lambda chunk: chunk, arithmetic, weights, view, chunk_bytes=chunk_bytes)


def after_attention(
    then: Callable[[Chunk[Matrices]], Result],
    arithmetic: Arithmetic[Weights, Logits, Matrices],
    weights: tuple[Numbers, Numbers],
    view: View,
    *,
    chunk_bytes: int | None = None,
) -> Iterator[Result]:
    """Yield what is made of each chunk, in the thread that computed it: it may be large."""
    shared = arithmetic.keys(view.tokens[0]) if view.is_shared else None
    products = arithmetic.weights(*weights, shared)
    size = view.chunk_bytes if chunk_bytes is None else chunk_bytes
    heads, width, _ = weights[0].shape

    def attended(piece: tuple[Block, tuple[Numbers, Numbers] | None]) -> Result:
        block, read = piece
        keys, values = arithmetic.tokens(view.tokens[block.groups]) if read is None else read
        queries = arithmetic.queries(view.queries[block.rows])
        logits = arithmetic.logits(products, queries, keys[:, block.keys])
        attention = arithmetic.softmax(logits, block.hidden)
        representation = arithmetic.averages(attention, values[:, block.keys])
        return then(Chunk(block, attention, representation))

    def pieces() -> Iterator[tuple[Block, tuple[Numbers, Numbers] | None]]:
        read: slice | None = None
        for block in view.blocks(heads, size, arithmetic.itemsize):
            if view.is_own:
                yield block, None
                continue
            if block.groups != read:  # once for all blocks that see these tokens
                read, tokens = block.groups, arithmetic.tokens(view.tokens[block.groups])
            yield block, tokens

    if not arithmetic.in_threads:
        return map(attended, pieces())
    operations = math.prod(view.shape) * heads * width * (width + 2 * view.tokens.shape[1])
    return in_pieces(attended, pieces(), operations)


def flat(matrices: Array) -> Array:
    """Return the matrix (..., H, d) of each query as a row: (..., H d)."""
    return matrices.reshape(*matrices.shape[:-2], -1)
