"""Progress of long work: reported where the work is, shown where somebody listens."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

# Called with (step, done, total) while long work goes on.
Progress = Callable[[str, int, int], None]

Piece = TypeVar("Piece")

# A context and no global state: each thread and each task of asyncio has its own.
_LISTENER: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def progress_to(listener: Progress | None) -> Iterator[None]:
    """Call `listener` with (step, done, total) while the work in this context goes on.

    An exception of the listener ends the work, as Ctrl-C does.

    Args:
        listener: what is called; None for nothing

    Example:
        >>> with progress_to(lambda step, done, total: print(f"{step}: {done} of {total}")):
        ...     report("solve", 1, 2)
        solve: 1 of 2
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def report(step: str, done: int, total: int) -> None:
    """Tell the listener of this context, if there is one, what has been done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step, done, total)


def listened() -> bool:
    """Return whether this context has a listener."""
    return _LISTENER.get() is not None


def counted(step: str, pieces: Iterable[Piece], total: int) -> Iterator[Piece]:
    """Yield pieces of work, and report how many of them are done."""
    for done, piece in enumerate(pieces, 1):
        report(step, done, total)
        yield piece
