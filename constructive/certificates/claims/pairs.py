"""What pairs of rank-one heads read, with bounds in float64: what `claims.paired` rests on.

Data and weights are in the order of the pairs, at size one. Contexts (and so what is read),
queries and the key are divided by powers of two, so that their largest entries are below 1, and
the heads are multiplied by all three, so that no logit changes. Bounds hold at any scale; at this
one, the 2^-1000 that they are raised by for underflow (`exact.directed`) is nothing. Dividing
loses at most 2^-1075 of an entry. What it enters loses less than these 2^-1000 by that, as it is
multiplied by entries below 1, or by heads below 2^50.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact.upward import LONGEST, UNIT, exponent_of, gamma, lengths, up
from constructive.exact.verified import dot, exponential
from constructive.layers.attention import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.work import in_pieces, report
from constructive.theory.grouping import UndecidedError

# Nats by which a pair has to agree on an example; built for 45, and a checker asks for 40.
MARGIN = 41.0

TAIL = 4.3e-18  # More than exp(-40)


_LARGEST_HEAD = 2.0**50
_WIDEST = 1024  # Entries of tokens up to which a checker has exact products


@dataclass(frozen=True, eq=False)
class Examples:
    """Data and weights in the order of the pairs, in float64."""

    dataset: Dataset  # the T examples, as they are
    exponent: int  # a; contexts here are those of the data times 2^-a
    order: Integers  # (T,), the example at each position
    stops: Integers  # (P,), the position after the last one of each pair
    queries: Array  # (T, d), by position
    query_weights: Array  # (2, P, d), of the first and the second heads
    key: Array  # (d,)

    @classmethod
    def of(cls, memorizer: Memorizer, dataset: Dataset) -> "Examples":
        """Read data and weights in the order of the record."""
        layer, record = floats_of(memorizer.layer).leading, memorizer.built
        order = np.array(record.order, dtype=np.int64)
        pairs = layer.num_heads // 2
        stops = np.array([record.heads[2 * pair + 1].stop for pair in range(pairs)])
        total, size, width = len(order), dataset.context_size, dataset.width
        if max(total, 2 * pairs * width, size) > LONGEST or width > _WIDEST:
            raise UndecidedError(
                f"sums of more than {LONGEST} terms, or tokens of more than {_WIDEST} entries; "
                "fewer examples or heads"
            )
        queries = dataset.queries[order].astype(np.float64, copy=False)
        key = layer.key_weights[0, :, 0].astype(np.float64)
        weights = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
        exponent = exponent_of(np.array([dataset.largest_token_entry]))
        others = exponent_of(queries), exponent_of(key)
        with np.errstate(over="ignore"):
            weights = np.ldexp(weights, exponent + sum(others))
        if not np.abs(weights).max() < _LARGEST_HEAD:
            raise UndecidedError("logits are too large for float64; smaller gaps between tokens")
        queries, key = np.ldexp(queries, -others[0]), np.ldexp(key, -others[1])
        split = np.stack([weights[::2], weights[1::2]])
        return cls(dataset, exponent, order, stops, queries, split, key)

    @property
    def owner(self) -> Integers:
        """The pair of each position that belongs to one."""
        return np.repeat(np.arange(len(self.stops)), np.diff(self.stops, prepend=0))

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    def contexts(self, positions: Integers) -> Array:
        """Return contexts times 2^-a in float64, read now: (k, n, d)."""
        scaled_down: Array = np.ldexp(
            self.dataset.contexts_of(self.order[positions]), -self.exponent
        )
        return scaled_down


# What heads read from contexts that are in memory, with bounds of the error of that. A holder of
# `Tokens` reads as much as it needs of them, so that no context is read from disk for each of his
# questions. `read` is for a few examples, whose contexts are read anew.

# Relative error of exponentials, more than theirs: as a checker takes for its own.
_EXPONENTIAL_ERROR = 2.0**-46

# Errors up to which first-order bounds of a softmax hold with a few percent to spare.
_SMALL = 0.01

# Error of attention above which scores are evaluated anew, in twice the precision.
_GOOD_ENOUGH = 1e-10

DIFFERENCE = 1.0, -1.0  # Signs of the two heads in x_{t,p}

SECOND = 0.0, 1.0  # Signs for what the second head reads


@dataclass(frozen=True, eq=False)
class Tokens:
    """Contexts of k positions, in memory, with their scores."""

    examples: Examples  # all of them
    positions: Integers  # (k,)
    contexts: Array  # E_t (k, n, d), times 2^-a
    scores: Array  # E_t key (k, n)
    score_error: Array  # (k,), bounds the errors of these
    largest: Array  # (k,), bounds `max |E_t|`

    @classmethod
    def of(cls, examples: Examples, positions: Integers) -> "Tokens":
        """Read the contexts of some positions, each of them once."""
        contexts, key = examples.contexts(positions), examples.key
        longest = lengths(contexts).max(axis=1)
        error = up(gamma(len(key) + 2) * float(lengths(key)) * longest)
        largest = up(np.abs(contexts).max(axis=(1, 2)))
        return cls(examples, positions, contexts, contexts @ key, error, largest)

    def read(self, pairs: Integers, signs: tuple[float, float]) -> tuple[Array, Array]:
        """Return the sum of both heads' z times signs, and a bound on the error of its entries."""
        examples, count = self.examples, len(pairs)
        contexts, scores = self.contexts[:count], self.scores[:count]
        weights = examples.query_weights[:, pairs].transpose(1, 0, 2)
        reach = dot(examples.queries[self.positions[:count], np.newaxis], weights)
        attention, error = bounded_attention(
            reach, scores, np.zeros_like(scores), self.score_error[:count]
        )
        # Where s_{t,h} is large and gaps are small, differences of scores have to be better.
        worse = np.flatnonzero(~(error <= _GOOD_ENOUGH))
        if len(worse):
            leading, rest, bounds = dot(contexts[worse], examples.key)
            attention[worse], error[worse] = bounded_attention(
                [each[worse] for each in reach], leading, rest, bounds.max(axis=1)
            )
        combined = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        values = np.matmul(combined[:, np.newaxis], contexts)[:, 0]
        rounding = 3.0 * gamma(scores.shape[1] + 2)
        return values, up(up(error + rounding) * self.largest[:count])


