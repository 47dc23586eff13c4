"""How the two heads of a pair attend to their own examples: with rank one, or with full rank.

Each kind writes the part W* of both heads, which its own half of the pair sees, says what that asks
of the saturating part (in float32 of all examples, and in float64 of a few), and adds c u w^T.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg import lapack

from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.multihead.directions import Needed
from constructive.constructions.multihead.grouping import Factored, Taken
from constructive.constructions.multihead.heads import attended_vectors
from constructive.constructions.paired.ordering import Ordered
from constructive.constructions.paired.sweep import NATS
from constructive.exact.arithmetics.floats import softmax_in_place
from constructive.support.arrays import Array, Integers, Single

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
class Kind(ABC):
    """How the heads of a pair attend to their own examples."""

    ordered: Ordered
    assumed: Assumptions

    @abstractmethod
    def draws(self, contexts: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield any number of draws of key vectors v_t (k, d), with the logits E_t v_t (k, n).

        An example's own head has these logits.
        """

    @abstractmethod
    def write(self, pair: Pair, vectors: Array) -> Array:
        """Set the part W* of both heads; returns columns (d, m) whose products are watched."""

    @property
    @abstractmethod
    def exponent(self) -> int:
        """Watched columns are of size one times 2^-exponent."""

    @abstractmethod
    def roughly_needed(
        self, pair: Pair, products: Single, alone: Single, rows: slice, slack: float
    ) -> Single:
        """Bound what saturates unit queries (C,), in the units of `Coarse`.

        products: (m, C), of the watched columns times 2^exponent and unit queries, each off by
            slack at most; may be overwritten
        alone: (C,), what would saturate them without W*
        """

    @abstractmethod
    def needed(self, pair: Pair, watched: Array, positions: Integers) -> Needed:
        """Return what saturates on some positions, from products (m, k) of the watched columns."""

    @abstractmethod
    def saturate(self, pair: Pair, vector: Array, sharpness: float) -> None:
        """Add c u w^T to both heads."""

    def own_part(self, pair: Pair, rng: np.random.Generator) -> Array:
        """Of a few draws, write the first one whose block is well-conditioned, or the best."""
        contexts = self.ordered.contexts(pair.rows)
        least = np.inf
        for vectors, logits in islice(self.draws(contexts, rng), _DRAWS):
            attention = softmax_in_place(logits)
            attention -= 1.0 / contexts.shape[1]
            condition = _condition(np.matmul(attention[:, np.newaxis], contexts)[:, 0])
            if condition <= least:
                best, least = vectors, condition
            if least <= _AMPLE * (pair.size + 1):
                break
        return self.write(pair, best)


class RankOne(Kind):
    """W = a b^T with b = b_1 + c w: b_1 sets s_t on the own half of the pair, and 0 on the other.

    |s_t| is such that the extreme token gets `_ATTENDED`, were the others of mean score; its sign
    is random. Every example has its own context, so rows need no distinct s_t.
    """

    def draws(self, contexts: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield v_t = s_t u, for the top or the bottom token at random."""
        scores = contexts @ self.ordered.direction.vector
        scores -= scores.mean(axis=1, keepdims=True)
        nats = np.log((contexts.shape[1] - 1) * _ATTENDED / (1.0 - _ATTENDED))
        at_top, at_bottom = nats / scores.max(axis=1), nats / scores.min(axis=1)
        while True:
            top = rng.integers(2, size=len(scores)) == 1
            scales = np.where(top, at_top, at_bottom)[:, np.newaxis]
            yield scales * self.ordered.direction.vector, scales * scores

    def write(self, pair: Pair, vectors: Array) -> Array:
        """Write b_1 on the two halves; both are watched."""
        vector = self.ordered.direction.vector
        scales = vectors @ vector / (vector @ vector)
        values = np.zeros((pair.size, 2))
        values[: pair.half, 0], values[pair.half :, 1] = scales[: pair.half], scales[pair.half :]
        pair.query_weights[:, :, 0] = pair.queries.solve(values).T
        pair.key_weights[:, :, 0] = vector
        return pair.query_weights[:, :, 0].T

    @property
    def exponent(self) -> int:
        """A score times a gap is a logit, of size one."""
        return self.ordered.coarse.query_exponent + self.ordered.coarse.gap_exponent

    def roughly_needed(
        self, pair: Pair, products: Single, alone: Single, rows: slice, slack: float
    ) -> Single:
        """Count |b_1.e_t| against the saturating part."""
        del pair, rows  # what is watched says all
        np.abs(products, out=products)
        scale: Single = np.maximum(products[0], products[1], out=products[0])
        scale += np.float32(slack)
        scale += alone
        return scale

    def needed(self, pair: Pair, watched: Array, positions: Integers) -> Needed:
        """Count |b_1.e_t| against the saturating part."""
        del pair
        return self.ordered.gaps(positions).needed(NATS, scale=np.abs(watched).max(axis=0))

    def saturate(self, pair: Pair, vector: Array, sharpness: float) -> None:
        """Write the head b = b_1 + c w."""
        pair.query_weights[:, :, 0] += sharpness * vector


@dataclass(frozen=True, eq=False)
class FullRank(Kind):
    """W = W* + c u w^T, where W* e_t = v_t gives each example of the own half its logits E_t v_t.

    Each example attends to a random token of its context.
    """

    def draws(self, contexts: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield v_t with E_t v_t large at a random token."""
        total, tokens, width = contexts.shape
        directions = np.broadcast_to(self.ordered.direction.vector, (total, width))
        flat = np.zeros((total, tokens))
        while True:
            chosen: Integers = rng.integers(tokens, size=(total,))
            vectors = attended_vectors(contexts, directions, chosen, flat, self.assumed)
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
