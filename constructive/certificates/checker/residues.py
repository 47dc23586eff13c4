"""Attention modulo a prime p, at exp(x) = a^x: logits modulo p - 1, and averages modulo p."""

import numpy as np

from attend import Heads, Numbers, attend
from files import require
from modular import inverses, reduce, residues, times
from steps import silent

LOW = 11  # bits of an exponent which one of two tables has


class Residues(Numbers):
    """Integers modulo p - 1 and p: tokens, queries and weights times powers of two."""

    def __init__(self, view, p, a):
        self.p, self.m = p, p - 1
        self.of_tokens = residues(view.tokens, self.m, p)
        self.of_queries = residues(view.queries, self.m)
        low, high = 1 << LOW, (p >> LOW) + 1
        self.small = np.array([pow(a, k, p) for k in range(low)], dtype=np.float64)
        self.large = np.array([pow(a, low * k, p) for k in range(high)], dtype=np.float64)

    def weights(self, w):
        return residues(w, self.m)(w)[0]

    def queries(self, x):
        return self.of_queries(x)[0]

    def tokens(self, parts):
        found = [self.of_tokens(part) for part in parts]
        if len(found) == 1:
            return found[0]
        sums = (sum(each) for each in zip(*found, strict=True))
        return [reduce(x, modulus) for x, modulus in zip(sums, (self.m, self.p), strict=True)]

    def product(self, x, y):
        return times(x, y, self.m)

    def softmax(self, logits, hidden):
        """Powers of a, and their sums: what they are divided by is known only modulo p."""
        index = (logits + self.m * (logits < 0)).astype(np.int64)
        powers = self.small.take(index & ((1 << LOW) - 1), mode="clip")
        powers *= self.large.take(index >> LOW, mode="clip")
        powers = reduce(powers, self.p)
        if hidden is not None:
            powers[np.broadcast_to(hidden, powers.shape)] = 0.0
        sums = reduce(powers.sum(axis=2), self.p)
        require(sums.all(), "a softmax denominator vanishes modulo p")
        return powers, sums

    def averages(self, attention, tokens, own, columns):
        """Columns of (tokens themselves if they ask, averages of all heads)."""
        powers, sums = attention
        (rows, heads, size), width = powers.shape, tokens.shape[2]
        if len(tokens) == 1:
            powers = powers.reshape(1, -1, size)
        z = times(powers, tokens, self.p).reshape(rows, heads * width)
        inverse = inverses(sums, self.p)
        if own is not None:
            z = np.concatenate([own, z], axis=1)
            inverse = np.concatenate([np.ones((rows, 1)), inverse], axis=1)
        inverse = inverse.take(columns // width, axis=1, mode="clip")
        return reduce(z.take(columns, axis=1, mode="clip") * inverse, self.p)


def representation(weights, view, wanted, point, columns, tell=silent):
    """The given columns of Z modulo p, times a power of two: of wanted rows, which increase.

    point: the prime p, and what exp(1) stands for
    """
    numbers = Residues(view, *point)
    out, done = np.empty((len(wanted), len(columns))), 0
    for group, block, tokens, attention in attend(numbers, Heads(numbers, weights), view):
        first = group.rows.start + (block.rows.start or 0)
        tell("rank: Z modulo p", first, view.total)
        own = None if group.queries is not None else tokens[0, block.rows]
        part = numbers.averages(attention, tokens[:, block.seen], own, columns)
        chosen = wanted[(wanted >= first) & (wanted < first + len(part))] - first
        out[done : done + len(chosen)] = part[chosen]
        done += len(chosen)
    return out
