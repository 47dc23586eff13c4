"""Errors in the words of the command line: `--heads 6` for `num_heads=6`."""

import re
from collections.abc import Collection, Sequence

import typer

_ARGUMENT = re.compile(
    r"(?<!-)\b(?:num_)?(?P<name>[a-z_]+)=(?:'(?P<text>[^']*)'|(?P<value>[\w.]*))"
)
"""An argument of a function: its name without `num_`, and its value, if there is one."""


def options_of(app: typer.Typer, words: Sequence[str]) -> frozenset[str]:
    """Return the long options of the command that the words call, such as {"--heads"}."""
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return frozenset(option for given in command.params for option in given.opts)


def spelled(message: str, options: Collection[str]) -> str:
    """Return the message with arguments of functions as options, where the command has them.

    Example:
        >>> spelled("num_heads=6, or seed=1", {"--heads"})
        '--heads 6, or seed=1'
        >>> spelled("--heads='six'", {"--heads"})
        "--heads='six'"
    """

    def option(found: re.Match[str]) -> str:
        name = "--" + found["name"].replace("_", "-")
        value = found["value"] if found["text"] is None else found["text"]
        if name not in options:
            return found[0]
        return name if value in ("", "True") else f"{name} {value}"

    return _ARGUMENT.sub(option, message)
