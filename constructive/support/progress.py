"""How long work reports what it has done."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (step, done, total) while long work goes on."""


def silent(_step: str, _done: int, _total: int) -> None:
    """Report no progress.

    Example:
        >>> silent("solve", 1, 2)
    """
