"""Results of verifiers against proved answers: words, files of results, witnesses."""

import gzip
import json

import numpy as np
import pytest

from constructive import FormatError
from constructive.instances import Atom, Box, Property, make, save, score
from constructive.instances.folder import expected_rows
from constructive.instances.properties import read_property, version_1, version_2
from constructive.instances.scoring import Grade, Outcome, hardness, read_witness, replayed


@pytest.fixture(scope="module")
def made():
    return make(6, kinds=("needle", "classes"), dims=(2, 4), seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("scored") / "folder"
    save(path, made)
    return path


def witness_of(instance, *, outputs=True):
    """In the form of VNN-COMP."""
    point = [float(x) for x in instance.proof.point]
    values = instance.network([point])[0]
    pairs = [f"(X_{i} {x!r})" for i, x in enumerate(point)]
    pairs += [f"(Y_{j} {y!r})" for j, y in enumerate(values.tolist())] if outputs else []
    return f"({' '.join(pairs)})"


def results(tmp_path, *lines):
    path = tmp_path / "results.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def right(instance):
    witness = f',"{witness_of(instance)}"' if instance.answer == "sat" else ""
    return f"{instance.name},{instance.answer}{witness}"


def outcomes(found):
    return {row.expected.name: row.outcome for row in found.rows}


def test_right_results(tmp_path, folder, made):
    found = score(folder, results(tmp_path, *map(right, made)))
    assert set(outcomes(found).values()) == {Outcome.RIGHT}
    assert not found.false
    assert found.others == 0
    assert [row.expected.name for row in found.rows] == [each.name for each in made]
    assert sum(found.totals.values()) == len(made)
    families = {key[:2] for key in found.counts() if key[0] != "all"}
    assert families == {(f, a) for f in ("needle", "classes") for a in ("sat", "unsat")}


def test_wrong_results_name_the_twin(tmp_path, folder, made):
    other = {"sat": "unsat", "unsat": "sat"}
    lines = [f"{each.name},{other[each.answer]}" for each in made]
    found = score(folder, results(tmp_path, *lines))
    assert set(outcomes(found).values()) == {Outcome.FALSE}
    assert len(found.false) == len(made)
    for row in found.rows:
        name = row.expected.name
        twin = name[:-1] + ("b" if name.endswith("a") else "a")
        assert f"proofs/{name}.json" in row.reason
        assert f"its twin {twin} is {row.said}" in row.reason
    text = json.dumps(found.document())
    assert json.loads(text)["counts"]["FALSE"] == len(made)


def test_one_word_for_all_is_half_false(tmp_path, folder, made):
    for word in ("unsat", "holds", "sat", "violated"):
        found = score(folder, results(tmp_path, *(f"{each.name},{word}" for each in made)))
        assert len(found.false) == len(made) // 2
        others = Outcome.RIGHT if word in ("unsat", "holds") else Outcome.UNSHOWN
        assert sum(row.outcome is others for row in found.rows) == len(made) // 2


@pytest.mark.parametrize(
    ("word", "outcome"),
    [("unknown", Outcome.UNKNOWN), ("timeout", Outcome.UNKNOWN), ("TIMEOUT", Outcome.UNKNOWN),
     ("run_instance_timeout", Outcome.UNKNOWN), ("timed-out", Outcome.UNKNOWN),
     ("memout", Outcome.UNKNOWN), ("no_result_in_file", Outcome.UNKNOWN),
     ("timeout(200)", Outcome.UNKNOWN), ("error", Outcome.ERROR),
     ("error_exit_code_139", Outcome.ERROR), ("crash", Outcome.ERROR)],
)  # fmt: skip
def test_words(tmp_path, folder, made, word, outcome):
    found = score(folder, results(tmp_path, f"{made[0].name},{word}"))
    assert outcomes(found)[made[0].name] is outcome
    assert {row.outcome for row in found.rows[1:]} == {Outcome.MISSING}
    assert not found.strange


@pytest.mark.parametrize(
    ("row", "word"),
    [("{},maybe", "maybe"), ("b,n.onnx,v/{}.vnnlib,0.5,maybe,2.5", "maybe"), ("{}", ""),
     ("{},,", ""), ("{},0.5,1e3", ""), ("{},sat,unsat", "sat and unsat"),
     ("{},error_bound_3,unsat", "error_bound_3 and unsat")],
)  # fmt: skip
def test_words_that_are_not_known_are_named(tmp_path, folder, made, row, word):
    """Such a row counts as unknown, and says nothing about the others."""
    lines = row.format(made[0].name), *map(right, made[1:])
    found = score(folder, results(tmp_path, *lines))
    assert found.rows[0].outcome is Outcome.UNKNOWN
    assert {row.outcome for row in found.rows[1:]} == {Outcome.RIGHT}
    assert found.strange == {word: (made[0].name,)}
    assert found.document()["words that are not known"] == found.strange


@pytest.mark.parametrize(
    ("words", "outcome"),
    [(("{right}", "{wrong}"), Outcome.FALSE), (("unknown", "{wrong}"), Outcome.FALSE),
     (("timeout", "maybe"), Outcome.UNKNOWN), (("{right}", "timeout"), Outcome.ERROR),
     (("unsat", "unsat"), None)],
)  # fmt: skip
def test_several_rows_about_one_instance(tmp_path, folder, made, words, outcome):
    """A false one counts. Otherwise they have to agree."""
    one = next(each for each in made if each.answer == "unsat")
    lines = [f"{one.name},{word.format(right='unsat', wrong='sat')}" for word in words]
    assert outcomes(score(folder, results(tmp_path, *lines)))[one.name] is (
        outcome or Outcome.RIGHT
    )


def test_totals(tmp_path, folder, made):
    """The last rows count all instances, and those whose witnesses are few."""
    found = score(folder, results(tmp_path, *map(right, made[1:])))
    counts = found.counts()
    *_, small, total = counts
    assert total == ("all", "", "")
    assert counts[total] == found.totals == {Outcome.RIGHT: len(made) - 1, Outcome.MISSING: 1}
    bounds = {each.network_name: each.hardness.random for each in made if each.hardness.random}
    few = [each for each in made if bounds.get(each.network_name, 1.0) < 0.01]
    assert few
    assert small == ("all", "", "< 1e-2 of the box")
    assert counts[small].total() == len(few)


def test_rows_as_in_the_files_of_the_competition(tmp_path, folder, made):
    network, unsat = made[0].network_name, next(e for e in made if e.answer == "unsat")
    lines = (
        "category,onnx,vnnlib,prepare_time,result,run_time",
        f"b,./b/onnx/{network}.onnx,./b/vnnlib/{unsat.name}.vnnlib,0.02,unsat,1.05",
        f"b,./b/onnx/{network}.onnx,./b/vnnlib/{made[2].name}.vnnlib.gz,0.02,timeout,20",
        "acasxu,onnx/a.onnx,vnnlib/prop_1.vnnlib,0.1,unsat,2",
        "",
    )
    found = score(folder, results(tmp_path, *lines))
    assert outcomes(found)[unsat.name] is Outcome.RIGHT
    assert outcomes(found)[made[2].name] is Outcome.UNKNOWN
    assert found.others == 2


def test_a_mark_of_byte_order_hides_no_row(tmp_path, folder, made):
    """Some programs begin a .csv file with it; the first row counts all the same."""
    unsat = next(each for each in made if each.answer == "unsat")
    path = tmp_path / "results.csv"
    path.write_bytes(f"\ufeff{unsat.name},sat\n{made[0].name},unknown\n".encode())
    found = score(folder, path)
    assert [row.expected.name for row in found.false] == [unsat.name]
    assert found.others == 0


def test_files_that_are_not_results(tmp_path, folder, made):
    name = made[0].name
    for lines, words in (
        (("prop_1,sat",), "no row"),
        ((f'{name},"sat',), "cannot be read"),
    ):
        with pytest.raises(FormatError, match=words):
            score(folder, results(tmp_path, *lines))
    with pytest.raises(FileNotFoundError):
        score(folder, tmp_path / "nowhere.csv")
    with pytest.raises(FormatError, match="answers of instances"):
        score(tmp_path, results(tmp_path, f"{name},sat"))


def test_witnesses_in_files(tmp_path, folder, made):
    sats = [each for each in made if each.answer == "sat"]
    (tmp_path / "one.txt").write_text(f"sat\n{witness_of(sats[0])}\n")
    (tmp_path / "two.counterexample.gz").write_bytes(gzip.compress(witness_of(sats[1]).encode()))
    lines = (
        f"{sats[0].name},sat,0.5,one.txt",
        f"{sats[1].name},sat,two.counterexample.gz",
        f"{sats[2].name},sat,three.gz",
    )
    long = gzip.compress(b" " * (1 << 26) + witness_of(sats[2]).encode(), 1)
    for packed in (b"not packed", long):
        (tmp_path / "three.gz").write_bytes(packed)
        found = outcomes(score(folder, results(tmp_path, *lines)))
        kinds = [found[each.name] for each in sats]
        assert kinds == [Outcome.RIGHT, Outcome.RIGHT, Outcome.UNSHOWN]


def moved(instance, by, index=0):
    point = [float(x) for x in instance.proof.point]
    point[index] += by
    return f"({' '.join(f'(X_{i} {x!r})' for i, x in enumerate(point))})"


def test_witnesses_are_replayed(tmp_path, folder, made):
    one = next(each for each in made if each.answer == "sat" and each.family == "needle")
    graph = folder / f"onnx/{one.network_name}.onnx"

    def grade(text):
        return replayed(graph, one.property, text).grade

    assert grade(witness_of(one)) is Grade.EXACT
    assert grade(witness_of(one, outputs=False)) is Grade.EXACT
    width = float(one.property.box.widths[0])
    for text, word in (
        (moved(one, 4 * width), "outside"),
        (moved(one, 0.3 * width), "miss the property"),
        ("((X_0 0.0))", "does not name"),
        ("", "does not name"),
        ("((unsat))", "does not name"),
        (witness_of(one).replace("(Y_0 ", "(Y_0 9"), "outputs are not those"),
        (witness_of(one).replace("(Y_0 ", "(Y_1 "), "does not name"),
        (moved(one, float("nan")), "does not name"),
        (witness_of(one).replace("X_1", "X_0"), "does not name"),
    ):
        found = replayed(graph, one.property, text)
        assert found.grade is Grade.REFUSED, text
        assert word in found.reason
        line = f'{one.name},sat,"{text}"'
        assert outcomes(score(folder, results(tmp_path, line)))[one.name] is Outcome.UNSHOWN


def test_witnesses_within_the_tolerance(folder, made):
    """A threshold just above what the witness reaches, and a box that just misses it."""
    one = next(each for each in made if each.answer == "sat" and each.family == "needle")
    graph = folder / f"onnx/{one.network_name}.onnx"
    text, value = witness_of(one), one.network([[float(x) for x in one.proof.point]])[0, 0]
    for above, grade in ((-1e-5, Grade.EXACT), (5e-5, Grade.TOLERATED), (2e-4, Grade.REFUSED)):
        threshold = float((value + above).astype("float32"))
        wanted = Property(one.property.box, ((Atom([1.0], threshold),),))
        assert replayed(graph, wanted, text).grade is grade
    point = [float(x) for x in one.proof.point]
    for by, grade in ((5e-5, Grade.TOLERATED), (2e-4, Grade.REFUSED)):
        lower = np.float32([x + by * (i == 0) for i, x in enumerate(point)]).tolist()
        upper = [max(a, b) for a, b in zip(lower, one.property.box.upper.tolist(), strict=True)]
        wanted = Property(Box(lower, upper), one.property.disjuncts)
        assert replayed(graph, wanted, text).grade is grade


def test_texts_of_witnesses():
    for text in (
        "((X_0 0.5) (X_1 -2e-1))",
        "sat\n(\n(X_1 -0.2)\n(X_0 .5))",
        "((X[0,0] 0.5) (X[0,1] -0.2))",
    ):
        values, told = read_witness(text, 2, 1)
        assert values.tolist() == [0.5, -0.2]
        assert told is None
    for text in (
        "((X_0 0.5) (X_1 inf))",
        "((X_0 0.5) (X_1 1) (X_2 1))",
        "((X_0 1) (X_1 1) rm -rf)",
    ):
        with pytest.raises(FormatError, match="witness"):
            read_witness(text, 2, 1)


def test_properties_are_read_back(made):
    for each in made:
        found = read_property(version_1(each.property))
        assert found.box.lower.tolist() == each.property.box.lower.tolist()
        assert found.box.upper.tolist() == each.property.box.upper.tolist()
        assert [[(a.coefficients.tolist(), a.threshold) for a in d] for d in found.disjuncts] == [
            [(a.coefficients.tolist(), a.threshold) for a in d] for d in each.property.disjuncts
        ]
        with pytest.raises(FormatError, match="not in the form"):
            read_property(version_2(each.property))
    text = version_1(made[0].property)
    for other in (
        "(assert (>= (+ Y_0 Y_1) 0.5))",
        f"{text} (assert (>= Y_0 100.0))\n",  # lines that were skipped
        f"; {text}",
        text.replace("(declare-const Y_0 Real)", "(declare-const Y_0 Real)(assert (>= Y_0 9.0))"),
        text.replace("(assert (<= X_0", "(assert (>= Y_0 9.0))(assert (<= X_0"),
    ):
        with pytest.raises(FormatError, match="not in the form"):
            read_property(other)
    with pytest.raises(FormatError, match="not in the form"):
        read_property("(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= Y_0 0.5))")


def test_rows_of_answers(folder, made):
    found = expected_rows(folder)
    assert list(found) == [each.name for each in made]
    for each in made:
        assert found[each.name].answer == each.answer
        assert found[each.name].family == each.family
        assert found[each.name].network == each.network_name
        assert (found[each.name].random is None) == (each.hardness.random is None)


def test_words_for_hardness():
    assert [hardness(x) for x in (1.0, 0.01, 9e-3, 1e-5, 1e-7, 1e-30, None)] == [
        "1e-2 of the box or more", "1e-2 of the box or more", "< 1e-2 of the box",
        "< 1e-4 of the box", "< 1e-6 of the box", "< 1e-9 of the box", "no bound",
    ]  # fmt: skip
