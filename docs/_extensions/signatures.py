"""Signatures with the names which the code uses for long types, and no doubled descriptions."""

import re

import numpy.typing as npt
from docutils import nodes
from sphinx.addnodes import desc_annotation
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from constructive.support.arrays import Array


def _written(annotation: object) -> str:
    """A pattern for a type as autodoc writes it out."""
    return re.escape(stringify_annotation(annotation, "smart"))


_SHORT = {
    _written(npt.ArrayLike): "ArrayLike",
    _written(npt.DTypeLike): "DTypeLike",
    r"~numpy\.ndarray\[tuple\[[~.\w]+, \.\.\.\], "
    r"~numpy\.dtype\[[~.\w]+(?:\[[~.\w]+\])?\]\]": "Array",
    r"Array \| Array": "Array",
    r"~(?:typing|fractions)\.": "",
    r" ?= ?<factory>": " = ...",
}
"""Long types, as autodoc writes them out, and the names which the code uses."""

_ARRAY = re.sub(r"~[\w.]*\.", "", stringify_annotation(Array, "smart"))
"""The same in what is shown of a property, whose type autodoc hands to nobody before."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _shorten_properties)
    return {"parallel_read_safe": True}


def _shorten(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object,
             signature: str | None, returns: str | None) -> tuple[str | None, ...]:  # fmt: skip
    texts = [signature, returns]
    for pattern, name in _SHORT.items():
        texts = [text and re.sub(pattern, name, text) for text in texts]
    return tuple(texts)


def _shorten_properties(_app: Sphinx, tree: nodes.document) -> None:
    for annotation in tree.findall(desc_annotation):
        if _ARRAY in (text := annotation.astext()):
            annotation.children = []
            annotation.append(nodes.Text(text.replace(_ARRAY, "Array")))


def _skip(_app: Sphinx, _kind: str, _name: str, member: object, _skipped: bool,  # noqa: FBT001
          _options: object) -> bool | None:  # fmt: skip
    """Leave out what named tuples say of their fields; the class says it."""
    return True if str(member.__doc__).startswith("Alias for field") else None
