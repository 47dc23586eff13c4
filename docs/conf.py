"""The documentation site: `sphinx-build -W -c docs . SITE`, from the top of a checkout.

The source directory is the checkout itself, so that pages may link to the proofs, and links are the
same for readers of the repository and of the site.
"""

import re
import sys
from importlib.metadata import version as _version
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # for docstrings.py, beside this file

project = "constructive"
author = "the constructive contributors"
copyright = author  # noqa: A001 - Sphinx wants this name
version = release = _version("constructive")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "docstrings"]
root_doc = "docs/index"
include_patterns = ["docs/**", "proofs/*.md"]
exclude_patterns = ["**/_build"]
nitpicky = False

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "python"

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"constructive {version}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_extra_path = ["_extra"]
html_show_sourcelink = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Drop the empty line before a closing fence, which ends the last output of an example."""
    app.connect("source-read", _tidy)


def _tidy(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = re.sub(r"\n\n```(?=\n|$)", "\n```", source[0])
