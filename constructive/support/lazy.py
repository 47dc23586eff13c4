"""Names of a package that are imported when they are first used (PEP 562).

A package lists them as imports under `if TYPE_CHECKING:`, which editors and type checkers read, and
nobody runs; the same lines, as text, say here where each name lives.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(
    package: str, source: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, by the imports in its text."""
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def attribute(name: str) -> object:
        """Import what a name stands for."""
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        home = importlib.import_module(str(homes[name]))
        if not hasattr(home, name):  # a module of its own
            importlib.import_module(f"{homes[name]}.{name}")
        found = getattr(home, name)
        setattr(sys.modules[package], name, found)  # next time it is there
        return found

    def names() -> list[str]:
        """Return the public names, imported already or not, and the version."""
        return sorted({"__version__", *homes})

    return attribute, names, sorted(homes)
