"""The memory of this machine, and what does not fit into it."""

import math
import os

from constructive.support.errors import ParameterError


def physical_memory() -> float:
    """Return the bytes of memory of this machine; infinity where it does not say.

    Example:
        >>> physical_memory() > 1e6
        True
    """
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def require_memory(what: str, num_bytes: int, suggestion: str) -> None:
    """Raise ParameterError for arrays that are larger than the memory of this machine.

    Example:
        >>> require_memory("contexts", 10**18, "fewer examples")
        Traceback (most recent call last):
            ...
        constructive.ParameterError: contexts of 1,000,000,000 GB do not fit into memory
          witness: 1000000000000000000
          try: fewer examples
    """
    if num_bytes > physical_memory():
        size = f"{num_bytes // 10**9:,} GB" if num_bytes < 10**30 else "more than 10^21 GB"
        raise ParameterError(
            f"{what} of {size} do not fit into memory",
            witness=num_bytes if num_bytes < 10**30 else size,
            suggestion=suggestion,
        )
