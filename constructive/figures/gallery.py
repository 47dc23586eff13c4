"""All figures, one after the other, with the time that each took."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from constructive.figures import (
    assumption_table,
    capacity,
    drawing,
    independence,
    saturation,
    sequences,
)
from constructive.support.errors import ParameterError
from constructive.support.files import require_writable
from constructive.support.progress import Progress, silent


@dataclass(frozen=True)
class Drawn:
    """A figure: its name, what it shows, its files, and the seconds which it took."""

    name: str
    shows: str
    paths: tuple[Path, ...]
    seconds: float


NAMES = {
    "kruskal": "Figure 1: Kruskal rank of queries",
    "capacity": "Figure 2: memorized examples against H, n and d_h",
    "saturation": "Figure 3: softmax saturation",
    "position": "Figure 4: general position of tokens",
    "assumptions": "Table 1: the assumptions on real data",
    "sequences": "Sequences: parameters against N (not of that paper)",
}
"""What can be drawn."""


_PICTURES = {
    "kruskal": independence.KRUSKAL,
    "capacity": capacity.NAME,
    "saturation": saturation.NAME,
    "position": independence.POSITION,
    "sequences": sequences.NAME,
}


def files(folder: Path, only: Iterable[str] | None = None) -> tuple[Path, ...]:
    """What `draw` writes. Raises ParameterError for an unknown name."""
    paths: list[Path] = []
    for name in _wanted(only):
        picture = _PICTURES.get(name)
        paths += drawing.both(folder, picture) if picture else (folder / assumption_table.NAME,)
    return tuple(paths)


def _wanted(only: Iterable[str] | None) -> list[str]:
    wanted = list(NAMES if only is None else only)
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        raise ParameterError(
            f"unknown figure {unknown[0]!r}", witness=unknown[0], suggestion=", ".join(NAMES)
        )
    return wanted


def draw(
    folder: str | Path,
    *,
    only: Iterable[str] | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Iterator[Drawn]:
    """Draw the figures into a folder, as PNG and SVG each; yields them as they are done.

    Old files of these names are replaced.

    only:     some of NAMES; by default all
    executor: where their parts are computed (`constructive.parallel`)

    Raises ParameterError for an unknown name, OutputError if a file cannot be written,
    MissingExtraError without matplotlib or scikit-learn.
    """
    folder, wanted = Path(folder), _wanted(only)
    for path in files(folder, wanted):
        require_writable(path)
    drawings: dict[str, Callable[[], tuple[Path, ...]]] = {
        "kruskal": partial(independence.draw_kruskal, folder, executor=executor, progress=progress),
        "capacity": partial(capacity.draw, folder, executor=executor, progress=progress),
        "saturation": partial(saturation.draw, folder),
        "position": partial(
            independence.draw_position, folder, executor=executor, progress=progress
        ),
        "assumptions": partial(
            assumption_table.write, folder, executor=executor, progress=progress
        ),
        "sequences": partial(sequences.draw, folder, progress=progress),
    }
    for name in wanted:
        start = time.perf_counter()
        paths = drawings[name]()
        yield Drawn(name, NAMES[name], paths, time.perf_counter() - start)
