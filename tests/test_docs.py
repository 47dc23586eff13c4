"""Every example in the documentation, the README and the docstrings runs; what counts as proved."""

import doctest
import importlib
import importlib.util
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import settings

import constructive
from constructive import Verdict
from constructive.cli import app
from constructive.theory import proofs

ROOT = Path(__file__).parent.parent

# Where a build of the site puts the proofs, which are tested where they are.
COPIES = ROOT / "docs" / "proofs"

PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != COPIES),
]

NAMES = ["constructive"] + [
    module.name
    for module in pkgutil.walk_packages(constructive.__path__, "constructive.")
    if not module.name.endswith("__main__")
]

PYTORCH = importlib.util.find_spec("torch") is not None
OF_PYTORCH = re.compile(r"^ *(?:>>> )?(?:import|from) torch\b", re.MULTILINE)
"""Examples and modules that are left out where it is not installed."""

FIGURE = re.compile(r"\d(\.\d+)?e[+-]\d+")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Checker(doctest.OutputChecker):
    """Rounding differs between machines: figures such as 1.2e-15 may differ in their digits."""

    def check_output(self, want, got, optionflags):
        return super().check_output(FIGURE.sub("#", want), FIGURE.sub("#", got), optionflags)


@pytest.fixture
def few_draws():
    """Examples that say nothing else draw ten times: they show how to call, and have to run."""
    usual = settings.get_current_profile_name()
    settings.register_profile("documentation", settings.get_profile(usual), max_examples=10)
    settings.load_profile("documentation")
    yield
    settings.load_profile(usual)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A closing fence right after an output would be read as part of it.
    text = page.read_text().replace("\n```", "\n\n```")
    if "from transformers import" in text:  # which is large, and in no extra
        pytest.importorskip("transformers")
    if OF_PYTORCH.search(text):
        pytest.importorskip("torch")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    result = doctest.DocTestRunner(Checker(), optionflags=FLAGS).run(examples)
    assert result.failed == 0


SCRIPTS = {
    f"{page.name}-{index}": script
    for page in PAGES
    if page.parent.name != "reports"  # these need verifiers, in pins of their own
    for index, script in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name, tmp_path):
    if OF_PYTORCH.search(SCRIPTS[name]):
        pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def source_of(name):
    return Path(importlib.util.find_spec(name).origin).read_text()


def room_of(name):
    return ".".join(name.split(".")[:2])


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("room", sorted(set(map(room_of, NAMES))))
def test_docstrings(room):
    """Of all modules of a room; what fails is printed with its place."""
    names = [name for name in NAMES if room_of(name) == room]
    if not PYTORCH:
        names = [name for name in names if not OF_PYTORCH.search(source_of(name))]
    modules = [importlib.import_module(name) for name in names]
    results = {each.__name__: doctest.testmod(each, optionflags=FLAGS) for each in modules}
    assert [name for name, result in results.items() if result.failed] == []


def test_the_command_line_page_names_every_command():
    page = (ROOT / "docs" / "api" / "cli.md").read_text()
    groups = [("", app), *((f"{g.name} ", g.typer_instance) for g in app.registered_groups)]
    for group, members in groups:
        for command in members.registered_commands:
            name = command.name or command.callback.__name__
            assert f"\nconstructive {group}{name}" in page, name


