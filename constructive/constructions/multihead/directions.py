"""Key directions: one vector u that scores the tokens of every context with distinct numbers.

Both theorems saturate a head along the scores E_t u: as s -> +-infinity, softmax(s E_t u + anything
bounded) tends to the one-hot vector at the largest (smallest) score. How fast depends on the *gap*
between the two largest (smallest) scores, so of several random directions those with the largest
gaps are kept. A generic u has distinct scores for different tokens. Equal tokens share the
attention, which makes no difference to their average, so they count as one.
"""

from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.repeats import token_numbers
from constructive.support.arrays import Array, Integers, row_chunks

TRIALS = 8  # Random directions that are scored

TRIALS_FOR_ALL = 32  # The same, where one direction has to do for all heads and examples

_COMPARED = 2048  # Examples by which these are compared first

KEPT = 4  # Directions that the heads take in turn, unless they share one

# Directions are compared by the gap that all but this share of the contexts exceed.
_QUANTILE = 0.01

# Gaps of scores below this, relative to the scores, are looked at again: tokens may be equal.
TIE = 1e-12


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
    """Score `TRIALS` random directions and return the best `KEPT`, best first.

    With `spread`, and a shared context, the scores are not left to chance: E u = v can be solved
    for any v, and v is taken as Chebyshev nodes in random order. Rank-one heads attend along the
    curve softmax(s v), whose points are nearly dependent for large n; these nodes keep them as far
    from it as any spacing that we tried (measured at n = 12: condition number 4e4, against 4e5 for
    equally spaced scores and 1.5e8 for Gaussian ones).
    """
    if spread and dataset.shared_context:
        vectors = _prescribed(dataset, rng)
    else:
        vectors = _random(dataset.width, TRIALS, rng)
    top, bottom = _all_gaps(dataset, vectors)
    rank = int(_QUANTILE * len(top))
    exceeded = np.partition(np.minimum(top, bottom), rank, axis=0)[rank]
    best = np.argsort(-exceeded, kind="stable")[:KEPT]
    return tuple(KeyDirection(vectors[:, i], top[:, i], bottom[:, i]) for i in best)


def candidates_for_all(dataset: Dataset, rng: np.random.Generator) -> Array:
    """Return directions (d, k) for heads that have to saturate on every example they do not take.

    There are `TRIALS_FOR_ALL` random ones. Where there are many examples, some of them say which
    `TRIALS` of these are worth a look at all.
    """
    vectors = _random(dataset.width, TRIALS_FOR_ALL, rng)
    step = max(1, dataset.num_examples // _COMPARED)
    if step > 1 and not dataset.shared_context:
        some = np.arange(0, dataset.num_examples, step)
        parts = [
            gaps(dataset.contexts_of(some[part]), vectors)
            for part in row_chunks(len(some), 8 * dataset.context_size * dataset.width)
        ]
        costs = _cost(*map(np.concatenate, zip(*parts, strict=True)))
        vectors = vectors[:, np.argsort(costs, kind="stable")[:TRIALS]]
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
    """Directions (d, KEPT) along which the shared context has Chebyshev scores in random order."""
    size = dataset.context_size
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    scores = np.stack([rng.permutation(nodes) for _ in range(KEPT)], axis=1)
    context = dataset.contexts_of(slice(None))[0]
    vectors: Array = np.linalg.lstsq(context, scores, rcond=None)[0]
    return vectors


def _all_gaps(dataset: Dataset, vectors: Array) -> tuple[Array, Array]:
    """The gaps of all contexts: (T, k), or (1, k) for a shared one or contexts of one token."""
    if dataset.context_size == 1:
        infinite = np.full((1, vectors.shape[1]), np.inf)
        return infinite, infinite
    parts = [gaps(contexts, vectors) for _, contexts in dataset.context_chunks()]
    top, bottom = map(np.concatenate, zip(*parts, strict=True))
    return top, bottom


def gaps(contexts: Array, vectors: Array) -> tuple[Array, Array]:
    """Return the gaps at the top and at the bottom of contexts (C, n, d) with n > 1: (C, k) each.

    vectors: (d, k)
    """
    found = contexts @ vectors
    scores = np.sort(found, axis=1)
    upper, lower = scores[:, -1] - scores[:, -2], scores[:, 1] - scores[:, 0]
    least = TIE * np.maximum(np.abs(scores[:, -1]), np.abs(scores[:, 0]))
    tied = np.flatnonzero((np.minimum(upper, lower) <= least).any(axis=1))
    if len(tied):
        numbers = token_numbers(contexts[tied])
        upper[tied] = _gap_of_different(-found[tied], numbers)
        lower[tied] = _gap_of_different(found[tied], numbers)
    return upper, lower


def _gap_of_different(scores: Array, numbers: Integers) -> Array:
    """Return the distance from the smallest score to that of the next different token: (C, k).

    scores: (C, n, k);  numbers: (C, n), equal for equal tokens, whose scores may differ by rounding
    """
    lowest = scores.argmin(axis=1)
    first = np.take_along_axis(numbers, lowest, axis=1)
    others = np.where(numbers[:, :, np.newaxis] == first[:, np.newaxis, :], np.inf, scores)
    gap: Array = others.min(axis=1) - scores.min(axis=1)
    return gap
