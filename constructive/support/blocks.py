"""Large products and factorizations of floats in blocks, on all cores.

BLAS and LAPACK add in another order for another number of threads, so that the last bits differ.
Here blocks have a fixed size, and each is computed by one thread (`support.work`). What fits
into one block is what numpy and LAPACK make of it.
"""

from functools import partial

import numpy as np
from scipy.linalg import lapack

from constructive.support.arrays import Array, row_chunks
from constructive.support.work import in_pieces

_BLOCK = 256  # Rows of a block, and columns of one on a diagonal
_WIDE = 4  # Blocks side by side in a product: larger ones are faster, and there are fewer


def _blocks(total: int, start: int = 0, width: int = 1) -> list[slice]:
    pieces = row_chunks(total - start, 1, width * _BLOCK)
    return [slice(start + piece.start, start + piece.stop) for piece in pieces]


def product(left: Array, right: Array) -> Array:
    """Return `left @ right` (T, m), some rows at a time."""
    out = np.empty((len(left), right.shape[1]))

    def rows_of(rows: slice) -> None:
        np.matmul(left[rows], right, out=out[rows])

    for _ in in_pieces(rows_of, _blocks(len(left)), left.size * right.shape[1]):
        pass
    return out


def gram(rows: Array) -> Array:
    """Return Z Z^T for Z (T, m)."""
    total, blocks = len(rows), _blocks(len(rows))
    if len(blocks) == 1:
        whole: Array = rows @ rows.T
        return whole
    out = np.empty((total, total))

    def one(pair: tuple[slice, slice]) -> None:
        first, second = pair
        out[first, second] = rows[first] @ rows[second].T
        if first != second:
            out[second, first] = out[first, second].T

    pairs = [
        (first, second)
        for first in blocks
        for second in (first, *_blocks(total, first.stop, _WIDE))
    ]
    for _ in in_pieces(one, pairs, rows.size * total / 2):
        pass
    return out


def cholesky(matrix: Array) -> Array | None:
    """Return L with L L^T = A, on and below the diagonal of a matrix in the order of LAPACK.

    A (T, T) is symmetric, in the order of C, and used up: what is above the diagonal of the result
    are other numbers. None where A is not positive definite in its floats.
    """
    blocks, work = _blocks(len(matrix)), matrix
    if len(blocks) == 1:
        # LAPACK reads columns, so the transpose of a symmetric matrix saves a copy.
        potrf = lapack.get_lapack_funcs("potrf", (work,))
        factor, info = potrf(work.T, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None
    # Rows of U = L^T, a block of them at a time: U_kj = U_kk^-T (A_kj - sum over i of U_ik^T U_ij).
    for rows in blocks:
        above = work[: rows.start, rows].T
        work[rows, rows] -= above @ work[: rows.start, rows]
        try:
            lower = np.linalg.cholesky(work[rows, rows])
        except np.linalg.LinAlgError:
            return None
        work[rows, rows] = lower.T
        apply = partial(_finish_block, work, rows, above, np.linalg.inv(lower))
        rest = len(matrix) - rows.stop
        pieces = _blocks(len(matrix), rows.stop, _WIDE // 2)
        for _ in in_pieces(apply, pieces, float(rows.stop) * _BLOCK * rest):
            pass
    return work.T


def _finish_block(work: Array, rows: slice, above: Array, inverse: Array, columns: slice) -> None:
    rest = work[rows, columns] - above @ work[: rows.start, columns]
    work[rows, columns] = inverse @ rest
