"""Every example in the documentation, the README and the docstrings runs."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import constructive

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = ["constructive"] + [
    module.name
    for module in pkgutil.walk_packages(constructive.__path__, "constructive.")
    if not module.name.endswith("__main__")
]
FIGURE = re.compile(r"\d(\.\d+)?e[+-]\d+")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Checker(doctest.OutputChecker):
    """Rounding differs between machines: figures such as 1.2e-15 may differ in their digits."""

    def check_output(self, want, got, optionflags):
        return super().check_output(FIGURE.sub("#", want), FIGURE.sub("#", got), optionflags)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A closing fence right after an output would be read as part of it.
    text = page.read_text().replace("\n```", "\n\n```")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner(Checker(), optionflags=FLAGS).run(examples)
    assert result.failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_pages_have_examples():
    with_examples = [page.name for page in PAGES if ">>> " in page.read_text()]
    assert {"README.md", "tutorial.md"} <= set(with_examples)
