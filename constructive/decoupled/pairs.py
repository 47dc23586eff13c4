"""Paired heads: two heads which agree on every example but their own.

*Pairs.* The heads 2p and 2p + 1 share the saturating part c u w^T and take different groups S and
S'. On S' the first head's own part W* is zero, on S the second's: there they attend uniformly. Off
S and S' both saturate on one token, the same for both. So with readouts U_p and -U_p

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}),        f(E_t, e_t) = sum_p U_p^T x_{t,p},

where x_{t,p} = 0 up to exp(-45) unless t belongs to the pair p. The T equations fall apart into
one block of |S| + |S'| equations in d unknowns for each pair.

*How many examples.* w is orthogonal to the |S| + |S'| queries of the pair, which have to be
independent, so |S| + |S'| <= d - 1. The blocks have rows in general position if contexts do:
H (d - 1) / 2 examples, and one more (`readout`), which for 2(n - 1) <= d - 1 includes the
H(n - 1) + 1 examples of Theorems 1 and 2. Contexts which are shared are not in general position:
then all x_{t,p} lie in one space of dimension n - 1.

*Order.* An example with a small gap between its extreme scores asks for a large c. So examples are
sorted by that gap, smallest first, and the heads of pair p have to saturate on the examples of the
pairs *after* it: the entries x_{t,p} which are not zero then lie in block columns p on and beyond
the pair of t, and the system is block triangular. What is left over below the diagonal (an example
that a later pair could not saturate for free) is the *leftover coupling*: a few entries, which
`coupling` evaluates.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from constructive.attention import softmax_in_place
from constructive.capacity import group_sizes
from constructive.dataset import CHUNK_BYTES, Array, Dataset
from constructive.decoupled.sweep import Needed, sharpen
from constructive.errors import AssumptionError
from constructive.multihead.assumptions import (
    Assumptions,
    dependency,
    describe_dependency,
    unit_rows,
)
from constructive.multihead.directions import KeyDirection, propose_for_all, token_radius
from constructive.multihead.grouping import Group, take
from constructive.multihead.heads import attended_vectors
from constructive.progress import Progress

Integers = npt.NDArray[np.int64]

_ATTENDED = 0.9
"""Attention of a rank-one head to its extreme token, if the others had the mean score."""

_PRODUCT_BYTES = 8 * CHUNK_BYTES
"""Size of the products of several pairs with all queries."""

_DRAWS = 6
_AMPLE = 3.0
"""A block of k examples is drawn anew if its condition number is more than so many times k, which
is what random rows have in the median, or so; at most `_DRAWS` times."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """The examples in the order in which pairs take them: positions, not indices of the data.

    order: (T,), the example at each position;  queries: (T, d) in float64
    direction: one key direction u for all heads, with the gaps by position
    stops: (P,), the position after the last one of each pair; a position beyond is the extra one
    """

    dataset: Dataset
    order: Integers
    queries: Array
    direction: KeyDirection
    stops: Integers

    @property
    def num_pairs(self) -> int:
        """P, half the number of heads."""
        return len(self.stops)

    @property
    def owner(self) -> Integers:
        """The pair of each position which belongs to one."""
        return np.repeat(np.arange(self.num_pairs), np.diff(self.stops, prepend=0))

    def contexts(self, positions: Integers | slice) -> Array:
        """Contexts in float64: (k, n, d)."""
        return self.dataset.contexts[self.order[positions]].astype(np.float64, copy=False)

    @property
    def step(self) -> int:
        """How many contexts make a chunk."""
        return max(1, CHUNK_BYTES // (8 * self.dataset.context_size * self.dataset.width))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The heads of all pairs, and where they are not saturated.

    query_weights, key_weights: (P, 2, d, d_h);  sharpness: (P,)
    leftover_positions, leftover_pairs: the unsaturated entries off the diagonal blocks
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    leftover_positions: Integers
    leftover_pairs: Integers


def arrange(dataset: Dataset, num_heads: int, rng: np.random.Generator) -> Ordered:
    """Sort the examples, and share them among H // 2 pairs as evenly as possible.

    Where one example is left over, it is the extra one which the readout absorbs: that with the
    widest gap.
    """
    direction = propose_for_all(dataset, rng)
    order = np.argsort(np.minimum(direction.top_gap, direction.bottom_gap), kind="stable")
    pairs, total = num_heads // 2, dataset.num_examples
    uneven = total % pairs == 1 and total > pairs
    extra = int(uneven or total == pairs * (dataset.width - 1) + 1)
    return Ordered(
        dataset,
        order,
        dataset.queries[order].astype(np.float64, copy=False),
        KeyDirection(direction.vector, direction.top_gap[order], direction.bottom_gap[order]),
        np.cumsum(group_sizes(total - extra, pairs)),
    )


def construct(
    ordered: Ordered,
    assumed: Assumptions,
    head_dim: int,
    *,
    full_rank: bool,
    rng: np.random.Generator,
    progress: Progress,
) -> Pairs:
    """Build the heads of every pair: of rank one, or of full rank where the head dimension allows.

    Raises AssumptionError if the queries of a pair are dependent.
    """
    kind = (_FullRank if full_rank else _RankOne)(ordered, assumed)
    lengths, unit = unit_rows(ordered.queries)
    count, width = ordered.num_pairs, ordered.dataset.width
    starts, stops = [0, *ordered.stops[:-1].tolist()], ordered.stops.tolist()
    query_weights, key_weights = np.zeros((2, count, 2, width, head_dim))
    sharpness, leftover = np.zeros(count), []
    # A pass over the queries costs more than its arithmetic, so several pairs share one product.
    columns = 4 if not full_rank else 2 + stops[0]
    step = max(1, _PRODUCT_BYTES // (8 * len(unit) * columns))
    for first in range(0, count, step):
        block, watched = [], []
        for index in range(first, min(first + step, count)):
            group = take(lengths, unit, starts[index], stops[index])
            if group is None:
                raise _dependent(ordered, starts[index], stops[index])
            pair = _Pair(group, query_weights[index], key_weights[index])
            watched += [pair.axes, kind.own_part(pair, rng)]
            block.append(pair)
        products = iter(
            np.split(
                np.concatenate(watched, axis=1).T @ ordered.queries.T,
                np.cumsum([part.shape[1] for part in watched])[:-1],
            )
        )
        for index, pair in enumerate(block, first):
            projected, needed = next(products), kind.needed(pair, next(products))
            chosen = sharpen(projected, pair.group.rows, needed, slice(stops[index], None))
            kind.saturate(pair, pair.axes @ chosen.unit, chosen.sharpness)
            sharpness[index] = chosen.sharpness
            leftover.append(chosen.leftover)
        progress("build pairs of heads", first + len(block), count)
    return Pairs(
        query_weights,
        key_weights,
        sharpness,
        np.concatenate(leftover),
        np.repeat(np.arange(count), [len(each) for each in leftover]),
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """One pair on its way: its group, and views of the weights of its two heads, (2, d, d_h)."""

    group: Group
    query_weights: Array
    key_weights: Array

    @property
    def half(self) -> int:
        """How many examples the first head of the pair takes."""
        return (self.group.size + 1) // 2

    @property
    def axes(self) -> Array:
        """Two directions (d, 2) orthogonal to the group, or as many as there are."""
        return self.group.complement[:, :2]


@dataclass(frozen=True, eq=False)
class _Kind(ABC):
    """How the heads of a pair attend to their own examples."""

    ordered: Ordered
    assumed: Assumptions

    @abstractmethod
    def draw(self, contexts: Array, rng: np.random.Generator) -> Array:
        """Key vectors v_t (k, d): an example's own head has the logits E_t v_t."""

    @abstractmethod
    def write(self, pair: _Pair, vectors: Array) -> Array:
        """Set the part W* of both heads; returns columns (d, m) whose products are watched."""

    @abstractmethod
    def needed(self, pair: _Pair, watched: Array) -> Needed:
        """What saturates, from the products (m, T) of the watched columns with all queries."""

    @abstractmethod
    def saturate(self, pair: _Pair, vector: Array, sharpness: float) -> None:
        """Add c u w^T to both heads."""

    def own_part(self, pair: _Pair, rng: np.random.Generator) -> Array:
        """Of a few draws, write the first one whose block is well-conditioned, or the best."""
        contexts = self.ordered.contexts(pair.group.rows)
        best, least = self.draw(contexts, rng), np.inf
        drawn = best
        for _ in range(_DRAWS):
            attention = softmax_in_place(np.matmul(contexts, drawn[:, :, np.newaxis])[:, :, 0])
            attention -= 1.0 / contexts.shape[1]
            condition = _condition(np.matmul(attention[:, np.newaxis], contexts)[:, 0])
            if condition < least:
                best, least = drawn, condition
            if least <= _AMPLE * max(pair.group.size, 1):
                break
            drawn = self.draw(contexts, rng)
        return self.write(pair, best)


