"""All figures, one after the other, with the time that each took."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from constructive.figures.registry import FIGURES
from constructive.support.errors import ParameterError
from constructive.support.files import require_writable


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn.

    Attributes:
        name: what it was asked for by
        title: what it shows
        paths: its files
        seconds: which it took
    """

    name: str
    title: str
    paths: tuple[Path, ...]
    seconds: float


def files(folder: Path, only: Iterable[str] | None = None) -> tuple[Path, ...]:
    """Return the names of the files that `draw` writes.

    Args:
        folder: where
        only: names of figures; by default all

    Raises:
        ParameterError: for an unknown name
    """
    return tuple(folder / name for figure in _wanted(only) for name in FIGURES[figure].files)


def _wanted(only: Iterable[str] | None) -> list[str]:
    wanted = list(FIGURES if only is None else only)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise ParameterError(
            f"unknown figure {unknown[0]!r}", witness=unknown[0], suggestion=", ".join(FIGURES)
        )
    return wanted


def draw(
    folder: str | Path, *, only: Iterable[str] | None = None, executor: Executor | None = None
) -> Iterator[Drawn]:
    """Draw the figures into a folder, as PNG and SVG each; yields them as they are done.

    Old files of these names are replaced.

    Args:
        folder: where they go; it has to exist
        only: names of figures (`figures.registry`); by default all
        executor: where their parts are computed (`support.parallel`)

    Raises:
        ParameterError: for an unknown name
        OutputError: if a file cannot be written
        MissingExtraError: without matplotlib or scikit-learn, before anything is computed
    """
    folder, wanted = Path(folder), _wanted(only)
    for path in files(folder, wanted):
        require_writable(path)
    for name in wanted:
        FIGURES[name].require()
    for name in wanted:
        figure, start = FIGURES[name], time.perf_counter()
        paths = figure.draw(folder, executor=executor)
        yield Drawn(name, figure.title, paths, time.perf_counter() - start)
