"""Products, exponentials and independent rows in float64, with proved bounds."""

import math

import numpy as np

from constructive.exact.upward import UNIT, gamma, up
from constructive.support.arrays import Array, Booleans

# Products and exponentials in float64, vectorized, with proved bounds of their errors.
#
# u = 2^-53 is the unit roundoff, and gamma_k = k u / (1 - k u). Both functions are rigorous on
# every machine with IEEE arithmetic, whatever its libraries do: they use `+`, `-`, `*`, rint and
# matrix products only.
#
# *Products of matrices and vectors.* Let x be a row of d entries below 2^e in size, and b the
# largest integer with d 2^(2b) <= 2^53. Adding 1.5 2^(e-b+52) and taking it away again rounds x to
# x_1, multiples of 2^(e-b), and the same with 2^(e-2b) rounds what is left to x_2; all differences
# are exact, and the rest r is below 2^(e-2b). So sums of x_i y_j, i, j = 1, 2, are of multiples of
# one unit, and at most 2^53 times that: exact, in whatever order. (It is the scheme of Ozaki,
# Ogita, Oishi and Rump, *Error-free transformations of matrix multiplication*, Numerical Algorithms
# 2012.) What is left is rounded once ::
#
#     x.s + r.(y_1 + y_2),    s the rest of y,    off by gamma_(d+2) (|x|.|s| + |r|.|y_1 + y_2|)
#
# and so are two sums of errors of sums (Knuth): by 2 u times the sizes of these. The terms may be
# 10^8 times the sum, and `high` is still good to its last digit. Two such results that nearly agree
# have a difference that is good as well, if it is taken of both parts. What underflows is less than
# 2^-1000, as `up` adds.
#
# *Exponentials* of -700 <= x <= 700. With k = rint(x / ln 2), f = (x - k L_1) - k L_2 where L_1
# has 32 bits: k L_1 is exact, and so is the first difference (k = 0, or the two are within a
# factor of two). L_2 is ln 2 - L_1 rounded, below 2^-32, so f is off by at most u (0.35 + 2^-20),
# and `|f| <= 0.35`. The Taylor polynomial of degree 13 is off by less than `0.35^14 / 14! * 1.5 <
# 2^-57`. In Horner's rule p_j = c_j + f p_(j+1) is off by E_j, where ::
#
#     E_j <= 0.35 (1 + 2 u) E_(j+1) + 0.7 u exp(0.35) + 2 u exp(0.35)
#
# for a product, a sum, and a rounded coefficient of c_j <= 1; so E_0 <= 2.7 u 1.42 / 0.64 < 6 u.
# With what f is off that is less than 7 u + 2^-57 < 2^-50, and less than 2^-49 of exp(f) > 0.7.
# 2^k times it is exact, for x >= -700 keeps away from underflow, and x <= 700 from overflow.


_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_DEGREE = 13
_LARGEST_EXPONENT = 700.0


def products(matrices: Array, vectors: Array) -> tuple[Array, Array, Array]:
    """Return the products (k, m) of matrices (k, m, d) and vectors (k, d) as high + low.

    And bounds of their errors, NaN after an overflow. `high` is high + low rounded.
    """
    terms = matrices.shape[-1]
    bits = (53 - (terms - 1).bit_length()) // 2
    with np.errstate(all="ignore"):
        x, y = _slices(matrices, bits), _slices(vectors, bits)
        both = np.stack([y[0], y[1]], axis=-1)
        leading, second = x[0] @ both, x[1] @ both
        known = (y[0] + y[1])[..., np.newaxis]
        left = (matrices @ y[2][..., np.newaxis] + x[2] @ known)[..., 0]
        sizes = np.abs(matrices) @ np.abs(y[2])[..., np.newaxis] + np.abs(x[2]) @ np.abs(known)
        total, lost = _two_sum(leading[..., 0], leading[..., 1])
        total, more = _two_sum(total, second[..., 0])
        rest = (lost + more) + (second[..., 1] + left)
        high, low = _two_sum(total, rest)
        rounded = np.abs(lost) + np.abs(more) + np.abs(second[..., 1]) + np.abs(left)
        bound = up(gamma(terms + 4) * sizes[..., 0] + 4.0 * UNIT * rounded) + 0.0 * high
    return high, low, bound


def _slices(x: Array, bits: int) -> tuple[Array, Array, Array]:
    """Return two leading parts of all entries, of so many bits of the largest of a row; the rest.

    They sum to x, exactly.
    """
    top = np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1]
    parts = []
    for count in (1, 2):
        shift = np.ldexp(1.5, top + (52 - count * bits))
        parts.append((x + shift) - shift)
        x = x - parts[-1]
    return parts[0], parts[1], x


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """`x + y` as a rounded sum and its error (Knuth)."""
    added = x + y
    virtual = added - x
    return added, (x - (added - virtual)) + (y - virtual)


def exponential(x: Array) -> Array:
    """Return exp(x) with a relative error of at most 2^-49; 0 below -700, NaN above 700."""
    clipped = np.clip(np.nan_to_num(x), -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    power = np.rint(clipped * (1.0 / math.log(2.0)))
    rest = (clipped - power * _LN2_HIGH) - power * _LN2_LOW
    result = np.full_like(rest, 1.0 / math.factorial(_DEGREE))
    for index in range(_DEGREE - 1, -1, -1):
        result *= rest
        result += 1.0 / math.factorial(index)
    result = np.ldexp(result, power.astype(np.int64))
    return np.where(x < -_LARGEST_EXPONENT, 0.0, np.where(x <= _LARGEST_EXPONENT, result, np.nan))


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
# (1) In whatever order BLAS adds, with or without fused operations (Higham, section 3.5; `gamma_d`
# is that of `exact.directed`), `|G_ij - b_i . b_j| <= gamma_d |b_i| |b_j| + 2 d eta`; and b_i .
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
