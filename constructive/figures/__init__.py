"""All figures, by name: `constructive figures`.

Figures 1 to 5 are those of Mahdavi, Liao and Thrampoulidis (ICLR 2024), redone by construction;
the drawings, the data and the constructions are ours. Each module says what is measured, proved or
estimated in it. A new figure is a class in a module, and a name and a line here.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from constructive.support.errors import ParameterError, as_path
from constructive.support.files import require_writable

if TYPE_CHECKING:
    from constructive.figures.drawing import Figure

# What `figures()` has, known before anything that draws is imported.
NAMES = (
    "memorized", "kruskal-rank", "capacity", "saturation", "general-position",
    "tokens-in-general-position", "assumptions", "recital", "curve", "sequences", "planted",
)  # fmt: skip


def figures() -> "dict[str, Figure]":
    """Return all figures by name."""
    from constructive.figures import (  # noqa: PLC0415 - they take a second to import
        capacity,
        decoders,
        heads,
        memorized,
        planted,
        real_data,
        sequences,
    )

    found: tuple[Figure, ...] = (
        memorized.MEMORIZED, real_data.KRUSKAL, capacity.SHARED_CONTEXT, heads.SATURATION,
        capacity.GENERAL_POSITION, real_data.TOKENS, real_data.ASSUMPTIONS, decoders.RECITAL,
        decoders.CURVE, sequences.SEQUENCES, planted.PLANTED,
    )  # fmt: skip
    return dict(zip(NAMES, found, strict=True))


def prepare(
    folder: str | Path, only: Iterable[str] | None = None, *, quick: bool = False
) -> "list[tuple[Figure, Path]]":
    """Make a folder for the figures, and return each of them with its file."""
    names = list(NAMES if only is None else only)
    for name in names:
        if name not in NAMES:
            raise ParameterError(
                f"unknown figure {name!r}", witness=name, suggestion=", ".join(NAMES)
            )
    known, folder = figures(), as_path(folder)
    wanted = [known[name].quick() if quick else known[name] for name in names]
    for figure in wanted:
        figure.require()
    with suppress(OSError):  # the check of the first file says why
        folder.mkdir(parents=True, exist_ok=True)
    for figure in wanted:
        require_writable(folder / figure.file)
    return [(figure, folder / figure.file) for figure in wanted]
