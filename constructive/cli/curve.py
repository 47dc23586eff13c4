"""The command curve: what decoders of a text cost, from many numbers to few."""

from pathlib import Path
from typing import Annotated

import typer

from constructive.cli.common import Quiet, app, progress_bar
from constructive.cli.recite import Limit, TextUnit, read_text
from constructive.support.reading import read_file


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
