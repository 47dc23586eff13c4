"""What all commands share: the application, options, the end with bad input; and `info`."""

import functools
import inspect
import math
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

from constructive import DISTRIBUTION, __version__
from constructive.cli.outputs import output_file, running, say, uncoloured
from constructive.support.errors import ConstructiveError, ParameterError, as_ours
from constructive.support.files import way_out
from constructive.support.work import JOBS, cores

_INTERRUPTED = 130  # The status with which typer ends a command after Ctrl-C, as shells do
_THREADS = (
    JOBS, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip

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

# What commands share.
SHARED = {
    "as_json": "Print one JSON document for programs instead of the text.",
    "case": "Only this case, a pattern of inputs; may be repeated.",
    "context_size": "Number n of tokens in a context.",
    "data": ".npz file or folder with contexts, queries and targets.",
    "examples": "Number T of examples.",
    "force": "Overwrite files that exist.",
    "head_dim": "Head dimension d_h; by default n for saturated heads, else 1.",
    "heads": "Number H of heads.",
    "jobs": "Number of threads; by default CONSTRUCTIVE_JOBS, or one a core, four at most.",
    "memorizer": ".safetensors file from `build`.",
    "quiet": "Show no progress, and print nothing about files that are written.",
    "seed": "Seed of all random choices.",
    "shape": 'Only the problems of this shape, such as --shape "causal, more keys"; may be '
    "repeated. The error for an unknown name lists all.",
    "value_dim": "Value dimension d_v, at least d_out, which is the default.",
    "width": "Number d of entries of a token or query.",
}
# Options that functions do not see: what they mean is done before they are called.
_ADDED = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (
        ("as_json", bool, False), ("force", bool, False), ("jobs", int | None, None),
        ("quiet", bool, False),
    )
}  # fmt: skip
_LETTERS = {
    "context_size": "-n", "examples": "-T", "heads": "-H", "jobs": "-j", "output": "-o",
    "quiet": "-q", "width": "-d",
}  # fmt: skip
# Options whose names mean something else, or nothing, in Python.
_NAMES = {"as_json": "--json", "option": "--set"}
# Parameters of the library, in its messages, whose options have other names.
_SAID = {"num_heads": "heads", "num_examples": "examples"}
# What is wrong whatever the files are, so that it is said before they are looked at. The most jobs
# are far above the cores of one machine.
_RANGES: dict[str, tuple[int, float]] = {
    "count": (1, 1_000_000), "jobs": (1, 1024), "seed": (0, math.inf),
    **dict.fromkeys(
        ("context_size", "head_dim", "heads", "length", "limit", "subsets",
         "target_dim", "value_dim", "width", "window"),
        (1, math.inf),
    ),
}  # fmt: skip


