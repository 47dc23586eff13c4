"""Linear algebra modulo a prime near 2^22, exactly, on the BLAS of float64.

Residues are *balanced*: integers of size at most m/2 + 2, kept in float64. A product of two is
below 2^42.01, so a sum of `BLOCK` = 1024 of them stays below 2^53 and float64 computes it without
any rounding, in whatever order BLAS adds, with or without fused operations. So a matrix product
modulo m is a float64 product and one reduction for every 1024 terms of the inner dimension.

Elimination (`factor`, `rank`) works in one array, recursively in the columns, so nearly all of its
work is in large products. It finds the rank of any matrix, singular and rectangular ones included.
A balanced residue is an integer below 2^24, so float32 holds it, too: large matrices are stored in
float32, and computed with in float64, a piece at a time. Small matrices go to python-flint.

Source: Dumas, Giorgi and Pernet, *Dense linear algebra over word-size prime fields: the FFLAS and
FFPACK packages* (ACM TOMS 2008), for the technique.
"""

from constructive.exact.modular.arithmetic import (
    BLOCK,
    LARGEST_MODULUS,
    inverse,
    least_exponent,
    prime_from,
    product,
    random_residues,
    reduce,
    residues,
    safe_primes,
    subtract_product,
)
from constructive.exact.modular.elimination import (
    Factors,
    dependencies,
    factor,
    null_vector,
    null_vectors,
    rank,
    solve,
)
from constructive.exact.modular.powers import PowerTable, power_table
from constructive.exact.modular.small import full_row_rank, have_full_row_rank

__all__ = [
    "BLOCK",
    "LARGEST_MODULUS",
    "Factors",
    "PowerTable",
    "dependencies",
    "factor",
    "full_row_rank",
    "have_full_row_rank",
    "inverse",
    "least_exponent",
    "null_vector",
    "null_vectors",
    "power_table",
    "prime_from",
    "product",
    "random_residues",
    "rank",
    "reduce",
    "residues",
    "safe_primes",
    "solve",
    "subtract_product",
]
