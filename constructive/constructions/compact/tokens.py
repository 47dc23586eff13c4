"""Tokens of signs, and heads that read one token each, all of them by formulas.

x_i = (1 | code of the token | parities of i), every entry +1 or -1, and d is odd. The code is one
sign, "not the most frequent token", and the binary digits of the token's place in the order of
frequency. A parity of i is the sign of the number of common binary digits of i and a mask: the
lowest log2 w digits of i themselves, and then those of masks that the seed gives. All of these
repeat with a power of two as their period.

A head has d_h = 1: query a_i = q . x_i, key b_j = k . x_j, logits 64 a_i b_j. q and k are signs
that the seed gives, times sizes: in k they are 0 for the constant, 1, 2, .., w/2 for the lowest
digits of j, and 2 w for all others. So a_i and b_j are odd, no two keys of a window are equal, and
the largest logit leads by 128 (Proposition 21.2).

Gated heads belong to one block of a long text. Binary digits of the block's number are signs of
the token, too. Queries subtract, for each of these digits that is not that of the head's block,
more than q . x can be: so outside its block a head reads the token with the smallest key.
"""

from dataclasses import dataclass

import numpy as np

from constructive.data.corpus import Text
from constructive.layers.packed.drawn import drawn_signs
from constructive.layers.packed.rules import parity
from constructive.support.arrays import Array, Integers

SCALE = 64  # Of logits: the least product of a query and a difference of keys is 2
_PARITIES = 16  # Signs of a position; one more where d would be even
_LEAST_PERIOD = 8  # Binary digits of a position: enough for that many different masks


@dataclass(frozen=True)
class Layout:
    """Which entries a token has."""

    window: int  # w, a power of two, 2 or more
    code: int  # signs of a token
    parities: int  # signs of a position, the lowest log2 w digits among them, the blocks' apart
    # the number of binary digits of a position that parities look at, the blocks' apart
    period: int
    blocks: int  # the number of binary digits of the number of a block; 0 for one block
    seed: int  # of masks and heads

    @property
    def width(self) -> int:
        """d, odd; where there are blocks, even without the digits of these."""
        return 1 + self.code + self.parities + self.blocks

    @property
    def digits(self) -> int:
        """log2 w."""
        return self.window.bit_length() - 1

    def positions(self) -> Array:
        """Return the table of positions (2^(period + blocks), d), zero for the token's own part."""
        number = np.arange(1 << (self.period + self.blocks))
        table = np.zeros((len(number), self.width), np.float32)
        first = 1 + self.code
        for column, mask in enumerate(self.masks(), start=first):
            table[:, column] = parity(number & mask)
        return table

    def masks(self) -> list[int]:
        """Return the masks of all parities, the digits of blocks last."""
        low = [1 << place for place in range(self.digits)]
        drawn = drawn_signs("positions", self.seed, (2 * self.parities, self.period)) < 0
        numbers = drawn @ (1 << np.arange(self.period))
        more = [int(mask) for mask in dict.fromkeys(numbers.tolist()) if mask and mask not in low]
        high = [1 << (self.period + place) for place in range(self.blocks)]
        return (low + more)[: self.parities] + high

    def embedding(self, order: Integers) -> Array:
        """Return the rows of tokens (V, d), zero for the part of the position.

        order: the place of each of the V tokens in the order of frequency
        """
        table = np.zeros((len(order), self.width), np.float32)
        table[:, 0] = 1.0
        table[:, 1] = np.where(order == 0, 1, -1)
        for place in range(self.code - 1):
            table[:, 2 + place] = parity(order & (1 << place))
        return table

    def heads(self, count: int) -> tuple[Array, Array]:
        """Return W_Q and W_K of heads without gates, both (count, d, 1)."""
        shape = count, self.width, 1
        queries = SCALE * drawn_signs("W_Q", self.seed, shape)
        return queries, self._keys(drawn_signs("W_K", self.seed, shape))

    def gated_heads(self, first: int, count: int, block: int) -> tuple[Array, Array]:
        """Return W_Q and W_K of pairs of heads of one block, both (2, count, d, 1).

        A pair has one key. Inside its block queries are opposite, so one head reads the token with
        the largest key and the other one that with the smallest; outside both read the latter.

        first: the number of the first pair among all;  block: the number of the block
        """
        shape = first + count, self.width, 1
        queries, keys = (drawn_signs(name, self.seed, shape)[first:] for name in ("W_Q", "W_K"))
        inner = self.width - self.blocks
        queries[:, 0] = 0.0  # an odd number of signs is left
        queries[:, inner:] = 0.0
        keys[:, inner:] = 0.0
        both = np.stack([queries, 0.0 - queries])
        gate = float(inner // 2)
        digits = 1.0 - 2.0 * (block >> np.arange(self.blocks) & 1)
        both[:, :, inner:, 0] = gate * digits
        both[:, :, 0] -= gate * self.blocks
        return SCALE * both, np.stack([self._keys(keys)] * 2)

    def _keys(self, signs: Array) -> Array:
        """Signs (count, d, 1), times the sizes of entries of keys."""
        sizes = np.full(self.width, 2.0 * self.window, np.float32)
        sizes[0] = 0.0
        low = 1 + self.code
        sizes[low : low + self.digits] = 2.0 ** np.arange(self.digits)
        return signs * sizes[:, np.newaxis] + 0.0  # there is one zero


def layout_of(text: Text, window: int, seed: int, *, block: int | None) -> Layout:
    """Return the entries of tokens; with blocks, a position within one has `block` digits."""
    code = 1 + max(1, (len(text.vocabulary) - 1).bit_length())
    odd = block is None  # queries have an odd number of signs: with the constant, or without it
    parities = _PARITIES + (code + _PARITIES + (not odd)) % 2
    whole = max(_LEAST_PERIOD, window.bit_length() - 1, (text.longest - 1).bit_length())
    blocks = 0 if block is None else whole - block
    return Layout(window, code, parities, whole - blocks, blocks, seed)
