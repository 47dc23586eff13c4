"""Heads in pairs, and their entries x_{t,p} that are not zero: blocks, and leftover coupling.

The heads 2p and 2p + 1 share the saturating part c u w^T and take different groups S and S'. On S'
the first head's own part W* is zero, on S the second's: there they attend uniformly. So with
readouts U_p and -U_p

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}),        f(E_t, e_t) = sum_p U_p^T x_{t,p},

where x_{t,p} = 0 up to exp(-45) unless t belongs to the pair p (Theorem 6, proofs/12). Only the
entries that are not zero are ever evaluated: T rows in the diagonal blocks, and a few beside them.
Z, of T x H d entries, is not formed.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg import lapack

from constructive.constructions.multihead.grouping import Factored, Taken, factor
from constructive.constructions.multihead.heads import Needed, attended_vectors
from constructive.constructions.paired_search import (
    NATS,
    SAMPLE,
    AngleWindow,
    Ordered,
    SaturatingVector,
    sharpen,
    window_of,
)
from constructive.exact.softmax import Floats, softmax_in_place
from constructive.layers.attention import attend, examples
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, Single, row_chunks, unit_rows
from constructive.support.errors import AssumptionError
from constructive.support.work import report
from constructive.theory.kruskal import dependency, describe_dependency

Weights = tuple[Array, Array]  # W_Q and W_K of some heads


@dataclass(frozen=True, eq=False)
class BuiltPairs:
    """Some consecutive pairs, and all that the readout needs to know of them.

    query_weights, key_weights: (P', 2, d, d_h);  sharpness: (P',)
    own: (T'', d), x_{t,p} of the examples of these pairs;  again: the same in a forward pass
    extra: (T'',), what the extra example adds to each of them (`Reader`)
    positions, pairs: (k,), the unsaturated entries off the diagonal blocks;  coupled: (k, d)
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    own: Array
    again: Array
    extra: Array
    positions: Integers
    pairs: Integers
    coupled: Array


@dataclass(frozen=True, eq=False)
class Reader:
    """The second head of pair 0, which reads one token x* from the extra example.

    weights: both (1, d, d_h);  dual: (d,), x* / |x*|^2, whose products with what the head reads
        from other examples are kappa_t
    """

    weights: Weights
    dual: Array

    @classmethod
    def of(cls, ordered: Ordered, query_weights: Array, key_weights: Array) -> "Reader":
        """Read it from the weights (2, d, d_h) of pair 0."""
        last = slice(len(ordered.order) - 1, None)
        weights = query_weights[1:], key_weights[1:]
        token = _read(weights, ordered.contexts(last), ordered.queries[last])[0, 0]
        return cls(weights, token / (token @ token))


def differences(
    ordered: Ordered, weights: Weights, positions: Integers, columns: Integers
) -> Array:
    """Return x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}) for some t and p: (k, d).

    weights: of all pairs p, both (P', 2, d, d_h)
    """
    out = np.empty((len(positions), ordered.queries.shape[1]))
    # As the data lie, so that contexts on disk are read from the first to the last.
    by_example = np.argsort(ordered.order[positions], kind="stable")
    for rows in row_chunks(len(positions), 8 * ordered.dataset.context_size * out.shape[1]):
        part = by_example[rows]
        contexts, pairs = ordered.contexts(positions[part]), columns[part]
        queries = ordered.queries[positions[part], np.newaxis, np.newaxis]
        inner = np.matmul(queries, weights[0][pairs])  # (k, 2, 1, d_h)
        keys = np.matmul(inner, weights[1][pairs].transpose(0, 1, 3, 2))[:, :, 0]
        attention = softmax_in_place(np.matmul(keys, contexts.transpose(0, 2, 1)))
        difference = attention[:, 0] - attention[:, 1]
        out[part] = np.matmul(difference[:, np.newaxis], contexts)[:, 0]
    return out


def read_own(
    ordered: Ordered, rows: slice, weights: Weights, reader: Reader | None
) -> tuple[Array, Array, Array]:
    """Return `own`, `again` and `extra` of a `BuiltPairs` for one pair, of weights (2, d, d_h)."""
    contexts, queries = ordered.contexts(rows), ordered.queries[rows]
    keys = np.matmul(np.matmul(queries, weights[0]), weights[1].transpose(0, 2, 1))
    attention = softmax_in_place(np.matmul(keys.transpose(1, 0, 2), contexts.transpose(0, 2, 1)))
    difference = attention[:, 0] - attention[:, 1]
    first, second = _read(weights, contexts, queries).transpose(1, 0, 2)
    kappa = np.zeros(len(queries))
    if reader is not None:
        kappa = _read(reader.weights, contexts, queries)[:, 0] @ reader.dual
    return (
        np.matmul(difference[:, np.newaxis], contexts)[:, 0],
        first - second,
        kappa,
    )