def read(
    examples: Examples, positions: Integers, pairs: Integers, signs: tuple[float, float]
) -> tuple[Array, Array]:
    """Read the contexts of any positions (k,) now, as they lie on disk, for `Tokens.read`."""
    size, width = examples.dataset.context_size, examples.queries.shape[1]
    values, errors = np.empty((len(positions), width)), np.empty(len(positions))
    by_example = np.argsort(examples.order[positions], kind="stable")
    for rows in row_chunks(len(positions), 8 * size * width):
        part = by_example[rows]
        tokens = Tokens.of(examples, positions[part])
        values[part], errors[part] = tokens.read(pairs[part], signs)
    return values, errors


def bounded_attention(
    reach: Sequence[Array], scores: Array, rest: Array, score_error: Array
) -> tuple[Array, Array]:
    """Return attention of both heads (k, 2, n), and a bound (k,) of the sum of all errors."""
    high, low, reach_error = (each[:, :, np.newaxis] for each in reach)
    ends = np.stack([scores.argmin(axis=1), scores.argmax(axis=1)], axis=1)
    top = np.take_along_axis(ends, (reach[0] > 0).astype(np.int64), axis=1)
    difference = scores[:, np.newaxis] - np.take_along_axis(scores, top, axis=1)[:, :, np.newaxis]
    difference += rest[:, np.newaxis] - np.take_along_axis(rest, top, axis=1)[:, :, np.newaxis]
    below = high * difference + low * difference
    # Differences of scores are rounded twice, the second time by small parts; logits three times.
    size = np.abs(difference)
    off = up(2.0 * score_error[:, np.newaxis, np.newaxis] + 4.0 * UNIT * size)
    spread = up(reach_error * up(size + off) + np.abs(high) * up(2.0 * off + 4.0 * UNIT * size))
    exponentials = exponential(below)
    attention = exponentials / exponentials.sum(axis=2, keepdims=True)
    # If exponentials w_i are off by e_i w_i, shares are off by 2 delta / (1 - delta) in all, for
    # delta = sum_i alpha_i e_i. Those that are taken for 0 are below exp(-700) of the largest one:
    # far less than gamma, below.
    each = up(1.01 * (_EXPONENTIAL_ERROR + spread))
    delta = up((attention * each).sum(axis=2))
    small = (each.max(axis=2) < _SMALL) & (delta < _SMALL)
    error = np.where(small, 2.1 * delta, np.inf)
    # If all others are certainly MARGIN below, both are within 2 (n - 1) exp(-MARGIN) of one-hot.
    others = scores.shape[1] - 1
    certain = below + spread
    np.put_along_axis(certain, top[:, :, np.newaxis], -np.inf, axis=2)
    alone = certain.max(axis=2) <= -MARGIN
    error = np.where(alone, 4.1 * others * TAIL, error) + gamma(others + 5)
    return attention, up(error.sum(axis=1))


