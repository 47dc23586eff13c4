"""Look for small dependent subsets among thousands of vectors. What is found is exact.

The smallest dependent subset of given vectors is hard to find in general: it is a shortest word of
a linear code. But dependent vectors are closer to each other than others are, and that shows. Two
greedy ways start at each vector in turn:

- *Growth*: take the vector nearest to the span of those taken so far, and go on. k vectors of a
  subspace of m dimensions hold k/m of the length squared of its other vectors, and only k/d of that
  of a stranger. Where the nearest vector is in the span, all of these are dependent.
- *Pursuit* (orthogonal matching pursuit): take the vector nearest in angle to what is left of the
  first one, take away its span, and go on. Where nothing is left, all of these are dependent.
  Several partial subsets are kept for each vector (a beam), and more of them in later passes.

Growth finds subspaces with several vectors in no special position, pursuit a vector that is a
balanced combination of others that have nothing to do with each other.

Dependencies do not change under linear maps, so the vectors are first whitened: a large mean or a
few large coordinates hide nothing. Floats propose; `exact.dyadic` decides, and a subset that is
dependent only up to rounding is reported as nearly dependent and proves nothing.
"""

from dataclasses import dataclass

import numpy as np

from constructive.exact import dyadic
from constructive.exact.dyadic import Dependency
from constructive.support.arrays import Array, Integers, Single, row_chunks
from constructive.support.progress import report
from constructive.theory.assumptions import numerical
from constructive.theory.assumptions.numerical import unit_rows

# Pass by pass: partial subsets that pursuit keeps (0: growth), and sizes looked for (or all).
_PASSES = ((0, 6), (1, 6), (4, 6), (0, None), (1, None), (16, 6), (4, None))
# Share of a unit residual (float32) below which a subset is looked at exactly.
_NOTHING_LEFT = 1e-4
_NOTHING_LEFT_OF_MANY = 3e-3  # The same where the rounding of several squares has added up
_LOOKED_AT = 200  # Candidates of one pass that are looked at exactly, smallest first
_BRANCH = 4  # The work of a branch, in inner products for each entry of a vector
_AT_ONCE = 1 << 24  # Inner products that are held at a time


@dataclass(frozen=True)
class Found:
    """The smallest dependent subset that was seen, and the smallest that nearly is."""

    dependency: Dependency | None  # exact, or None
    # indices of vectors that are independent, but not so in float64; or None
    near_miss: tuple[int, ...] | None


def dependent_subset(vectors: Array, largest: int, *, budget: float, smallest: int = 2) -> Found:
    """Look for dependent subsets of `smallest` to `largest` of the vectors (T, d).

    Finding none proves nothing.

    budget: inner products that may be computed

    Example:
        >>> vectors = np.random.default_rng(0).integers(-99, 99, size=(400, 20)).astype(float)
        >>> vectors[7] = vectors[31] - 2 * vectors[5] + vectors[90] - vectors[300]
        >>> print(dependent_subset(vectors, 6, budget=1e8).dependency)
        [5] + 1/2 [7] - 1/2 [31] - 1/2 [90] + 1/2 [300] = 0
    """
    unit = _whitened(vectors)
    found, near_miss = None, None
    largest = min(largest, unit.shape[1] + 1)
    done = dict.fromkeys((width for width, _ in _PASSES), smallest - 1)  # sizes, by width
    for width, most in _PASSES:
        step = _price(unit, width)
        size = min(largest, most or largest, int(min(budget / step, largest)) + 1)
        if size <= done[width]:
            continue
        done[width] = size
        budget -= step * (size - 1)
        for rows in _candidates(unit, size - 1, width)[:_LOOKED_AT]:
            if len(rows) > largest:
                break
            exact = dyadic.dependency(vectors, rows)
            if exact is not None:
                found, largest = exact, len(exact.rows) - 1
                break
            if near_miss is None and numerical.dependency(vectors[list(rows)])[0] < len(rows):
                near_miss = rows
    return Found(found, near_miss)


def _price(unit: Single, width: int) -> float:
    """The work of a step for all targets, in inner products: W with all others, W^2 branches."""
    total, dim = (float(length) for length in unit.shape)
    return total * max(width, 1) * (total + _BRANCH * dim * max(width, 1))


def _whitened(vectors: Array) -> Single:
    """Return the vectors with their second moments made equal in all directions, of length one."""
    _, unit = unit_rows(vectors.astype(np.float64, copy=False))
    values, axes = np.linalg.eigh(unit.T @ unit)
    kept = values > 1e-12 * values[-1]
    white = unit @ (axes[:, kept] / np.sqrt(values[kept]))
    return unit_rows(white)[1].astype(np.float32)


