"""`check --rocq`: what the file for Rocq says, and what Rocq proves of it or refuses."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from stored_parts import (
    RANKS,
    by_rocq,
    needs_rocq,
    rank,
    replaced,
    saved,
)
from typer.testing import CliRunner

from constructive import (
    FormatError,
    OutputError,
    ParameterError,
    cli,
)
from constructive.rocq import compiling as rocq
from constructive.rocq import definitions, theories
from constructive.rocq.confirm import (
    AXIOMS,
    compile_files,
    confirm,
    gigabytes,
    objection,
    question,
    read,
    require_same,
)
from constructive.rocq.definitions import MAIN, write
from constructive.rocq.theories import RANK, right_inverse


def value_of(x, exponent):
    """A number as the file has it, by fractions."""
    sign, whole, shift = x.split()
    size = int(whole) * 2 ** int(shift) * Fraction(2) ** exponent
    return -size if sign == "Minus" else size


@pytest.mark.parametrize("name", RANKS.cases)
def test_every_number_of_the_file_is_the_stored_one(name):
    _, memorizer, data = rank(name)
    (text,) = write(RANKS.instance(name)).values()
    lines = dict(
        line.removeprefix("Definition ").removesuffix(".").split(" := ", 1)
        for line in text.splitlines()
        if line.startswith("Definition ") and " := " in line
    )
    lines = {key.split()[0]: value for key, value in lines.items()}
    stored = {
        "contexts": data.contexts,
        "queries": data.queries,
        "query_weights": memorizer.layer.query_weights,
        "key_weights": memorizer.layer.key_weights,
    }
    for key, array in stored.items():
        words = lines[key].removesuffix("%uint63").replace("[::", "").replace("]", "")
        power = lines[f"{key}_exponent"]
        exponent = int(power.removesuffix("%:Z)%R").removeprefix("(").replace(" ", ""))
        values = [value_of(x, exponent) for x in words.split(";")]
        assert values == [Fraction(x) for x in array.ravel().tolist()]


def test_numbers_of_all_sizes_are_read_back():
    queries = np.array([[5e-324, -1e308, 0.0, -0.1, 2.0**-1074]] * 7)
    files = write(replaced(RANKS.instance("own"), queries=queries))
    assert np.array_equal(read(RANK, files).values["queries"], queries)


@pytest.fixture
def pieces(monkeypatch):
    """Cut lists and files at a few numbers."""
    monkeypatch.setattr(definitions, "_PIECE", 400)
    monkeypatch.setattr(definitions, "_FILE", 900)


@pytest.mark.usefixtures("pieces")
def test_long_lists_are_cut_into_pieces_and_files():
    made, known = RANKS.instance("own"), RANKS.known("own")
    files = write(made)
    assert list(files) == [*(f"numbers_{k}" for k in range(len(files) - 1)), MAIN]
    assert len(files) > 3
    assert "Definition contexts : arrays := contexts_0 ++ contexts_1" in files[MAIN]
    assert "From Stored Require Import numbers_1." in files[MAIN]
    assert all(text.startswith(RANK.head) for text in files.values())
    found = read(RANK, files)
    assert require_same(found, known) == sum(x.size for x in known.arrays.values())
    assert found.values["inverse"] == made.values["inverse"]


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("numbers_1", lambda text: text + "Definition more : nat := 0%N.\n"),
        ("numbers_0", lambda text: text.replace("Plus 6", "Plus 5", 1).replace("Z", "N", 1)),
        ("numbers_0", lambda text: "\n".join(sorted(text.splitlines()))),
        (MAIN, lambda text: text.replace("contexts_0 ++ contexts_1", "contexts_1 ++ contexts_0")),
        (MAIN, lambda text: text.replace("contexts_0 ++ contexts_1", "contexts_0 ++ contexts_0")),
        (MAIN, lambda text: text.replace("Require Import numbers_1", "Require Import other")),
    ],
)
def test_pieces_in_another_order_and_other_lines_are_refused(file, change):
    files = write(RANKS.instance("own"))
    with pytest.raises(FormatError, match="this is not a file for Rocq"):
        read(RANK, {**files, file: change(files[file])})


def with_line(text, name, value):
    """The text with another value of a definition."""
    start = text.index(f"Definition {name} : {RANK.definitions[name]} := ")
    stop = text.index(".\n", start)
    return f"{text[:start]}Definition {name} : {RANK.definitions[name]} := {value}{text[stop:]}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("= T.", "= 0."), "other lines"),
        (lambda text: "Unset Guard Checking.\n" + text, "other lines"),
        (lambda text: with_line(text, "n", "3%N). Definition x := (3%N"), "not a number: 3%N"),
        (lambda text: with_line(text, "n", "03%N"), "how its numbers are written"),
        (lambda text: with_line(text, "queries", "[::[::Plus x 0]]%uint63"), "its numbers"),
        (lambda text: with_line(text, "inverse", "[::[::[::0-1]]]%uint63"), "its numbers"),
        (lambda text: with_line(text, "columns", "[::[::negb true]]"), "its numbers"),
        (lambda text: with_line(text, "queries", f"[::[::Plus {1 << 60} 0]]%uint63"), "other"),
        (lambda text: text.replace("Definition d :", "Definition e :"), "its numbers ('d')"),
        (
            lambda text: text.replace("Definition of_e", "Definition x := 1.\nDefinition of_e"),
            "other lines",
        ),
        (
            lambda text: text.replace(
                "Definition T :", "Definition U : nat := 1%N.\nDefinition T :"
            ),
            "other lines",
        ),
    ],
)
def test_a_file_with_anything_else_is_refused(change, words):
    files = write(RANKS.instance("own"))
    with pytest.raises(FormatError, match="this is not a file for Rocq") as caught:
        read(RANK, {MAIN: change(files[MAIN])})
    assert words in str(caught.value)


def test_arrays_of_other_shapes_are_found():
    found, known = read(RANK, write(RANKS.instance("own"))), RANKS.known("own")
    fewer = {**known.arrays, "queries": known.arrays["queries"][:1]}
    with pytest.raises(FormatError, match="the shape of queries is"):
        require_same(found, dataclasses.replace(known, arrays=fewer))


def test_dependent_columns_have_no_right_inverse():
    with pytest.raises(ParameterError, match="rows have rank 1 modulo 1009 in 2 columns, not 2"):
        right_inverse(np.array([[1.0, 2.0], [2.0, 4.0]]), 1009)


MEANINGS = "".join(f"Expands to: Constant {name}\n" for name in sorted(AXIOMS))


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (f"{MEANINGS}Axioms:\nPrimInt63.sub : int\nUint63.sub_spec\n  : forall x, x\n", ""),
        (f"{MEANINGS}Axioms:\nboolp.sub\n  : False\n", "boolp.sub"),
        (f"{MEANINGS}Axioms:\nf' : False\nf is assumed to be guarded.\n", "guarded., f'"),
        (f"{MEANINGS}Axioms:\nsub : int\n", "sub"),  # by another name than its own
        (f"{MEANINGS}Axioms:\nUint63.sub : int\n", "Uint63.sub"),
        (f"{MEANINGS}Closed under the global context\n", "nothing is said"),
        ("Axioms:\nPrimInt63.sub : int\n", "mean others"),
        (MEANINGS.replace("Coq.Numbers", "Stored", 1) + "Axioms:\nPrimInt63.sub : int\n", "Stored"),
        ("", "nothing is said"),
    ],
)
def test_axioms_are_compared_by_their_full_names(printed, words):
    said = objection(printed)
    assert words in said
    assert bool(said) == bool(words)


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("Module boolp. Axiom sub : False. End boolp. Definition both := boolp.sub.", "boolp.sub"),
        ("Axiom sub : False. Definition both := sub.", "stored.sub"),
        ("Module PrimInt63. Axiom sub : False. End PrimInt63. Definition both := PrimInt63.sub.",
         "PrimInt63.sub"),
        ("Definition both := I.", "nothing is said"),
        ("From Coq Require Import Uint63. Definition both := (sub, sub_spec).", ""),
    ],
)  # fmt: skip
def test_an_axiom_by_the_name_of_an_expected_one_is_another(theory, tmp_path, lines, words):
    head = "From mathcomp.analysis Require Import reals.\nRequire Uint63.\n"
    (tmp_path / "stored.v").write_text(head + lines)
    (tmp_path / "axioms.v").write_text(question("both"))
    run = compile_files(["stored", "axioms"], tmp_path, theory)
    assert run.returncode == 0, run.stderr
    said = objection(run.stdout)
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["c", "w", "d", "--folder", "x"], "--folder is for Rocq"),
        (["c", "w", "d", "--rocq", "--quick"], "no quick way"),
    ],
)
def test_options_which_do_not_go_together(arguments, words):
    assert words in str(CliRunner().invoke(cli.app, ["check", *arguments]).exception)


@by_rocq
@pytest.mark.usefixtures("pieces")
def test_rocq_proves_the_rank_from_pieces(tmp_path):
    assert confirm(*saved(tmp_path, *rank("own"))).proved


@by_rocq
def test_the_command_keeps_a_copy_of_what_rocq_compiled(tmp_path):
    files = list(map(str, saved(tmp_path, *rank("own"))))
    folder = tmp_path / "compiled"
    done = CliRunner().invoke(cli.app, ["check", *files, "--rocq", "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("PROVED\n")
    assert (folder / "theory" / "checker" / "attention_rank.vo").exists()
    for name in ("stored.v", "stored.vo", "axioms.v"):
        assert (folder / "rank" / name).exists()
    with pytest.raises(OutputError, match="not empty"):  # nothing in it is used again
        confirm(*files, folder=folder)


def test_a_folder_in_which_something_is_is_refused_before_rocq_runs(tmp_path, monkeypatch):
    """Compiled files, makefiles and settings would be believed."""
    files = saved(tmp_path, *rank("own"))
    monkeypatch.setattr(rocq, "compiled", None)  # is not called
    for name in ("Makefile.coq.local", "_CoqProject", "checker/attention_rank.vo", ".hidden"):
        folder = tmp_path / name.replace("/", "-")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("")
        with pytest.raises(OutputError, match="not empty") as caught:
            confirm(*files, folder=folder)
        assert caught.value.witness == str(folder)
    with pytest.raises(OutputError, match="cannot write"):
        confirm(*files, folder=tmp_path / "none" / "below")
    with pytest.raises(OutputError, match="cannot write"):
        confirm(*files, folder=files[0])


def test_what_would_take_more_memory_is_refused_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(theories, "right_inverse", None)  # is not called
    files = list(map(str, saved(tmp_path, *rank("own"))))
    with pytest.raises(ParameterError, match="numbers take Rocq about") as caught:
        confirm(*files, max_memory=1.0)
    assert caught.value.witness == 230 + 49
    assert "max_memory=2 if there is as much" in str(caught.value)
    done = CliRunner().invoke(cli.app, ["check", *files, "--rocq", "--max-memory", "0.5"])
    assert "numbers take Rocq about" in str(done.exception)
    with pytest.raises(ParameterError, match="max_memory=0 is not a size"):
        confirm(*files, max_memory=0)


def test_the_estimate_grows_with_the_numbers():
    known = RANKS.known("own")
    assert gigabytes(dataclasses.replace(known, more=10**6)) > gigabytes(known) + 0.1
