"""What all commands share: the application, its end with bad input, and the progress bar."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from constructive import __version__
from constructive.environment import environment
from constructive.errors import ConstructiveError
from constructive.progress import Progress as ProgressCallback

app = typer.Typer(
    name="constructive",
    help="Attention layers whose weights are built from a memorization theorem, not trained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main() -> None:
    """Run the command line; bad input ends it with status 2, an interrupt with 130.

    A request to terminate ends it like an interrupt, so that temporary files go (`files`).
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except ConstructiveError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        lines = [f"{type(error).__name__}: {error.strerror or error}"]
        if error.filename is not None:
            lines.append(f"  witness: {error.filename}")
        lines.append("  try: a file that exists and may be read, a folder that may be written")
        typer.echo("\n".join(lines), err=True)
        sys.exit(2)


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """A progress bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def update(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total)

        yield update


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"constructive {__version__}")
        raise typer.Exit


@app.command()
def info() -> None:
    """Print versions, the BLAS of numpy and the number of threads: put it into an issue.

    Example:

        constructive info
    """
    found = environment()
    space = max(map(len, found)) + 2
    for name, value in found.items():
        typer.echo(f"{name:<{space}}{value}")


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
