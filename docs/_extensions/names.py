"""`code` in backticks becomes a link where it is a public name, in docstrings and on pages."""

from typing import Any

from docutils import nodes
from docutils.nodes import Element
from sphinx.addnodes import desc, pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment

import constructive

COMMANDS = {"api/cli"}
"""Pages on which such words are commands: `check` there is not the function."""
INDEX = "api/index"
"""The page which also names what is below the top level of the package."""
KINDS = {"class", "function", "module"}
"""And of what is there, not what classes have."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("missing-reference", _public)
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True}


def _public(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Any:  # noqa: ANN401
    """Link `Name` to `constructive.Name` from wherever it stands in a docstring."""
    name, domain = node["reftarget"], env.get_domain("py")
    if name not in constructive.__all__:
        return None
    name, page = f"constructive.{name}", node["refdoc"]
    return domain.resolve_xref(env, page, app.builder, "obj", name, node, content)


def _link(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Link `Name` on a page, unless it is a link, or within a title or a signature."""
    domain = app.env.get_domain("py")
    if page in COMMANDS or not isinstance(domain, PythonDomain):
        return
    for literal in list(tree.findall(nodes.literal)):
        name = f"constructive.{literal.astext().removesuffix('()').removeprefix('constructive.')}"
        if page == INDEX and name not in domain.objects:
            below = name.removeprefix("constructive")
            kinds = {other: domain.objects[other].objtype for other in domain.objects}
            ends = (other for other in kinds if other.endswith(below) and kinds[other] in KINDS)
            name = min(ends, default=name)
        above = nodes.reference, nodes.title, desc
        if name not in domain.objects or any(isinstance(p, above) for p in _parents(literal)):
            continue
        link = domain.resolve_xref(
            app.env, page, app.builder, "obj", name, pending_xref(), literal.deepcopy()
        )
        if link is not None:
            literal.replace_self(link)


def _parents(node: nodes.Node) -> Any:  # noqa: ANN401
    while node.parent is not None:
        node = node.parent
        yield node
