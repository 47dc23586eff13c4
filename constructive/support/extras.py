"""Optional dependencies: import them, or say which extra brings them."""

import importlib
from collections.abc import Mapping
from typing import Any

from constructive.support.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> Any:  # noqa: ANN401
    """Import an optional module.

    Example:
        >>> require("no_such_module", extra="demo", purpose="the demo")
        Traceback (most recent call last):
            ...
        constructive.MissingExtraError: the demo needs no_such_module, which is not installed
          witness: no_such_module
          try: pip install ".[demo]" in a checkout of constructive
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"{purpose} needs {package}, which is not installed"
        raise MissingExtraError(message, witness=package, suggestion=hint(extra)) from error


def require_packages(packages: Mapping[str, str], *, purpose: str) -> None:
    """Import modules that none of our extras brings; what to install for each is its value.

    Example:
        >>> require_packages({"no_such_module": "no-such-thing"}, purpose="the adapter")
        Traceback (most recent call last):
            ...
        constructive.MissingExtraError: the adapter needs no-such-thing, which is not installed
          witness: no-such-thing
          try: pip install no-such-thing
    """
    for module, package in packages.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            absent = getattr(error, "name", None) == module.partition(".")[0]
            reason = "is not installed" if absent else f"cannot be imported: {error}"
            message = f"{purpose} needs {package}, which {reason}"
            how = f"pip install {package}" if absent else f"another version of {package}"
            raise MissingExtraError(message, witness=package, suggestion=how) from error


def hint(extra: str) -> str:
    """Return the command that installs an extra.

    Example:
        >>> hint("torch")
        'pip install ".[torch]" in a checkout of constructive'
    """
    return f'pip install ".[{extra}]" in a checkout of constructive'
