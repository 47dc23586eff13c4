"""The directive `{commands}`: every command with its arguments and options, as typer writes them.

    ```{commands} constructive.cli constructive
    ```

The first word is the module with the application, the second one its name for users.
"""

import re
import subprocess
import sys

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Commands(SphinxDirective):
    """Sections for an application, one for each command."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Have typer write Markdown, and read it as a part of the page."""
        module, name = self.arguments
        written = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "typer", module, "utils", "docs", "--name", name],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        _head, *commands = re.split(r"^## ", written, flags=re.MULTILINE)
        text = "".join(f"## {command}" for command in commands)
        return self.parse_text_to_nodes(_shown(text), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}


def _shown(text: str) -> str:
    """What typer wrote, without prompts and without what every command has."""
    text = re.sub(r"^\* `--help`: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\*\*Options\*\*:\n\n+(?=#|\Z)", "", text)  # no option is left
    return re.sub(r"^\$ ", "", text, flags=re.MULTILINE)
