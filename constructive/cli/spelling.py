"""Errors in the words of the command line: `--heads 6` for `num_heads=6`."""

import ast
import re
import shlex
from collections.abc import Collection, Sequence

import typer

# An argument of a function: its name without `num_`, and its value as Python writes it.
_ARGUMENT = re.compile(
    r"(?<!-)\b(?:num_)?(?P<name>[a-z_]+)="
    r"(?P<value>"
    r"'(?:[^'\\\n]|\\.)*'"  # a string, in one kind of quotes
    r'|"(?:[^"\\\n]|\\.)*"'  # or in the other
    r"|\([^()\n]*\)|\[[^\[\]\n]*\]"  # a tuple, a list
    r"|-?\w[\w.+-]*"  # a number or a word
    r"|(?=[\s,;:.)]|$)"  # nothing: an argument that is only named
    r")"
)


_OTHERWISE = {"executor": "--jobs"}  # Options that have another name than the argument


def options_of(app: typer.Typer, words: Sequence[str]) -> frozenset[str]:
    """Return the long options of the command that the words call, such as {"--heads"}."""
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return frozenset(option for given in command.params for option in given.opts)


def spelled(message: str, options: Collection[str]) -> str:
    """Return the message with arguments of functions as options, where the command has them.

    Values that no option can have, such as None, stay as they are, with their names.

    Example:
        >>> spelled("num_heads=6, or seed=1", {"--heads"})
        '--heads 6, or seed=1'
        >>> spelled("--heads='six'", {"--heads"})
        "--heads='six'"
    """

    def option(found: re.Match[str]) -> str:
        name = _OTHERWISE.get(found["name"], "--" + found["name"].replace("_", "-"))
        words = _words(found["value"]) if name in options else None
        return found[0] if words is None else f"{name} {words}".rstrip()

    return _ARGUMENT.sub(option, message)


def _words(value: str) -> str | None:
    """Return what a user types for a value as Python writes it, or None if there is no such."""
    if re.fullmatch(r"(-?\w[\w.+-]*)?", value):
        return {"True": "", "False": None, "None": None}.get(value, value)
    try:
        given = ast.literal_eval(value)
    except (ValueError, SyntaxError):  # cut off, or no value at all
        return None
    texts = list(given) if isinstance(given, (tuple, list)) else [given]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return shlex.quote(",".join(texts))