# Targets, and what heads do with what they read, at size one.

_MORE = "W_O or W_D do more than copy; fold them into W_V"


class Unlike(NamedTuple):
    """The pair whose readouts do not cancel: what its second head reads counts by itself."""

    pair: int  # p
    readouts: Array  # V 2^(a - c), of shape (P, d, d_out)


@dataclass(frozen=True, eq=False)
class Readouts:
    """Targets and readouts, times powers of two."""

    targets: Array  # y_t 2^-c (T, d_out), by position
    first: Array  # U_{2p} 2^(a - c), of shape (P, d, d_out)
    both: Array  # V_p = U_{2p} + U_{2p+1} (P, d, d_out), so scaled, and rounded if it is not zero
    unlike: Unlike | None  # the pair whose V_p is not zero; None if there is none
    exponent: int  # c, for which targets, and readouts of contexts of size one, are below 1

    @classmethod
    def of(cls, examples: Examples, memorizer: Memorizer) -> "Readouts":
        """Read targets and readouts in the order of the examples."""
        pairs = len(examples.stops)
        readouts = _effective(floats_of(memorizer.layer).leading)
        if readouts[2 * pairs :].any():
            raise UndecidedError("the last head belongs to no pair, and has a readout")
        targets = examples.dataset.target_matrix[examples.order].astype(np.float64)
        exponent = max(exponent_of(targets), exponent_of(readouts) + examples.exponent)
        # What is lost here, 2^-1075 of an entry, is covered as what underflows below.
        targets = np.ldexp(targets, -exponent)
        readouts = np.ldexp(readouts, examples.exponent - exponent)
        first = readouts[: 2 * pairs : 2]
        both = first + readouts[1 : 2 * pairs : 2]
        unlike = [Unlike(int(pair), both) for pair in np.flatnonzero(both.any(axis=(1, 2)))]
        if len(unlike) > 1:
            raise UndecidedError("the readouts of more than one pair do not cancel")
        return cls(targets, first, both, next(iter(unlike), None), exponent)


class Terms(NamedTuple):
    """What is read times readouts, for k entries of Z: parts of f, and of bounds on its error."""

    values: Array  # x.u (k, d_out)
    sizes: Array  # `|x|.|u|` (k, d_out), for the rounding of these
    errors: Array  # (k, d_out), what they are off by for errors of x

    @classmethod
    def room(cls, count: int, outputs: int) -> "Terms":
        """Return arrays to be filled."""
        return cls(*np.empty((3, count, outputs)))

    @classmethod
    def of(cls, x: Array, radius: Array, readouts: Array, pairs: Integers) -> "Terms":
        """Multiply, a few entries at a time."""
        terms = cls.room(len(x), readouts.shape[2])
        for part in row_chunks(len(x), 8 * readouts[0].size):
            chosen = readouts[pairs[part]]
            for column in range(readouts.shape[2]):
                read, u = x[part], chosen[:, :, column]
                terms.values[part, column] = np.einsum("kd,kd->k", read, u)
                terms.sizes[part, column] = np.einsum("kd,kd->k", np.abs(read), np.abs(u))
                terms.errors[part, column] = up(radius[part] * up(np.abs(u).sum(axis=1)))
        return terms


