"""The documentation site: `sphinx-build docs build/site`.

Pages link to each other, and to the proofs beside this folder, as a reader of the repository would
click; `_extensions/` has what makes the same links work on the site, one file for each idea.
"""

import os
import sys
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

from constructive import DISTRIBUTION, __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "constructive"
author = "the constructive contributors"
copyright = author  # noqa: A001 - Sphinx wants this name
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "examples",
    "local_mathjax",
    "names",
    "proof_pages",
    "reference",
    "signatures",
]
exclude_patterns = ["_*"]
nitpicky = False

mathjax_from = "site"  # or "cdn": -D mathjax_from=cdn

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "python"

default_role = "py:obj"  # `code` in docstrings: a link where it is a public name
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types are in the signature, shapes in the text
napoleon_use_rtype = False

autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = False  # it reads sources, which generators share
python_maximum_signature_line_length = 88
add_module_names = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # without output, and without the prompts
copybutton_prompt_is_regexp = True

smartquotes_action = "D"  # dashes, but no quotes: "auto" is to be copied

html_theme = "furo"
html_title = f"constructive {version}"
html_static_path = ["_static"]
html_css_files = ["columns.css"]
html_show_sourcelink = False
html_copy_source = False

# The repository is known where `[project.urls]` in pyproject.toml names it, or who builds does.
_about = metadata(DISTRIBUTION)
_urls = dict(url.split(", ", 1) for url in _about.get_all("Project-URL") or [])
_repository = _urls.get("Repository") or os.environ.get("READTHEDOCS_GIT_CLONE_URL", "")
if _repository.startswith("https://"):  # a link at the foot of every page
    _link = {"name": "Repository", "url": _repository, "html": "Repository", "class": ""}
    html_theme_options = {"footer_icons": [_link]}
