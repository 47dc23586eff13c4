"""Blocks of the API pages: the site shows docstrings whole, where the repository shows a line."""

import re

from sphinx.application import Sphinx

BLOCK = re.compile(r"<!-- api\n(.*?)-->.*?<!-- end -->", re.DOTALL)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _whole)
    return {"parallel_read_safe": True}


def _whole(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Put the directives of a comment in the place of what was made from them."""
    source[0] = BLOCK.sub(r"```{eval-rst}\n\1```", source[0])
