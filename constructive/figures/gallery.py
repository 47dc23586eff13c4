"""All figures, by name: `constructive figures`.

Figures 1 to 5 are those of Mahdavi, Liao and Thrampoulidis (ICLR 2024), redone by construction;
the drawings, the data and the constructions are ours. Each module says what is measured, proved or
estimated in it. A new figure is a class in a module, and a name and a line here.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from constructive.support.errors import ParameterError, as_path
from constructive.support.files import require_writable

if TYPE_CHECKING:
    from constructive.figures.drawing import Figure

# What `figures()` has, known before anything that draws is imported.
NAMES = (
    "kruskal-rank", "capacity", "saturation", "general-position", "tokens-in-general-position",
    "assumptions", "recital", "curve", "sequences", "planted", "labels",
)  # fmt: skip


def figures() -> "dict[str, Figure]":
    """Return all figures by name."""
    from constructive.figures import (  # noqa: PLC0415 - they take a second to import
        capacity,
        decoders,
        labels,
        planted,
        real_data,
        saturation,
        sequences,
    )

    found: tuple[Figure, ...] = (
        real_data.KRUSKAL, capacity.SHARED_CONTEXT, saturation.SATURATION,
        capacity.GENERAL_POSITION, real_data.TOKENS, real_data.ASSUMPTIONS, decoders.RECITAL,
        decoders.CURVE, sequences.SEQUENCES, planted.PLANTED, labels.LABELS,
    )  # fmt: skip
    return dict(zip(NAMES, found, strict=True))


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn: what it shows, its file, and the seconds which it took."""

    title: str
    path: Path
    seconds: float


def prepare(folder: str | Path, only: Iterable[str] | None = None) -> tuple[Path, ...]:
    """Make the folder that `draw` writes into, and return the paths of the files."""
    folder, wanted = as_path(folder), _wanted(only)
    for figure in wanted.values():
        figure.require()
    with suppress(OSError):  # the check of the first file says why
        folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / figure.file for figure in wanted.values())
    for path in paths:
        require_writable(path)
    return paths


def _wanted(only: Iterable[str] | None) -> "dict[str, Figure]":
    names = list(NAMES if only is None else only)
    for name in names:
        if name not in NAMES:
            raise ParameterError(
                f"unknown figure {name!r}", witness=name, suggestion=", ".join(NAMES)
            )
    known = figures()
    return {name: known[name] for name in names}


def draw(
    folder: str | Path,
    *,
    only: Iterable[str] | None = None,
    quick: bool = False,
) -> Iterator[Drawn]:
    """Draw the figures into a folder, and yield each when its file is written.

    Old files of these names are replaced. What is written stays where a later figure is
    interrupted.
    """
    paths = prepare(folder, only)
    for path, whole in zip(paths, _wanted(only).values(), strict=True):
        figure, start = whole.quick() if quick else whole, time.perf_counter()
        figure.draw(path)
        yield Drawn(figure.title, path, time.perf_counter() - start)
