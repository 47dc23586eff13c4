"""Attention, once: for any numbers, and any view of tokens.

    logits  l = X W_K W_Q^T e       attention  a = softmax(l)

Numbers are an arithmetic: residues modulo a prime (`residues`), digits with integer bounds
(`digits`), floats with bounds (`floating`), tables of exact logits (`table`), or high and low
parts (`pairs`). What each of them makes of attention is up to who asks for it.
"""

from abc import ABC, abstractmethod

import numpy as np


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


class HeadOfEach:
    """One head for each query, which `which` names."""

    count = 1

    def __init__(self, numbers, weights, which):
        self.w_q = numbers.weights(weights["W_Q"][which])
        self.w_k = numbers.weights(weights["W_K"][which].transpose(0, 2, 1))

    def absorbed(self, numbers, queries):
        """(B, 1, d) for queries (B, d)."""
        asked = numbers.arranged(queries, lambda x: x[:, None])
        return numbers.product(numbers.product(asked, self.w_q), self.w_k)


def beside(matrices):
    """Those of all heads side by side: (H, d, k) as (d, H k)."""
    return np.ascontiguousarray(matrices.transpose(1, 0, 2)).reshape(matrices.shape[1], -1)
