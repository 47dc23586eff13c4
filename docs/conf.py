"""The documentation site: `sphinx-build -W -c docs . SITE`, from the top of a checkout.

The source directory is the checkout itself, so that pages may link to the proofs, and links are the
same for readers of the repository and of the site.
"""

import re
from importlib.metadata import version as _version
from typing import Any

import numpy.typing as npt
from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import stringify_annotation

import constructive
from constructive.support.progress import Progress

project = "constructive"
author = "the constructive contributors"
copyright = author  # noqa: A001 - Sphinx wants this name
version = release = _version("constructive")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**", "proofs/*.md"]
exclude_patterns = ["**/_build"]
nitpicky = False

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "python"

default_role = "py:obj"  # `code` in docstrings: a link where it is a public name
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types are in the signature, shapes in the text
napoleon_use_rtype = False

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False

smartquotes_action = "D"  # dashes, but no quotes: "auto" is to be copied

html_theme = "furo"
html_title = f"constructive {version}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_extra_path = ["_extra"]
html_show_sourcelink = False
html_copy_source = False


def _written(annotation: object) -> str:
    """A pattern for a type as autodoc writes it out."""
    return re.escape(stringify_annotation(annotation, "smart"))


_SHORT = {
    _written(npt.ArrayLike): "ArrayLike",
    _written(npt.DTypeLike): "DTypeLike",
    _written(Progress): "Progress",
    r"~numpy\.ndarray\[tuple\[[~.\w]+, \.\.\.\], "
    r"~numpy\.dtype\[[~.\w]+(?:\[[~.\w]+\])?\]\]": "Array",
    r"Array \| Array": "Array",
    r"~typing\.": "",
}
"""Long types, as autodoc writes them out, and the names which the code uses."""


def setup(app: Sphinx) -> None:
    """Shorten what Sphinx writes out, and tidy examples; Sphinx calls this."""
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _public)
    app.connect("source-read", _tidy)


def _shorten(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object,
             signature: str | None, returns: str | None) -> tuple[str | None, ...]:  # fmt: skip
    """Signatures with the names which the code uses for long types."""
    texts = [signature, returns]
    for pattern, name in _SHORT.items():
        texts = [text and re.sub(pattern, name, text) for text in texts]
    return tuple(texts)


def _skip(_app: Sphinx, _kind: str, _name: str, member: object, _skipped: bool,  # noqa: FBT001
          _options: object) -> bool | None:  # fmt: skip
    """Leave out what named tuples say of their fields; the class says it."""
    return True if str(member.__doc__).startswith("Alias for field") else None


def _public(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Any:  # noqa: ANN401
    """Link `Name` to `constructive.Name` from wherever it stands."""
    name, domain = node["reftarget"], env.get_domain("py")
    if name not in constructive.__all__:
        return None
    name, page = f"constructive.{name}", node["refdoc"]
    return domain.resolve_xref(env, page, app.builder, "obj", name, node, content)


def _tidy(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Drop the empty line before a closing fence, which ends the last output of an example."""
    source[0] = re.sub(r"\n\n```(?=\n|$)", "\n```", source[0])
