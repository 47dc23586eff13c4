"""Step 3. One head fits its group, and saturates on all other examples (proofs/3, proofs/7).

*Saturated heads* (Theorem 1). W = W* + c u w^T, written as W_K W_Q^T: W_Q holds the dual basis of
the group and W_K the vectors v_t with E_t v_t = l_t, so that W* e_t = v_t gives the head any logits
l_t on its group. These attend to tokens of different rank in the order of E_t u, the extreme ones
last: those are where the other examples go. w is orthogonal to the group, and needs one more rank.

*Rank-one heads* (Theorem 2). W = a b^T, so the logits are s_t E_t a with s_t = b.e_t. b = b_1 +
c b_0, where b_1 sets s_t on the group and b_0 is orthogonal to it: saturation costs no rank.

*Sharpness.* softmax leaves at most eps off its top entry when the gap between its two largest
logits is at least log((n - 1) / eps). So c is the smallest number for which that holds, after what
W* (or b_1) adds is allowed for, on a given fraction of the examples off the group. Asking for all
of them would let the one query nearly orthogonal to w decide, and with a huge c the rounding of
c w.e_t disturbs the logits on the group itself. Of several random w, that with the smallest c is
kept.

*Key directions.* One vector u scores the tokens of every context with distinct numbers. How fast
softmax(s E_t u) tends to one-hot depends on the *gap* between the two largest (smallest) scores, so
of several random directions those with the largest gaps are kept. Equal tokens share the attention,
which makes no difference to their average, so they count as one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import FixedHeads
from constructive.constructions.multihead.assumptions import LOOK_CLOSER, Survey
from constructive.constructions.multihead.grouping import Group, partition
from constructive.data.dataset import Dataset
from constructive.support.arrays import Array, row_chunks
from constructive.support.errors import AssumptionError
from constructive.support.work import in_pieces, report
from constructive.theory.bounds import TheoremHeads, group_sizes
from constructive.theory.kruskal import RANK_TOLERANCE

_DIRECTIONS = 8  # Random directions that are scored

_DIRECTIONS_FOR_ALL = 32  # The same, where one direction has to do for all heads and examples

_COMPARED = 2048  # Examples by which these are compared first

_KEPT = 4  # Directions that the heads take in turn, unless they share one

# Directions are compared by the gap that all but this share of the contexts exceed.
_QUANTILE = 0.01

# Gaps of scores below this, relative to the scores, are looked at again: tokens may be equal.
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class KeyDirection:
    """A direction u (d,) and the gaps between its extreme scores in each context.

    top_gap, bottom_gap: (T,), or (1,) for a shared context; the distance from the largest score to
    that of the next different token, and from the smallest to the next. Infinite where all tokens
    of a context are equal.
    """

    vector: Array
    top_gap: Array
    bottom_gap: Array

    def needed(
        self, nats: float, *, logits: Array | float = 0.0, scale: Array | float = 0.0
    ) -> "Needed":
        """Return what saturates, where heads have other logits and scores on the examples.

        nats: the gap between the two largest logits that is asked for
        logits: (T,), the range of the logits of W*
        scale: (T,), |b_1.e_t|
        """
        total = nats + logits
        return Needed(total / self.top_gap + scale, total / self.bottom_gap + scale)


@dataclass(frozen=True, eq=False)
class Needed:
    """The least |c w.e_t| which saturates example t, beside what its heads do on their groups.

    The gap between the extreme scores, times |c w.e_t| - scale_t, has to reach nats + logits_t.
    at_top, at_bottom: (T,), what is needed where w.e_t is positive, and where it is negative
    """

    at_top: Array
    at_bottom: Array

    @property
    def either(self) -> Array:
        """What is needed whatever the sign of w.e_t."""
        return np.maximum(self.at_top, self.at_bottom)

    def at(self, reach: Array) -> Array:
        """Return what is needed where w.e_t = reach_t: (T,), or (T, m) for m vectors w."""
        top, bottom = (
            part.reshape(-1, *[1] * (reach.ndim - 1)) for part in (self.at_top, self.at_bottom)
        )
        return np.where(reach > 0, top, bottom)


def propose(
    dataset: Dataset, rng: np.random.Generator, *, spread: bool = False
) -> tuple[KeyDirection, ...]:
    """Score `_DIRECTIONS` random directions and return the best `_KEPT`, best first.

    With `spread`, and a shared context, the scores are not left to chance: E u = v can be solved
    for any v, and v is taken as Chebyshev nodes in random order. Rank-one heads attend along the
    curve softmax(s v), whose points are nearly dependent for large n; these nodes keep them as far
    from it as any spacing that we tried (measured at n = 12: condition number 4e4, against 4e5 for
    equally spaced scores and 1.5e8 for Gaussian ones).
    """
    if spread and dataset.shared_context:
        vectors = _prescribed(dataset, rng)
    else:
        vectors = _random(dataset.width, _DIRECTIONS, rng)
    top, bottom = _all_gaps(dataset, vectors)
    rank = int(_QUANTILE * len(top))
    exceeded = np.partition(np.minimum(top, bottom), rank, axis=0)[rank]
    best = np.argsort(-exceeded, kind="stable")[:_KEPT]
    return tuple(KeyDirection(vectors[:, i], top[:, i], bottom[:, i]) for i in best)


def candidates_for_all(dataset: Dataset, rng: np.random.Generator) -> Array:
    """Return directions (d, k) for heads that have to saturate on every example they do not take.

    There are `_DIRECTIONS_FOR_ALL` random ones. Where there are many examples, some of them say
    which `_DIRECTIONS` of these are worth a look at all.
    """
    vectors = _random(dataset.width, _DIRECTIONS_FOR_ALL, rng)
    step = max(1, dataset.num_examples // _COMPARED)
    if step > 1 and not dataset.shared_context:
        some = np.arange(0, dataset.num_examples, step)
        parts = [
            gaps(dataset.contexts_of(some[part]), vectors)
            for part in row_chunks(len(some), 8 * dataset.context_size * dataset.width)
        ]
        costs = _cost(*map(np.concatenate, zip(*parts, strict=True)))
        vectors = vectors[:, np.argsort(costs, kind="stable")[:_DIRECTIONS]]
    return vectors


def best_for_all(vectors: Array, top: Array, bottom: Array) -> KeyDirection:
    """Return the candidate with the least mean of 1 / gap, from all gaps (T, k).

    How much of its freedom an example costs a head is proportional to 1 / gap.
    """
    best = int(_cost(top, bottom).argmin())
    return KeyDirection(vectors[:, best], top[:, best], bottom[:, best])


def _random(width: int, count: int, rng: np.random.Generator) -> Array:
    """Unit vectors as columns (d, count)."""
    vectors: Array = rng.standard_normal((width, count))
    vectors /= np.sqrt(np.einsum("dk,dk->k", vectors, vectors))
    return vectors


def _cost(top: Array, bottom: Array) -> Array:
    """Return the mean of 1 / gap (k,), for gaps (T, k)."""
    with np.errstate(divide="ignore"):
        mean: Array = (1.0 / top + 1.0 / bottom).mean(axis=0)
    return mean


def token_radius(contexts: Array) -> Array:
    """Return the radius of each context (k, n, d) around its mean token: (k,).

    It bounds logits: for any v, the entries of E_t v differ by at most 2 |v| radius_t.
    """
    offsets = contexts - contexts.mean(axis=1, keepdims=True)
    radius: Array = np.sqrt(np.einsum("tnd,tnd->tn", offsets, offsets).max(axis=1))
    return radius


def _prescribed(dataset: Dataset, rng: np.random.Generator) -> Array:
    """Directions (d, _KEPT) along which the shared context has Chebyshev scores in random order."""
    size = dataset.context_size
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    scores = np.stack([rng.permutation(nodes) for _ in range(_KEPT)], axis=1)
    context = dataset.contexts_of(slice(None))[0]
    vectors: Array = np.linalg.lstsq(context, scores, rcond=None)[0]
    return vectors


def _all_gaps(dataset: Dataset, vectors: Array) -> tuple[Array, Array]:
    """The gaps of all contexts: (T, k), or (1, k) for a shared one or contexts of one token."""
    if dataset.context_size == 1:
        infinite = np.full((1, vectors.shape[1]), np.inf)
        return infinite, infinite
    operations = float(dataset.contexts.size) * vectors.shape[1]
    parts = in_pieces(lambda chunk: gaps(chunk[1], vectors), dataset.context_chunks(), operations)
    top, bottom = map(np.concatenate, zip(*parts, strict=True))
    return top, bottom


def gaps(contexts: Array, vectors: Array) -> tuple[Array, Array]:
    """Return the gaps at the top and at the bottom of contexts (C, n, d) with n > 1: (C, k) each.

    vectors: (d, k)
    """
    scores = np.sort(contexts @ vectors, axis=1)
    upper, lower = scores[:, -1] - scores[:, -2], scores[:, 1] - scores[:, 0]
    return upper, lower


# Heads.


# A head is saturated on an example when at most this much attention is off its top token.
SATURATION_EPS = 1e-6

_TRIALS = 4  # Random vectors w that are compared

# Attention that an example of the group gives to its own token: distinct from the others, and far
# enough from one-hot to stay in the interior, where the proof chooses.
_ATTENDED = 0.9

_JITTER = 0.1  # Random part of the logits on the group, which makes them generic

# Rank-one heads: the largest |s|, in nats between neighbours among equally spaced tokens.
_NATS = 2.0

# A unit query whose product with a unit w is below this counts as orthogonal to w.
_SPAN_TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False)
class GroupHead:
    """One head's W_Q and W_K, both (d, d_h), with its group, and its sharpness c along w (d,).

    Both are 0 for a head that has no saturating part.
    """

    group: Group
    query_weights: Array
    key_weights: Array
    sharpness: float
    w: Array


def heads_of(
    theorem: TheoremHeads,
    survey: Survey,
    num_heads: int,
    head_dim: int,
    *,
    saturated_fraction: float,
    rng: np.random.Generator,
) -> tuple[FixedHeads] | AssumptionError:
    """Return heads of Theorem 1 or 2, saturated on this share of the examples off their groups.

    Returns an AssumptionError for contexts of rank below n, for a group of dependent queries, and
    if too many queries off a group lie in its span.
    """
    dataset, token_distance = survey.dataset, survey.contexts
    if isinstance(token_distance, AssumptionError):
        return token_distance
    groups = partition(dataset, group_sizes(dataset.num_examples, num_heads))
    if isinstance(groups, AssumptionError):
        return groups
    report("build heads", 0, num_heads)
    best = propose(dataset, rng, spread=theorem.rank_one)
    turns = [best[index % len(best)] for index in range(num_heads)]  # heads take a few in turn
    if not theorem.rank_one:
        vectors = key_vectors(dataset, token_distance, groups, turns, rng)
        radius = np.concatenate(
            [*in_pieces(lambda chunk: token_radius(chunk[1]), dataset.context_chunks())]
        )
    lengths, heads = _row_lengths(dataset.queries), []
    # An example orthogonal to w, or nearly so, needs an infinite sharpness; what is no number does.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for group, direction in zip(groups, turns, strict=True):
            saturation = _Saturation(dataset, direction, lengths, saturated_fraction, rng)
            if theorem.rank_one:
                head = _rank_one_head(group, saturation, head_dim)
            else:
                head = _saturated_head(group, vectors[group.rows], saturation, radius, head_dim)
            if isinstance(head, AssumptionError):
                return head
            heads.append(head)
    built = FixedHeads(
        np.stack([head.query_weights for head in heads]),
        np.stack([head.key_weights for head in heads]),
        np.array([head.group.stop for head in heads]),
        np.array([head.sharpness for head in heads]),
        np.stack([head.w for head in heads]),
    )
    return (built,)


@dataclass(frozen=True, eq=False)
class _Saturation:
    """What a head needs to saturate: the data, a key direction, and how much is asked."""

    dataset: Dataset
    direction: KeyDirection
    query_lengths: Array
    fraction: float
    rng: np.random.Generator

    @property
    def nats(self) -> float:
        """The gap between the two largest logits that leaves at most eps elsewhere."""
        return math.log(max(self.dataset.context_size - 1, 1) / SATURATION_EPS)

    def sharpen(self, group: Group, **on_group: Array) -> tuple[Array, float] | AssumptionError:
        """Choose w (d,), a unit vector orthogonal to the group, and c for it, if there is one.

        on_group: what the head does beside it, as `KeyDirection.needed` takes it
        """
        candidates = group.complement @ self.rng.standard_normal(
            (group.complement.shape[1], _TRIALS)
        )
        candidates /= _row_lengths(candidates.T)
        if group.size == self.dataset.num_examples or self.dataset.context_size == 1:
            return candidates[:, 0], 0.0  # nothing to saturate on, or nothing that could move
        reach = self.dataset.queries @ candidates
        distance = np.abs(reach)
        distance[distance <= _SPAN_TOLERANCE * self.query_lengths[:, np.newaxis]] = 0.0
        sharpness = self.direction.needed(self.nats, **on_group).at(reach) / distance
        later = slice(group.stop, None)  # the induction needs no saturation on these
        sharpness[later][distance[later] == 0] = 0.0
        off_group = np.concatenate([sharpness[: group.start], sharpness[group.stop :]])
        rank = max(math.ceil(self.fraction * len(off_group)), 1) - 1
        quantiles = np.partition(off_group, rank, axis=0)[rank]
        best = int(quantiles.argmin())
        if not np.isfinite(quantiles[best]):
            return _cannot_saturate(group, distance[:, best], self.fraction)
        return candidates[:, best], float(quantiles[best])


def _saturated_head(
    group: Group, key_vectors: Array, saturation: _Saturation, radius: Array, head_dim: int
) -> GroupHead | AssumptionError:
    """Return W = W* + c u w^T, with W* e_t = v_t for the key vectors v_t (|S|, d)."""
    size, width = group.size, saturation.dataset.width
    query_weights, key_weights = np.zeros((2, width, head_dim))
    query_weights[:, :size] = group.dual_basis
    key_weights[:, :size] = key_vectors.T
    if size >= min(head_dim, width):
        return GroupHead(group, query_weights, key_weights, 0.0, np.zeros(width))
    w_star_queries = saturation.dataset.queries @ group.dual_basis @ key_vectors
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number saturates nothing
        logit_range = 2.0 * radius * _row_lengths(w_star_queries)
    chosen = saturation.sharpen(group, logits=logit_range)
    if isinstance(chosen, AssumptionError):
        return chosen
    w, sharpness = chosen
    # Half of c on each side, so that neither factor is large.
    query_weights[:, size] = math.sqrt(sharpness) * w
    key_weights[:, size] = math.sqrt(sharpness) * saturation.direction.vector
    return GroupHead(group, query_weights, key_weights, sharpness, w)


def key_vectors(
    dataset: Dataset,
    token_distance: float,
    groups: tuple[Group, ...],
    directions: Sequence[KeyDirection],
    rng: np.random.Generator,
) -> Array:
    """Return the shortest v_t (T, d) with E_t v_t = l_t, the logits that its own head gives t.

    The i-th example of a group attends to the token of i-th rank along the key direction of its
    head, extreme ranks last. All examples at once, a few contexts at a time.
    """
    size = dataset.context_size
    sizes = [group.size for group in groups]
    ranks = np.array([*range(1, size - 1), 0, size - 1])  # the extreme ones last
    rank = np.concatenate([ranks[:count] for count in sizes])
    own_direction = np.repeat(np.stack([each.vector for each in directions]), sizes, axis=0)
    logits = _JITTER * rng.standard_normal((dataset.num_examples, size))
    attended = math.log(max(size - 1, 1) * _ATTENDED / (1.0 - _ATTENDED))
    vectors = np.empty((dataset.num_examples, dataset.width))

    def fill(chunk: tuple[slice, Array]) -> None:
        rows, contexts = chunk
        scores = np.matmul(contexts, own_direction[rows, :, np.newaxis])[:, :, 0]
        token = np.take_along_axis(np.argsort(scores, axis=1), rank[rows, np.newaxis], axis=1)
        wanted = logits[rows]
        wanted[np.arange(len(wanted)), token[:, 0]] += attended
        vectors[rows] = _solve_contexts(contexts, wanted, token_distance)

    for _ in in_pieces(fill, dataset.context_chunks()):
        pass
    return vectors


def _solve_contexts(contexts: Array, logits: Array, token_distance: float) -> Array:
    """Return the shortest v_t (rows, d) with E_t v_t = l_t; contexts (rows, n, d) or (1, n, d)."""
    vectors: Array
    gram = contexts @ contexts.transpose(0, 2, 1)
    if token_distance < LOOK_CLOSER:
        inverses = np.linalg.pinv(contexts, rcond=RANK_TOLERANCE)
        vectors = np.matmul(inverses, logits[:, :, np.newaxis])[:, :, 0]
    elif len(contexts) == 1:
        vectors = np.linalg.solve(gram[0], logits.T).T @ contexts[0]
    else:
        weights = np.linalg.solve(gram, logits[:, :, np.newaxis])
        vectors = np.matmul(weights.transpose(0, 2, 1), contexts)[:, 0]
    return vectors


def _row_lengths(vectors: Array) -> Array:
    lengths: Array = np.sqrt(np.einsum("td,td->t", vectors, vectors))
    return lengths


def _rank_one_head(
    group: Group, saturation: _Saturation, head_dim: int
) -> GroupHead | AssumptionError:
    """Return W = a b^T with b = b_1 + c b_0."""
    dataset = saturation.dataset
    direction = saturation.direction.vector
    scales = _group_scales(group, saturation)
    query_vector = group.dual_basis @ scales
    w: Array = np.zeros(dataset.width)
    sharpness = 0.0
    if group.size < dataset.width:
        chosen = saturation.sharpen(group, scale=np.abs(dataset.queries @ query_vector))
        if isinstance(chosen, AssumptionError):
            return chosen
        w, sharpness = chosen
        query_vector = query_vector + sharpness * w
    query_weights, key_weights = np.zeros((2, dataset.width, head_dim))
    query_weights[:, 0] = query_vector
    key_weights[:, 0] = direction
    return GroupHead(group, query_weights, key_weights, sharpness, w)


def _group_scales(group: Group, saturation: _Saturation) -> Array:
    """Distinct numbers s_t (|S|,), evenly spread around zero, in units of each context's scores."""
    dataset, size = saturation.dataset, group.size
    # From the right end on, so that a single example does not attend uniformly.
    spread = np.linspace(_NATS, -_NATS, max(size, 1))[:size]
    spread = spread + _JITTER * saturation.rng.standard_normal(size) / max(size, 1)
    scores = dataset.contexts_of(group.rows) @ saturation.direction.vector
    spacing = (scores.max(axis=1) - scores.min(axis=1)) / max(dataset.context_size - 1, 1)
    largest = np.abs(scores).max(axis=1)
    # Scores of equal tokens differ by rounding, if at all.
    spacing = np.where(spacing > _TIE * largest, spacing, np.where(largest > 0, largest, 1.0))
    scales: Array = spread / spacing
    return scales


def _cannot_saturate(group: Group, distance: Array, fraction: float) -> AssumptionError:
    inside = np.flatnonzero(distance[: group.start] == 0)
    members = f"{group.start} to {group.stop - 1}" if group.size else "none"
    if len(inside):
        message = (
            f"{len(inside)} of {group.start} earlier queries lie (numerically) in the span of a "
            f"group of {group.size} (examples {members}), so its head cannot saturate on "
            f"{100 * fraction:.6g}% of other examples; by Assumption 1 that cannot happen to "
            "a group of n or fewer"
        )
        witness = tuple(inside[:8].tolist())
        suggestion = (
            "another order of the examples, lower saturated_fraction=, or construction='generic'"
        )
    else:
        message = (
            "two different tokens of a context have equal scores on more than "
            f"{100 * (1 - fraction):.6g}% of the examples, or the numbers are too far apart for "
            f"float64 (group {members})"
        )
        witness, suggestion = None, "another seed=, or data scaled to size one"
    return AssumptionError(message, witness=witness, suggestion=suggestion)
