"""The command figures."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constructive.cli.common import Force, Jobs, Quiet, app, processes, progress_bar
from constructive.cli.outputs import require_no_dash, several_outputs
from constructive.figures.registry import FIGURES

if TYPE_CHECKING:
    Figure = str
else:
    Figure = StrEnum("Figure", {name: name for name in FIGURES})
"""The values of --only."""


@app.command()
def figures(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the PNG, SVG and text files.")
    ] = Path(),
    only: Annotated[
        list[Figure] | None,
        typer.Option(help="Draw only this figure; may be repeated. By default all."),
    ] = None,
    jobs: Jobs = 1,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Redo the figures of the paper by construction, without training anything.

    Needs the extra `demo` (scikit-learn and matplotlib); nothing is downloaded.

    Examples:

        constructive figures

        constructive figures --only capacity --jobs 4 -o pictures
    """
    from constructive.figures import gallery

    names = list(map(str, only)) if only else None
    require_no_dash("--output", folder)
    written = {path.name: path for path in gallery.files(folder, names)}
    say = several_outputs(written, inputs={}, force=force, quiet=quiet)
    with processes(jobs) as executor, progress_bar(quiet=quiet):
        for drawn in gallery.draw(folder, only=names, executor=executor):
            say(f"{drawn.seconds:7.1f} s  {drawn.title}")
            for path in drawn.paths:
                say(f"           {path}")
                if path.suffix == ".txt":
                    say("\n" + path.read_text())