def _effective(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly.

    A copy may have another sign, and be multiplied by a power of two (`layers.attention`).
    """
    heads, value_dim = layer.num_heads, layer.value_dim
    read, last = _copies(layer.readout_weights[np.newaxis].astype(np.float64))
    output = layer.output_weights.reshape(heads, value_dim, -1).astype(np.float64)
    rows, entries = _copies(output[:, :, read[0]])
    columns = rows[:, np.newaxis]
    values = np.take_along_axis(layer.value_weights, columns, axis=2).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is refused
        factors = (entries * last)[:, np.newaxis]
        readouts: Array = values * factors
        exact = _powers(factors) and np.array_equal(readouts / factors, values)
    if not exact:
        raise UndecidedError("W_V W_O W_D leaves the range of float64")
    return readouts


def _copies(matrices: Array) -> tuple[Integers, Array]:
    """The row of the one entry in each column of matrices (k, m, c), and the entry: (k, c)."""
    if not ((matrices != 0).sum(axis=1) == 1).all() or not _powers(matrices[matrices != 0]):
        raise UndecidedError(_MORE)
    return np.abs(matrices).argmax(axis=1), matrices.sum(axis=1)


def _powers(entries: Array) -> bool:
    """Return whether all are powers of two, with signs: neither zero nor infinite."""
    return bool((np.frexp(np.abs(entries))[0] == 0.5).all())  # noqa: PLR2004


# The one pass over all contexts, in the order in which they lie on disk. All that is asked of
# every example is found while its tokens are in memory: scores, the entries of its own pair, and
# what is read by a pair whose readouts do not cancel. Nothing of the size of the contexts is
# kept, nor all scores.


@dataclass(frozen=True, eq=False)
class Scan:
    """What is found of T examples, of which T' belong to a pair."""

    top: Array  # (T,), from the largest score of an example to the next one
    bottom: Array  # (T,), from the least score to the next one
    score_error: Array  # (T,), bounds the errors of scores
    largest: Array  # (T,), bounds `max |E_t|`
    own: Array  # x_{t,p} (T', d), of each position and its own pair
    own_error: Array  # (T',), bounds the errors of their entries
    # z_{t,2p+1}.V_p of all positions, for the pair whose readouts do not cancel; None if there is
    # none, or nobody asks
    second: Terms | None

    @classmethod
    def of(cls, examples: Examples, unlike: Unlike | None) -> "Scan":
        """Read every context once; `unlike` is the pair whose readouts do not cancel."""
        owner, total = examples.owner, len(examples.order)
        size, width = examples.dataset.context_size, examples.queries.shape[1]
        top, bottom, score_error, largest = np.empty((4, total))
        own, own_error = np.empty((len(owner), width)), np.empty(len(owner))
        second = Terms.room(total, 0 if unlike is None else unlike.readouts.shape[2])
        positions = _as_on_disk(examples.order, len(owner))
        for part in row_chunks(total, 8 * size * width):
            report("read contexts", part.start, total)
            rows = positions[part]
            mine = rows[: max(len(owner) - part.start, 0)]
            with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
                tokens = Tokens.of(examples, rows)
                ordered = np.sort(tokens.scores, axis=1)
                top[rows] = ordered[:, -1] - ordered[:, -2]
                bottom[rows] = ordered[:, 1] - ordered[:, 0]
                score_error[rows], largest[rows] = tokens.score_error, tokens.largest
                own[mine], own_error[mine] = tokens.read(owner[mine], DIFFERENCE)
                if unlike is not None:
                    pairs = np.full(len(rows), unlike.pair)
                    z = tokens.read(pairs, SECOND)
                    terms = Terms.of(*z, unlike.readouts, pairs)
                    for kept, term in zip(second, terms, strict=True):
                        kept[rows] = term
        return cls(
            top, bottom, score_error, largest, own, own_error, second if unlike else None
        )  # fmt: skip


def _as_on_disk(order: Integers, owned: int) -> Integers:
    """All positions by their examples, but for the extra one without a pair, which comes last."""
    return np.concatenate([np.argsort(order[:owned]), np.arange(owned, len(order))])


# Which pairs agree on which examples, and x_{t,p} with bounds where they do not.


_MOST_COUPLED = 4  # Coupled entries for each example, on average, beyond which nothing is tried


class Entries(NamedTuple):
    """x_{t,p} with a bound on the error of each entry: the blocks, and the coupled rest.

    T' positions belong to a pair, and m entries beside those do not agree.
    """

    own: Array  # (T', d), of each position and its own pair
    own_error: Array  # (T',)
    positions: Integers  # (m,), of the coupled rest
    pairs: Integers  # (m,)
    coupled: Array  # (m, d)
    coupled_error: Array  # (m,)
    tail: Array  # tail_t (T,), which bounds all other entries
    largest: Array  # (T,), bounds `max |E_t|`, and so whatever a head reads


def evaluate(examples: Examples, scan: Scan) -> Entries:
    """Decide which entries are tails, and evaluate the coupled ones from contexts read anew."""
    others = examples.dataset.context_size - 1
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        tail = up(2.0 * others * TAIL * scan.largest)
        positions, pairs = coupled_entries(examples, examples.owner, scan)
        report("evaluate what is coupled", 0, 1)
        coupled = read(examples, positions, pairs, DIFFERENCE)
    return Entries(scan.own, scan.own_error, positions, pairs, *coupled, tail, scan.largest)


def coupled_entries(examples: Examples, owner: Integers, scan: Scan) -> tuple[Integers, Integers]:
    """Return positions and pairs that are not certified to agree, but for those of the own pairs.

    `owner` is the pair of each position that belongs to one. Raises UndecidedError where there are
    too many.
    """
    total, pairs = len(examples.order), len(examples.stops)
    weights = np.ascontiguousarray(np.concatenate(list(examples.query_weights)).T)
    longest = float(lengths(examples.query_weights).max())
    reach_error = up(gamma(len(weights) + 2) * longest * lengths(examples.queries))
    needed = []
    for gap in (scan.top, scan.bottom):
        least = np.maximum(gap - up(2.0 * scan.score_error + 2.0 * UNIT * gap), 0.0)
        needed.append(up(up(MARGIN / least) + reach_error)[:, np.newaxis])
    at_top, at_bottom = needed

    def disagreeing(rows: slice) -> tuple[Integers, Integers]:
        with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
            reach = examples.queries[rows] @ weights
        first, second = reach[:, :pairs], reach[:, pairs:]
        # Of one sign, and beyond what is needed there (infinity, where scores may be equal).
        agree = np.minimum(first, second) >= at_top[rows]
        agree |= np.maximum(first, second) <= -at_bottom[rows]
        inside = np.arange(rows.start, min(rows.stop, len(owner)))
        agree[inside - rows.start, owner[inside]] = True
        where, which = np.nonzero(~agree)
        return where + rows.start, which

    found: list[tuple[Integers, Integers]] = []
    coupled = 0
    parts = list(row_chunks(total, 8 * 2 * pairs))
    for part in in_pieces(disagreeing, parts, float(total) * weights.size):
        found.append(part)
        coupled += len(part[0])
        report("certify which pairs agree", len(found), len(parts))
        if coupled > _MOST_COUPLED * total:
            raise UndecidedError(
                f"pairs do not agree on more than {_MOST_COUPLED} entries an example; "
                "another seed=, or fewer examples"
            )
    return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])
