"""What commands write: files, which are checked before the work starts; text or JSON; progress."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from constructive.support.errors import OutputError
from constructive.support.files import (
    FORMATS,
    STANDARD_OUTPUT,
    require_folder,
    require_writable,
    same_file,
    wrong_ending,
)
from constructive.support.work import progress_to

_SILENCE = 30.0  # Seconds after which work says how far it is where no bar can be drawn
_WIDTH = 120  # Characters of a line of a table

_DASH = Path("-")


class _Call:
    """A command that runs: what it was asked for, what it reads and writes, and its bar.

    taken: the files so far, by their names in its usage
    several: whether it writes several files;  writes: whether it writes any
    aside: whether a file goes to standard output, so that text goes elsewhere
    """

    def __init__(self, *, several: bool, force: bool, quiet: bool, as_json: bool) -> None:
        self.several, self.force, self.quiet, self.as_json = several, force, quiet, as_json
        self.taken: dict[str, Path] = {}
        self.writes = self.aside = False
        drawn = console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        self.bar = Progress(*columns, console=drawn, transient=True, disable=not drawn.is_terminal)
        self.task = self.bar.add_task("", total=None)
        self.said = time.monotonic()

    def progress(self, step: str, done: int, total: int) -> None:
        """Show a bar on stderr if that is a terminal, else a line there now and then."""
        self.bar.start()
        self.bar.update(self.task, description=step, completed=done, total=total)
        if self.bar.disable and time.monotonic() - self.said > _SILENCE:
            typer.echo(f"{step}: {done} of {total}", err=True)
            self.said = time.monotonic()


_CALL: ContextVar[_Call] = ContextVar("call")


@contextmanager
def running(
    inputs: Mapping[str, Path],
    *,
    several: bool,
    quiet: bool,
    force: bool = False,
    as_json: bool = False,
) -> Iterator[None]:
    """Run a command in this block, whose functions are below.

    inputs: the files that it reads, by their names in its usage, if it writes others
    """
    call = _Call(several=several, force=force, quiet=quiet, as_json=as_json)
    for role, given in inputs.items():
        given.stat()  # what is not there is named before what is wrong with the outputs
        call.taken[role] = given
        if given.is_dir():  # a folder of data is all of its files
            call.taken |= {f"{role} ({file.name})": file for file in sorted(given.iterdir())}
    before = _CALL.set(call)
    try:
        with progress_to(None if quiet else call.progress):
            yield
    finally:
        call.bar.stop()
        _CALL.reset(before)


# Files.


def output_file(role: str, path: Path, *endings: str) -> Path:
    """Check a file that the command will write, before the work starts; return its path.

    role: its name in the usage
    endings: those of such files. Where there is one, names may have none, or one of their own

    `-` is standard output. Raises OutputError for an output that cannot be written, that is an
    input or another output, for one that exists, unless forced, for the ending of another format,
    and for standard output as the place of several files, or of one and the document of --json.
    """
    call = _CALL.get()
    if call.several:
        require_no_dash(role, path)
    path = STANDARD_OUTPUT if path == _DASH else path
    for other, file in call.taken.items():
        if same_file(path, file):
            raise OutputError(
                f"cannot write {path}: {role} and {other} are one file",
                witness=str(file),
                suggestion=f"another path for {role}",
            )
    target = require_writable(path)
    if target.is_old_file and not call.force:
        raise target.refused("it exists already", "--force to overwrite it, or another path")
    if target.is_standard_output and call.as_json:
        raise OutputError(
            f"{role} and --json both write to standard output",
            witness=str(path),
            suggestion=f"{role} with the path of a file, or no --json",
        )
    _require_ending(path, endings)
    call.taken[role] = path
    call.writes, call.aside = True, call.aside or target.is_standard_output
    return path


def require_no_dash(role: str, path: Path) -> None:
    """Raise OutputError for standard output in a command that writes several files."""
    if path == _DASH:
        raise OutputError(
            f"{role} - is standard output, but this command writes several files",
            witness="-",
            suggestion=f"a path for {role}",
        )


def _require_ending(path: Path, endings: Sequence[str]) -> None:
    """Refuse a name whose ending promises another format, and say what one of its own will be."""
    call, found = _CALL.get(), path.suffix.lower()
    if not endings or found in {"", *endings}:
        return
    made = " or ".join(dict.fromkeys(FORMATS[ending] for ending in endings))
    if found in FORMATS or len(endings) > 1:
        raise wrong_ending(path, *endings)
    if not (call.quiet or call.as_json):
        typer.echo(f"{path} will be {made}, usually named *{endings[0]}", err=True)


def output_folder(path: Path, names: Sequence[str]) -> None:
    """Check a folder that the command will write, before the work starts.

    names: the files that it will have

    Raises OutputError for what cannot be written, and for such a folder that exists, unless
    forced.
    """
    call = _CALL.get()
    if require_folder(path, names) and not call.force:
        raise OutputError(
            f"cannot write {path}: it exists already",
            witness=str(path),
            suggestion="--force to overwrite it, or another path",
        )
    call.writes = True


# Text, tables, JSON, and the status.


def console(*, width: int | None = None, stderr: bool = False) -> Console:
    """Where tables and progress are drawn; rich itself would leave bold where NO_COLOR is set."""
    return Console(width=width, stderr=stderr, color_system=None if uncoloured() else "auto")


def uncoloured() -> bool:
    """Whether the user wants text as it is, neither coloured nor bold (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def say(text: object) -> None:
    """Print it on standard output, unless a file goes there, or --quiet or --json forbids it."""
    call = _CALL.get()
    call.bar.stop()
    if call.as_json or (call.quiet and call.writes):
        return
    if isinstance(text, Table):
        console(width=_WIDTH, stderr=call.aside).print(text)
    else:
        typer.echo(text, err=call.aside)


def end(*, proved: bool, **document: Any) -> None:  # noqa: ANN401 - whatever has a JSON form
    """End with status 1 where something is not proved, or not as it should be.

    document: what --json promises, and nothing else is on standard output
    """
    if _CALL.get().as_json:
        typer.echo(json.dumps(document, indent=1, default=str))
    if not proved:
        raise typer.Exit(1)
