"""What memory Rocq takes for files of so many numbers, and whether there is as much."""

from constructive.certificates.rocq.definitions import Stored
from constructive.support.errors import ParameterError


def require_memory(known: Stored, most: float) -> None:
    """To be fitted."""
