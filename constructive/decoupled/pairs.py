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
    pairs, width = ordered.num_pairs, ordered.dataset.width
    stops = ordered.stops.tolist()
    query_weights, key_weights = np.zeros((2, pairs, 2, width, head_dim))
    sharpness, leftover = np.zeros(pairs), []
    # A pass over the queries costs more than its arithmetic, so several pairs share one product.
    step = max(1, 8 * CHUNK_BYTES // (8 * len(unit) * kind.columns(stops[0])))
    for first in range(0, pairs, step):
        block = range(first, min(first + step, pairs))
        groups, columns = [], []
        for pair in block:
            group = take(lengths, unit, stops[pair - 1] if pair else 0, stops[pair])
            if group is None:
                raise _dependent(ordered, stops[pair - 1] if pair else 0, stops[pair])
            watched = kind.own_part(group, query_weights[pair], key_weights[pair], rng)
            groups.append(group)
            columns += [group.complement[:, :2], watched]
        products = iter(
            np.split(
                np.concatenate(columns, axis=1).T @ ordered.queries.T,
                np.cumsum([part.shape[1] for part in columns])[:-1],
            )
        )
        for pair, group in zip(block, groups, strict=True):
            projected, watched = next(products), next(products)
            needed = kind.needed(group, watched, key_weights[pair])
            chosen = sharpen(projected, group.rows, needed, slice(group.stop, None))
            vector = group.complement[:, :2] @ chosen.unit
            kind.saturate(query_weights[pair], key_weights[pair], group, vector, chosen.sharpness)
            sharpness[pair] = chosen.sharpness
            leftover.append(chosen.leftover)
        progress("build pairs of heads", block.stop, pairs)
    return Pairs(
        query_weights,
        key_weights,
        sharpness,
        np.concatenate(leftover),
        np.repeat(np.arange(pairs), [len(each) for each in leftover]),
    )


@dataclass(frozen=True, eq=False)
class _Kind(ABC):
    """How the heads of a pair attend to their own examples."""

    ordered: Ordered
    assumed: Assumptions

    @abstractmethod
    def columns(self, size: int) -> int:
        """How many numbers a pair of `size` examples needs of every example."""

    @abstractmethod
    def draw(self, contexts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Key vectors v_t (k, d) for contexts (k, n, d), and what `write` needs of them."""

    @abstractmethod
    def write(
        self, group: Group, drawn: Array, query_weights: Array, key_weights: Array
    ) -> Array:
        """Set the part W* of both heads; returns the columns (d, m) to be watched."""

    @abstractmethod
    def needed(self, group: Group, watched: Array, key_weights: Array) -> Needed:
        """What saturates, from the products (m, T) of the watched columns with all queries."""

    @abstractmethod
    def saturate(
        self, query_weights: Array, key_weights: Array, group: Group, vector: Array, sharpness: float
    ) -> None:
        """Add c u w^T to both heads."""

    def own_part(
        self, group: Group, query_weights: Array, key_weights: Array, rng: np.random.Generator
    ) -> Array:
        """Of a few draws, write the first one whose block is well-conditioned, or the best."""
        contexts = self.ordered.contexts(group.rows)
        best, least = None, np.inf
        for _ in range(_DRAWS):
            vectors, drawn = self.draw(contexts, rng)
            attention = softmax_in_place(np.matmul(contexts, vectors[:, :, np.newaxis])[:, :, 0])
            attention -= 1.0 / contexts.shape[1]
            condition = _condition(np.matmul(attention[:, np.newaxis], contexts)[:, 0])
            if best is None or condition < least:
                best, least = drawn, condition
            if least <= _AMPLE * max(group.size, 1):
                break
        return self.write(group, best, query_weights, key_weights)


class _RankOne(_Kind):
    """W = a b^T with b = b_1 + c w: b_1 sets s_t on the own half of the pair, and 0 on the other.

    |s_t| is such that the extreme token gets `_ATTENDED`, were the others of mean score; its sign
    is random. Every example has its own context, so rows need no distinct s_t.
    """

    def columns(self, size: int) -> int:
        return 4

    def draw(self, contexts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        scores = contexts @ self.ordered.direction.vector
        scores -= scores.mean(axis=1, keepdims=True)
        top = rng.random(len(scores)) < 0.5
        reach = np.where(top, scores.max(axis=1), scores.min(axis=1))
        nats = np.log((contexts.shape[1] - 1) * _ATTENDED / (1.0 - _ATTENDED))
        scales = nats / reach
        return scales[:, np.newaxis] * self.ordered.direction.vector, scales

    def write(
        self, group: Group, drawn: Array, query_weights: Array, key_weights: Array
    ) -> Array:
        half = _half(group)
        query_weights[0, :, 0] = group.dual_basis[:, :half] @ drawn[:half]
        query_weights[1, :, 0] = group.dual_basis[:, half:] @ drawn[half:]
        key_weights[:, :, 0] = self.ordered.direction.vector
        return query_weights[:, :, 0].T

    def needed(self, group: Group, watched: Array, key_weights: Array) -> Needed:
        return Needed.of(self.ordered.direction, scale=np.abs(watched).max(axis=0))

    def saturate(
        self, query_weights: Array, key_weights: Array, group: Group, vector: Array, sharpness: float
    ) -> None:
        query_weights[:, :, 0] += sharpness * vector


@dataclass(frozen=True, eq=False)
class _FullRank(_Kind):
    """W = W* + c u w^T, where W* e_t = v_t gives each example of the own half its logits E_t v_t.

    Each example attends to a random token of its context.
    """

    @cached_property
    def radius(self) -> Array:
        return token_radius(self.ordered.dataset)[self.ordered.order]

    def columns(self, size: int) -> int:
        return 2 + size

    def draw(self, contexts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        total, tokens, width = contexts.shape
        directions = np.broadcast_to(self.ordered.direction.vector, (total, width))
        chosen = rng.integers(tokens, size=total)
        vectors = attended_vectors(
            contexts, directions, chosen, np.zeros((total, tokens)), self.assumed
        )
        return vectors, vectors

    def write(
        self, group: Group, drawn: Array, query_weights: Array, key_weights: Array
    ) -> Array:
        half = _half(group)
        for head, part in enumerate((slice(0, half), slice(half, group.size))):
            count = len(drawn[part])
            query_weights[head, :, :count] = group.dual_basis[:, part]
            key_weights[head, :, :count] = drawn[part].T
        return group.dual_basis

    def needed(self, group: Group, watched: Array, key_weights: Array) -> Needed:
        # |W* e_t| <= |V| |coordinates|, and logits then differ by at most 2 radius |W* e_t|.
        half = _half(group)
        logits = np.zeros(watched.shape[1])
        for keys, part in zip(key_weights, (watched[:half], watched[half:]), strict=True):
            lengths = np.sqrt(np.einsum("st,st->t", part, part))
            np.maximum(logits, np.linalg.norm(keys, 2) * lengths, out=logits)
        return Needed.of(self.ordered.direction, logits=2.0 * self.radius * logits)

    def saturate(
        self, query_weights: Array, key_weights: Array, group: Group, vector: Array, sharpness: float
    ) -> None:
        root = np.sqrt(sharpness)  # half of c on each side
        query_weights[:, :, _half(group)] = root * vector
        key_weights[:, :, _half(group)] = root * self.ordered.direction.vector


def _half(group: Group) -> int:
    """How many examples the first head of the pair takes."""
    return (group.size + 1) // 2


def _condition(block: Array) -> float:
    """The condition number (k, d) -> in the 2-norm; 1 for an empty block."""
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
