"""The intermediate representation Z modulo a prime: one such matrix of rank T proves rank Z = T.

Logits of floats are integer multiples k 2^s of one power of two. Z(a) is Z with a^k modulo p in the
place of exp(k 2^s), and rank Z >= rank Z(a) where no softmax denominator is 0 modulo p (Theorem 4,
proofs/10). No rounding enters and no conditioning: a^k depends only on k modulo p - 1. There is no
converse: at an unlucky point, about one in p, the rank is less, and nothing is proved.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.exact.softmax import Point, Quotients, Residues, VanishingDenominatorError
from constructive.layers.attention import Chunk, after_attention, examples
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import CHUNK_BYTES, Array, Integers

_PRIMES = 3
VANISHING = 20  # Points that are tried for one prime before it is given up


@dataclass(frozen=True, eq=False)
class Search:
    """What elimination found at random points."""

    rank: int  # the largest rank of Z(a) modulo p that was seen, so a lower bound of rank Z
    point: Point | None  # where it was seen; None if the denominators vanished at all points
    # so many independent columns of Z(a), as indices into its H d columns; all of them if the
    # denominators vanished at all points
    columns: Integers
    # of the columns of Z(a) that were eliminated; None if the denominators vanished at all points
    factors: modular.Factors | None
    tried: int  # the number of matrices eliminated
    retries: int  # the number of points at which a denominator vanished, and of primes given up


def intermediate(
    layer: AttentionLayer,
    dataset: Dataset,
    point: Point,
    columns: Integers,
    *,
    dtype: type[np.floating[Any]] = np.float64,
    chunk_bytes: int = CHUNK_BYTES,
) -> Array:
    """Return some columns of Z(a), times a power of two, as balanced residues: (T, columns).

    Raises VanishingDenominatorError where a softmax denominator is 0 modulo p.
    """
    weights = layer.query_weights, layer.key_weights
    view = examples(dataset.contexts, dataset.queries)
    units = modular.least_exponent(view.tokens), modular.least_exponent(view.queries)
    out = np.empty((dataset.num_examples, len(columns)), dtype)
    heads, entries = np.divmod(columns, layer.width)

    def stored(chunk: Chunk[Quotients]) -> None:
        out[chunk.rows] = chunk.representation.entries(heads, entries)

    arithmetic = Residues(point, *units)
    for _ in after_attention(stored, arithmetic, weights, view, chunk_bytes=chunk_bytes):
        pass
    return out


def search(layer: AttentionLayer, dataset: Dataset, rng: np.random.Generator) -> Search:
    """Look for a point at which Z has rank T, a few times.

    Beside the data it takes one T x T array of float32.
    """
    return search_rows(
        lambda point, columns: intermediate(layer, dataset, point, columns, dtype=np.float32),
        dataset.num_examples,
        (layer.num_heads, layer.width),
        rng,
    )


def search_rows(
    evaluate: Callable[[Point, Integers], Array],
    total: int,
    parts: tuple[int, int],
    rng: np.random.Generator,
) -> Search:
    """Look for a point at which rows modulo a prime are independent, a few times.

    Of each part of the columns as many are taken first as its share of the rows; where these are
    dependent, elimination chooses among all. `evaluate` returns some columns at a point, as
    balanced residues (T, columns), in an array that is eliminated as it is, or raises
    VanishingDenominatorError. `parts` is how many parts there are, and how many columns in each.
    """
    every = np.arange(parts[0] * parts[1])
    found = Search(-1, None, every, None, 0, 0)
    tried = retries = 0
    for prime, _ in zip(modular.safe_primes(), range(_PRIMES), strict=False):
        for columns in (likely_columns(total, parts, rng), every):
            point, z, vanished = _at_random(evaluate, prime, columns, rng)
            retries += vanished
            if z is None:
                break
            factors = modular.factor(z, prime, overwrite=True)
            tried += 1
            if factors.rank > found.rank:
                found = Search(factors.rank, point, columns[factors.columns], factors, 0, 0)
            if found.rank == total:
                return replace(found, tried=tried, retries=retries)
            if len(columns) == len(every):
                break
        retries += z is not None
    return replace(found, rank=max(found.rank, 0), tried=tried, retries=retries)


def likely_columns(total: int, parts: tuple[int, int], rng: np.random.Generator) -> Integers:
    """Return T columns that are probably independent, or all."""
    count, width = parts
    sizes = [len(share) for share in np.array_split(np.arange(total), count)]
    if max(sizes) > width:
        return np.arange(count * width)
    picked = [
        part * width + np.sort(rng.permutation(width)[:size]) for part, size in enumerate(sizes)
    ]
    return np.concatenate(picked)


def _at_random(
    evaluate: Callable[[Point, Integers], Array],
    prime: int,
    columns: Integers,
    rng: np.random.Generator,
) -> tuple[Point, Array | None, int]:
    for vanished in range(VANISHING):
        point = Point(prime, int(rng.integers(2, prime - 1)))
        try:
            return point, evaluate(point, columns), vanished
        except VanishingDenominatorError:
            continue
    return point, None, VANISHING
