"""Numbers of fewer bits than float32, as float32 arrays of such numbers."""

import numpy as np

from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


def rounded(weights: Array, storage: str) -> Array:
    """Weights rounded to nearest in a format, ties to even, as float32.

    Args:
        weights: float32
        storage: "float32", "bfloat16" or "float16"

    Raises:
        ParameterError: for weights beyond its range

    Example:
        >>> rounded(np.float32([1.00390625, 3.14159]), "bfloat16").tolist()
        [1.0, 3.140625]
    """
    if storage == "float16":
        with np.errstate(over="ignore"):
            found = weights.astype(np.float16).astype(np.float32)
    elif storage == "bfloat16":
        bits = np.ascontiguousarray(weights, dtype=np.float32).view(np.uint32)
        even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        found = (even & np.uint32(0xFFFF0000)).view(np.float32)
    else:
        found = weights
    if not np.isfinite(found).all():
        raise ParameterError(
            f"weights of size {np.abs(weights).max():.1e} are beyond {storage}",
            witness=float(np.abs(weights).max()),
            suggestion="storage='bfloat16', which has the range of float32",
        )
    return found
