"""How many random subsets of vectors are dependent: an estimate with its confidence interval.

The paper samples 5,000 subsets and states a Clopper-Pearson interval of 99 %. Each sampled subset
is decided exactly; what is estimated is the share among all subsets.

Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), section 3, for the protocol; Clopper and
Pearson (Biometrika 1934) for the interval.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import betaincinv

from constructive.exact import dyadic
from constructive.support.arguments import is_integer, require_positive, require_seed
from constructive.support.arrays import CHUNK_BYTES, Array, checked_matrix
from constructive.support.errors import ParameterError
from constructive.support.parallel import ordered_map
from constructive.support.progress import Progress, silent


@dataclass(frozen=True)
class Estimate:
    """Of `subsets` random subsets of `size` vectors, `dependent` were dependent (exactly).

    Attributes:
        size: the number of vectors in a subset
        subsets: how many subsets were drawn
        dependent: how many of these were dependent
        low, high: the Clopper-Pearson interval of the share, at this confidence
        confidence: the probability, between 0 and 1, that such an interval holds the share
        witness: the first dependent subset which was drawn (its indices), or None
    """

    size: int
    subsets: int
    dependent: int
    low: float
    high: float
    confidence: float
    witness: tuple[int, ...] | None


def dependent_share(
    vectors: Array,
    size: int,
    *,
    subsets: int = 5000,
    confidence: float = 0.99,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Estimate:
    """Estimate the share of dependent subsets among those of `size` of the vectors (T, d).

    Args:
        vectors: T vectors of d entries, (T, d)
        size: the number of vectors in a subset, 1 to T
        subsets: how many are drawn
        confidence: of the interval of the share, between 0 and 1
        seed: of the subsets
        executor: where subsets are decided (`constructive.support.parallel`), the same ones
            everywhere; None for here
        progress: called with (step, done, total) during long work

    Raises:
        DataError: for what is no matrix of real numbers
        ParameterError: for a size beyond T, no subsets, a confidence which is not between 0 and 1,
            a negative seed, or what is no executor

    Example:
        >>> plane = np.random.default_rng(0).integers(-9, 9, size=(40, 2)).astype(float)
        >>> dependent_share(plane, 3, subsets=100).dependent
        100
    """
    vectors = checked_matrix("vectors", vectors)
    require_positive(subsets=subsets)
    require_seed(seed)
    if not 0.0 < confidence < 1.0:
        raise ParameterError(
            f"confidence={confidence!r} is not between 0 and 1",
            witness=confidence,
            suggestion="confidence=0.99",
        )
    if not is_integer(size) or not 1 <= size <= len(vectors):
        raise ParameterError(
            f"{len(vectors)} vectors have no subsets of {size}",
            witness=size,
            suggestion=f"a size from 1 to {len(vectors)}",
        )
    at_once = max(1, CHUNK_BYTES // (8 * size * vectors.shape[1]))
    starts = range(0, subsets, at_once)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))
    batches = [
        (min(at_once, subsets - start), own) for start, own in zip(starts, seeds, strict=True)
    ]
    found = ordered_map(
        partial(_dependent_among, vectors, size),
        batches,
        executor=executor,
        progress=progress,
        step=f"random subsets of {size}",
    )
    wrong = [subset for batch in found for subset in batch]
    low, high = clopper_pearson(len(wrong), subsets, confidence)
    witness = wrong[0] if wrong else None
    return Estimate(size, subsets, len(wrong), low, high, confidence, witness)


def _dependent_among(
    vectors: Array, size: int, batch: tuple[int, np.random.SeedSequence]
) -> list[tuple[int, ...]]:
    """The dependent ones among a number of random subsets of this size."""
    number, seed = batch
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.choice(len(vectors), size, replace=False) for _ in range(number)])
    wrong = np.flatnonzero(~dyadic.independent(vectors[drawn], rng))
    return [tuple(sorted(subset)) for subset in drawn[wrong].tolist()]


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """The exact confidence interval of a probability.

    Example:
        >>> low, high = clopper_pearson(0, 5000, 0.99)
        >>> low, round(high, 5)
        (0.0, 0.00106)
    """
    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1.0 - tail)) if hits < trials else 1.0
    return low, high