def sphinx(*arguments, **environment):
    """Build a site; any warning fails, as for those who publish it."""
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *arguments],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    site = tmp_path / "site"
    done = sphinx("-d", tmp_path / "cache", ROOT / "docs", site)
    assert done.returncode == 0, done.stderr
    heads = (site / "proofs" / "3-heads.html").read_text()
    assert 'class="math notranslate' in heads
    assert 'href="4-intermediate.html' in (site / "proofs" / "5-readout.html").read_text()
    assert 'href="../certificates.html' in (site / "proofs" / "10-exact-rank.html").read_text()
    assert 'href="proofs/15-contexts.html' in (site / "capacity.html").read_text()
    assert 'src="../_static/mathjax/tex-chtml.js"' in heads.replace('defer="defer" ', "")
    assert (site / "_static" / "mathjax" / "tex-chtml.js").stat().st_size > 500_000
    build = (site / "api" / "build.html").read_text()
    for text in ('id="constructive.build_memorizer"', "num_heads", "CapacityError", "&gt;&gt;&gt;"):
        assert text in build
    index = (site / "api" / "index.html").read_text()
    for target in ("build.html#constructive.Memorizer", "interop.html#constructive.progress_to"):
        assert f'href="{target}' in index
    commands = (site / "api" / "cli.html").read_text()
    for text in ('id="constructive-build"', "--construction", "--context-size"):
        assert text in commands
    signatures = re.findall('<dt class="sig .*?</dt>', build, re.DOTALL)
    assert signatures
    assert not [signature for signature in signatures if "ndarray" in signature]
    assert "BLANKLINE" not in "".join(page.read_text() for page in site.rglob("*.html"))


@pytest.mark.slow
def test_formulas_may_come_from_a_server_and_the_repository_is_linked(tmp_path):
    (tmp_path / "index.md").write_text("# Title\n\n$x^2$\n")
    site = tmp_path / "site"
    url = "https://example.org/repository"
    options = "-c", ROOT / "docs", "-D", "mathjax_from=cdn"
    done = sphinx(*options, tmp_path, site, READTHEDOCS_GIT_CLONE_URL=url)
    assert done.returncode == 0, done.stderr
    assert 'src="https://' in (site / "index.html").read_text()
    assert f'href="{url}"' in (site / "index.html").read_text()
    assert not (site / "_static" / "mathjax").exists()