def command(
    group: typer.Typer,
    name: str | None = None,
    *,
    writes: Mapping[str, tuple[str, ...]] | None = None,
    adds: Sequence[str] = (),
    choices: Mapping[str, Sequence[str]] | None = None,
    metavar: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Make a function a command of the group.

    It runs within `running`, has --quiet, and --force if it writes files.

    writes: the parameters that are files to write, with the endings of such files (`output_file`)
    adds: more options that the function does not see
    choices: the words that a parameter takes;  metavar: what usage calls it
    """
    added = {each: _ADDED[each] for each in (*adds, *(["force"] if writes else []), "quiet")}

    def register(function: Command) -> Command:
        text, said = described(function)
        signature = inspect.signature(function)
        own = signature.parameters
        made = [
            _parameter(
                each,
                said.get(each.name) or SHARED[each.name],
                (choices or {}).get(each.name),
                (metavar or {}).get(each.name),
            )
            for each in (*own.values(), *added.values())
        ]

        @functools.wraps(function)
        def called(**given: Any) -> None:  # noqa: ANN401 - whatever the function takes
            given = {name: _plain(value) for name, value in given.items()}
            for each, value in given.items():
                _require_in_range(each, value)
            asked = {each: given.pop(each) for each in added}
            jobs = asked.pop("jobs", None)
            inputs = {
                each.name.upper(): given[each.name]
                for each in own.values()
                if writes and each.kind is not inspect.Parameter.KEYWORD_ONLY
            }
            with _threads(jobs), running(inputs, several=len(writes or ()) > 1, **asked):
                try:
                    for each, endings in (writes or {}).items():
                        if given[each] is not None:
                            given[each] = output_file(_option(each), given[each], *endings)
                    function(**given)
                except ConstructiveError as error:
                    said_so = _in_options(error, own.values())
                    if said_so is error:
                        raise
                    raise said_so from None

        called.__doc__ = text
        called.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined] # of typer
        called.__annotations__ = {each.name: each.annotation for each in made}
        group.command(name)(called)
        return function

    return register


@contextmanager
def _threads(jobs: int | None) -> Iterator[None]:
    """Give loops so many threads, those of the checker as well; None for the usual number."""
    before = os.environ.get(JOBS)
    if jobs is not None:
        os.environ[JOBS] = str(jobs)
    try:
        yield
    finally:
        if before is not None:
            os.environ[JOBS] = before
        else:
            os.environ.pop(JOBS, None)


def _require_in_range(name: str, given: object) -> None:
    least, most = _RANGES.get(name, (-math.inf, math.inf))
    for value in given if isinstance(given, list) else [given]:
        if isinstance(value, int) and not least <= value <= most:
            option = _option(name)
            raise ParameterError(
                f"{option} {value} is not from {least} to {most}" if most < math.inf
                else f"{option} {value} is less than {least}",
                witness=value,
                suggestion=f"{option} {min(max(value, least), most)}",
            )  # fmt: skip


def _in_options(error: ConstructiveError, own: Collection[inspect.Parameter]) -> ConstructiveError:
    """Return an error with the options of a command where it has arguments of Python."""
    names = [each.name for each in own if each.kind is inspect.Parameter.KEYWORD_ONLY]
    options = {name: _option(name) for name in names}
    options |= {said: _option(name) for said, name in _SAID.items() if name in names}
    value = r"'([\w -]+)'|(-?[\d.]*\d(?:e-?\d+)?)"
    named = re.compile(rf"\b({'|'.join(options) or '=='})(?:=(?:{value})?|(?= >= ))")

    def option(found: re.Match[str]) -> str:
        return f"{options[found[1]]} {found[2] or found[3] or ''}".rstrip()

    problem, suggestion = (named.sub(option, part) for part in (error.problem, error.suggestion))
    if (problem, suggestion) == (error.problem, error.suggestion):
        return error
    return type(error)(problem, witness=error.witness, suggestion=suggestion)


def _option(name: str) -> str:
    return _NAMES.get(name, "--" + name.replace("_", "-"))


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
        words = [_option(name), *([_LETTERS[name]] if name in _LETTERS else [])]
        info = typer.Option(*words, help=text, metavar=metavar)
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


# The end with bad input.


def main() -> None:
    """Run the command line; bad input ends it with status 2, an interrupt with 130.

    A request to terminate ends it like an interrupt, so that temporary files go (`support.files`).
    """
    signal.signal(signal.SIGTERM, _terminate)
    if uncoloured():
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
        for note in getattr(error, "__notes__", ()):  # of `command`
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


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


def require_rocq(formal: bool, folder: Path | None) -> None:
    """Raise ParameterError for --folder without --rocq."""
    if folder is not None and not formal:
        raise ParameterError(
            "--folder is for Rocq", witness=str(folder), suggestion="--rocq with it"
        )


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
        say(f"{name:<{space}}{value}")


def _name(requirement: str) -> str:
    """The name at the start of a requirement such as "numpy>=1.26" or "torch; extra == 'x'"."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()


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