class _RankOne(_Kind):
    """W = a b^T with b = b_1 + c w: b_1 sets s_t on the own half of the pair, and 0 on the other.

    |s_t| is such that the extreme token gets `_ATTENDED`, were the others of mean score; its sign
    is random. Every example has its own context, so rows need no distinct s_t.
    """

    def draw(self, contexts: Array, rng: np.random.Generator) -> Array:
        scores = contexts @ self.ordered.direction.vector
        scores -= scores.mean(axis=1, keepdims=True)
        top = rng.integers(2, size=len(scores)) == 1
        reach = np.where(top, scores.max(axis=1), scores.min(axis=1))
        nats = np.log((contexts.shape[1] - 1) * _ATTENDED / (1.0 - _ATTENDED))
        vectors: Array = (nats / reach)[:, np.newaxis] * self.ordered.direction.vector
        return vectors

    def write(self, pair: _Pair, vectors: Array) -> Array:
        vector = self.ordered.direction.vector
        scales = vectors @ vector / (vector @ vector)
        basis, half = pair.group.dual_basis, pair.half
        pair.query_weights[0, :, 0] = basis[:, :half] @ scales[:half]
        pair.query_weights[1, :, 0] = basis[:, half:] @ scales[half:]
        pair.key_weights[:, :, 0] = vector
        return pair.query_weights[:, :, 0].T

    def needed(self, pair: _Pair, watched: Array) -> Needed:
        del pair  # what is watched says all
        return Needed.of(self.ordered.direction, scale=np.abs(watched).max(axis=0))

    def saturate(self, pair: _Pair, vector: Array, sharpness: float) -> None:
        pair.query_weights[:, :, 0] += sharpness * vector


