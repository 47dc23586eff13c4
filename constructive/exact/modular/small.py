"""Many small matrices modulo a prime at once, and a small one for python-flint."""

import flint
import numpy as np

from constructive.exact.modular.arithmetic import product, random_residues, reduce
from constructive.support.arrays import Array, Booleans


def full_row_rank(batch: Array, modulus: int, rng: np.random.Generator) -> Booleans:
    """Return which matrices of a batch (B, k, d) are proved to have rank k modulo p: (B,).

    True is a proof. False is not: the matrices are multiplied by one random d x k matrix, which
    loses rank with probability about k/p.
    """
    count, size, width = batch.shape
    work = product(batch, random_residues(rng, (width, size), modulus), modulus)
    proved = np.ones(count, dtype=bool)
    each = np.arange(count)
    for k in range(size):
        pivot_rows = k + (work[:, k:, k] != 0).argmax(axis=1)
        pivots = work[each, pivot_rows]
        work[each, pivot_rows] = work[:, k]
        proved &= pivots[:, k] != 0
        # Cross-multiplied rows need no division: a row times a nonzero pivot keeps the rank.
        rest = work[:, k + 1 :, k + 1 :] * pivots[:, k, np.newaxis, np.newaxis]
        rest -= work[:, k + 1 :, k, np.newaxis] * pivots[:, np.newaxis, k + 1 :]
        work[:, k + 1 :, k + 1 :] = reduce(rest, modulus)
    return proved


def have_full_row_rank(
    batch: Array, modulus: int, rng: np.random.Generator, attempts: int
) -> Booleans:
    """Return which matrices of a batch (B, k, d) one of a few attempts proves to have rank k."""
    found = np.zeros(len(batch), dtype=bool)
    for _ in range(attempts):
        pending = np.flatnonzero(~found)
        if not len(pending):
            break
        found[pending] = full_row_rank(batch[pending], modulus, rng)
    return found


def as_flint(matrix: Array, modulus: int) -> flint.nmod_mat:
    """Return a matrix of residues for python-flint."""
    rows, columns = matrix.shape
    entries = (matrix.astype(np.int64) % modulus).ravel().tolist()
    return flint.nmod_mat(rows, columns, entries, modulus)
