"""Folders under the independent checker: honest ones pass, and every other one is refused."""

import json
import shutil
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from instance_parts import Files

from constructive import FormatError, ParameterError, Verdict
from constructive.instances import (
    Answer,
    Atom,
    Box,
    Head,
    Instance,
    Network,
    Property,
    Refutations,
    check,
    make,
    planted,
    save,
)
from constructive.instances.properties import version_1
from constructive.instances.refutations import Interval
from constructive.instances.scoring import TOLERANCE

FAMILIES = "needle", "corner", "shadow", "readout", "rounding"


@pytest.fixture(scope="module")
def twins():
    return planted(dim=3, scale=64.0, seed=5)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory, twins):
    folder = tmp_path_factory.mktemp("instances") / "folder"
    save(folder, twins)
    return folder


@pytest.fixture
def folder(tmp_path, pristine):
    return shutil.copytree(pristine, tmp_path / "copy")


@pytest.fixture
def said(checker, capsys):
    """The status of the checker on a folder, in this process, and what it prints."""

    def run(folder, *options):
        status = checker.main(["instances", str(folder), *options])
        return status, capsys.readouterr().out

    return run


def refused(found, *words):
    status, printed = found
    assert status == 1, printed
    assert "NOT PROVED" in printed.splitlines()[-1]
    assert any(word in printed for word in words), printed


def test_twins_are_proved(said, tmp_path):
    both = planted(dim=3, scale=8.0, seed=2)
    save(tmp_path / "folder", both)
    status, printed = said(tmp_path / "folder")
    assert status == 0, printed
    *lines, model, count, last = printed.splitlines()
    assert len(lines) == 2
    assert model.startswith("a float32 evaluation is float32, pairwise: ")
    assert count == "2 of 2 answers are proved (the folder says 1 sat, 1 unsat)"
    assert last == "PROVED"
    for each in both:
        (line,) = [line for line in lines if line.startswith(each.name)]
        assert f" {each.answer}: " in line
        margin = float(line.partition("margin of ")[2].partition(";")[0])
        assert 0.99 * each.margin - 1e-3 < margin <= each.margin * (1 + 1e-9)


def test_all_families_in_a_process_of_its_own(tmp_path):
    made = make(12, kinds=FAMILIES, dims=(2, 5), seed=4)
    save(tmp_path / "folder", made)
    found = check(tmp_path / "folder", jobs=2)
    assert found.verdict is Verdict.PROVED
    assert f"{len(made)} of {len(made)} answers are proved" in found.report
    again = check(tmp_path / "folder")
    assert again.report == found.report


def test_arguments(folder, tmp_path):
    with pytest.raises(FormatError, match="not a folder"):
        check("nowhere")
    with pytest.raises(FormatError, match="no instances"):
        check(tmp_path)
    with pytest.raises(ParameterError, match="jobs"):
        check(folder, jobs=0)
    with pytest.raises(ParameterError, match="size"):
        check(folder, max_memory=0.0)


def test_what_is_not_a_folder_of_instances_is_not_proved(said, tmp_path, folder):
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "link"):
        refused(said(tmp_path / name), "not a folder")
    refused(said(tmp_path / "empty"), "instances.csv is not there", "expected.csv is not there")


def edit(path, old, new, count=-1):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def remove(name):
    return lambda folder: (folder / name).unlink()


def write(name, text="{}"):
    def change(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    return change


def link(name):
    def change(folder):
        path = folder / name
        path.rename(folder.parent / "kept")
        path.symlink_to(folder.parent / "kept")

    return change


def rows(name, change):
    def apply(folder):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join(change(lines)) + "\n")

    return apply