@dataclass(frozen=True, eq=False)
class _FullRank(_Kind):
    """W = W* + c u w^T, where W* e_t = v_t gives each example of the own half its logits E_t v_t.

    Each example attends to a random token of its context.
    """

    @cached_property
    def radius(self) -> Array:
        """The radius of each context around its mean token, by position."""
        return token_radius(self.ordered.dataset)[self.ordered.order]

    def draw(self, contexts: Array, rng: np.random.Generator) -> Array:
        total, tokens, width = contexts.shape
        directions = np.broadcast_to(self.ordered.direction.vector, (total, width))
        chosen: Integers = rng.integers(tokens, size=(total,))
        return attended_vectors(
            contexts, directions, chosen, np.zeros((total, tokens)), self.assumed
        )

    def write(self, pair: _Pair, vectors: Array) -> Array:
        half, size = pair.half, pair.group.size
        for head, part in enumerate((slice(0, half), slice(half, size))):
            count = len(vectors[part])
            pair.query_weights[head, :, :count] = pair.group.dual_basis[:, part]
            pair.key_weights[head, :, :count] = vectors[part].T
        return pair.group.dual_basis

    def needed(self, pair: _Pair, watched: Array) -> Needed:
        # |W* e_t| <= |V| |coordinates|, and logits then differ by at most 2 radius |W* e_t|.
        logits = np.zeros(watched.shape[1])
        for keys, part in zip(pair.key_weights, np.split(watched, [pair.half]), strict=True):
            lengths = np.sqrt(np.einsum("st,st->t", part, part))
            np.maximum(logits, np.linalg.norm(keys, 2) * lengths, out=logits)
        return Needed.of(self.ordered.direction, logits=2.0 * self.radius * logits)

    def saturate(self, pair: _Pair, vector: Array, sharpness: float) -> None:
        root = np.sqrt(sharpness)  # half of c on each side
        pair.query_weights[:, :, pair.half] = root * vector
        pair.key_weights[:, :, pair.half] = root * self.ordered.direction.vector


def _condition(block: Array) -> float:
    """The condition number of a block (k, d) in the 2-norm; 1 for an empty one."""
    if not len(block):
        return 1.0
    singular = np.linalg.svd(block, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf


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
