"""Optional dependencies: import them, or say which extra brings them."""

import importlib
from typing import Any

from constructive.support.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> Any:  # noqa: ANN401
    """Import an optional module.

    Raises:
        MissingExtraError: which names the extra to install

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


def hint(extra: str) -> str:
    """What brings an extra. The name `constructive` may be a stranger's on a package index.

    Example:
        >>> hint("torch")
        'pip install ".[torch]" in a checkout of constructive'
    """
    return f'pip install ".[{extra}]" in a checkout of constructive'