def _read(weights: Weights, contexts: Array, queries: Array) -> Array:
    """What some heads read from some examples in a forward pass: (k, heads, d)."""
    out = np.empty((len(queries), *weights[0].shape[:2]))
    for chunk in attend(Floats(np.float64), weights, examples(contexts, queries)):
        out[chunk.rows] = chunk.representation
    return out


# How the two heads of a pair attend to their own examples: with rank one, or with full rank.
#
# Each kind writes the part W* of both heads, which its own half of the pair sees, says what that
# asks of the saturating part (in float32 of all examples, and in float64 of a few), and adds c u
# w^T.


# Attention of a rank-one head to its extreme token, if the others had the mean score.
_ATTENDED = 0.9

_DRAWS = 6
# A block of k examples is drawn anew if its `_condition` is more than so many times k + 1, which is
# about what random rows have; at most `_DRAWS` times.
_AMPLE = 1.0


@dataclass(frozen=True, eq=False)
class Pair(Taken):
    """One pair on its way, with its own positions.

    queries: those of its own examples
    query_weights, key_weights: (2, d, d_h), views of the weights of its two heads
    """

    queries: Factored
    query_weights: Array
    key_weights: Array

    @property
    def half(self) -> int:
        """How many examples the first head of the pair takes."""
        return (self.size + 1) // 2


