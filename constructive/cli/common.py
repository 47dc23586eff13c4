"""What all commands share: the application, its end with bad input, files, and the progress bar."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, InvalidStateError, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from constructive import __version__
from constructive.cli.environment import environment
from constructive.support.errors import ConstructiveError, OutputError, ParameterError
from constructive.support.files import (
    STANDARD_OUTPUT,
    require_folder,
    require_writable,
    same_file,
    way_out,
)
from constructive.support.progress import progress_to

if TYPE_CHECKING:
    from constructive.certificates.certificate import Certificate

Force = Annotated[bool, typer.Option("--force", help="Overwrite files which exist.")]
"""Every command that writes a file has this, and calls `one_output` or `several_outputs`."""

Data = Annotated[
    Path, typer.Argument(help=".npz file or folder with contexts, queries and targets.")
]

MemorizerFile = Annotated[Path, typer.Argument(help=".safetensors file from `build`.")]
CertificateFile = Annotated[
    Path, typer.Option("--output", "-o", help="Where the certificate goes.")
]
Examples = Annotated[int, typer.Option("--examples", "-T", min=1, help="Number T.")]
ContextSize = Annotated[int, typer.Option("--context-size", "-n", min=1, help="Tokens n.")]
Width = Annotated[int, typer.Option("--width", "-d", min=1, help="Entries d of a token.")]
Heads = Annotated[int, typer.Option("--heads", "-H", min=1, help="Number H of heads.")]
HeadsOrFewest = Annotated[
    int | None,
    typer.Option("--heads", "-H", min=1, help="Number H of heads; by default the fewest."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]

Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes to compute with.")]
Pieces = Annotated[
    int,
    typer.Option("--jobs", "-j", min=1, help="Processes to compute with (paired heads only)."),
]
"""How many processes `processes` has."""

Say = Callable[[str | Table], None]
"""How such a command speaks: on standard output, unless a file goes there."""

Output = TypeVar("Output", Path, Path | None)

_DASH = Path("-")
_INTERRUPTED = 130
"""The status with which typer ends a command after Ctrl-C, as shells do."""
_SILENCE = 30.0
"""Seconds after which work says how far it is where no bar can be drawn."""

app = typer.Typer(
    name="constructive",
    help="Attention layers whose weights are built from a memorization theorem, not trained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """A pool of so many processes, or None for this one alone.

    An interrupt, or an error, ends them at once: pieces of work may take minutes.
    """
    if jobs == 1:
        yield None
        return
    with ProcessPoolExecutor(jobs, initializer=_obey_the_parent) as pool:
        try:
            yield pool
        except BaseException:
            threading.excepthook = _ignore_cancelled
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _ignore_cancelled(failure: threading.ExceptHookArgs) -> None:
    """Say nothing where the thread of a pool that ends stumbles over a task that was cancelled.

    In Python 3.11 it sets an exception on all tasks, also on those.
    """
    if failure.exc_type is not InvalidStateError:
        threading.__excepthook__(failure)


def _obey_the_parent() -> None:
    """In a worker: Ctrl-C, which a terminal sends to all, is for the parent, which terminates us.

    A worker would return the exit that `_terminate` raises as the result of its task, and live on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> None:
    """Run the command line; bad input ends it with status 2, an interrupt with 130.

    A request to terminate ends it like an interrupt, so that temporary files go (`files`).
    """
    signal.signal(signal.SIGTERM, _terminate)
    if _plain():
        from typer import rich_utils

        rich_utils.COLOR_SYSTEM = None  # of help and of errors in usage
    try:
        app()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            typer.echo("Interrupted.", err=True)
        raise
    except ConstructiveError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        lines = [f"{type(error).__name__}: {error.strerror or error}"]
        if error.filename is not None:
            lines.append(f"  witness: {error.filename}")
        usual = "a file that exists and may be read, a folder that may be written"
        lines.append(f"  try: {way_out(error, usual)}")
        typer.echo("\n".join(lines), err=True)
        sys.exit(2)


