"""What a figure is: a title, its files, and how it is drawn."""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from constructive.support.extras import require


class Draw(Protocol):
    """Computes a figure, draws it into a folder, and returns the files it wrote.

    executor: where parts are computed, or None
    """

    def __call__(self, folder: Path, *, executor: Executor | None) -> tuple[Path, ...]:
        """Draw it."""
        ...


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        shows: its title
        files: names of the files which `draw` writes
        draw: computes and draws it
        needs: the modules of the extra `demo` that it takes
    """

    shows: str
    files: tuple[str, ...]
    draw: Draw
    needs: tuple[str, ...] = ("matplotlib",)

    def require(self) -> None:
        """Raise MissingExtraError where a module is not installed."""
        for module in self.needs:
            require(module, extra="demo", purpose="this figure")
