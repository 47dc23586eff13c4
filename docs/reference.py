"""The pages of docs/api as they read without Sphinx: `python docs/reference.py` writes them anew.

A block of a page begins with a comment, which says what it shows, and ends with another one:

    <!-- api
    .. autofunction:: constructive.build_memorizer
    -->
    - **`build_memorizer(dataset, ...)`**: Build a layer ...
    <!-- end -->

What lies between them is made here: signatures and first sentences. The site shows the directives
of the comment instead (`_extensions/reference.py`). `<!-- commands -->` begins a block with all
commands, which typer describes, and the site shows it as it is.
"""

import enum
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

API = Path(__file__).parent / "api"
BLOCK = re.compile(r"<!-- (api|commands)\n?(.*?)-->.*?<!-- end -->", re.DOTALL)
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ([\w.]+)((?:\n +:.*)*)", re.MULTILINE)
USUAL = "--help", "--force", "--quiet", "--json"
"""Options that the page explains once for all commands."""
OPTION = re.compile(r"(?<![\w`-])(--[a-z][\w-]*)")
"""An option in a sentence, whose hyphens would be shown as a dash."""
LONG = 40
"""Characters of a default from which on it is left out, as are those that no code writes."""


def written(page: str) -> str:
    """Return a page with its blocks made anew."""

    def block(found: re.Match[str]) -> str:
        kind, directives = found.groups()
        lines = (
            commands() if kind == "commands" else list(map(entry, DIRECTIVE.findall(directives)))
        )
        begin = found.group().partition("-->")[0]
        return "\n".join([begin + "-->", "", *lines, "", "<!-- end -->"])

    return BLOCK.sub(block, page)


def entry(directive: tuple[str, str, str]) -> str:
    """Return the line of a name, and indented ones of its members."""
    kind, path, options = directive
    thing = resolved(path)
    lines = [line(path.rpartition(".")[2], thing, signature=kind != "exception")]
    if ":members:" in options:
        only, hidden, inherited = (
            re.search(rf":{name}:(.*)", options)
            for name in ("members", "exclude-members", "inherited-members")
        )
        chosen = only.group(1).replace(",", " ").split() if only else []
        left_out = hidden.group(1).replace(",", " ").split() if hidden else []
        lines += [
            "  " + line(name, member)
            for name, member in members(thing, inherited=bool(inherited))
            if (name in chosen if chosen else name not in left_out)
        ]
    return "\n".join(lines)


def resolved(path: str) -> object:
    """Return what a dotted name means, through the lazy names of the package."""
    home, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError:
        return getattr(resolved(home), name)


def members(owner: type, *, inherited: bool) -> list[tuple[str, object]]:
    """Return what a class has under public names, in the order of its source."""
    owners = [base for base in owner.__mro__ if base.__module__.startswith("constructive")]
    found = {
        name: value
        for base in owners[: None if inherited else 1]
        for name, value in vars(base).items()
    }
    if issubclass(owner, enum.Enum):
        return [(member.name, member) for member in owner]
    kinds = property, classmethod, staticmethod
    return [
        (name, value)
        for name, value in found.items()
        if not name.startswith("_")
        and (isinstance(value, kinds) or inspect.isfunction(value))
        and inspect.getdoc(value)
    ]


def line(name: str, thing: object, *, signature: bool = True) -> str:
    """Return the line of one name: its signature, and the first sentence about it."""
    if isinstance(thing, enum.Enum):
        return f"- **`{name}`**" + (f": {thing.value}" if " " in str(thing.value) else "")
    inner = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    call = ""
    plain = isinstance(inner, type) and issubclass(inner, enum.Enum)
    if signature and callable(inner) and not plain:
        call = arguments(inner, bound=isinstance(thing, classmethod))
    text = " ".join((inspect.getdoc(inner) or "").partition("\n\n")[0].split())
    first = re.split(r"(?<=\S[.!?]) (?=[A-Z`])", text)[0]
    return f"- **`{name}{call}`**: {first}"


def arguments(thing: object, *, bound: bool) -> str:
    """Return names and defaults of parameters, in brackets."""
    parameters = list(inspect.signature(thing).parameters.values())
    if bound or (parameters and parameters[0].name == "self"):
        parameters = parameters[1:]
    shown = []
    for parameter in parameters:
        default, none = parameter.default, inspect.Parameter.empty
        if default is not none and (len(repr(default)) > LONG or "<" in repr(default)):
            default = ...
        shown.append(parameter.replace(annotation=none, default=default))
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def commands() -> list[str]:
    """Return a section for each command: what it does, its arguments and its own options."""
    program = "typer", "constructive.cli", "utils", "docs", "--name", "constructive"
    text = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", *program], capture_output=True, text=True, check=True
    ).stdout
    lines = []
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]:
        name, rest = section.partition("**Commands**")[0].split("\n", 1)
        options = []
        for given, what in re.findall(r"^\* `(.*?)`: (.*)$", rest, re.MULTILINE):
            names = re.findall(r"(?<!\S)--?[\w-]+", given) or [given.partition(" <")[0]]
            if not set(names) & set(USUAL):
                words = OPTION.sub(r"`\1`", re.sub(r" +\[.*?\]$", "", what))
                options.append(f"- {', '.join(f'`{each}`' for each in names)}: {words}")
        about = rest.strip().partition("\n\n")[0]
        lines += ["", f"### {name.strip('`')}", "", " ".join(about.split())]
        lines += ["", *options] if options else []
    return lines[1:]


if __name__ == "__main__":
    for path in sorted(API.glob("*.md")):
        path.write_text(written(path.read_text("utf-8")), "utf-8")