FOLDERS = {
    "no proof": (remove("proofs/needle_a.json"), "is not there"),
    "no graph": (remove("onnx/needle.onnx"), "is not there"),
    "no property": (remove("vnnlib/needle_b.vnnlib"), "is not there"),
    "no table": (remove("instances.csv"), "is not there"),
    "no answers": (remove("expected.csv"), "is not there"),
    "another proof": (write("proofs/more.json"), "no row is about"),
    "another ending": (write("vnnlib/needle_a.vnnlib.gz"), "no row is about"),
    "hidden": (write("proofs/.needle_a.json"), "no row is about"),
    "a folder within": (write("onnx/more/needle.onnx"), "link, or of another kind"),
    "a link": (link("proofs/needle_a.json"), "link"),
    "a linked folder": (link("vnnlib2"), "link"),
    "a row twice": (rows("instances.csv", lambda lines: [*lines, lines[0]]), "twice"),
    "an answer twice": (rows("expected.csv", lambda lines: [*lines, lines[1]]), "twice"),
    "a row less": (rows("instances.csv", lambda lines: lines[1:]), "other instances"),
    "an answer less": (rows("expected.csv", lambda lines: lines[:-1]), "other instances"),
    "no rows": (rows("instances.csv", lambda lines: lines[:0]), "row"),
    "no header": (rows("expected.csv", lambda lines: lines[1:]), "columns"),
    "a short row": (rows("expected.csv", lambda lines: [*lines[:-1], "needle_b,sat"]), "length"),
    "a path": (lambda f: edit(f / "instances.csv", "onnx/", "../copy/onnx/"), "has the row"),
    "a fourth cell": (lambda f: edit(f / "instances.csv", "\n", ",1\n"), "has the row"),
    "another network": (lambda f: edit(f / "expected.csv", ",needle,3", ",other,3"), "network"),
    "sat and unsat": (lambda f: edit(f / "expected.csv", ",unsat,", ",sat,"), "another answer"),
    "unknown": (lambda f: edit(f / "expected.csv", ",unsat,", ",unknown,"), "unknown"),
    "a larger margin": (lambda f: edit(f / "expected.csv", ",0.05,", ",0.0502,"), "larger margin"),
    "no margin": (lambda f: edit(f / "expected.csv", ",0.05,", ",,"), "decimal"),
    "a negative margin": (lambda f: edit(f / "expected.csv", ",0.05,", ",-0.05,"), "margin"),
    "a cell that goes on in the next line": (
        lambda f: edit(f / "expected.csv", "needle_a", '"needle\n_a"'), "other instances"),
    "a row that goes on after a form feed": (
        lambda f: edit(f / "expected.csv", "\n", "\x0c"), "not printed"),
    "the second version in the table": (
        lambda f: edit(f / "instances.csv", "vnnlib/", "vnnlib2/"), "rows are not of"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_every_row_and_every_file_is_accounted_for(said, folder, name):
    change, word = FOLDERS[name]
    change(folder)
    refused(said(folder), word)


def test_words_beside_the_files(said, folder):
    write("LICENSE", "words")(folder)
    remove("README.md")(folder)
    assert said(folder)[0] == 0


@pytest.fixture
def sat(folder, twins):
    return Files(folder, twins.sat.name)


@pytest.fixture
def unsat(folder, twins):
    return Files(folder, twins.unsat.name)


def at(files, threshold):
    """The property of a file at another threshold."""
    return Property(files.wanted.box, ((Atom([1.0], float(np.float32(threshold))),),))


def test_writing_again_changes_nothing(said, folder, sat, unsat):
    sat.write()
    unsat.write()
    assert said(folder)[0] == 0


def test_the_threshold_of_the_twin_is_refused(said, folder, sat, unsat):
    unsat.write(sat.wanted)
    refused(said(folder), "does not reach the threshold")
    unsat.write()
    sat.write(unsat.wanted)
    refused(said(folder), "does not meet")


def test_a_margin_below_twice_the_rounding_is_refused(said, folder, unsat):
    bounds = [
        sum(Fraction(head["bound"]) for head in slab["heads"])
        for slab in unsat.proof["refutations"][0]["slabs"]
    ]
    off = float(Fraction(unsat.proof["rounding"]))
    top = float(max(bounds))
    unsat.write(at(unsat, top + 3 * off))
    refused(said(folder), "larger margin")
    unsat.write(at(unsat, top + off))
    refused(said(folder), "twice what rounding does")
    unsat.proof["rounding"] = "0"
    unsat.write(at(unsat, top + off))
    refused(said(folder), "twice what rounding does")
    unsat.proof["rounding"] = "0.02"
    unsat.write()
    refused(said(folder), "twice what rounding does")
    unsat.proof["rounding"] = "-1"
    unsat.write()
    refused(said(folder), "negative")


def test_hashes(said, folder, sat):
    for part in ("onnx", "vnnlib", "vnnlib2"):
        kept = sat.proof[part]
        sat.path.write_text(json.dumps(sat.proof | {part: kept.upper()}))
        refused(said(folder), f"another {part} file")
        sat.path.write_text(json.dumps({k: v for k, v in sat.proof.items() if k != part}))
        refused(said(folder), "other entries")


def test_versions_have_to_say_the_same(said, folder, sat):
    sat.write(second=at(sat, 0.5))
    refused(said(folder), "properties differ")


def test_witnesses(said, folder, sat):
    honest = list(sat.proof["witness"])
    outside = str(float(sat.wanted.box.upper[0]) + 0.25)
    for point, words in (
        (honest[:2], "another length"),
        ([*honest, "0"], "another length"),
        ([], "another length"),
        ("111", "another length"),
        ([outside, *honest[1:]], "outside"),
        (["1/3", *honest[1:]], "float32"),
        (["0.1", *honest[1:]], "float32"),
        (["1e-1", *honest[1:]], "decimal"),
        ([0.5, *honest[1:]], "decimal"),
        ([str(x) for x in sat.wanted.box.lower], "does not meet"),
    ):
        sat.proof["witness"] = point
        sat.write()
        refused(said(folder), words)


def test_a_property_that_bounds_only_the_first_input(said, folder, sat):
    text = "\n".join(
        line
        for line in version_1(sat.wanted).splitlines()
        if "X_1" not in line and "X_2" not in line
    )
    path = folder / f"vnnlib/{sat.name}.vnnlib"
    path.write_text(text)
    sat.proof["vnnlib"] = sha256(text.encode()).hexdigest()
    sat.path.write_text(json.dumps(sat.proof))
    refused(said(folder), "differ", "another number of inputs")
    unbounded = version_1(sat.wanted).replace("(assert (<= X_1 ", "(assert (<= X_0 ")
    path.write_text(unbounded)
    sat.proof["vnnlib"] = sha256(unbounded.encode()).hexdigest()
    sat.path.write_text(json.dumps(sat.proof))
    refused(said(folder), "twice from one side")


def test_entries_of_proofs(said, folder, sat, unsat):
    for change, words in (
        ({"format": "constructive instance 2"}, "format"),
        ({"answer": "unknown"}, "neither sat nor unsat"),
        ({"answer": "unsat"}, "other entries"),
        ({"model": "float32, any contraction"}, "not known"),
        ({"model": "tf32"}, "not known"),
        ({"more": 1}, "other entries"),
        ({"rounding": 0.001}, "decimal"),
    ):
        sat.path.write_text(json.dumps(sat.proof | change))
        refused(said(folder), words)
    repeated = json.dumps(sat.proof).replace('{"format"', '{"format": "x", "format"', 1)
    sat.path.write_text(repeated)
    refused(said(folder), "repeats a key")
    sat.write()
    for refutations, words in (
        ([], "one refutation of each"),
        (unsat.proof["refutations"] * 2, "one refutation of each"),
        ([unsat.proof["refutations"][0] | {"atom": 1}], "no condition"),
        ([unsat.proof["refutations"][0] | {"atom": True}], "no condition"),
        ([unsat.proof["refutations"][0] | {"kind": "trust"}], "unknown kind"),
        ([{"atom": 0, "kind": "interval"}], "does not reach"),
        ([unsat.proof["refutations"][0] | {"kind": "interval"}], "evidence"),
    ):
        unsat.path.write_text(json.dumps(unsat.proof | {"refutations": refutations}))
        refused(said(folder), words)


def test_one_false_proof_does_not_hide_the_others(said, folder, sat, unsat):
    sat.proof["witness"] = sat.proof["witness"][:-1]
    sat.write()
    status, printed = said(folder)
    assert status == 1
    assert "1 of 2 answers are proved" in printed
    assert f"{unsat.name} unsat: no input" in printed
    assert f"{sat.name} NOT PROVED" in printed


def test_memory(said, folder):
    refused(said(folder, "--max-memory", "1e-6"), "too large for --max-memory")


def test_progress_and_jobs(checker, folder, capsys):
    assert checker.main(["instances", str(folder), "--progress", "--jobs", "2"]) == 0
    assert capsys.readouterr().err.startswith("... instances: 0 of 2\n")


def test_margins_beyond_what_scorers_accept(checker, said, tmp_path):
    """A steep network, whose margin does not reach 1e-4 outside of the box."""
    assert Fraction(TOLERANCE).limit_denominator(10**6) == checker.instances.NEAR
    for slope, words in ((4096.0, "no input of the box"), (64.0, "no input within 1e-4")):
        network = Network((Head([[slope], [0.0]], [-slope, 0.0], [[1.0], [0.0]]),))
        wanted = Property(Box([-1.0], [1.0]), ((Atom([1.0], 0.5625),),))
        proof = Refutations((Interval(0),))
        one = Instance("own", network, wanted, Answer.UNSAT, proof, "own")
        save(tmp_path / words, [one])
        status, printed = said(tmp_path / words)
        assert status == 0, printed
        assert f"unsat: {words}" in printed


def test_nothing_is_said_of_inputs_beyond_the_box_of_two_layers(said, tmp_path):
    """The first layer is known on the box alone."""
    save(tmp_path / "folder", make(2, kinds=["stacked"], dims=(3, 3)))
    status, text = said(tmp_path / "folder")
    assert status == 0
    assert "unsat: no input of the box meets" in text
    assert "no input within 1e-4" not in text
