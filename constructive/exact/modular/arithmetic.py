"""Residues of floats, and sums of their products, each exact in float64."""

from collections.abc import Iterator

import flint
import numpy as np

from constructive.support.arrays import Array, Integers
from constructive.support.errors import ParameterError

LARGEST_MODULUS = 1 << 22
BLOCK = 1024  # Inner dimension of an exact product, as BLOCK (2^21 + 2)^2 + 2^21 + 2 < 2^53 - 2^23

_MANTISSA = 53  # Bits of a float64
# Entries that are reduced at a time, so that the passes of a reduction stay in a cache.
_CACHE = 1 << 14
# Entries of a product that are held beside the array from which it is subtracted.
_AT_ONCE = 1 << 21


def safe_primes(limit: int = LARGEST_MODULUS) -> Iterator[int]:
    """Yield primes p < limit with (p - 1) / 2 prime, the largest first.

    Modulo such a prime every element but 0, 1 and -1 has order (p - 1) / 2 or p - 1, so a common
    factor of all exponents costs nothing.

    Example:
        >>> next(safe_primes())
        4194287
    """
    candidate = limit - 1
    while candidate >= 5:
        if flint.fmpz(candidate).is_prime() and flint.fmpz(candidate // 2).is_prime():
            yield candidate
        candidate -= 1


def prime_from(number: int) -> int:
    """Return the smallest prime that is not below a number.

    Example:
        >>> prime_from(90)
        97
    """
    while not flint.fmpz(number).is_prime():
        number += 1
    return number


def reduce(values: Array, modulus: int) -> Array:
    """Replace integers of size below 2^53 - 2^23 by balanced residues, in the array itself.

    The quotient is off by at most one half and a rounding of 2^-21, so residues are at most
    m/2 + 2 in size; the product and the difference are exact.

    Example:
        >>> reduce(np.array([7.0, -8.0, 16.0]), 5)
        array([2., 2., 1.])
    """
    flat = values.reshape(-1) if values.flags.c_contiguous else None
    if flat is None:
        quotient = np.rint(values * (1.0 / modulus))
        quotient *= modulus
        values -= quotient
        return values
    for start in range(0, flat.size, _CACHE):
        part = flat[start : start + _CACHE]
        quotient = part * (1.0 / modulus)
        np.rint(quotient, out=quotient)
        quotient *= modulus
        part -= quotient
    return values


def least_exponent(array: Array) -> int:
    """Return the largest known e with every entry an integer multiple of 2^e (0 for a zero array).

    Example:
        >>> least_exponent(np.array([0.75, 0.0]))
        -53
    """
    sizes = np.abs(array)
    smallest = sizes.min(where=sizes > 0, initial=np.inf)
    return int(np.frexp(smallest)[1]) - _MANTISSA if np.isfinite(smallest) else 0


def residues(array: Array, modulus: int, exponent: int | None = None) -> Array:
    """Return the integers array / 2^exponent modulo m, from float32 or float64 without rounding.

    A float is an integer of 53 bits times a power of two, denormal ones too; `exponent` is at most
    `least_exponent(array)`, so no quotient is fractional.

    Example:
        >>> residues(np.array([1e300, 5e-324, -3.0]), 1009, -1126)
        array([ -25.,  410., -432.])
    """
    exponent = least_exponent(array) if exponent is None else exponent
    source = np.ascontiguousarray(array).reshape(-1)
    result = np.empty(source.size)
    _, largest = np.frexp(np.abs(source).max(initial=0.0))
    highest = max(int(largest) - _MANTISSA - exponent, 0)
    powers = np.array([pow(2, k, modulus) for k in range(highest + 28)], dtype=np.float64)
    for start in range(0, source.size, _CACHE):
        part = source[start : start + _CACHE].astype(np.float64, copy=False)
        mantissas, exponents = np.frexp(part)
        shifts = exponents.astype(np.int64) - _MANTISSA - exponent
        shifts[part == 0] = 0
        lowest = int(shifts.min())
        if lowest < 0:
            raise ParameterError(
                f"entries are not integer multiples of 2^{exponent}",
                witness=exponent,
                suggestion=f"exponent={exponent + lowest} or less",
            )
        # 26 and 27 bits of a mantissa, each times a power of 22 bits: a sum below 2^50.
        high = np.trunc(mantissas * 2.0**26)
        low = (mantissas * 2.0**26 - high) * 2.0**27
        total = high * powers.take(shifts + 27, mode="clip")
        total += low * powers.take(shifts, mode="clip")
        result[start : start + _CACHE] = reduce(total, modulus)
    return result.reshape(array.shape)


def random_residues(
    rng: np.random.Generator, shape: tuple[int, ...], modulus: int, *, least: int = 0
) -> Array:
    """Draw balanced residues, each as likely as any other."""
    return balanced(rng.integers(least, modulus, size=shape), modulus)


def balanced(integers: Integers, modulus: int) -> Array:
    """Return integers as balanced residues modulo m <= 2^22."""
    return reduce((integers % modulus).astype(np.float64), modulus)


def subtract_product(target: Array, left: Array, right: Array, modulus: int) -> None:
    """Subtract `left @ right` from `target` modulo m, for balanced residues, in place.

    Matrices may be stored in float32, parts of larger ones, and transposed; sums are of float64.
    """
    at_once = max(1, _AT_ONCE // max(target.shape[-1], 1))
    for start in range(0, left.shape[-1], BLOCK):
        inner = slice(start, start + BLOCK)
        factors = right[..., inner, :].astype(np.float64, copy=False)
        # Rows of one matrix are taken a few at a time; those of a batch are few.
        pieces = range(0, len(target), at_once) if target.ndim == 2 else (None,)
        for first in pieces:
            rows = np.s_[...] if first is None else np.s_[first : first + at_once]
            terms = left[rows][..., inner].astype(np.float64, copy=False) @ factors
            target[rows] = reduce(np.subtract(target[rows], terms, out=terms), modulus)


def product(left: Array, right: Array, modulus: int) -> Array:
    """Multiply `left @ right` modulo m, for balanced residues, batched as numpy's matmul is.

    Example:
        >>> product(np.array([[2.0, 3.0]]), np.array([[4.0], [5.0]]), 7)
        array([[2.]])
    """
    result: Array = left[..., :BLOCK] @ right[..., :BLOCK, :]
    reduce(result, modulus)
    if left.shape[-1] > BLOCK:
        np.negative(result, out=result)
        subtract_product(result, left[..., BLOCK:], right[..., BLOCK:, :], modulus)
        np.negative(result, out=result)
    return result


def inverse(values: Array, modulus: int) -> Array:
    """Return 1/x modulo a prime for balanced residues x != 0, as x^(p - 2) (Fermat)."""
    result, square = np.ones_like(values), values.copy()
    exponent = modulus - 2
    while exponent:
        if exponent & 1:
            result *= square
            reduce(result, modulus)
        square *= square
        reduce(square, modulus)
        exponent >>= 1
    return result
