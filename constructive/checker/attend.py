"""Attention, once: for any numbers, and any view of tokens.

    logits  l = X W_K W_Q^T e       attention  a = softmax(l)

Numbers are an arithmetic: residues modulo a prime (`modular`), floats with bounds, digits with
integer bounds, tables of exact logits (all `floating`), or high and low parts (`paired`). What
each of them makes of attention is up to who asks for it.
"""

import math
from abc import ABC, abstractmethod
from collections import namedtuple

import numpy as np

from .bounds import chunks
from .files import require

# Which tokens a query sees: its own context or a shared one, those before it, or a window.

# Which rows of queries; queries (B, d), or None if tokens ask themselves; arrays which add up to
# tokens (B, n, d), or (1, n, d) for one context of all; blocks of what is seen
Group = namedtuple("Group", "rows queries tokens blocks")
# Rows of the queries of a group; tokens they see between them; which of these each does not see
Block = namedtuple("Block", "rows seen hidden")
WHOLE = [Block(slice(None), slice(None), None)]


class View(ABC):
    """Queries, and which tokens each of them sees.

    tokens, queries: all of them (..., d), of which groups have a few at a time
    total: how many rows groups have
    """

    @abstractmethod
    def groups(self):
        """Queries in an order, with the tokens they see: a Group at a time."""

    @abstractmethod
    def parts(self):
        """Views of some queries each, which are all of them together."""


class Examples(View):
    """Each query sees a context of its own (T, n, d), or one which all share (n, d).

    Of a context of its own it sees as many tokens as its length says, where there are lengths.
    """

    def __init__(self, data, rows):
        self.tokens, self.queries, self.rows = data["contexts"], data["queries"], rows
        self.total, self.lengths = len(self.queries), data.get("lengths")

    def groups(self):
        for rows in self.rows:
            tokens = self.tokens[rows] if len(self.tokens.shape) == 3 else self.tokens[None]
            blocks = WHOLE
            if self.lengths is not None:
                hidden = beyond(self.lengths[rows], tokens.shape[1])[:, None]
                blocks = [Block(slice(None), slice(None), hidden)]
            yield Group(rows, self.queries[rows], [tokens], blocks)

    def parts(self):
        data = {"contexts": self.tokens, "queries": self.queries}
        if self.lengths is not None:
            data["lengths"] = self.lengths
        return [Examples(data, [rows]) for rows in self.rows]


def beyond(lengths, size):
    """Which of n tokens are not of a context, but only fill it up: (T, n)."""
    return np.arange(size) >= lengths[:, None]


def of_lengths(data):
    """The data with copies of the first token of each context beyond its length.

    So extremes and units of contexts are those of what is seen, and what a file holds there is not
    read. Where all have one length, there are no lengths.
    """
    contexts, lengths = data["contexts"], data["lengths"]
    require(contexts.ndim == 3 and lengths.shape == contexts.shape[:1], "lengths do not fit")
    whole = (lengths == np.rint(lengths)) & (lengths >= 1)
    require(whole.all() and lengths.max() == contexts.shape[1], "lengths are not from 1 to n")
    filled = np.where(beyond(lengths, contexts.shape[1])[..., None], contexts[:, :1], contexts)
    if lengths.min() < contexts.shape[1]:
        return data | {"contexts": filled}
    return {name: array for name, array in data.items() if name != "lengths"}


class Causal(View):
    """Tokens of texts, each of which sees those up to itself, or the last ones of them.

    entries: logits of heads which are computed at a time
    period: of positions, or None where each has a row of its own
    """

    def __init__(self, codes, texts, heads, window, entries, period=None):
        self.codes, self.texts, self.window, self.period = codes, texts, window, period
        self.heads, self.entries = heads, entries
        self.tokens = self.queries = np.concatenate(codes)
        self.total = sum(map(len, texts))

    def groups(self):
        start = 0
        for ids in self.texts:
            places = rows_of_positions(np.arange(len(ids)), self.period)
            tokens = [self.codes[0][ids][None], self.codes[1][places][None]]
            blocks = causal_blocks(len(ids), self.heads, self.window, self.entries)
            yield Group(slice(start, start + len(ids)), None, tokens, blocks)
            start += len(ids)

    def parts(self):
        return [self]


def rows_of_positions(places, period):
    return places if period is None else places % period


