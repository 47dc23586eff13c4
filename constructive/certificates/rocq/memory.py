"""What memory Rocq takes for so many stored numbers, estimated before it starts."""

import math

from constructive.certificates.check import require_gigabytes
from constructive.certificates.rocq.definitions import Stored
from constructive.support.errors import ParameterError

_LEAST = 1.1  # GB: its libraries, and one file of numbers as it is read
_EACH = 400e-9  # GB for each stored number, and for each entry of a right inverse


def gigabytes(known: Stored) -> float:
    """Return the GB that the largest process of Rocq takes, about, as benchmarks measured it.

    Example:
        >>> import numpy as np
        >>> round(gigabytes(Stored({"queries": np.zeros((1000, 64))}, {"T": 1000})), 1)
        1.1
    """
    return _LEAST + _EACH * _numbers(known)


def require_memory(known: Stored, most: float) -> None:
    """Raise ParameterError where Rocq needs more GB than it may take, and for no size.

    Example:
        >>> import numpy as np
        >>> require_memory(Stored({"queries": np.zeros((10**4, 10**4))}, {"T": 10**4}), 8.0)
        Traceback (most recent call last):
            ...
        constructive.ParameterError: 100,000,000 numbers take Rocq about 41.1 GB, and it may take 8
          witness: 100000000
          try: fewer examples, or max_memory=42 if there is as much
    """
    require_gigabytes(most)
    needed = gigabytes(known)
    if needed > most:
        count = _numbers(known)
        raise ParameterError(
            f"{count:,} numbers take Rocq about {needed:.1f} GB, and it may take {most:g}",
            witness=count,
            suggestion=f"fewer examples, or max_memory={math.ceil(needed)} if there is as much",
        )


def _numbers(known: Stored) -> int:
    return sum(array.size for array in known.arrays.values()) + known.more
