"""Paired heads: two heads that agree on every example but their own.

*Pairs.* The heads 2p and 2p + 1 share the saturating part c u w^T and take different groups S and
S'. On S' the first head's own part W* is zero, on S the second's: there they attend uniformly. Off
S and S' both saturate on one token, the same for both. So with readouts U_p and -U_p

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}),        f(E_t, e_t) = sum_p U_p^T x_{t,p},

where x_{t,p} = 0 up to exp(-45) unless t belongs to the pair p. The T equations fall apart into
one block of |S| + |S'| equations in d unknowns for each pair.

*How many examples.* w is orthogonal to the |S| + |S'| queries of the pair, which have to be
independent, so |S| + |S'| <= d - 1. The blocks have rows in general position if contexts do:
H (d - 1) / 2 examples, and one more (`readout`), which for 2(n - 1) <= d - 1 includes the
H(n - 1) + 1 examples of Theorems 1 and 2. Contexts that are shared are not in general position:
then all x_{t,p} lie in one space of dimension n - 1.

The order in which pairs take examples is in `ordering`, how a head attends to its own in `own`.
Pairs are built some at a time, which share one look at all queries; each has random numbers of its
own. So it does not matter where and in which order that is done.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.multihead.directions import Needed
from constructive.constructions.multihead.grouping import factor
from constructive.constructions.paired.coupling import Block, Reader, differences, read_own
from constructive.constructions.paired.ordering import Ordered
from constructive.constructions.paired.own import FullRank, Kind, Pair, RankOne
from constructive.constructions.paired.sweep import (
    NATS,
    SAMPLE,
    Saturating,
    Window,
    sharpen,
    window_of,
)
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, Single, row_chunks
from constructive.support.errors import AssumptionError
from constructive.theory.assumptions.numerical import dependency, describe_dependency, unit_rows

TOGETHER = 64  # Pairs that are built together

_PRODUCT_BYTES = 4 * CHUNK_BYTES  # Size of the products of several pairs with some queries

_SINGLE = 1 << 19  # Examples up to which gaps are wide enough to be seen in float32


@dataclass(frozen=True)
class Recipe:
    """What all pairs are built by, beside the examples.

    entropy: of all random choices;  full_rank: whether heads are of full rank
    """

    head_dim: int
    full_rank: bool
    assumed: Assumptions
    entropy: int


@dataclass(frozen=True, eq=False)
class _Sought:
    """One pair whose w is looked for, and the columns (d, .) that that takes."""

    pair: Pair
    axes: Array
    watched: Array

    def columns(self, exponent: int) -> Array:
        """Return all of these, the watched ones times 2^exponent."""
        return np.concatenate([self.axes, np.ldexp(self.watched, exponent)], axis=1)


def build(
    ordered: Ordered, recipe: Recipe, first: int, stop: int, reader: Reader | None = None
) -> Block:
    """Build the pairs from `first` to before `stop`.

    If there is an extra example, a reader is needed but for those from pair 0, which has it.

    Raises AssumptionError if the queries of a pair are dependent.
    """
    kind = (FullRank if recipe.full_rank else RankOne)(ordered, recipe.assumed)
    count = stop - first
    query_weights, key_weights = np.zeros((2, count, 2, ordered.width, recipe.head_dim))
    sought = []
    for index in range(count):
        start, end = ordered.start(first + index), int(ordered.stops[first + index])
        queries = factor(*unit_rows(ordered.queries[start:end]))
        if queries is None:
            raise _dependent(ordered, start, end)
        pair = Pair(start, end, queries, query_weights[index], key_weights[index])
        rng = np.random.default_rng((recipe.entropy, first + index))
        sought.append(_Sought(pair, queries.axes(2), kind.own_part(pair, rng)))
    sharpness, leftover = np.zeros(count), []
    for index, (each, chosen) in enumerate(zip(sought, _chosen(kind, sought), strict=True)):
        kind.saturate(each.pair, each.axes @ chosen.unit, chosen.sharpness)
        sharpness[index] = chosen.sharpness
        leftover.append(chosen.leftover)
    positions = np.concatenate(leftover)
    pairs = np.repeat(np.arange(count), [len(each) for each in leftover])
    if first == 0 and ordered.has_extra:
        reader = Reader.of(ordered, query_weights[0], key_weights[0])
    read = [
        read_own(ordered, each.pair.rows, (each.pair.query_weights, each.pair.key_weights), reader)
        for each in sought
    ]
    own, again, extra = map(np.concatenate, zip(*read, strict=True))
    return Block(
        query_weights,
        key_weights,
        sharpness,
        own,
        again,
        extra,
        positions,
        pairs + first,
        differences(ordered, (query_weights, key_weights), positions, pairs),
    )


class _Look:
    """At all queries, by several pairs at once."""

    def __init__(self, kind: Kind, sought: Sequence[_Sought]) -> None:
        with np.errstate(over="ignore"):  # such a pair is refused by its condition
            columns = [each.columns(kind.exponent).astype(np.float32) for each in sought]
        self.kind, self.sought = kind, sought
        self.weights = np.ascontiguousarray(np.concatenate(columns, axis=1).T)
        self.splits = np.cumsum([part.shape[1] for part in columns])[:-1]
        slack = kind.ordered.coarse.slack
        self.slacks = [slack * float(np.linalg.norm(part)) for part in columns]

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


def _chosen(kind: Kind, sought: Sequence[_Sought]) -> list[Saturating]:
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
    kind: Kind,
    sought: _Sought,
    window: Window,
    positions: Integers,
    projected: Array,
    needed: Array,
) -> Saturating:
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
    return Saturating(chosen.unit, float(np.ldexp(chosen.sharpness, -exponent)), chosen.leftover)


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
