"""Commands that draw: figures, curve."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constructive.cli.common import Force, Jobs, Quiet, app, processes, progress_bar
from constructive.cli.outputs import require_no_dash, several_outputs
from constructive.cli.recite import Limit, TextUnit, read_text
from constructive.figures.gallery import FIGURES
from constructive.support.files import read_file

if TYPE_CHECKING:
    Figure = str
else:
    Figure = StrEnum("Figure", {name: name for name in FIGURES})
"""The values of --only."""


@app.command()
def figures(
    folder: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for the PNG, SVG and text files; it may be a new one."
        ),
    ] = Path(),
    only: Annotated[
        list[Figure] | None,
        typer.Option(help="Draw only this figure; may be repeated. By default all."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Draw smaller grids, in seconds each instead of minutes."),
    ] = False,
    jobs: Jobs = 1,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Redo the figures of the paper by construction, without training anything.

    Each file is written as soon as its figure is drawn, and stays if you interrupt the command.
    Needs the extra `demo` (scikit-learn and matplotlib); nothing is downloaded.

    Examples:

        constructive figures --quick -o quick

        constructive figures --only capacity --jobs 4 -o pictures
    """
    from constructive.figures import gallery

    names = list(map(str, only)) if only else None
    require_no_dash("--output", folder)
    written = {path.name: path for path in gallery.prepare(folder, names)}
    say = several_outputs(written, inputs={}, force=force, quiet=quiet)
    with processes(jobs) as executor, progress_bar(quiet=quiet):
        for drawn in gallery.draw(folder, only=names, quick=quick, executor=executor):
            say(f"{drawn.seconds:7.1f} s  {drawn.title}")
            for path in drawn.paths:
                say(f"           {path}")
                if path.suffix == ".txt":
                    say("\n" + path.read_text())


@app.command()
def curve(
    file: Annotated[Path, typer.Argument(help="File with the text, in UTF-8.")],
    limit: Limit = None,
    quiet: Quiet = False,
) -> None:
    """Build decoders of a text, from many numbers to few, and print what a token costs.

    The table has the numbers of the readout, and the numbers and bits of all that a file stores,
    for each token, and whether the text is proved to be recited in float32; at its end are the
    limits for any labels, a list of tokens, and the text under xz. This is not compression.

    Example:

        constructive curve LICENSE --limit 1000
    """
    from constructive.figures.curve import costs, render

    text = read_text(file, read_file(file), TextUnit.words, limit, otherwise="a text file")
    with progress_bar(quiet=quiet):
        found = list(costs(text))
    typer.echo(render(text, found).rstrip())
