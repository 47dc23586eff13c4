"""The formal proofs as they stand: no gap, a place for every file, and pages which say so."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from constructive.certificates.rocq import compiling as rocq
from constructive.theory import proofs

ROOT = Path(__file__).parent.parent.parent
FOLDER = rocq.sources()
FILES = rocq.files(FOLDER)
MAIN = "main_theorems"

needs_awk = pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")


def gaps(*sources):
    command = ["awk", "-f", FOLDER / "sources.awk", *sources]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_awk
def test_no_source_has_a_gap():
    done = gaps(*(FOLDER / path for path in FILES))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_awk
@pytest.mark.parametrize(
    "line",
    [
        "Admitted.", "Proof. admit.", "by give_up.", "Axiom a : False.", "Local Axioms a b : nat.",
        "Parameter x : nat.", "Parameters x y : nat.", "Conjecture c : False.",
        "Unset Guard Checking.", "Unset Universe Checking.", "#[bypass_check(guard)]",
        "Hypothesis h : False.", "Variables (x y : nat).", "  Context (x : nat).",
        "Section A.\nEnd A.\nVariable x : nat.", 'Declare ML Module "m".',
    ],
)  # fmt: skip
def test_a_gap_would_be_seen(tmp_path, line):
    path = tmp_path / "gap.v"
    path.write_text(f"(* proofs/1-assumptions.md *)\n{line}\n")
    done = gaps(path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:")


@needs_awk
def test_what_belongs_to_a_section_is_no_gap(tmp_path):
    path = tmp_path / "whole.v"
    path.write_text("Section A.\nVariable x : nat.\nHypothesis admitted_h : x = 1.\nEnd A.\n")
    assert gaps(path).returncode == 0


def test_every_file_is_built():
    listed = re.findall(r"^\S+\.v$", (FOLDER / "_CoqProject").read_text(), re.MULTILINE)
    assert sorted([*listed, f"{MAIN}.v"]) == [path.as_posix() for path in FILES]


def test_what_make_uses_beside_the_sources_is_copied():
    used = set(re.findall(r"_CoqProject|[a-z_]+\.(?:awk|txt)", (FOLDER / "Makefile").read_text()))
    assert {*used, "Makefile"} == set(rocq._BESIDE)


def named_pages(path):
    """The pages which the comment at the head of a source names."""
    head = "".join(re.findall(r"\A(?:\(\*.*\*\)\n)+", (FOLDER / path).read_text()))
    assert "proofs/" in head, path
    return re.findall(r"\d+-[a-z0-9-]+\.md", head)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_names_its_pages_and_they_link_to_it(path):
    names = named_pages(path)
    assert names
    for name in names:
        text = (FOLDER.parent / name).read_text()
        assert path.stem == MAIN or f"](rocq/{path.as_posix()})" in text, name


@pytest.mark.parametrize("page", proofs.pages(), ids=lambda page: page.stem)
def test_links_of_pages_to_sources_lead_somewhere(page):
    for link in re.findall(r"\]\((rocq/[^)]*)\)", page.read_text()):
        assert (page.parent / link).is_file()


def test_a_folder_of_a_page_has_its_number_and_name():
    stems = {page.stem for page in proofs.pages()}
    for folder in FOLDER.glob("page_*"):
        number, name = re.fullmatch(r"page_(\d\d)_(\w+)", folder.name).groups()
        assert f"{int(number)}-{name.replace('_', '-')}" in stems


@pytest.mark.parametrize("path", FILES, ids=str)
def test_lines_are_short(path):
    lines = (FOLDER / path).read_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if line != line.rstrip() or "\t" in line]


def test_every_statement_is_proved_and_its_axioms_are_printed():
    main = (FOLDER / f"{MAIN}.v").read_text()
    proved = {theorem.statement for theorem in rocq.printed((FOLDER / f"{MAIN}.txt").read_text())}
    for path in (FOLDER / "statements").glob("*.v"):
        stated = re.findall(r"^Definition (\w+) : Prop :=", path.read_text(), re.MULTILINE)
        assert stated
        assert set(stated) <= proved
    checked = re.findall(r"^Check @?(\w+)\.$", main, re.MULTILINE)
    groups = dict(re.findall(r"^Definition (\w+) := \((.*?)\)\.$", main, re.MULTILINE | re.DOTALL))
    asked = re.findall(r"^Print Assumptions (\w+)\.$", main, re.MULTILINE)
    members = [re.findall(r"\w+", groups.get(name, name)) for name in asked]
    assert checked == [name for group in members for name in group]
    assert checked == [t.name for t in rocq.printed((FOLDER / f"{MAIN}.txt").read_text())]


USUAL = {
    "boolp.propositional_extensionality", "boolp.functional_extensionality_dep",
    "boolp.constructive_indefinite_description",
}  # fmt: skip


def test_the_expected_axioms_are_those_which_the_docs_name():
    text = (ROOT / "docs" / "proofs.md").read_text()
    assert all(f"`{name}`" in text for name in USUAL)
    for theorem in rocq.printed((FOLDER / f"{MAIN}.txt").read_text()):
        others = {axiom.partition(".")[0] for axiom in set(theorem.axioms) - USUAL}
        assert others <= {"PrimInt63", "Uint63"}
        if others:
            assert f"`{theorem.name}`" in text
            assert theorem.name.startswith("check_")


def test_the_docs_say_of_every_statement_whether_it_is_checked():
    """The table of docs/proofs.md and the pages agree, statement by statement."""
    text = (ROOT / "docs" / "proofs.md").read_text()
    section = text.partition("## Checked by Rocq")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (\w+ [\d.]+) \|.*\((\S+\.v)\) \|$", section, re.MULTILINE))
    missing = section.partition("Not checked by Rocq:")[2].partition(";")[0]
    for page in proofs.pages():
        for part in proofs.sections(page):
            if not part.proved:
                continue
            name = part.title.partition(" (")[0]
            assert (name in rows) != (name in re.findall(r"\w+ \d+(?:\.\d+)?", missing)), name
            links = re.findall(r"\]\((rocq/\S+\.v)\)", part.text)
            assert bool(links) == (name in rows), name
            if links:
                assert rows.pop(name).removeprefix("../proofs/") in links
    assert not rows


def test_the_page_for_readers_quotes_the_sources():
    pages = [ROOT / "docs" / "rocq.md", ROOT / "proofs" / "6-theorem-1.md"]
    blocks = re.findall(r"```coq\n(.*?)```", "".join(p.read_text() for p in pages), re.DOTALL)
    sources = "".join((FOLDER / path).read_text() for path in FILES)
    assert len(blocks) > 8
    assert not [block for block in blocks if block not in sources]
