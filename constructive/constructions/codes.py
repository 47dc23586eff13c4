"""Codes of tokens with few entries: points of a sphere that keep away from each other."""

import numpy as np

from constructive.support.arrays import Array, row_chunks

_STEPS = 200
_PRODUCTS = 1 << 28  # Inner products in all steps together, unless these are only a few steps
_FEWEST = 20
_STEP = 0.3
# Of repulsion, at the beginning and what is added until the end: only near points count.
_SHARP = 20.0, 400.0
_ENTRIES = 1 << 22  # Of the inner products that are in memory at once


def spread_codes(rng: np.random.Generator, count: int, width: int) -> Array:
    """Return unit vectors (count, width) whose largest inner product is small, as float32 numbers.

    Each point moves away from those next to it, a little less in each step.

    Example:
        >>> codes = spread_codes(np.random.default_rng(0), 4, 2)
        >>> float(np.sort(codes @ codes.T, axis=1)[:, -2].max()) < 0.1  # nearly a square
        True
    """
    points = _unit(rng.standard_normal((count, width)))
    steps = max(_FEWEST, min(_STEPS, _PRODUCTS // count**2))
    for step in range(steps):
        cooled = 1.0 - step / steps
        sharp = _SHARP[0] + _SHARP[1] * (1.0 - cooled)
        moved = np.empty_like(points)
        for part in row_chunks(count, count, _ENTRIES):
            products = points[part] @ points.T
            at = np.arange(len(products))
            products[at, part.start + at] = -1.0
            nearest = products.max(axis=1, keepdims=True)
            weights = np.exp(sharp * (products - nearest))
            weights /= weights.sum(axis=1, keepdims=True)
            moved[part] = points[part] - _STEP * cooled * (1.05 - nearest) * (weights @ points)
        points = _unit(moved)
    codes: Array = points.astype(np.float32).astype(np.float64)
    return codes


def _unit(points: Array) -> Array:
    """The points, moved to the sphere."""
    scaled: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return scaled
