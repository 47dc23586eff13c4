"""Which tokens a query sees: its own context or a shared one, those before it, or a window."""

import math
from abc import ABC, abstractmethod
from collections import namedtuple

import numpy as np

from bounds import chunks
from files import require

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