def _candidates(unit: Single, steps: int, width: int) -> list[tuple[int, ...]]:
    """Return subsets that seem dependent, each once, smallest first."""
    total = len(unit)
    seen: set[tuple[int, ...]] = set()
    chunk = max(1, min(1024, _AT_ONCE // (total * max(width, 1))))
    for part in row_chunks(total, 1, chunk):
        targets = np.arange(part.start, part.stop)
        seen.update(_pursue(unit, targets, steps, width) if width else _grow(unit, targets, steps))
        report("dependent subsets", int(targets[-1]) + 1, total)
    return sorted(seen, key=lambda rows: (len(rows), rows))


def _grow(unit: Single, targets: Integers, steps: int) -> set[tuple[int, ...]]:
    """Growth from a few targets (B,)."""
    chosen = targets[:, np.newaxis]  # (B, step + 1)
    basis = np.zeros((len(targets), 0, unit.shape[1]), dtype=np.float32)
    held = np.zeros((len(targets), len(unit)), dtype=np.float32)  # length squared within the span
    seen: set[tuple[int, ...]] = set()
    for step in range(steps + 1):
        axis, length = _orthogonal(unit[chosen[:, -1]], basis)
        done = length < _NOTHING_LEFT_OF_MANY
        seen.update(tuple(sorted(rows)) for rows in chosen[done].tolist() if _different(rows))
        if step < steps:
            basis = np.concatenate([basis, axis[:, np.newaxis]], axis=1)
            product = axis @ unit.T
            product *= product
            held += product
            np.put_along_axis(held, chosen, 0.0, axis=1)
            chosen = np.concatenate([chosen, held.argmax(axis=1)[:, np.newaxis]], axis=1)
    return seen


def _orthogonal(vectors: Single, bases: Single) -> tuple[Single, Single]:
    """What of vectors (..., d) is orthogonal to bases (..., k, d): directions and lengths."""
    for _ in range(2):  # Gram and Schmidt, twice for orthogonality
        inner = bases @ vectors[..., np.newaxis]
        vectors = vectors - (bases.swapaxes(-1, -2) @ inner)[..., 0]
    lengths: Single = np.linalg.norm(vectors, axis=-1)
    vectors /= np.maximum(lengths, np.float32(1e-30))[..., np.newaxis]
    return vectors, lengths


def _pursue(unit: Single, targets: Integers, steps: int, width: int) -> set[tuple[int, ...]]:
    """Return the pursuit from a few targets (B,); W partial subsets are kept for each."""
    count, dim = len(targets), unit.shape[1]
    each = np.arange(count)[:, np.newaxis]
    chosen = targets[:, np.newaxis, np.newaxis]  # (B, W, step + 1)
    left = unit[targets][:, np.newaxis]  # unit residuals (B, W, d)
    size = np.ones((count, 1), dtype=np.float32)  # what is left of the target
    basis = np.zeros((count, 1, 0, dim), dtype=np.float32)  # orthonormal, of the chosen ones
    seen: set[tuple[int, ...]] = set()
    for step in range(steps):
        angle = (left.reshape(-1, dim) @ unit.T).reshape(count, -1, len(unit))
        np.abs(angle, out=angle)
        np.put_along_axis(angle, chosen, 0.0, axis=2)
        picked = _nearest(angle, 1 if step == steps - 1 else width)
        parent = np.repeat(np.arange(left.shape[1]), picked.shape[1] // left.shape[1])
        spans = basis[:, parent]
        axis, _ = _orthogonal(unit[picked], spans)
        rest = left[:, parent]
        rest = rest - axis * np.einsum("bwd,bwd->bw", axis, rest)[:, :, np.newaxis]
        length = np.linalg.norm(rest, axis=2)
        subsets = np.concatenate([chosen[:, parent], picked[:, :, np.newaxis]], axis=2)
        done = length < _NOTHING_LEFT
        seen.update(tuple(sorted(rows)) for rows in subsets[done].tolist() if _different(rows))
        size = np.where(done, 2.0, size[:, parent] * length)  # subsets that are done come last
        kept = _best_different(np.sort(subsets, axis=2), size, width)
        chosen, size = subsets[each, kept], size[each, kept]
        left = rest[each, kept] / np.maximum(length[each, kept], 1e-30)[:, :, np.newaxis]
        basis = np.concatenate([spans[each, kept], axis[each, kept][:, :, np.newaxis]], axis=2)
    return seen


def _different(rows: list[int]) -> bool:
    """Return whether no vector was taken twice, for want of another."""
    return len(set(rows)) == len(rows)


def _nearest(angle: Single, count: int) -> Integers:
    """The places of the largest few along the last axis of (B, W, T): (B, W count). Uses it up."""
    best = np.empty((*angle.shape[:2], count), dtype=np.int64)
    for k in range(count):
        best[:, :, k] = angle.argmax(axis=2)
        if k < count - 1:
            np.put_along_axis(angle, best[:, :, k : k + 1], 0.0, axis=2)
    return best.reshape(len(angle), -1)


def _best_different(subsets: Integers, size: Array, width: int) -> Integers:
    """For each row of (B, P, k) the places of up to W subsets of least size, repeats last."""
    weights = np.random.default_rng(subsets.shape[2]).random(int(subsets.max()) + 1)
    labels = weights[subsets].sum(axis=2)  # equal for equal subsets, else different
    order = np.argsort(labels, axis=1, kind="stable")
    ordered = np.take_along_axis(labels, order, axis=1)
    repeated = np.zeros(labels.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    penalty: Array = np.where(repeated, 3.0, size)
    return np.argsort(penalty, axis=1)[:, :width]
