"""Tokens of signs, and heads that read one token each, all of them by formulas (Proposition 21.2).

x_i = (1 | code of the token | parities of i), every entry +1 or -1, and d is odd. The code is one
sign, "not the most frequent token", and the binary digits of the token's place in the order of
frequency. A parity of i is the sign of the number of common binary digits of i and a mask: the
lowest log2 w digits of i themselves, and then those of masks that the seed gives. All of these
repeat with a power of two as their period.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.checker.packed import places as places_of
from constructive.recite.causal import Signs, picks, read_tokens
from constructive.recite.corpus import Text
from constructive.recite.packed import drawn_signs, parity
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.work import report

SCALE = 64  # Of logits: the least product of a query and a difference of keys is 2
_PARITIES = 16  # Signs of a position; one more where d would be even
_LEAST_PERIOD = 8  # Binary digits of a position: enough for that many different masks


@dataclass(frozen=True)
class Layout:
    """Which entries a token has."""

    window: int  # w, a power of two, 2 or more
    code: int  # signs of a token
    parities: int  # signs of a position, the lowest log2 w digits among them
    period: int  # the number of binary digits of a position that parities look at
    seed: int  # of masks and heads

    @property
    def width(self) -> int:
        """d, odd."""
        return 1 + self.code + self.parities

    @property
    def digits(self) -> int:
        """log2 w."""
        return self.window.bit_length() - 1

    def positions(self) -> Array:
        """Return the table of positions (2^period, d), zero for the token's own part."""
        number = np.arange(1 << self.period)
        table = np.zeros((len(number), self.width), np.float32)
        first = 1 + self.code
        for column, mask in enumerate(self.masks(), start=first):
            table[:, column] = parity(number & mask)
        return table

    def masks(self) -> list[int]:
        """Return the masks of all parities."""
        low = [1 << place for place in range(self.digits)]
        drawn = drawn_signs("positions", self.seed, (2 * self.parities, self.period)) < 0
        numbers = drawn @ (1 << np.arange(self.period))
        more = [int(mask) for mask in dict.fromkeys(numbers.tolist()) if mask and mask not in low]
        return (low + more)[: self.parities]

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
        """Return W_Q and W_K of heads, both (count, d, 1)."""
        shape = count, self.width, 1
        queries = SCALE * drawn_signs("W_Q", self.seed, shape)
        return queries, self._keys(drawn_signs("W_K", self.seed, shape))

    def _keys(self, signs: Array) -> Array:
        """Signs (count, d, 1), times the sizes of entries of keys."""
        sizes = np.full(self.width, 2.0 * self.window, np.float32)
        sizes[0] = 0.0
        low = 1 + self.code
        sizes[low : low + self.digits] = 2.0 ** np.arange(self.digits)
        return signs * sizes[:, np.newaxis] + 0.0  # there is one zero


def layout_of(text: Text, window: int, seed: int) -> Layout:
    """Return the entries of tokens."""
    code = 1 + max(1, (len(text.vocabulary) - 1).bit_length())
    parities = _PARITIES + (code + _PARITIES) % 2  # queries have an odd number of signs
    period = max(_LEAST_PERIOD, window.bit_length() - 1, (text.longest - 1).bit_length())
    return Layout(window, code, parities, period, seed)


# Tokens as points of a lattice, and the cells in which an output gives a token.
#
# The place of a token in the order of frequency is written with k digits in base b, k outputs.
# Token v is the point c_v of its digits with a minus, and the largest logit is that of the nearest
# point (Proposition 21.4). A digit is right where the output lies within S / 2 of its point; and
# the first digit and the last one have half-lines for cells. So a position that the most frequent
# token follows has inequalities, and no equation.


class Cells(NamedTuple):
    """What each output has to be at each position, in units of the spacing."""

    lower: Array  # the least output without rounding (N,), -inf if there is none, else the point
    upper: Array  # the largest one (N,), inf if there is none, else the point

    @property
    def equations(self) -> Booleans:
        """Which positions have an equation (N,)."""
        same: Booleans = self.lower == self.upper
        return same

    def room(self, outputs: Array, spacing: float | Array) -> Array:
        """Return the distance of outputs to the border of their cells, negative outside.

        outputs: f (N,), or (N, m) for several spacings (m,)
        """
        lower, upper = (np.multiply.outer(bound, spacing) for bound in (self.lower, self.upper))
        room: Array = np.minimum(outputs - lower, upper - outputs) + np.asarray(spacing) / 2
        return room


def order_of(following: Integers, count: int) -> Integers:
    """Return the place of each output token, the one that follows most often first (count,).

    Behind it are those that follow about as often together, by the bit length of the number of
    times, and in one such class tokens keep their order: so a few bits a token tell the places.
    """
    times = np.bincount(following, minlength=count)
    classes = np.array([int(number).bit_length() for number in times.tolist()])
    classes[times.argmax()] = classes.max() + 1
    order: Integers = places_of(classes)
    return order


