"""`rocq.check` and `prove --rocq`, with Rocq or without it; and the formal proofs as they stand."""

import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
from stored_parts import needs_rocq
from typer.testing import CliRunner

from constructive import cli
from constructive.rocq import compiling as rocq
from constructive.support.errors import MissingExtraError, OutputError
from constructive.support.work import progress_to
from constructive.theory import proofs

TEXT = (rocq.sources() / "main_theorems.txt").read_text()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Have only these programs on the path: shell scripts by their names."""

    def programs(**scripts):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\nPATH={os.defpath}:/usr/bin:/bin\n{script}\n")
            (folder / name).chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", str(folder))

    return programs


def run(*arguments):
    return CliRunner().invoke(cli.app, ["prove", "--rocq", *map(str, arguments)])


def test_what_to_install_where_rocq_is_not(programs):
    programs()
    with pytest.raises(MissingExtraError, match="the formal proofs need coqc") as caught:
        rocq.check()
    assert caught.value.witness == "coqc"
    assert caught.value.suggestion == (
        "Rocq 8.16 with mathcomp 1.15; on Debian 12: apt-get install coq make "
        "libcoq-mathcomp-analysis libcoq-mathcomp-algebra-tactics libcoq-mathcomp-zify"
    )


def test_make_is_needed(programs):
    programs(coqc="exit 1")
    with pytest.raises(MissingExtraError, match="need make, which is not installed"):
        rocq.check()


@pytest.mark.parametrize(
    "line",
    [
        "Error: Cannot find a physical path bound to logical path zify with prefix mathcomp.",
        "Error: Cannot find a physical path bound to logical path mathcomp.zify.",
        "Error: Unable to locate library reals with prefix mathcomp.analysis.",
    ],
)
def test_what_to_install_where_a_library_is_not(programs, line):
    programs(coqc="exit 1", make=f"echo COQC a.v\necho '{line}'\nexit 2")
    with pytest.raises(MissingExtraError, match="need libraries of Rocq") as caught:
        rocq.check()
    assert "mathcomp" in caught.value.witness


def test_a_failure_shows_the_end_of_the_output_and_ends_with_status_1(programs):
    programs(coqc="exit 1", make="seq 100\necho 'Error: no proof'\nexit 2")
    report = rocq.check()
    assert report.theorems == ()
    assert report.failure.splitlines()[::29] == ["72", "Error: no proof"]
    done = run()
    assert done.exit_code == 1
    assert "FAILED" in done.output
    assert "Error: no proof" in done.output


def test_a_folder_has_to_be_new():
    with pytest.raises(OutputError, match="it is not empty"):
        rocq.require_new(rocq.sources())


def test_what_make_leaves_is_read_and_every_file_is_announced(programs, tmp_path):
    programs(
        coqc="exit 0",
        make="echo COQC a.v\necho COQC b/c.v\ncp main_theorems.txt main_theorems.out",
    )
    seen = []
    with progress_to(lambda *step: seen.append(step)):
        report = rocq.check()
    total = len(rocq.files(rocq.sources()))
    assert seen == [("a.v", 0, total), ("b/c.v", 1, total)]
    assert report == rocq.FormalProofs(rocq.printed(TEXT), "")
    done = run("--folder", tmp_path / "built")
    assert done.exit_code == 0
    assert (tmp_path / "built" / "main_theorems.out").read_text() == TEXT


@pytest.mark.parametrize("name", ["main_theorems.out", "_CoqProject", "letters.txt", ".a.aux"])
def test_nothing_that_was_there_before_is_used(programs, tmp_path, name):
    programs(coqc="exit 0", make="exit 0")
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / name).write_text(TEXT)
    with pytest.raises(OutputError, match="not empty") as caught:
        rocq.check(folder)
    assert caught.value.witness == str(folder)
    assert [path.name for path in folder.iterdir()] == [name]
    assert rocq.check().theorems == ()


def test_what_is_built_lies_where_nobody_else_writes(programs, tmp_path):
    """In a temporary folder of its own, with the sources as they are; --folder has a copy."""
    programs(coqc="exit 0", make='pwd > where; stat -c %a . > mode; find . -name "*.v*" > listed')
    (tmp_path / "built").mkdir()
    rocq.check(tmp_path / "built")
    where, mode, listed = (
        (tmp_path / "built" / name).read_text() for name in ("where", "mode", "listed")
    )
    assert str(tmp_path) not in where
    assert mode == "700\n"
    assert sorted(listed.split()) == sorted(f"./{path}" for path in rocq.files(rocq.sources()))


def test_an_interrupt_ends_what_runs(programs, tmp_path):
    # The shell takes the signal itself; a build leaves with its compiler in the same way.
    programs(coqc="exit 0", make="echo COQC a.v\nexec sleep 60")
    start = time.monotonic()

    def interrupted(*_step):
        raise KeyboardInterrupt

    with progress_to(interrupted), pytest.raises(KeyboardInterrupt):
        rocq.check(tmp_path / "built")
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prove", "--folder", "built"], "--folder is for Rocq"),
        (["prove", "--rocq", "2-grouping"], "--rocq checks all formal proofs"),
    ],
)
def test_options_which_do_not_go_together(arguments, words):
    done = CliRunner().invoke(cli.app, arguments)
    assert words in str(done.exception)


def test_what_rocq_prints_is_read():
    found = {theorem.name: theorem for theorem in rocq.printed(TEXT)}
    assert found["theorem_1"].statement == "Theorem1"
    assert found["theorem_1"].axioms == (
        "boolp.propositional_extensionality",
        "boolp.functional_extensionality_dep",
        "boolp.constructive_indefinite_description",
    )
    assert found["theorem_8_weights"].axioms == ()
    assert "row_free" in found["lemma_4_1"].statement


def test_the_table_names_files_and_axioms():
    lines = rocq.table(rocq.printed(TEXT)).splitlines()
    assert lines[0].split() == ["theorem", "file", "axioms"]
    rows = [line.split(maxsplit=2) for line in lines[1 : lines.index("")]]
    assert ["theorem_10", "page_16_groups/theorem_10.v", "boolp 3"] in rows
    assert all((rocq.sources() / file).is_file() for _, file, _ in rows)
    assert "propositional_extensionality" in lines[-1]


@pytest.mark.slow
@needs_rocq
def test_rocq_checks_all_proofs():
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == rocq.table(rocq.printed(TEXT)).strip()  # stderr has its steps


@pytest.mark.slow
@needs_rocq
def test_make_notices_gaps_and_other_axioms(tmp_path):
    """In a copy with small files: a gap, a wrong proof, an axiom which is not expected."""
    names = ["Makefile", "sources.awk"]
    (tmp_path / "a").mkdir()
    for name in names:
        shutil.copy(rocq.sources() / name, tmp_path)
    (tmp_path / "_CoqProject").write_text("-R . Memorization\na/one.v\n")
    (tmp_path / "main_theorems.v").write_text(
        "From Memorization Require Import one.\nCheck one.\nPrint Assumptions one.\n"
    )
    expected = "one\n     : 1 = 1\nClosed under the global context\n"
    (tmp_path / "main_theorems.txt").write_text(expected)

    def make(text):
        (tmp_path / "a" / "one.v").write_text(text)
        os.utime(tmp_path / "a" / "one.v", (time.time() + 5, time.time() + 5))
        return rocq._make(tmp_path)

    assert make("Lemma one : 1 = 1. Proof. reflexivity. Qed.")[0] == 0
    status, output = make("Lemma one : 1 = 1. Proof. Admitted.")
    assert status
    assert "a/one.v:1" in output
    assert make("Lemma one : 1 = 1. Proof. exact I. Qed.")[0] != 0
    status, output = make(
        "Require Import Coq.Logic.Classical.\n"
        "Lemma one : 1 = 1. Proof. destruct (classic True); reflexivity. Qed."
    )
    assert status
    assert "other statements or axioms" in output


# The formal proofs as they stand: no gap, a place for every file, and pages which say so.


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