def loaded(path):
    """A module which lies beside the pages."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = loaded(ROOT / "docs" / "reference.py")


@pytest.mark.parametrize("page", sorted(REFERENCE.API.glob("*.md")), ids=lambda page: page.name)
def test_pages_of_the_api_show_what_the_package_has(page):
    text = page.read_text()
    if "constructive.interop" in text:
        pytest.importorskip("torch")
    assert text == REFERENCE.written(text), "python docs/reference.py"
    assert "eval-rst" not in text


def test_a_name_that_has_changed_would_be_seen():
    page = "<!-- api\n.. autofunction:: constructive.rank\n-->\nold\n<!-- end -->\n"
    assert "- **`rank(matrix)`**: Return the exact rank" in REFERENCE.written(page)
    assert "\nold\n" not in REFERENCE.written(page)


def test_a_broken_link_would_be_seen(tmp_path):
    """What the site is built with does fail, here on two pages of which one is not there."""
    (tmp_path / "index.md").write_text("# Title\n\n[nowhere](nowhere.md)\n")
    done = sphinx("-c", ROOT / "docs", tmp_path, tmp_path / "o")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


def test_links_of_proofs_are_turned_to_their_place_on_the_site():
    pages = loaded(ROOT / "docs" / "_extensions" / "proof_pages.py")
    text = "[a](../docs/rocq.md), [b](3-heads.md), [c](rocq/Makefile)"
    assert pages.moved(text) == "[a](../rocq.md), [b](3-heads.md), [c](../../proofs/rocq/Makefile)"
    text = "[a](../proofs/3-heads.md)\n../../proofs/4-intermediate\n[c](../proofs/rocq/Makefile)"
    turned = "[a](/proofs/3-heads.md)\n/proofs/4-intermediate\n[c](../proofs/rocq/Makefile)"
    assert pages.turned(text) == turned


@pytest.mark.parametrize("place", ["docs/tutorial.md", "docs/rocq.md", "proofs/6-theorem-1.md"])
def test_theorem_1_is_stated_in_the_same_words_everywhere(place):
    first = stated((ROOT / "README.md").read_text())
    assert "(all of them if T < n)" in first
    assert stated((ROOT / place).read_text()) == first


def test_each_item_of_the_papers_is_on_their_page_with_commands_that_exist():
    page = (ROOT / "docs" / "papers.md").read_text()
    items = [f"*Figure {k}*" for k in range(1, 6)] + ["*Table 1*", "*Claim 1*", "*Proposition 2*"]
    items += [f"*Assumption {k}*" for k in range(1, 4)]
    items += ["*Theorem 1*", "*Next-token*", "*Sequence-to-s"]
    assert not [item for item in items if item not in page]
    commands = re.findall(r"`constructive (\S+) ([^`]*)`", page)
    known = (ROOT / "docs" / "api" / "cli.md").read_text()
    assert not [name for name, _ in commands if f"\nconstructive {name}" not in known]
    pages = [rest for name, rest in commands if name == "prove"]
    assert pages
    assert not [name for name in pages if not (ROOT / "proofs" / f"{name}.md").exists()]


def stated(text):
    """The first paragraph on Theorem 1 in quotes, whatever its lines are."""
    (quoted, *_) = re.findall(r"^> \*\*Theorem 1\*\*.*?(?=^>? *$)", text, re.DOTALL | re.MULTILINE)
    return " ".join(quoted.replace("\n> ", " ").split())


NOTEBOOK = loaded(ROOT / "docs" / "notebook.py")


@pytest.mark.parametrize("name", NOTEBOOK.NOTEBOOKS)
def test_notebooks_are_those_of_their_pages(name):
    page = ROOT / "docs" / name
    stored = json.loads(page.with_suffix(".ipynb").read_text())
    require_shown(stored, page)
    for cell in stored["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    assert stored == json.loads(NOTEBOOK.notebook(page.read_text())), (
        f"python docs/notebook.py {page}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOK.NOTEBOOKS)
def test_notebooks_run(name, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    page = ROOT / "docs" / name
    script = (
        f"import sys; sys.path.insert(0, {str(page.parent)!r})\n"
        "import notebook, pathlib\n"
        "print(notebook.executed(pathlib.Path(sys.argv[1]).read_text('utf-8')))"
    )
    command = [sys.executable, "-c", script, page.with_suffix(".ipynb")]
    patient = os.environ | {"CI": "true"}  # Hypothesis waits for machines which are busy
    done = subprocess.run(
        command, cwd=tmp_path, env=patient, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    require_shown(json.loads(done.stdout), page)


def require_shown(notebook, page):
    """Cells show what the page says they show."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = [text for cell in cells if (text := output(cell))]
    text = page.read_text().replace("\n```", "\n\n```")
    examples = [each for each in doctest.DocTestParser().get_examples(text) if each.want]
    assert len(shown) == len(examples) > 10
    for got, example in zip(shown, examples, strict=True):
        want = example.exc_msg.removeprefix("constructive.") if example.exc_msg else example.want
        assert Checker().check_output(want, got, FLAGS), (got, want)


def output(cell):
    """What a cell shows, as text."""
    texts = []
    for each in cell["outputs"]:
        if each["output_type"] == "error":
            texts.append(f"{each['ename']}: {each['evalue']}\n")
        elif each["output_type"] == "stream":
            texts.append("".join(each["text"]))
        else:
            texts.append("".join(each["data"]["text/plain"]) + "\n")
    return "".join(texts)


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
            options = "-o|--output|--save-data|--picture|--text|--certificate"
            new = re.findall(rf"(?:{options}) (\S+)", line)
            read = set(re.findall(r"\S+\.(?:npz|json|safetensors)", line)) - set(new)
            assert not set(new) & set(made), (page.name, line)
            if page.name in {"README.md", "cli.md", "capacity.md"}:
                assert read <= set(made), (page.name, line)
            made += new


# The runner of literate proofs: what must not count as proved or checked.


PROOF = "**Proof.** Clear. QED\n\n"
CHECK = "```pycon\n>>> holds('exact', 1 + 1 == 2)\n\n```\n"
TRIED = "```pycon\n>>> try: holds('exact', False)\n... except ValueError: pass\n\n```\n"
IMPORT = "```pycon\n>>> from constructive.theory.proofs import holds\n\n```\n"

