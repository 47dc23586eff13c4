"""The layout of the house: who may import whom, and what may not stand in the package."""

import ast
import re
from pathlib import Path

import pytest

import constructive

PACKAGE = Path(__file__).parent.parent / "constructive"

READING_ORDER = [
    "errors",
    "files",
    "arrays",
    "extras",
    "progress",
    "parallel",
    "tables",
    "capacity",
    "published",
    "dataset",
    "planning",
    "generators",
    "mixing",
    "attention",
    "exact.directed",
    "exact.precision",
    "exact.modular",
    "exact.dyadic",
    "exact.specialize",
    "exact.ball",
    "exact.extended",
    "exact.verified",
    "exact.compensated",
    "exact.rational",
    "record",
    "interop.pytorch",
    "interop.onnx_graph",
    "memorizer",
    "contextual.network",
    "contextual.gadgets",
    "contextual.dictionary",
    "contextual.storage",
    "contextual.examples",
    "contextual.embedding",
    "contextual.attention",
    "contextual.rounded",
    "contextual.bounds",
    "interop.sequence_module",
    "interop.sequence_graph",
    "contextual.memorizer",
    "contextual.limits",
    "contextual.build",
    "contextual.growth",
    "text",
    "multihead.assumptions",
    "multihead.directions",
    "multihead.grouping",
    "multihead.heads",
    "multihead.intermediate",
    "multihead.readout",
    "decoupled.sweep",
    "decoupled.iteration",
    "decoupled.ordering",
    "decoupled.own",
    "decoupled.pairs",
    "decoupled.coupling",
    "decoupled.readout",
    "decoupled.schur",
    "constructions",
    "build",
    "verdict",
    "claims.rank",
    "claims.grouping",
    "claims.evaluation",
    "claims.error",
    "claims.readout",
    "claims.impossible",
    "claims.paired.examples",
    "claims.paired.entries",
    "claims.paired.inverse",
    "claims.paired.residuals",
    "claims.paired.judge",
    "claims.sequences",
    "data_capacity",
    "capacity_map",
    "assumptions.contexts",
    "assumptions.enumeration",
    "assumptions.search",
    "assumptions.kruskal",
    "assumptions.sampling",
    "assumptions.regrouping",
    "assumptions.report",
    "certificate",
    "certification",
    "checking",
    "strategies",
    "real_data",
    "figures.drawing",
    "figures.capacity",
    "figures.saturation",
    "figures.stages",
    "figures.independence",
    "figures.assumption_table",
    "figures.sequences",
    "figures.gallery",
    "demo",
    "prove",
    "environment",
    "cli.common",
    "cli.building",
    "cli.claims",
    "cli.sequences",
    "cli.sweeps",
    "cli.theory",
    "__main__",
]
"""A module may import only modules before it. The steps of the theorem are in their order."""


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


ISLAND = PACKAGE / "checker"
"""Run as a folder of its own: tests/checker looks at what it imports."""
MODULES = {
    module_name(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py" and ISLAND not in path.parents
}


def imported_modules(source):
    """The package's own modules which a source text imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    names = {name.removeprefix("constructive.") for name in found}
    return names & set(MODULES)


def wrong_imports(name, source):
    allowed = READING_ORDER[: READING_ORDER.index(name)]
    return imported_modules(source) - set(allowed)


def test_every_module_has_its_place_in_the_reading_order():
    assert sorted(READING_ORDER) == sorted(MODULES)


@pytest.mark.parametrize("name", READING_ORDER)
def test_modules_import_only_what_the_reader_has_met(name):
    assert not wrong_imports(name, MODULES[name].read_text())


def test_a_wrong_import_would_be_seen():
    assert wrong_imports("dataset", "from constructive.memorizer import Memorizer") == {"memorizer"}
    assert wrong_imports("dataset", "from constructive.multihead import heads") == {
        "multihead.heads"
    }
    assert not wrong_imports("dataset", "from constructive.errors import DataError")


def test_the_steps_are_in_alphabetical_order():
    steps = [name for name in READING_ORDER if name.startswith("multihead.")]
    assert steps == sorted(steps)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=module_name)
def test_no_check_by_assert(path):
    tree = ast.parse(path.read_text())
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]


def test_the_top_level_holds_what_the_layout_names():
    allowed = {
        "README.md", "pyproject.toml", "LICENSE", "constructive", "proofs", "tests", "docs",
    }  # fmt: skip
    # Other files may be the output of a command; folders and sources may not.
    found = {
        path.name
        for path in PACKAGE.parent.iterdir()
        if not path.name.startswith(".")
        and (path.is_dir() or path.suffix in {".py", ".md", ".toml", ".cfg", ".sh"})
    }
    assert found - {"build", "dist"} <= allowed


def test_every_public_name_has_a_docstring_and_is_in_the_api_pages():
    pages = "".join(page.read_text() for page in (PACKAGE.parent / "docs").rglob("*.md"))
    for name in constructive.__all__:
        assert getattr(constructive, name).__doc__, name
        directive = rf"^\.\. auto\w+:: constructive\.(assumptions\.)?{name}$"
        module = name in {"assumptions", "generators"}
        assert module or re.search(directive, pages, re.MULTILINE), f"{name} is not in docs/api"
