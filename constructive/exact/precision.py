"""The precision of python-flint, which is one number for all threads of a process.

Two threads that set it in turns would compute with each other's bits, and the last one to leave
would set what the other one had. So a thread that sets it here waits until no other in this package
does. Balls hold at any precision: what could be lost are bits, not a proof. A thread of yours that
uses python-flint itself meanwhile sees the precision change; give it its own process.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flint import ctx

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with so many bits in this block, and with what there was after it.

    Args:
        bits: of the numbers that python-flint computes

    Example:
        >>> with working_precision(200):
        ...     ctx.prec
        200
    """
    with _ONE_AT_A_TIME, ctx.workprec(bits):
        yield
