"""What all commands share: the application, options, an end with bad input, processes, progress."""

import functools
import inspect
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import Enum, StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin

import numpy as np
import typer
from numpy.linalg import LinAlgError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from constructive import DISTRIBUTION, __version__
from constructive.support.errors import ConstructiveError, ParameterError, as_ours
from constructive.support.files import way_out
from constructive.support.work import JOBS, cores, progress_to

_INTERRUPTED = 130  # The status with which typer ends a command after Ctrl-C, as shells do
_THREADS = (
    JOBS, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
_SILENCE = 30.0  # Seconds after which work says how far it is where no bar can be drawn

app = typer.Typer(
    name="constructive",
    help="Attention layers whose weights are built from a memorization theorem, not trained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},  # and so of all commands
)


# Commands from functions: what stands before `*` is an argument, what stands after it an option.
# The `Args` of its docstring say what each of them is, and what several commands take is said here.

Command = TypeVar("Command", bound=Callable[..., None])

# What commands share. One with `force` calls `one_output` or `several_outputs`, one with `quiet`
# gives it to `progress_bar`, and one with `as_json` prints by `print_json`.
SHARED = {
    "as_json": "Print one JSON document for programs instead of the text.",
    "context_size": "Number n of tokens in a context.",
    "data": ".npz file or folder with contexts, queries and targets.",
    "examples": "Number T of examples.",
    "force": "Overwrite files that exist.",
    "heads": "Number H of heads.",
    "jobs": "Number of threads; by default CONSTRUCTIVE_JOBS, or one a core, four at most.",
    "memorizer": ".safetensors file from `build`.",
    "quiet": "Show no progress, and print nothing about files that are written.",
    "seed": "Seed of all random choices.",
    "width": "Number d of entries of a token or query.",
}
_LETTERS = {
    "context_size": "-n", "examples": "-T", "heads": "-H", "jobs": "-j", "output": "-o",
    "quiet": "-q", "width": "-d",
}  # fmt: skip
# Options whose names mean something else, or nothing, in Python.
_NAMES = {"as_json": "--json", "file_format": "--format", "option": "--set"}
# Parameters of the library, in its messages, whose options have other names.
_SAID = {"num_heads": "heads", "num_examples": "examples"}
# Of what the library does not check, or after it has looked at files. The most jobs are far above
# the cores of one machine.
_RANGES = {"count": (1, 1_000_000), "jobs": (1, 1024), "limit": (1, None)}


def command(
    group: typer.Typer,
    name: str | None = None,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    metavar: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Make a function a command of the group.

    choices: the words that a parameter takes;  metavar: what usage calls it
    """

    def register(function: Command) -> Command:
        text, said = described(function)
        signature = inspect.signature(function, eval_str=True)
        made = [
            _parameter(
                each,
                said.get(each.name) or SHARED[each.name],
                (choices or {}).get(each.name),
                (metavar or {}).get(each.name),
            )
            for each in signature.parameters.values()
        ]

        @functools.wraps(function)
        def called(**given: Any) -> None:  # noqa: ANN401 - whatever the function takes
            try:
                function(**{name: _plain(value) for name, value in given.items()})
            except ConstructiveError as error:
                for said_as, option in _SAID.items():
                    if option in signature.parameters and f"{said_as}=" in str(error):
                        error.add_note(f"  {said_as} is the option --{option}")
                raise

        called.__doc__ = text
        called.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined] # of typer
        called.__annotations__ = {each.name: each.annotation for each in made}
        group.command(name)(called)
        return function

    return register


def described(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Return the docstring of a function without its `Args`, and what these say."""
    head, _, rest = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    block, _, tail = rest.partition("\n\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, re.MULTILINE)
    text = f"{head}\n\n{tail}".strip()
    return text, {name: " ".join(words.split()) for name, words in found}


def _parameter(
    given: inspect.Parameter, text: str, choices: Sequence[str] | None, metavar: str | None
) -> inspect.Parameter:
    """Return it as typer wants it."""
    name, kind, default = given.name, given.annotation, given.default
    if choices is not None:
        chosen = StrEnum(name, {word: word for word in choices})  # type: ignore[misc] # made here
        kind = _choosing(kind, chosen)
        default = chosen(default) if isinstance(default, str) else default
    if given.kind is not inspect.Parameter.KEYWORD_ONLY:
        # The library says which file it is that cannot be read.
        info: Any = typer.Argument(help=text, readable=False, metavar=metavar)
    else:
        words = [_NAMES.get(name, "--" + name.replace("_", "-"))]
        words += [_LETTERS[name]] if name in _LETTERS else []
        least, most = _RANGES.get(name, (None, None))
        info = typer.Option(*words, help=text, min=least, max=most, metavar=metavar)
    return given.replace(annotation=Annotated[kind, info], default=default)


def _choosing(kind: Any, chosen: type[Enum]) -> Any:  # noqa: ANN401 - types
    """Return str, a list of it, or either or None, with the choices in the place of str."""
    if kind is str:
        return chosen
    if get_origin(kind) is list:
        return list[chosen]  # type: ignore[valid-type] # made here
    return _choosing(get_args(kind)[0], chosen) | None


def _plain(value: Any) -> Any:  # noqa: ANN401 - any of them
    """Return a value of typer as the library takes it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.value if isinstance(value, Enum) else value


# Threads, the end with bad input, progress.


@contextmanager
def threads(jobs: int | None) -> Iterator[None]:
    """Give loops so many threads, those of the checker as well; None for the usual number."""
    if jobs is None:
        yield
        return
    before = os.environ.get(JOBS)
    os.environ[JOBS] = str(jobs)
    try:
        yield
    finally:
        if before is None:
            del os.environ[JOBS]
        else:
            os.environ[JOBS] = before


def main() -> None:
    """Run the command line; bad input ends it with status 2, an interrupt with 130.

    A request to terminate ends it like an interrupt, so that temporary files go (`support.files`).
    """
    signal.signal(signal.SIGTERM, _terminate)
    if _uncoloured():
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
        for note in getattr(error, "__notes__", ()):  # of `options`
            typer.echo(note, err=True)
        sys.exit(2)
    except OSError as error:
        lines = [f"{type(error).__name__}: {error.strerror or error}"]
        way = "a file that may be read, or a folder that may be written"
        if error.filename is not None:
            lines.append(f"  witness: {error.filename}")
            way = _nearest(error.filename) if isinstance(error, FileNotFoundError) else way
        lines.append(f"  try: {way_out(error, way)}")
        typer.echo("\n".join(lines), err=True)
        sys.exit(2)
    except (MemoryError, LinAlgError) as error:
        typer.echo(f"{type(error).__name__.lstrip('_')}: {as_ours(error)}", err=True)
        sys.exit(2)


def _nearest(name: object) -> str:
    """Say what is there where a file is not."""
    path = Path(str(name))
    if not path.parent.is_dir():
        return f"another path: there is no folder {path.parent}"
    files = path.parent.iterdir() if os.access(path.parent, os.R_OK) else ()
    names = sorted(file.name for file in files)
    near = get_close_matches(path.name, names, n=3) or [
        each for each in names if path.suffix and Path(each).suffix == path.suffix
    ]
    if near:
        return " or ".join(str(path.with_name(each)) for each in near[:3])
    return f"another path: there is nothing like it in {path.parent.resolve()}"


def _uncoloured() -> bool:
    """Whether the user wants text as it is, neither coloured nor bold (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def console(*, width: int | None = None, stderr: bool = False) -> Console:
    """Where tables and progress are drawn; rich itself would leave bold where NO_COLOR is set."""
    return Console(width=width, stderr=stderr, color_system=None if _uncoloured() else "auto")


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


def end(*, proved: bool) -> None:
    """End the command with status 1 where something is not proved, or not as it should be."""
    if not proved:
        raise typer.Exit(1)


def require_rocq(formal: bool, folder: Path | None) -> None:
    """Raise ParameterError for --folder without --rocq."""
    if folder is not None and not formal:
        raise ParameterError(
            "--folder is for Rocq", witness=str(folder), suggestion="--rocq with it"
        )


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[None]:
    """Show a progress bar on stderr if that is a terminal, else a line there now and then."""
    if quiet:
        yield
        return
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


@command(app)
def info() -> None:
    """Print versions, the BLAS of numpy and the number of threads: put it into an issue.

    Example:

        constructive info
    """
    packages = sorted({_name(line) for line in requires(DISTRIBUTION) or ()} - {DISTRIBUTION})
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    limits = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    found = {
        "constructive": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cores()),
        "BLAS of numpy": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "threads": ", ".join(limits) or "not limited",
        **{name: version_of(name) for name in packages},
    }
    space = max(map(len, found)) + 2
    for name, value in found.items():
        typer.echo(f"{name:<{space}}{value}")


def _name(requirement: str) -> str:
    """The name at the start of a requirement such as "numpy>=1.26" or "torch; extra == 'x'"."""
    stop = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), None)
    return requirement[:stop].lower()


def version_of(name: str) -> str:
    """The version of a package that is installed, or that it is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
