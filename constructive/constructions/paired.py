"""Heads in pairs, for contexts of their own, whose readout does not cost T^3.

The heads 2p and 2p + 1 share the saturating part c u w^T and take different groups S and S'. On S'
the first head's own part is zero, on S the second's: there they attend uniformly. So with readouts
U_p and -U_p

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}),        f(E_t, e_t) = sum_p U_p^T x_{t,p},

where x_{t,p} = 0 up to exp(-45) unless t belongs to the pair p (Theorem 6, proofs/12). Only the
entries that are not zero are ever evaluated: T rows in the diagonal blocks, and a few beside them.
Z, of T x H d entries, is not formed.

The steps of `paired`: `paired_search.arrange` orders the examples, `build_all` builds
the pairs, and `solve` finds the readout.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from constructive.constructions.construction import Built, Construction, Cost
from constructive.constructions.multihead.assumptions import Survey
from constructive.constructions.multihead.grouping import Factored, Taken, factor
from constructive.constructions.multihead.heads import Needed
from constructive.constructions.multihead.readout import largest
from constructive.constructions.paired_search import (
    NATS,
    SAMPLE,
    SWEEP,
    AngleWindow,
    Ordered,
    SaturatingVector,
    arrange,
    sharpen,
    window_of,
)
from constructive.data.shapes import ExampleShapes
from constructive.exact.softmax import Floats, softmax_in_place
from constructive.layers.attention import attend, examples
from constructive.layers.layer import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, Single, row_chunks, unit_rows
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ParameterError,
    PrecisionError,
)
from constructive.support.work import report
from constructive.theory.bounds import (
    Plan,
    heads_in_words,
    paired_capacity,
    rank_one_capacity,
    require_ranks,
)
from constructive.theory.kruskal import dependency, describe_dependency

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Weights = tuple[Array, Array]  # W_Q and W_K of some heads


@dataclass(frozen=True, eq=False)
class BuiltPairs:
    """Some consecutive pairs, and all that the readout needs to know of them.

    query_weights, key_weights: (P', 2, d, d_h);  sharpness: (P',), along w: (P', d)
    own: (T'', d), x_{t,p} of the examples of these pairs;  again: the same in a forward pass
    extra: (T'',), what the extra example adds to each of them (`Reader`)
    positions, pairs: (k,), the unsaturated entries off the diagonal blocks;  coupled: (k, d)
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    w: Array
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
    sharpness, w, leftover = np.zeros(count), np.zeros((count, width)), []
    for index, (pair, chosen) in enumerate(zip(sought, _chosen(ordered, sought), strict=True)):
        sharpness[index], w[index] = chosen.sharpness, pair.axes @ chosen.unit
        pair.query_weights[:, :, 0] += chosen.sharpness * w[index]
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
        w,
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
        with np.errstate(over="ignore"):  # such a pair is refused by its condition
            columns = [
                np.concatenate([pair.axes, np.ldexp(pair.own_parts, ordered.exponent)], axis=1)
                for pair in sought
            ]
            columns = [part.astype(np.float32) for part in columns]
            lengths = [float(np.linalg.norm(part)) for part in columns]
        self.ordered, self.sought = ordered, sought
        self.weights = np.ascontiguousarray(np.concatenate(columns, axis=1).T)
        self.splits = np.cumsum([part.shape[1] for part in columns])[:-1]
        self.slacks = [ordered.slack * length for length in lengths]

    def at(self, rows: slice) -> Iterator[tuple[Single, Single]]:
        """Yield for each pair projections (axes, C) and what is needed (C,), of unit queries.

        The examples of a pair itself need nothing: -inf.
        """
        unit, alone = self.ordered.unit, self.ordered.alone[rows]
        with np.errstate(invalid="ignore"):
            products = np.split(self.weights @ unit[rows].T, self.splits)
        positions = np.arange(*rows.indices(len(unit)))
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
        window = window_of(projected[:, others], needed[others], weight[others], ordered.slack)
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
    def reached(at: Integers, vectors: Array) -> tuple[Array, Needed]:
        """Return products with some vectors (d, m) of position at, and what is needed there."""
        queries = ordered.queries[at]
        scale = np.abs(pair.own_parts.T @ queries.T).max(axis=0)
        return vectors.T @ queries.T, ordered.gaps(at).needed(NATS, scale=scale)

    def exact(at: Integers, unit: Array) -> Array:
        (reach,), least = reached(at, (pair.axes @ unit)[:, np.newaxis])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio: Array = np.ldexp(least.at(reach) / np.abs(reach), ordered.exponent)
        return ratio

    if len(ordered.queries) > _SINGLE:
        lengths = unit_rows(ordered.queries[positions])[0]
        along, least = reached(positions, pair.axes)
        projected, needed = along / lengths, np.ldexp(least.either / lengths, ordered.exponent)
    chosen = sharpen(window, positions, projected, needed, positions >= pair.stop, exact)
    return SaturatingVector(
        chosen.unit, float(np.ldexp(chosen.sharpness, -ordered.exponent)), chosen.leftover
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


# The readout of paired heads: one small system a pair, and an iteration for what couples them.
#
# *Blocks.* The equations of pair p are D_p U_p = y_p with |S| + |S'| <= d - 1 rows; the shortest
# solution is R_p y_p with R_p = D_p^T (D_p D_p^T)^-1, from a QR factorization of D_p^T. All blocks
# together cost O(T d^2).
#
# *The extra example* t* belongs to no pair. The second head of pair 0 reads from it one token x*,
# and gets the readout -U_0 + gamma x* / |x*|^2. Then f(t*) = gamma = y*, and every other example t
# gets gamma kappa_t with kappa_t = z_t.x* / |x*|^2 for what that head reads there.
#
# *Leftover coupling.* With M the few entries x_{t,p} off the blocks, (D + M) U = Y is solved by
# GMRES for y in (D + M) R y = Y, so U = R y. As (D + M) R is I + M R with M R nilpotent where
# coupling is block triangular (`paired_search`), the iteration ends after as many steps as coupling
# is deep; without coupling after one, which refines.


_TOLERANCE = 1e-14
_RESTART, _ROUNDS = 40, 3


@dataclass(frozen=True, eq=False)
class PairedReadout:
    """U with Z U = Y for paired heads.

    effective: (P, 2, d, d_out)
    residual:  (T, d_out), Y - f by position, from x_{t,p} as a forward pass rounds them: logits of
               size c have other errors there than in what was solved. Pairs that are saturated
               on an example cancel there, and are left out.
    condition: the largest estimated condition number of a block, in the infinity norm
    ranks:     (P,), estimated rank of each block
    """

    effective: Array
    residual: Array
    condition: float
    ranks: Integers


@dataclass(frozen=True, eq=False)
class _PairSystem:
    """(D + M) and R, with the extra example as one more unknown gamma where there is one.

    own:      (T', d), x_{t,p} at the pair p of t; T' positions belong to a pair
    leftover: (T, P d), sparse: x_{t,p} elsewhere, where the pair p is not saturated on t
    extra:    (T,), kappa_t of the reader
    inverses: R_p by runs of pairs with equally many rows, [(pairs, positions, R)]
    """

    own: Array
    leftover: "csr_array"
    extra: Array
    inverses: tuple[tuple[slice, slice, Array], ...]
    ordered: Ordered

    def solve(self, right: Array) -> tuple[Array, Array]:
        """Return R y: readouts (P, d, d_out) and gamma (d_out,); right: (T, d_out)."""
        outputs = right.shape[1]
        readouts = np.zeros((self.ordered.num_pairs, self.own.shape[1], outputs))
        gamma = np.zeros(outputs)
        if self.ordered.has_extra:
            gamma = right[-1]
            right = right - self.extra[:, np.newaxis] * gamma
        for pairs, rows, inverse in self.inverses:
            blocks = right[rows].reshape(len(inverse), inverse.shape[2], outputs)
            readouts[pairs] = np.matmul(inverse, blocks)
        return readouts, gamma

    def apply(self, unknown: tuple[Array, Array]) -> Array:
        """Return (D + M) U: (T, d_out)."""
        readouts, gamma = unknown
        own, outputs = self.own, readouts.shape[2]
        result: Array = self.leftover @ readouts.reshape(-1, outputs)
        for pairs, rows, inverse in self.inverses:
            blocks = own[rows].reshape(len(inverse), inverse.shape[2], own.shape[1])
            result[rows] += np.matmul(blocks, readouts[pairs]).reshape(-1, outputs)
        result += self.extra[:, np.newaxis] * gamma
        return result


def solve(
    ordered: Ordered, built: BuiltPairs, reader: Reader | None, targets: Array
) -> PairedReadout:
    """Solve for the readouts of all pairs; targets: (T, d_out), by position.

    Raises PrecisionError if a block is singular, or if the coupling does not let the iteration
    converge.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 - long to import

    width = built.own.shape[1]
    columns = built.pairs[:, np.newaxis] * width + np.arange(width)
    leftover = csr_array(
        (built.coupled.ravel(), (np.repeat(built.positions, width), columns.ravel())),
        shape=(len(targets), ordered.num_pairs * width),
    )
    extra = built.extra if reader is None else np.append(built.extra, 1.0)  # x* is read as x*
    inverses, condition, ranks = _invert(ordered, built.own)
    system = _PairSystem(built.own, leftover, extra, inverses, ordered)
    scale: Array = np.ldexp(1.0, np.frexp(np.abs(targets).max(axis=0))[1])  # norms stay in range
    (readouts, gamma), residual = _iterate(system, targets / scale)
    if not np.isfinite(residual).all():
        raise PrecisionError(
            "a block of a pair of heads is singular, or numbers are too far apart for float64 "
            f"(condition number about {condition:.0e})",
            witness=condition,
            suggestion="another seed=, more heads, data of one scale, or construction='saturated'",
        )
    readouts, gamma = readouts * scale, gamma * scale
    effective = np.stack([readouts, -readouts], axis=1)
    if reader is not None:
        effective[0, 1] += reader.dual[:, np.newaxis] * gamma
    forward = dataclasses.replace(system, own=built.again)
    return PairedReadout(effective, targets - forward.apply((readouts, gamma)), condition, ranks)


def _iterate(system: _PairSystem, targets: Array) -> tuple[tuple[Array, Array], Array]:
    """U and the residual Y - (D + M) U, not finite where a block is singular, by GMRES for y."""
    from scipy.sparse.linalg import LinearOperator, gmres  # noqa: PLC0415 - long to import

    shape = targets.shape

    operator = LinearOperator(
        (targets.size, targets.size),
        matvec=lambda flat: system.apply(system.solve(flat.reshape(shape))).ravel(),
        dtype=np.float64,
    )
    with np.errstate(all="ignore"):  # a singular block shows in the residual
        flat, _ = gmres(
            operator, targets.ravel(), rtol=_TOLERANCE, restart=_RESTART, maxiter=_ROUNDS
        )
        unknown = system.solve(flat.reshape(shape))
        return unknown, targets - system.apply(unknown)


def _invert(
    ordered: Ordered, own: Array
) -> tuple[tuple[tuple[slice, slice, Array], ...], float, Integers]:
    """R_p for all pairs, the largest condition number, and the ranks in float64.

    A bounded number at a time of consecutive pairs with equally many examples. R_p is not a number
    where one of their blocks D_p is singular.
    """
    stops, parts, condition, ranks = ordered.stops, [], 1.0, []
    sizes, width = np.diff(stops, prepend=0), own.shape[1]
    for alike in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(sizes)) + 1):
        size = int(sizes[alike[0]])
        for part in row_chunks(len(alike), 8 * width**2):
            pairs = slice(int(alike[part][0]), int(alike[part][-1]) + 1)
            rows = slice(int(stops[pairs.start]) - size, int(stops[pairs.stop - 1]))
            blocks = own[rows].reshape(pairs.stop - pairs.start, size, width)
            basis, triangle = np.linalg.qr(blocks.transpose(0, 2, 1))
            distances = np.abs(np.diagonal(triangle, axis1=1, axis2=2))
            least = np.finfo(float).eps * width * distances.max(axis=1, initial=0.0)
            full = distances > least[:, np.newaxis]
            inverse = np.full((len(blocks), width, size), np.nan)
            if full.all():
                # D = R^T Q^T, so its right inverse is Q R^-T.
                inverse = np.linalg.solve(triangle, basis.transpose(0, 2, 1)).transpose(0, 2, 1)
            norms = np.abs(blocks).sum(axis=2).max(axis=1, initial=0.0)
            norms = norms * np.abs(inverse).sum(axis=2).max(axis=1)
            condition = max(condition, float(np.nan_to_num(norms, nan=np.inf).max()))
            ranks.append(full.sum(axis=1))
            parts.append((pairs, rows, inverse))
    return tuple(parts), condition, np.concatenate(ranks)


# Own contexts: heads in pairs, and a small system for each pair, without a T x T matrix.


_FORMULA = "(H // 2)(d - 1) + 1"


def plan(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
    """Plan for contexts of their own, of two tokens at least."""
    if shapes.shared_context:
        raise ParameterError(
            "construction='paired' needs own contexts: on a shared one the rows of a pair lie "
            f"in a space of n - 1 = {shapes.context_size - 1} dimensions",
            witness="one shared context",
            suggestion="construction='saturated'",
        )
    if shapes.context_size == 1:
        raise ParameterError(
            "construction='paired' needs contexts with n >= 2 tokens",
            witness=shapes.context_size,
            suggestion="construction='saturated', which memorizes one example here",
        )
    require_ranks(shapes)
    holds = paired_capacity(num_heads, shapes.width)
    if shapes.num_examples > holds:
        needed = 2 * max(1, -(-(shapes.num_examples - 1) // max(shapes.width - 1, 1)))
        suggestion = f"num_heads={needed}"
        dense = rank_one_capacity(num_heads, shapes.context_size)
        if dense >= shapes.num_examples:
            suggestion += f"; construction='saturated', which memorizes {dense} with these heads"
        formula = f"{_FORMULA} = {holds}" if num_heads > 1 else "none: one head is not a pair"
        heads = heads_in_words(num_heads)
        raise CapacityError(
            f"{shapes.num_examples} examples are too many for {heads} in pairs: a "
            f"pair takes at most d - 1 = {shapes.width - 1}, so all memorize {formula}",
            witness=shapes.num_examples,
            suggestion=suggestion,
        )
    return Plan("paired", num_heads, head_dim or 1, holds)


def cost(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Cost:  # noqa: ARG001 - as for all
    """Estimate sweeps over angles, and a system of d for each pair."""
    total, size, width = shapes.num_examples, shapes.context_size, shapes.width
    sweep = total * num_heads / 2 * (2 * 4 * width + SWEEP)
    return Cost(sweep + 4.0 * total * width**2, 8.0 * total * (4 * width + 2 * size))


def paired(
    survey: Survey, num_heads: int, head_dim: int, *, rng: np.random.Generator
) -> Built | AssumptionError:
    """Order the examples so that pairs take those with the smallest gaps first, and solve."""
    dataset = survey.dataset
    if survey.repeated is not None:
        return survey.repeated
    ordered = arrange(dataset, num_heads, rng)
    if isinstance(ordered, AssumptionError):
        return ordered
    built, reader = build_all(ordered, head_dim, int(rng.integers(2**63)))
    report("solve for the readout", 0, 1)
    targets = dataset.target_matrix[ordered.order].astype(np.float64, copy=False)
    solution = solve(ordered, built, reader, targets)

    idle = num_heads % 2  # a head without a partner does nothing
    shape = (num_heads - idle, dataset.width, -1)
    pad = ((0, idle), (0, 0), (0, 0))
    missed = np.bincount(built.pairs, minlength=ordered.num_pairs)
    layer = AttentionLayer.from_effective_readout(
        np.pad(built.query_weights.reshape(shape), pad),
        np.pad(built.key_weights.reshape(shape), pad),
        np.pad(solution.effective.reshape(shape), pad).reshape(-1, dataset.target_dim),
    )
    return Built(
        layer,
        largest(solution.residual),
        solution.condition,
        _pair_records(ordered, built.sharpness, missed, solution.ranks, idle),
        saturating=np.pad(np.repeat(built.w, 2, axis=0), pad[:2]),
        order=tuple(ordered.order.tolist()),
        coupled=len(built.positions),
    )


def _pair_records(
    ordered: Ordered, sharpness: Array, missed: Integers, ranks: Integers, idle: int
) -> tuple[HeadRecord, ...]:
    records = []
    stops, reached = [0, *ordered.stops.tolist()], [0, *np.cumsum(ranks).tolist()]
    total = len(ordered.queries)
    for pair in range(ordered.num_pairs):
        start, stop = stops[pair], stops[pair + 1]
        half = start + (stop - start + 1) // 2
        saturated = 1.0 - missed[pair] / max(total - (stop - start), 1)
        reached_by = float(sharpness[pair])
        rank = reached[pair] + min(half - start, int(ranks[pair]))
        records.append(HeadRecord(start, half, reached_by, float(saturated), rank))
        records.append(HeadRecord(half, stop, reached_by, float(saturated), reached[pair + 1]))
    records += [HeadRecord(stops[-1], stops[-1], 0.0, 0.0, reached[-1])] * idle
    return tuple(records)


# What is built in pieces is too large for a look at all contexts at once; shapes say enough.
PAIRED = Construction("paired", _FORMULA, "Theorem 6", plan, cost, paired, lambda _, __: (0, ""))