@dataclass(frozen=True, eq=False)
class RankOnePairs:
    """W = a b^T with b = b_1 + c w: b_1 sets s_t on the own half of the pair, and 0 on the other.

    |s_t| is such that the extreme token gets `_ATTENDED`, were the others of mean score; its sign
    is random. Every example has its own context, so rows need no distinct s_t.
    """

    ordered: Ordered

    def draws(self, contexts: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield any number of draws of key vectors v_t (k, d), with the logits E_t v_t (k, n).

        v_t = s_t u, for the top or the bottom token at random.
        """
        scores = contexts @ self.ordered.direction.vector
        scores -= scores.mean(axis=1, keepdims=True)
        nats = np.log((contexts.shape[1] - 1) * _ATTENDED / (1.0 - _ATTENDED))
        at_top, at_bottom = nats / scores.max(axis=1), nats / scores.min(axis=1)
        while True:
            top = rng.integers(2, size=len(scores)) == 1
            scales = np.where(top, at_top, at_bottom)[:, np.newaxis]
            yield scales * self.ordered.direction.vector, scales * scores

    def write(self, pair: Pair, vectors: Array) -> Array:
        """Set the part W* of both heads; returns columns (d, m) whose products are watched.

        These are b_1 on the two halves.
        """
        vector = self.ordered.direction.vector
        scales = vectors @ vector / (vector @ vector)
        values = np.zeros((pair.size, 2))
        values[: pair.half, 0], values[pair.half :, 1] = scales[: pair.half], scales[pair.half :]
        pair.query_weights[:, :, 0] = pair.queries.solve(values).T
        pair.key_weights[:, :, 0] = vector
        return pair.query_weights[:, :, 0].T

    @property
    def exponent(self) -> int:
        """Watched columns are of size one times 2^-exponent: a score times a gap is a logit."""
        return self.ordered.coarse.query_exponent + self.ordered.coarse.gap_exponent

    def roughly_needed(
        self, pair: Pair, products: Single, alone: Single, rows: slice, slack: float
    ) -> Single:
        """Bound what saturates unit queries (C,), in the units of `Coarse`.

        products: (m, C), of the watched columns times 2^exponent and unit queries, each off by
            slack at most; may be overwritten
        alone: (C,), what would saturate them without W*
        """
        del pair, rows  # |b_1.e_t| counts against the saturating part: what is watched says all
        np.abs(products, out=products)
        scale: Single = np.maximum(products[0], products[1], out=products[0])
        scale += np.float32(slack)
        scale += alone
        return scale

    def needed(self, pair: Pair, watched: Array, positions: Integers) -> Needed:
        """Return what saturates on some positions, from products (m, k) of the watched columns."""
        del pair
        return self.ordered.gaps(positions).needed(NATS, scale=np.abs(watched).max(axis=0))

    def saturate(self, pair: Pair, vector: Array, sharpness: float) -> None:
        """Add c u w^T to both heads."""
        pair.query_weights[:, :, 0] += sharpness * vector


@dataclass(frozen=True, eq=False)
class FullRankPairs:
    """W = W* + c u w^T, where W* e_t = v_t gives each example of the own half its logits E_t v_t.

    Each example attends to a random token of its context. The methods are those of `RankOnePairs`.
    """

    ordered: Ordered

    def draws(self, contexts: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield v_t with E_t v_t large at a random token."""
        total, tokens, width = contexts.shape
        directions = np.broadcast_to(self.ordered.direction.vector, (total, width))
        flat = np.zeros((total, tokens))
        while True:
            chosen: Integers = rng.integers(tokens, size=(total,))
            vectors = attended_vectors(contexts, directions, chosen, flat, self.ordered.assumed)
            yield vectors, np.matmul(contexts, vectors[:, :, np.newaxis])[:, :, 0]

    def write(self, pair: Pair, vectors: Array) -> Array:
        """Return the dual basis, which is watched, beside the key vectors."""
        half, size = pair.half, pair.size
        dual_basis, _ = pair.queries.whole()
        for head, part in enumerate((slice(0, half), slice(half, size))):
            count = len(vectors[part])
            pair.query_weights[head, :, :count] = dual_basis[:, part]
            pair.key_weights[head, :, :count] = vectors[part].T
        return dual_basis

    @property
    def exponent(self) -> int:
        """Products with queries are coordinates, of size one."""
        return self.ordered.coarse.query_exponent

    def roughly_needed(
        self, pair: Pair, products: Single, alone: Single, rows: slice, slack: float
    ) -> Single:
        """Count the range of the logits W* e_t against the saturating part."""
        coarse = self.ordered.coarse
        lengths = np.zeros_like(alone)
        for keys, part in self._halves(pair, products):
            norm = np.float32(np.ldexp(np.linalg.norm(keys, 2), coarse.gap_exponent))
            sizes = np.sqrt(np.einsum("st,st->t", part, part)) + np.float32(slack)
            np.maximum(lengths, norm * sizes, out=lengths)
        # radius / gap as it stands, and 2^b of the units with the norm
        needed: Single = alone + coarse.reach[rows] * lengths
        return needed

    def needed(self, pair: Pair, watched: Array, positions: Integers) -> Needed:
        """Count the range of the logits W* e_t against the saturating part."""
        # |W* e_t| <= |V| |coordinates|, and logits then differ by at most 2 radius |W* e_t|.
        logits = np.zeros(watched.shape[1])
        for keys, part in self._halves(pair, watched):
            lengths = np.sqrt(np.einsum("st,st->t", part, part))
            np.maximum(logits, np.linalg.norm(keys, 2) * lengths, out=logits)
        radius = self.ordered.radius[positions]
        return self.ordered.gaps(positions).needed(NATS, logits=2.0 * radius * logits)

    def _halves(self, pair: Pair, products: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the key vectors of both heads, and their part of the watched products."""
        return zip(pair.key_weights, np.split(products, [pair.half]), strict=True)

    def saturate(self, pair: Pair, vector: Array, sharpness: float) -> None:
        """Write one more column: c u w^T."""
        root = np.sqrt(sharpness)  # half of c on each side
        pair.query_weights[:, :, pair.half] = root * vector
        pair.key_weights[:, :, pair.half] = root * self.ordered.direction.vector


PairKind = RankOnePairs | FullRankPairs


def _own_part(kind: PairKind, pair: Pair, rng: np.random.Generator) -> Array:
    """Of a few draws, write the first one whose block is well-conditioned, or the best."""
    contexts = kind.ordered.contexts(pair.rows)
    least = np.inf
    for vectors, logits in islice(kind.draws(contexts, rng), _DRAWS):
        attention = softmax_in_place(logits)
        attention -= 1.0 / contexts.shape[1]
        condition = _condition(np.matmul(attention[:, np.newaxis], contexts)[:, 0])
        if condition <= least:
            best, least = vectors, condition
        if least <= _AMPLE * (pair.size + 1):
            break
    return kind.write(pair, best)


def _condition(block: Array) -> float:
    """Return how near a block D (k, d) is to singular: |D| |D^+| / sqrt(k), Frobenius norms.

    That is the root mean square of its singular values, times the norm of their inverses.
    """
    if not len(block):
        return 1.0
    reflectors, _, _, _ = lapack.dgeqrf(block.T)
    inverse, singular = lapack.dtrtri(reflectors[: len(block)])
    if singular:
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        condition = np.linalg.norm(block) * np.linalg.norm(np.triu(inverse)) / np.sqrt(len(block))
    return float(condition) if condition < np.inf else np.inf  # also if it is not a number


# Building pairs: some at a time, which share one look at all queries. Each pair has random numbers
# of its own.


TOGETHER = 64  # Pairs that are built together

_PRODUCT_BYTES = 4 * CHUNK_BYTES  # Size of the products of several pairs with some queries

_SINGLE = 1 << 19  # Examples up to which gaps are wide enough to be seen in float32


@dataclass(frozen=True, eq=False)
class _Sought:
    """One pair whose w is looked for, and the columns (d, .) that that takes."""

    pair: Pair
    axes: Array
    watched: Array


def build_all(ordered: Ordered, head_dim: int, entropy: int) -> tuple[BuiltPairs, Reader | None]:
    """Build all pairs, and the reader where there is an extra example, from this entropy.

    Some pairs at a time; on two threads this took longer than on one.
    """
    blocks: list[dict[str, Array]] = []
    reader, starts = None, range(0, ordered.num_pairs, TOGETHER)
    for first in starts:
        report("build pairs of heads", len(blocks), len(starts))
        pairs = range(first, min(first + TOGETHER, ordered.num_pairs))
        block, reader = _build(ordered, head_dim, entropy, pairs, reader)
        blocks.append(dict(vars(block)))
    # Their arrays are given up one by one, as together they are large.
    names = [field.name for field in dataclasses.fields(BuiltPairs)]
    built = BuiltPairs(*(np.concatenate([each.pop(name) for each in blocks]) for name in names))
    return built, reader


def _build(
    ordered: Ordered, head_dim: int, entropy: int, pairs: range, reader: Reader | None
) -> tuple[BuiltPairs, Reader | None]:
    """Build some pairs, and the reader with pair 0, whose second head it is.

    Raises AssumptionError if the queries of a pair are dependent.
    """
    kind = FullRankPairs(ordered) if ordered.full_rank else RankOnePairs(ordered)
    count, width = len(pairs), ordered.queries.shape[1]
    query_weights, key_weights = np.zeros((2, count, 2, width, head_dim))
    sought = []
    for index, number in enumerate(pairs):
        start, end = ordered.start(number), int(ordered.stops[number])
        queries = factor(*unit_rows(ordered.queries[start:end]))
        if queries is None:
            raise _dependent(ordered, start, end)
        pair = Pair(start, end, queries, query_weights[index], key_weights[index])
        rng = np.random.default_rng((entropy, number))
        sought.append(_Sought(pair, queries.axes(2), _own_part(kind, pair, rng)))
    sharpness, leftover = np.zeros(count), []
    for index, (each, chosen) in enumerate(zip(sought, _chosen(kind, sought), strict=True)):
        kind.saturate(each.pair, each.axes @ chosen.unit, chosen.sharpness)
        sharpness[index] = chosen.sharpness
        leftover.append(chosen.leftover)
    positions = np.concatenate(leftover)
    columns = np.repeat(np.arange(count), [len(each) for each in leftover])
    if pairs.start == 0 and ordered.has_extra:
        reader = Reader.of(ordered, query_weights[0], key_weights[0])
    read = [
        read_own(ordered, each.pair.rows, (each.pair.query_weights, each.pair.key_weights), reader)
        for each in sought
    ]
    own, again, extra = map(np.concatenate, zip(*read, strict=True))
    coupled = differences(ordered, (query_weights, key_weights), positions, columns)
    built = BuiltPairs(
        query_weights,
        key_weights,
        sharpness,
        own,
        again,
        extra,
        positions,
        columns + pairs.start,
        coupled,
    )
    return built, reader


class _Look:
    """At all queries, by several pairs at once."""

    def __init__(self, kind: PairKind, sought: Sequence[_Sought]) -> None:
        with np.errstate(over="ignore"):  # such a pair is refused by its condition
            columns = [
                np.concatenate([each.axes, np.ldexp(each.watched, kind.exponent)], axis=1)
                for each in sought
            ]
            columns = [part.astype(np.float32) for part in columns]
            lengths = [float(np.linalg.norm(part)) for part in columns]
        self.kind, self.sought = kind, sought
        self.weights = np.ascontiguousarray(np.concatenate(columns, axis=1).T)
        self.splits = np.cumsum([part.shape[1] for part in columns])[:-1]
        self.slacks = [kind.ordered.coarse.slack * length for length in lengths]

    def at(self, rows: slice) -> Iterator[tuple[Single, Single]]:
        """Yield for each pair projections (axes, C) and what is needed (C,), of unit queries.

        The examples of a pair itself need nothing: -inf.
        """
        coarse = self.kind.ordered.coarse
        with np.errstate(invalid="ignore"):
            products = np.split(self.weights @ coarse.unit[rows].T, self.splits)
        alone = np.float32(NATS) * coarse.inverse_length[rows] * coarse.inverse_gap[rows]
        positions = np.arange(*rows.indices(len(coarse.unit)))
        for each, product, slack in zip(self.sought, products, self.slacks, strict=True):
            axes, pair = each.axes.shape[1], each.pair
            needed = self.kind.roughly_needed(pair, product[axes:], alone, rows, slack)
            needed[slice(*positions.searchsorted((pair.start, pair.stop)))] = -np.inf
            yield product[:axes], needed


def _chosen(kind: PairKind, sought: Sequence[_Sought]) -> list[SaturatingVector]:
    """Choose w and c of each pair: screen all examples, then look among those that are left."""
    ordered = kind.ordered
    total = len(ordered.queries)
    # The first positions have the smallest gaps, and so the widest arcs: they are all looked at.
    first = slice(0, min(SAMPLE, total))
    spread = slice(first.stop, total, max(1, total // SAMPLE))
    sampled = np.concatenate(
        [np.arange(rows.start, rows.stop, rows.step) for rows in (first, spread)]
    )
    weight = np.where(sampled < first.stop, 1.0, spread.step)
    windows, turned, look = [], [], _Look(kind, sought)
    for each, *seen in zip(sought, look.at(first), look.at(spread), strict=True):
        projected, needed = (np.concatenate(parts, axis=-1) for parts in zip(*seen, strict=True))
        others = needed != -np.inf
        window = window_of(
            projected[:, others], needed[others], weight[others], ordered.coarse.slack
        )
        windows.append(window)
        turned.append(dataclasses.replace(each, axes=each.axes @ window.turn))

    kept: list[list[tuple[Integers, Single, Single]]] = [[] for _ in turned]
    look = _Look(kind, turned)
    for rows in row_chunks(total, 4 * len(look.weights), _PRODUCT_BYTES):
        for index, (projected, needed) in enumerate(look.at(rows)):
            at = windows[index].screen(projected, needed)
            kept[index].append((at + rows.start, np.take(projected, at, axis=1), needed[at]))
    chosen = []
    for each, window, found in zip(turned, windows, kept, strict=True):
        parts = (np.concatenate(of_chunks, axis=-1) for of_chunks in zip(*found, strict=True))
        saturating = _settled(kind, each, window, *parts)
        chosen.append(dataclasses.replace(saturating, unit=window.turn @ saturating.unit))
    return chosen


def _settled(
    kind: PairKind,
    sought: _Sought,
    window: AngleWindow,
    positions: Integers,
    projected: Array,
    needed: Array,
) -> SaturatingVector:
    ordered, coarse = kind.ordered, kind.ordered.coarse
    exponent = coarse.query_exponent + coarse.gap_exponent

    def reached(at: Integers, vectors: Array) -> tuple[Array, Needed]:
        """Return products with some vectors (d, m) of position at, and what is needed there."""
        queries = ordered.queries[at]
        watched = sought.watched.T @ queries.T
        return vectors.T @ queries.T, kind.needed(sought.pair, watched, at)

    def exact(at: Integers, unit: Array) -> Array:
        (reach,), least = reached(at, (sought.axes @ unit)[:, np.newaxis])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio: Array = np.ldexp(least.at(reach) / np.abs(reach), exponent)
        return ratio

    if len(ordered.queries) > _SINGLE:
        lengths = np.ldexp(unit_rows(ordered.queries[positions])[0], -coarse.query_exponent)
        along, least = reached(positions, sought.axes)
        projected = np.ldexp(along, -coarse.query_exponent) / lengths
        needed = np.ldexp(least.either, coarse.gap_exponent) / lengths
    chosen = sharpen(window, positions, projected, needed, positions >= sought.pair.stop, exact)
    return SaturatingVector(
        chosen.unit, float(np.ldexp(chosen.sharpness, -exponent)), chosen.leftover
    )


def _dependent(ordered: Ordered, start: int, stop: int) -> AssumptionError:
    queries = ordered.queries[start:stop]
    rank, coefficients = dependency(queries)
    examples = ordered.order[start:stop].tolist()
    witness, words = describe_dependency(examples, coefficients)
    message = (
        f"the queries of {stop - start} examples, one pair of heads, have rank {rank} "
        f"(numerically); paired heads need them to be independent ({words})"
    )
    return AssumptionError(
        message,
        witness=witness,
        suggestion="another seed=, more heads and so smaller pairs, or construction='saturated', "
        "which asks that of groups half as large",
    )