def _plain() -> bool:
    """Whether the user wants text as it is, neither coloured nor bold (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def console(*, width: int | None = None, stderr: bool = False) -> Console:
    """Where tables and progress are drawn; rich itself would leave bold where NO_COLOR is set."""
    return Console(width=width, stderr=stderr, color_system=None if _plain() else "auto")


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


def one_output(output: Output, *, inputs: Mapping[str, Path], force: bool) -> tuple[Output, Say]:
    """Look at the --output of a command before it works: its path, and how to speak.

    inputs: the files it reads, by their names in its usage

    `-` is standard output. Raises OutputError as `several_outputs` does.
    """
    path = STANDARD_OUTPUT if output == _DASH else output
    return path, _looked_at({"--output": path}, inputs, force=force)


def folder_output(output: Path, names: Sequence[str], *, force: bool) -> Say:
    """Look at a folder which a command will write as --output: how to speak.

    names: the files which it will have

    Raises OutputError for what cannot be written, and for such a folder which exists, unless
    forced.
    """
    if require_folder(output, names) and not force:
        raise OutputError(
            f"cannot write {output}: it exists already",
            witness=str(output),
            suggestion="--force to overwrite it, or another path",
        )
    return typer.echo


def several_outputs(
    outputs: Mapping[str, Path | None], *, inputs: Mapping[str, Path], force: bool
) -> Say:
    """Look at all that a command will write, before it works: how to speak.

    outputs, inputs: paths by their names in its usage; files without such a name by their own

    Raises OutputError for an output which cannot be written, which is an input or another output,
    for one which exists, unless forced, and for `-`, where several files would run together.
    """
    for role, path in outputs.items():
        require_no_dash(role, path)
    return _looked_at(outputs, inputs, force=force)


def require_no_dash(role: str, path: Path | None) -> None:
    """Raise OutputError for standard output in a command which writes several files."""
    if path == _DASH:
        raise OutputError(
            f"{role} - is standard output, but this command writes several files",
            witness="-",
            suggestion=f"a path for {role}",
        )


def _looked_at(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path], *, force: bool
) -> Say:
    taken, aside = dict(inputs), False
    for role, given in inputs.items():  # a folder of data is all of its files
        if given.is_dir():
            taken |= {f"{role} ({file.name})": file for file in sorted(given.iterdir())}
    for role, path in outputs.items():
        if path is None:
            continue
        for other, file in taken.items():
            if same_file(path, file):
                raise OutputError(
                    f"cannot write {path}: {role} and {other} are one file",
                    witness=str(file),
                    suggestion=f"another path for {role}",
                )
        target = require_writable(path)
        if target.is_old_file and not force:
            raise target.refused("it exists already", "--force to overwrite it, or another path")
        taken[role] = path
        aside = aside or target.is_standard_output

    def say(text: str | Table) -> None:
        if isinstance(text, Table):
            console(width=100, stderr=aside).print(text)
        else:
            typer.echo(text, err=aside)

    return say


def hand_out(certificate: "Certificate", output: Path, say: Say) -> None:
    """Write a certificate whatever it says; status 1 unless all of it is PROVED."""
    certificate.save(output)
    say(f"{certificate}\n\nwritten to {output}")
    end(proved=certificate.proved)


def end(*, proved: bool) -> None:
    """End the command with status 1 where something is not PROVED."""
    if not proved:
        raise typer.Exit(1)


def require_rocq(formal: bool, folder: Path | None) -> None:
    """Raise ParameterError for --folder without --rocq."""
    if folder is not None and not formal:
        raise ParameterError(
            "--folder is for Rocq", witness=str(folder), suggestion="--rocq with it"
        )


@contextmanager
def progress_bar() -> Iterator[None]:
    """A progress bar on stderr where that is a terminal, else a line there now and then."""
    drawn = console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=drawn, transient=True, disable=not drawn.is_terminal) as bar:
        task = bar.add_task("", total=None)
        said = time.monotonic()

        def update(step: str, done: int, total: int) -> None:
            nonlocal said
            bar.update(task, description=step, completed=done, total=total)
            if not drawn.is_terminal and time.monotonic() - said > _SILENCE:
                typer.echo(f"{step}: {done} of {total}", err=True)
                said = time.monotonic()

        with progress_to(update):
            yield


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
