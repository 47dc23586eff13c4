"""Examples as they are shown: without the empty line that doctest needs after an output."""

import re

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _tidy)
    return {"parallel_read_safe": True}


def _tidy(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Drop the empty line before a closing fence, which ends the last output of an example."""
    source[0] = re.sub(r"\n\n```(?=\n|$)", "\n```", source[0])