EXPECTED = (
    "```pycon\n>>> holds('exact', False)\nTraceback (most recent call last):\n"
    "    ...\nValueError: an instance does not hold: False\n\n```\n"
)


def outcomes(tmp_path, text):
    page = tmp_path / "1-page.md"
    page.write_text(text)
    return list(proofs.run(page))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# P\n\n## L\n\n**Proof.** Clear, but for the end.\n\n" + CHECK, "no"),
        ("# P\n\n## L\n\n" + CHECK, "no"),
        ("# P\n\n## L\n\n" + PROOF, "no"),
        ("# P\n\n## L\n\n" + PROOF + CHECK.replace("2)", "3)"), "does not hold: False"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + "```pycon\n>>> 1 + 1\n3\n\n```\n", "Expected"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + "```pycon\n>>> 1 / 0\n\n```\n", "ZeroDivisionError"),
        ("# P\n\n## L\n\n" + PROOF + CHECK.replace("2)", "3)  # doctest: +SKIP"), "skipped"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + TRIED, "expect an error"),
        ("# P\n\n## L\n\n" + PROOF + IMPORT + CHECK, "no"),  # what nobody counts is not a check
        ("# P\n\n## L\n\n" + PROOF + CHECK + EXPECTED, "expect an error"),
    ],
)
def test_what_is_incomplete_or_wrong_does_not_hold(tmp_path, text, words):
    (found,) = outcomes(tmp_path, text)
    assert not found.holds
    table = proofs.table([found])
    assert "FAILED" in table
    assert words in table


def test_a_whole_statement_holds(tmp_path):
    (found,) = outcomes(tmp_path, "# P\n\n## L\n\n" + PROOF + CHECK)
    assert found.holds
    assert found.instances == {"exact": 1}


def test_a_page_may_import_what_it_calls(tmp_path):
    """At its top, for those who paste it; the runner counts all the same."""
    (found,) = outcomes(tmp_path, "# P\n\n" + IMPORT + "## L\n\n" + PROOF + CHECK)
    assert found.holds
    assert found.instances == {"exact": 1}
    failing = IMPORT + "## L\n\n" + PROOF + CHECK.replace("2)", "3)")
    (found,) = outcomes(tmp_path, "# P\n\n" + failing)
    assert not found.holds


def test_sections_share_their_names_and_start_their_counts_anew(tmp_path):
    text = "# P\n\n```pycon\n>>> x = 2\n\n```\n## L\n\n" + PROOF + CHECK.replace("2)", "x)")
    first, second = outcomes(tmp_path, text + "\n## M\n\n" + PROOF + CHECK)
    assert first.holds
    assert second.holds
    assert second.instances == {"exact": 1}


@pytest.mark.parametrize(
    "condition",
    [False, None, 1, "True", [True], Verdict.UNDECIDED, Verdict.REFUTED, sympy.Symbol("x") > 0,
     np.array([True]), "yes", sympy.false, np.False_],
)  # fmt: skip
def test_only_what_is_true_counts(condition):
    ledger = proofs.Ledger()
    with pytest.raises(ValueError, match="an instance does not hold"):
        ledger("exact", condition)
    assert not ledger.counts


@pytest.mark.parametrize("condition", [True, np.True_, Verdict.PROVED, sympy.true])
def test_what_counts(condition):
    ledger = proofs.Ledger()
    ledger("symbolic", condition)
    assert ledger.counts == {"symbolic": 1}


def test_the_pages_are_in_reading_order_and_each_step_has_one():
    stems = [page.stem for page in proofs.pages()]
    assert [int(stem.partition("-")[0]) for stem in stems] == list(range(1, len(stems) + 1))
    steps = ["assumptions", "grouping", "heads", "intermediate", "readout"]
    assert [stem.partition("-")[2] for stem in stems[:5]] == steps
