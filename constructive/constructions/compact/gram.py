"""Products of sign matrices, and triangular factors of them."""

import numpy as np
from scipy.linalg import cholesky

from constructive.support.arrays import Array


def gram(rows: Array) -> Array:
    """Return Z Z^T in float32 (N, N).

    Where entries of Z are integers whose squares add up to less than 2^24 in each row, all sums
    are exact, whatever their order; numpy computes half of them.

    Args:
        rows: Z (N, K), of integers

    Example:
        >>> gram(np.array([[1, -1], [1, 1]], np.int8)).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    floats = rows.astype(np.float32)
    product: Array = floats @ floats.T
    return product


def metric(rows: Array, weights: Array, ridge: float) -> Array:
    """Return the upper triangular R (K, K) with R^T R = Z^T diag(weights) Z + ridge I, in float64.

    Args:
        rows: Z (N, K)
        weights: of rows, not negative (N,)
        ridge: more than what float32 rounds in the product
    """
    floats = rows.astype(np.float32) * np.sqrt(weights).astype(np.float32)[:, np.newaxis]
    product = (floats.T @ floats).astype(np.float64)
    product[np.diag_indices(len(product))] += ridge
    factor: Array = cholesky(product, lower=False, overwrite_a=True, check_finite=False)
    return factor
