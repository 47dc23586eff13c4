"""Ranks and dependencies in floating point: of rows, scaled to length one."""

import numpy as np

from constructive.support.arrays import Array

# Below this ratio of singular values, rounding alone can explain that a matrix looks full rank.
RANK_TOLERANCE = 1e-13


def unit_rows(vectors: Array) -> tuple[Array, Array]:
    """Return lengths (k,) of the rows of a matrix, and rows of length 1 (but for zero rows)."""
    largest = np.abs(vectors).max(axis=1)
    largest[largest == 0] = 1.0
    scaled = vectors / largest[:, np.newaxis]  # squares of huge or tiny entries leave float64
    lengths = np.sqrt(np.einsum("kd,kd->k", scaled, scaled))
    lengths[lengths == 0] = 1.0
    return lengths * largest, scaled / lengths[:, np.newaxis]


def dependency(vectors: Array) -> tuple[int, Array]:
    """Return the numerical rank of rows, and coefficients of the combination closest to zero.

    Example:
        >>> rank, coefficients = dependency(np.array([[1.0, 0.0], [2.0, 0.0]]))
        >>> rank, bool(np.allclose(coefficients @ [[1.0, 0.0], [2.0, 0.0]], 0))
        (1, True)
    """
    lengths, unit = unit_rows(vectors)
    left, singular, _ = np.linalg.svd(unit, full_matrices=True)
    return int(np.count_nonzero(singular > RANK_TOLERANCE * singular[0])), left[:, -1] / lengths


def describe_dependency(rows: list[int], coefficients: Array) -> tuple[tuple[int, ...], str]:
    """Return the rows that take part in a dependency, and the dependency in words.

    Example:
        >>> describe_dependency([4, 7, 9], np.array([2.0, -1.0, 1e-18]))
        ((4, 7), '1*[4] - 0.5*[7] = 0')
    """
    largest = np.abs(coefficients).max()
    taking_part = [i for i, c in enumerate(coefficients) if abs(c) > 1e-9 * largest]
    scale = coefficients[taking_part[0]]
    terms = [f"{coefficients[i] / scale:+.4g}*[{rows[i]}]" for i in taking_part[:6]]
    words = " ".join(f"{term[0]} {term[1:]}" for term in terms).removeprefix("+ ")
    more = " + ..." if len(taking_part) > len(terms) else ""
    return tuple(rows[i] for i in taking_part), f"{words}{more} = 0"
