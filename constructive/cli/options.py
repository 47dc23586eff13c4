"""Commands from functions: what stands before `*` is an argument, what stands after it an option.

The `Args` of its docstring say what each of them is, and what several commands take is said here.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from constructive.support.errors import ConstructiveError

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
    "jobs": "Number of processes to run.",
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
_SAID = {"num_heads": "heads", "num_examples": "examples", "executor": "jobs"}
# Of what the library does not check. The most processes are far above the cores of one machine.
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
