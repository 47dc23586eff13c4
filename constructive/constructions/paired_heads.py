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

import numpy as np
from scipy.linalg import lapack

from constructive.constructions.multihead.grouping import Factored, Taken, factor
from constructive.constructions.multihead.heads import Needed
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


# How the two heads of a pair attend to their own examples, beside the saturating part c u w^T.
#
# W = a b^T with b = b_1 + c w: b_1 sets s_t on the own half of the pair, and 0 on the other. |s_t|
# is such that the extreme token gets `_ATTENDED`, were the others of mean score; its sign is
# random. Every example has its own context, so rows need no distinct s_t.


# Attention of a head to its extreme token, if the others had the mean score.
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
    axes: (d, m), vectors orthogonal to the queries, of which w is a combination
    """

    queries: Factored
    query_weights: Array
    key_weights: Array
    axes: Array

    @property
    def half(self) -> int:
        """How many examples the first head of the pair takes."""
        return (self.size + 1) // 2

    @property
    def own_parts(self) -> Array:
        """b_1 of both heads (d, 2); |b_1.e_t| counts against the saturating part."""
        return self.query_weights[:, :, 0].T

    def write(self, ordered: Ordered, rng: np.random.Generator) -> None:
        """Set b_1 and u: of a few draws the first one with a well-conditioned block, or the best.

        A draw has key vectors v_t = s_t u, for the top or the bottom token at random.
        """
        contexts, vector = ordered.contexts(self.rows), ordered.direction.vector
        scores = contexts @ vector
        scores -= scores.mean(axis=1, keepdims=True)
        nats = np.log((contexts.shape[1] - 1) * _ATTENDED / (1.0 - _ATTENDED))
        at_top, at_bottom = nats / scores.max(axis=1), nats / scores.min(axis=1)
        least = np.inf
        for _ in range(_DRAWS):
            top = rng.integers(2, size=len(scores)) == 1
            scales = np.where(top, at_top, at_bottom)[:, np.newaxis]
            attention = softmax_in_place(scales * scores)
            attention -= 1.0 / contexts.shape[1]
            condition = _condition(np.matmul(attention[:, np.newaxis], contexts)[:, 0])
            if condition <= least:
                best, least = scales * vector, condition
            if least <= _AMPLE * (self.size + 1):
                break
        scales = best @ vector / (vector @ vector)
        values = np.zeros((self.size, 2))
        values[: self.half, 0], values[self.half :, 1] = scales[: self.half], scales[self.half :]
        self.query_weights[:, :, 0] = self.queries.solve(values).T
        self.key_weights[:, :, 0] = vector


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
    count, width = len(pairs), ordered.queries.shape[1]
    query_weights, key_weights = np.zeros((2, count, 2, width, head_dim))
    sought: list[Pair] = []
    for index, number in enumerate(pairs):
        start, end = ordered.start(number), int(ordered.stops[number])
        queries = factor(*unit_rows(ordered.queries[start:end]))
        if queries is None:
            raise _dependent(ordered, start, end)
        weights = query_weights[index], key_weights[index]
        sought.append(Pair(start, end, queries, *weights, queries.axes(2)))
        sought[index].write(ordered, np.random.default_rng((entropy, number)))
    sharpness, leftover = np.zeros(count), []
    for index, (pair, chosen) in enumerate(zip(sought, _chosen(ordered, sought), strict=True)):
        pair.query_weights[:, :, 0] += chosen.sharpness * (pair.axes @ chosen.unit)
        sharpness[index] = chosen.sharpness
        leftover.append(chosen.leftover)
    positions = np.concatenate(leftover)
    columns = np.repeat(np.arange(count), [len(each) for each in leftover])
    if pairs.start == 0 and ordered.has_extra:
        reader = Reader.of(ordered, query_weights[0], key_weights[0])
    read = [
        read_own(ordered, pair.rows, (pair.query_weights, pair.key_weights), reader)
        for pair in sought
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

    def __init__(self, ordered: Ordered, sought: Sequence[Pair]) -> None:
        # A score times a gap is a logit, so that b_1 is of size one times 2^-exponent.
        exponent = ordered.coarse.query_exponent + ordered.coarse.gap_exponent
        with np.errstate(over="ignore"):  # such a pair is refused by its condition
            columns = [
                np.concatenate([pair.axes, np.ldexp(pair.own_parts, exponent)], axis=1)
                for pair in sought
            ]
            columns = [part.astype(np.float32) for part in columns]
            lengths = [float(np.linalg.norm(part)) for part in columns]
        self.coarse, self.sought = ordered.coarse, sought
        self.weights = np.ascontiguousarray(np.concatenate(columns, axis=1).T)
        self.splits = np.cumsum([part.shape[1] for part in columns])[:-1]
        self.slacks = [ordered.coarse.slack * length for length in lengths]

    def at(self, rows: slice) -> Iterator[tuple[Single, Single]]:
        """Yield for each pair projections (axes, C) and what is needed (C,), of unit queries.

        The examples of a pair itself need nothing: -inf.
        """
        coarse = self.coarse
        with np.errstate(invalid="ignore"):
            products = np.split(self.weights @ coarse.unit[rows].T, self.splits)
        alone = np.float32(NATS) * coarse.inverse_length[rows] * coarse.inverse_gap[rows]
        positions = np.arange(*rows.indices(len(coarse.unit)))
        for pair, product, slack in zip(self.sought, products, self.slacks, strict=True):
            axes = pair.axes.shape[1]
            first, second = np.abs(product[axes:], out=product[axes:])
            needed: Single = np.maximum(first, second, out=first)
            needed += np.float32(slack)
            needed += alone
            needed[slice(*positions.searchsorted((pair.start, pair.stop)))] = -np.inf
            yield product[:axes], needed


def _chosen(ordered: Ordered, sought: Sequence[Pair]) -> list[SaturatingVector]:
    """Choose w and c of each pair: screen all examples, then look among those that are left."""
    total = len(ordered.queries)
    # The first positions have the smallest gaps, and so the widest arcs: they are all looked at.
    first = slice(0, min(SAMPLE, total))
    spread = slice(first.stop, total, max(1, total // SAMPLE))
    sampled = np.concatenate(
        [np.arange(rows.start, rows.stop, rows.step) for rows in (first, spread)]
    )
    weight = np.where(sampled < first.stop, 1.0, spread.step)
    windows, turned, look = [], [], _Look(ordered, sought)
    for pair, *seen in zip(sought, look.at(first), look.at(spread), strict=True):
        projected, needed = (np.concatenate(parts, axis=-1) for parts in zip(*seen, strict=True))
        others = needed != -np.inf
        window = window_of(
            projected[:, others], needed[others], weight[others], ordered.coarse.slack
        )
        windows.append(window)
        turned.append(dataclasses.replace(pair, axes=pair.axes @ window.turn))

    kept: list[list[tuple[Integers, Single, Single]]] = [[] for _ in turned]
    look = _Look(ordered, turned)
    for rows in row_chunks(total, 4 * len(look.weights), _PRODUCT_BYTES):
        for index, (projected, needed) in enumerate(look.at(rows)):
            at = windows[index].screen(projected, needed)
            kept[index].append((at + rows.start, np.take(projected, at, axis=1), needed[at]))
    chosen = []
    for pair, window, found in zip(turned, windows, kept, strict=True):
        parts = (np.concatenate(of_chunks, axis=-1) for of_chunks in zip(*found, strict=True))
        saturating = _settled(ordered, pair, window, *parts)
        chosen.append(dataclasses.replace(saturating, unit=window.turn @ saturating.unit))
    return chosen


def _settled(
    ordered: Ordered,
    pair: Pair,
    window: AngleWindow,
    positions: Integers,
    projected: Array,
    needed: Array,
) -> SaturatingVector:
    coarse = ordered.coarse
    exponent = coarse.query_exponent + coarse.gap_exponent

    def reached(at: Integers, vectors: Array) -> tuple[Array, Needed]:
        """Return products with some vectors (d, m) of position at, and what is needed there."""
        queries = ordered.queries[at]
        scale = np.abs(pair.own_parts.T @ queries.T).max(axis=0)
        return vectors.T @ queries.T, ordered.gaps(at).needed(NATS, scale=scale)

    def exact(at: Integers, unit: Array) -> Array:
        (reach,), least = reached(at, (pair.axes @ unit)[:, np.newaxis])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio: Array = np.ldexp(least.at(reach) / np.abs(reach), exponent)
        return ratio

    if len(ordered.queries) > _SINGLE:
        lengths = np.ldexp(unit_rows(ordered.queries[positions])[0], -coarse.query_exponent)
        along, least = reached(positions, pair.axes)
        projected = np.ldexp(along, -coarse.query_exponent) / lengths
        needed = np.ldexp(least.either, coarse.gap_exponent) / lengths
    chosen = sharpen(window, positions, projected, needed, positions >= pair.stop, exact)
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