def causal_blocks(length, heads, window, entries):
    """Rows, the keys which they see, and which of these each row does not see."""
    window = min(length, window or length)
    for rows in chunks(length, 1, rows_at_once(length, heads, window, entries)):
        begin = max(0, rows.start + 1 - window)
        row, key = np.arange(rows.start, rows.stop)[:, None], np.arange(begin, rows.stop)
        yield Block(rows, slice(begin, rows.stop), ((key > row) | (key <= row - window))[:, None])


def rows_at_once(length, heads, window, entries):
    """How many rows are computed together: they see rows + window keys, or all."""
    half = max(1, entries // (2 * heads))
    most = min(half // window, math.isqrt(half)) if window < length else 2 * half // length
    return max(1, min(length, most))


def exact_sum(parts):
    """Tokens, or with positions, which have to be exact in float32: float64 may round, too."""
    if len(parts) == 1:
        return parts[0].astype(np.float64)
    one, other = (part.astype(np.float64) for part in parts)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is not such a sum, nor is NaN
        tokens = (one + other).astype(np.float32).astype(np.float64)
        rest = tokens - one
        exact = ((rest == other) & (tokens - rest == one)).all()
    require(exact, "a token and its position do not add exactly")
    return tokens


class Numbers(ABC):
    """An arithmetic: numbers for logits, numbers for averages, and a softmax between them."""

    @abstractmethod
    def weights(self, w):
        """W_Q or W_K of heads."""

    @abstractmethod
    def queries(self, x):
        """Queries (B, d)."""

    @abstractmethod
    def tokens(self, parts):
        """Sums of arrays (B, n, d), for logits, and for averages."""

    @abstractmethod
    def product(self, x, y):
        """The matrix product x @ y of numbers for logits."""

    @abstractmethod
    def softmax(self, logits, hidden):
        """Attention (B, H, n) of logits, less those that are hidden (B, 1, n), if any."""

    def arranged(self, x, function):
        """The same numbers in arrays of another shape."""
        return function(x)


def attend(numbers, heads, view):
    """For each block of a view: its group, itself, tokens for averages, and attention."""
    for group in view.groups():
        keys, values = numbers.tokens(group.tokens)
        shape, one = group.tokens[0].shape, len(group.tokens[0]) == 1
        if group.queries is None:
            queries = numbers.arranged(keys, lambda x, all_=shape: np.broadcast_to(x, all_)[0])
        else:
            queries = numbers.queries(group.queries)
        for block in group.blocks:
            asked = numbers.arranged(queries, lambda x, rows=block.rows: x[rows])
            absorbed = heads.absorbed(numbers, asked)
            if one:  # one matrix for all
                absorbed = numbers.arranged(absorbed, lambda x: x.reshape(1, -1, x.shape[2]))
            seen = numbers.arranged(keys, lambda x, k=block.seen: seen_by(x, k))
            logits = numbers.product(absorbed, seen)
            logits = numbers.arranged(logits, lambda x: x.reshape(-1, heads.count, x.shape[2]))
            yield group, block, values, numbers.softmax(logits, block.hidden)


def seen_by(x, tokens):
    """Some of the tokens (B, n, d), or what is for all of them (B, 1, d), as columns."""
    return (x[:, tokens] if x.shape[1] > 1 else x).transpose(0, 2, 1)


class Heads:
    """All heads of a layer, each of which reads W_K W_Q^T e of a query e."""

    def __init__(self, numbers, weights):
        self.count, _, self.inner = weights["W_Q"].shape
        self.w_q = numbers.weights(beside(weights["W_Q"]))
        self.w_k = numbers.weights(weights["W_K"].transpose(0, 2, 1))

    def absorbed(self, numbers, queries):
        """(B, H, d) for queries (B, d)."""

        def by_head(x):
            return np.ascontiguousarray(x.reshape(-1, self.count, self.inner).transpose(1, 0, 2))

        read = numbers.arranged(numbers.product(queries, self.w_q), by_head)
        read = numbers.product(read, self.w_k)
        return numbers.arranged(read, lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)))


def beside(matrices):
    """Those of all heads side by side: (H, d, k) as (d, H k)."""
    return np.ascontiguousarray(matrices.transpose(1, 0, 2)).reshape(matrices.shape[1], -1)
