"""Every example in the documentation, the README and the docstrings runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import constructive
from constructive.cli import app

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


SCRIPTS = {
    f"{page.name}-{index}": script
    for page in PAGES
    for index, script in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_scripts():
    assert {"many-cores.md-0", "many-cores.md-1"} <= set(SCRIPTS)


@pytest.mark.parametrize("name", NAMES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_the_command_line_page_names_every_command():
    page = (ROOT / "docs" / "api" / "cli.md").read_text()
    groups = [("", app), *((f"{g.name} ", g.typer_instance) for g in app.registered_groups)]
    for group, members in groups:
        for command in members.registered_commands:
            name = command.name or command.callback.__name__
            assert f"\nconstructive {group}{name}" in page, name


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "cache"]
    done = subprocess.run(
        [*command, "-c", ROOT / "docs", ROOT, tmp_path / "site"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert 'class="math notranslate' in (site / "proofs" / "3-heads.html").read_text()
    build = (site / "docs" / "api" / "build.html").read_text()
    for text in ('id="constructive.build_memorizer"', "num_heads", "CapacityError", "&gt;&gt;&gt;"):
        assert text in build


def test_a_broken_link_would_be_seen(tmp_path):
    """What the site is built with does fail, here on two pages of which one is not there."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Title\n\n[nowhere](nowhere.md)\n")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-c", ROOT / "docs", tmp_path, tmp_path / "o"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


def test_the_commands_of_a_page_overwrite_nothing():
    """Each writes files of its own, and reads what one before it has written, or the README."""
    for page in PAGES:
        text = page.read_text()
        lines = "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL)).splitlines()
        made = ["README.md"]
        for line in lines:
            if not re.match("constructive |python -I constructive/", line):
                continue
            line = line.partition("  #")[0]  # noqa: PLW2901
            new = re.findall(r"(?:-o|--output|--data|--picture|--text|--certificate) (\S+)", line)
            read = set(re.findall(r"\S+\.(?:npz|json|safetensors)", line)) - set(new)
            assert not set(new) & set(made), (page.name, line)
            if page.name in {"README.md", "cli.md", "capacity.md", "memorize-a-text.md"}:
                assert read <= set(made), (page.name, line)
            made += new


def test_pages_have_examples():
    with_examples = [page.name for page in PAGES if ">>> " in page.read_text()]
    assert {"README.md", "tutorial.md"} <= set(with_examples)