def base_of(count: int, outputs: int) -> int:
    """Return b, the least base in which numbers below count have so many digits."""
    base = max(2, math.floor(math.pow(count, 1 / outputs)))
    while base**outputs < count:
        base += 1
    return base


def points_of(order: Integers, outputs: int) -> Integers:
    """Return the points of tokens (V + 1, k): minus the digits of places, the lowest first."""
    base = base_of(len(order), outputs)
    digits = order[:, np.newaxis] // base ** np.arange(outputs) % base
    points: Integers = -digits
    return points


def cells_of(points: Integers, following: Integers, *, every: bool) -> list[Cells]:
    """Return the cells of each output at positions that these tokens follow (N,).

    every: whether all positions have equations
    """
    listed = []
    for column in points.T:
        centres = column[following].astype(np.float64)
        first = (centres == column.max()) & (not every)
        last = (centres == column.min()) & (not every)
        lower = np.where(last, -np.inf, centres)
        upper = np.where(first, np.inf, centres)
        listed.append(Cells(lower, upper))
    return listed


# All of a compact decoder but its heads and its readout, and the system that these solve.


ATTEMPTS = 12  # Numbers of heads that are tried
MORE_HEADS = 1.08  # Factor from one of them to the next one
# Columns for a position with an equation, with an inequality, and where all have equations.
_FOR_EQUATIONS, _FOR_OTHERS, _FOR_EVERY = 1.2, 0.4, 1.1


class CompactPlan(NamedTuple):
    """Tokens, their points, and what is asked of the readout."""

    text: Text  # one text or several
    wanted: Integers  # places of the different contexts (R,)
    order: Integers  # places of the V + 1 tokens
    layout: Layout  # of tokens
    points: Integers  # of tokens (V + 1, k)
    every: bool  # whether all positions have equations
    largest: float  # what entries of U have to be smaller than

    @property
    def embedding(self) -> Array:
        """The rows of tokens (V, d)."""
        return self.layout.embedding(self.order[: self.text.end])

    @property
    def shift(self) -> Integers:
        """The middle of the points, which they are moved by (k,)."""
        middle: Integers = self.points.min(axis=0) // 2
        return middle

    @property
    def centred(self) -> Integers:
        """The points when they are moved: about as short as possible."""
        return self.points - self.shift

    def cells(self, following: Integers) -> list[Cells]:
        """Return the cells of each output at positions that these tokens follow (N,)."""
        return cells_of(self.points, following, every=self.every)

    def columns_for(self, cells: list[Cells]) -> float:
        """Return the number of columns of Z that is tried first for the cells of all outputs."""
        total = len(cells[0].lower)
        if self.every:
            return _FOR_EVERY * total
        equations = max(int(each.equations.sum()) for each in cells)
        return _FOR_EQUATIONS * equations + _FOR_OTHERS * (total - equations)


# What the heads read at the positions of texts: rows of Z, without the columns that are constant.
#
# The first entry of every token is 1, so the heads give it back: only the skip connection keeps
# it.


class Contexts(NamedTuple):
    """Different contexts of texts."""

    rows: Signs  # Z (R, K), int8
    following: Integers  # the token that follows each of them (R,)


def contexts(plan: CompactPlan, heads: tuple[Array, Array]) -> Contexts:
    """Return the rows of all different contexts, for heads W_Q and W_K (H, d, 1)."""
    text, wanted = plan.text, plan.wanted
    embedding, positions = plan.embedding, plan.layout.positions()
    used = columns(plan.layout, len(heads[0]))
    rows = np.empty((len(wanted), len(used)), np.int8)
    number = np.full(len(text), -1)
    number[wanted] = np.arange(len(wanted))
    done = 0
    for batch in text.batches():
        place = np.arange(batch.ids.shape[1]) % len(positions)
        tokens = embedding[batch.ids] + positions[place]
        for sequence, places in zip(tokens, batch.places, strict=True):
            at = picks(sequence, *heads, plan.layout.window).tokens
            report("read", done, len(text))
            inside = places >= 0
            index = number[places[inside]]
            kept = index >= 0
            rows[index[kept]] = read_tokens(sequence, at)[: len(index)][kept][:, used]
            done += len(index)
    return Contexts(rows, text.following[wanted])


def columns(layout: Layout, heads: int) -> Integers:
    """Return which rows of U have entries: all but those of the constant that the H heads read."""
    every = np.arange((heads + 1) * layout.width)
    used: Integers = every[(every % layout.width != 0) | (every == 0)]
    return used
