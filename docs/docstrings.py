"""Docstrings as reStructuredText: this project writes them as plain text, to be read in code.

Blocks between blank lines become, in this order of preference:

    examples      what starts with >>> stays as it is
    fields        `name: what it is`, a line each, continued where indented
    errors        `Raises`, with an error a line
    layouts       anything else with indented lines or columns, as it stands
    paragraphs    with `code` in backticks, and links where the code is a public name
"""

import inspect
import re
from collections.abc import Iterable, Iterator

from sphinx.application import Sphinx

import constructive

_FIELD = re.compile(r"([a-z_][\w, .]*?):\s+(\S.*)")
_VALUE = re.compile(r"\s+(\"\w+\")\s\s+(\S.*)")
_ERROR = re.compile(r"\s+(\w+(?:, \w+)*)\s\s+(\S.*)")
_CODE = re.compile(r"`([^`]+)`")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+)(?<=[^\s*])\*(?![\w*])")
_ALIASES = {
    r"~numpy\.ndarray\[tuple\[[~.\w]+, \.\.\.\], "
    r"~numpy\.dtype\[[~.\w]+(?:\[[~.\w]+\])?\]\]": "Array",
    r"~numpy\._typing\.[.\w]+_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]": "ArrayLike",
    r"~collections\.abc\.Callable\[\[str, int, int\], None\]": "Progress",
    r"type\[~typing\.Any\] \| ~numpy\.dtype\[~typing\.Any\] \| "
    r"[^,=]*?_HasDType\b[^,=)]*": "DTypeLike",
    r"Array \| Array": "Array",
}
"""Long types, as autodoc writes them, and the names which the code uses."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Convert docstrings when autodoc reads them; Sphinx calls this."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}


def _process(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object,
             lines: list[str]) -> None:  # fmt: skip
    lines[:] = to_restructured("\n".join(lines))


def to_restructured(text: str) -> list[str]:
    r"""The lines of a docstring in reStructuredText.

    >>> print(*to_restructured("Solve `z`.\n\nz:  (T, d)\ny:  (T,), for\n    all T"), sep="\n")
    Solve ``z``.
    <BLANKLINE>
    - **z**: (T, d)
    - **y**: (T,), for
      all T
    <BLANKLINE>
    """
    out: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        out += [*_block(block.splitlines()), ""]
    return out


def _block(lines: list[str]) -> Iterator[str]:
    first = next((line for line in lines if line.strip()), "")
    rest = lines[1:]
    if first.lstrip().startswith(">>>"):
        yield from lines
    elif _FIELD.match(first):
        prose = (i for i, x in enumerate(lines) if not (_FIELD.match(x) or x.startswith(" ")))
        end = next(prose, len(lines))
        yield from _fields(_apart(lines[:end]))
        if end < len(lines):
            yield ""
            yield from _block(lines[end:])
    elif first in ("Raises", "Raises:") and rest:
        for line in rest:
            error = _ERROR.match(line)
            known = error and f":raises {error[1]}: {_inline(error[2])}"
            yield known or f"    {_inline(line.strip())}"
    elif any(line.startswith(" ") or "   " in line for line in lines) and not _is_list(lines):
        yield from ("::", "", *(f"    {line}" for line in lines))
    else:
        yield from _inline("\n".join(lines)).splitlines()


def _apart(lines: list[str]) -> Iterator[str]:
    """Fields which share a line, on lines of their own."""
    for line in lines:
        yield from re.split(r";\s\s+(?=[a-z_]+:\s)", line)


def _fields(lines: Iterable[str]) -> Iterator[str]:
    """A list of fields; quoted values which a field may take are a list in it."""
    nested = False
    for line in lines:
        field, value = _FIELD.match(line), _VALUE.match(line)
        if (value and not nested) or (field and nested):
            yield ""
        nested = bool(value) or (nested and not field)
        if field:
            yield f"- **{field[1]}**: {_inline(field[2])}"
        elif value:
            yield f"  - {value[1]}: {_inline(value[2])}"
        else:
            yield f"{'    ' if nested else '  '}{_inline(line.strip())}"


def _is_list(lines: list[str]) -> bool:
    return lines[0].startswith("- ") and all(x.startswith(("- ", "  ")) for x in lines)


def _inline(text: str) -> str:
    """Code in backticks, and everything else without any meaning of its own."""
    parts = _CODE.split(text)
    parts[::2] = ["".join(_escaped(part)) for part in parts[::2]]
    parts[1::2] = [_code(part) for part in parts[1::2]]
    return "".join(parts)


def _escaped(text: str) -> Iterator[str]:
    """Text without code, its *emphasis* kept."""
    for index, part in enumerate(_EMPHASIS.split(text)):
        escaped = re.sub(r"([\\*|_])", r"\\\1", part)
        yield f"*{escaped}*" if index % 2 else escaped


def _shorten(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object,
             signature: str | None, returns: str | None) -> tuple[str | None, ...]:  # fmt: skip
    """Signatures with the names which the code uses for long types."""
    texts = [signature, returns]
    for pattern, name in _ALIASES.items():
        texts = [text and re.sub(pattern, name, text) for text in texts]
    return tuple(texts)


def _skip(_app: Sphinx, _kind: str, _name: str, member: object, _skipped: bool,  # noqa: FBT001
          _options: object) -> bool | None:  # fmt: skip
    """Leave out what named tuples say of their fields; the class says it."""
    return True if str(inspect.getdoc(member)).startswith("Alias for field") else None


def _code(text: str) -> str:
    if text in constructive.__all__:
        return f":py:obj:`~constructive.{text}`"
    return f"``{text}``"
