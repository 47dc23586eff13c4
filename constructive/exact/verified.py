"""Independent rows in float64, with proof."""

import numpy as np

from constructive.checker.bounds import UNIT
from constructive.support.arrays import Array, Booleans

# Rows that are independent, proved in float64: a Cholesky factorization of their Gram matrix.
#
# *Lemma.* Let k rows of d finite floats be scaled by powers of two, with `|b_ij| < 1` and an entry
# of 1/2 or more in each row, as `scaled` does. Let G be their Gram matrix as float64 computes it,
# and ::
#
#     c = 1.125 k (k + d + 8) 2^-53 < 1/2,    k + d <= 2^21.
#
# If the Cholesky factorization of G with its diagonal times 1 - c runs to its end, and the
# diagonal of the factor is finite and 2^-100 or more, then the k rows are independent.
#
# *Proof.* Let u = 2^-53. An operation that underflows loses eta = 2^-1022 at most, whether results
# are subnormal or flushed to zero. Let B be the rows times their powers of two and those of the
# columns, without rounding; it has the rank of the rows. `|b - B| <= eta`, as powers of two are
# exact but for underflow, and `1/4 <= |b_i|^2 <= d`.
#
# (1) In whatever order BLAS adds, with or without fused operations (Higham, section 3.5;
# `gamma_d = d u / (1 - d u)`), `|G_ij - b_i . b_j| <= gamma_d |b_i| |b_j| + 2 d eta`; and b_i .
# b_j is within 3 d eta of B_i . B_j. With g_i = G_ii this says that `|b_i|^2 (1 - gamma_d) <= g_i
# + 2 d eta` and g_i > 1/5. So ::
#
#     |G_ij - B_i . B_j| <= e_1 sqrt(g_i g_j),    e_1 = gamma_d / (1 - gamma_d) + 2^-900.
#
# (2) Let M be G with the diagonal `m_i = fl(g_i fl(1 - c)) <= (1 - c + 3u) g_i`, and L its
# computed factor. An entry of L is a sum of at most k products, less one number, which is divided
# by L_jj or multiplied by its reciprocal, or whose root is taken; so (Higham, Lemma 8.4 and
# Theorem 10.3, of any order) `|(L L^T - M)_ij| <= gamma_(k+3) sum_m |L_im L_jm| + 2^-1000`. What
# underflows is in the last term: products and sums lose 2 k eta, a quotient eta, times L_jj <
# 2^12; a reciprocal does not underflow, nor overflow, as L_jj >= 2^-100. By Cauchy and Schwarz the
# sum is `|L_i| |L_j|` at most, where `|L_i|^2 (1 - gamma_(k+3)) <= m_i + 2^-1000` is the case i =
# j; and m_i > 1/11. So ::
#
#     |(L L^T - M)_ij| <= e_2 sqrt(g_i g_j),    e_2 = gamma_(k+3) / (1 - gamma_(k+3)) + 2^-900.
#
# (3) Let x != 0 be real, and `y_i = sqrt(g_i) |x_i|` for all i. Then, by Cauchy and Schwarz, `(sum
# y_i)^2 <= k sum y_i^2`, and ::
#
#     |B^T x|^2 >= x.Mx + sum (g_i - m_i) x_i^2 - e_1 (sum y_i)^2
#              >= |L^T x|^2 + (c - 3u - k (e_1 + e_2)) sum y_i^2 > 0,
#
# since `3u + k (e_1 + e_2) <= k (k + d + 7) u (1 + 2^-20)`, and c, rounded as it is, is more. QED
#
# A failure proves nothing: the condition of the rows may be too large for float64 (some 10^4 at k
# = d = 768), or they may be dependent. Any scale will do, subnormal and huge numbers included.
#
# Source: Demmel, *On floating point errors in Cholesky* (LAPACK Working Note 14, 1989); Rump,
# *Verification of positive definiteness* (BIT 2006), for a shift of the whole diagonal by one
# number.


_ROOM = 1.125  # More than all terms of second order, and roundings of c itself
_LARGEST = 1 << 21  # k + d of a lemma
_LEAST = 2.0**-100  # The least entry of the diagonal of a factor
_FAR = 1 << 12  # More than the exponents of any two floats differ by


def scaled(vectors: Array) -> Array:
    """Scale vectors by powers of two, for each column and each vector, to sizes below one.

    The largest entry of a vector is 1/2 or more, but of a zero vector. What underflows is rounded.
    """
    mantissas, exponents = np.frexp(vectors.astype(np.float64, copy=False))
    exponents[mantissas == 0] = -_FAR
    columns = exponents.max(axis=tuple(range(exponents.ndim - 1)), initial=-_FAR)
    columns[columns == -_FAR] = 0
    exponents -= columns
    rows = exponents.max(axis=-1, keepdims=True, initial=-2 * _FAR)
    exponents -= rows
    result: Array = np.ldexp(mantissas, exponents)
    return result


def independent(blocks: Array) -> Booleans:
    """Return which matrices of a batch (B, k, d) are proved to have independent rows: (B,)."""
    count, size, width = blocks.shape
    shift = _ROOM * size * (size + width + 8) * UNIT
    if size > width or size + width > _LARGEST or not shift < 0.5:  # noqa: PLR2004
        return np.zeros(count, dtype=bool)
    grams = blocks @ blocks.swapaxes(1, 2)
    diagonal = np.einsum("bkk->bk", grams)
    proved: Booleans = diagonal.all(axis=1)  # a zero row has no entry of 1/2
    diagonal *= 1.0 - shift
    proved &= _definite(grams)
    return proved


def _definite(grams: Array) -> Booleans:
    """Return which Cholesky factorizations run to their end: (B,)."""
    try:
        factors = np.linalg.cholesky(grams)
    except np.linalg.LinAlgError:  # of one of them at least
        if len(grams) == 1:
            return np.zeros(1, dtype=bool)
        half = len(grams) // 2
        return np.concatenate([_definite(grams[:half]), _definite(grams[half:])])
    diagonal = np.einsum("bkk->bk", factors)
    found: Booleans = np.isfinite(diagonal).all(axis=1)
    found &= (diagonal >= _LEAST).all(axis=1)
    return found
