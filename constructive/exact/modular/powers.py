"""Powers modulo a prime, for whole arrays, by tables."""

from dataclasses import dataclass

import numpy as np

from constructive.exact.modular.arithmetic import balanced, reduce
from constructive.support.arrays import Array


@dataclass(frozen=True, eq=False)
class PowerTable:
    """Powers a^k modulo p of one base, for whole arrays of exponents, by two small tables.

    With k = 2048 j + i, a^k is the product of the table entries a^i and (a^2048)^j. Both tables
    stay in a cache. Use `power_table`.
    """

    modulus: int  # p
    low: Array  # a^i for i = 0, ..., 2047, as balanced residues (2048,)
    high: Array  # (a^2048)^j for all j up to (p - 1) / 2048, as balanced residues

    def __call__(self, exponents: Array) -> Array:
        """a^k for balanced residues k modulo p - 1."""
        index = exponents.astype(np.int64)
        index += (index < 0) * (self.modulus - 1)
        low = self.low.take(index & 2047, mode="clip")
        return reduce(low * self.high.take(index >> 11, mode="clip"), self.modulus)


def power_table(base: int, modulus: int) -> PowerTable:
    """Build tables for powers of `base` modulo a prime p <= 2^22.

    Example:
        >>> power_table(3, 1009)(np.array([0.0, 2.0, -1.0]))  # 3 * (-336) = 1 modulo 1009
        array([   1.,    9., -336.])
    """
    step = pow(base, 2048, modulus)
    low, high = [1], [1]
    for _ in range(2047):
        low.append(low[-1] * base % modulus)
    for _ in range((modulus - 1) >> 11):
        high.append(high[-1] * step % modulus)
    tables = (balanced(np.array(table, dtype=np.int64), modulus) for table in (low, high))
    return PowerTable(modulus, *tables)
