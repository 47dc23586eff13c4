"""Folders of instances, what graphs compute, and results of verifiers against proved answers."""

import csv
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from instance_parts import files_of

from constructive import FormatError, OutputError, ParameterError
from constructive.instances import (
    FAMILIES,
    Answer,
    Atom,
    Box,
    Head,
    Instance,
    Network,
    Property,
    Witness,
    check,
    make,
    planted,
    save,
    save_benchmark,
    score,
)
from constructive.instances.folder import EXPECTED
from constructive.instances.properties import read_property, version_1, version_2
from constructive.instances.scoring import Grade, Outcome, replayed
from constructive.support.files import require_folder

OPERATORS = ["Gemm", "Softmax", "MatMul"] * 2 + ["Add"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def some():
    kinds = "needle", "corner", "shadow"
    return [each for kind in kinds for each in FAMILIES[kind]().make(3, scale=10.0)]


def test_what_is_in_a_folder(tmp_path, some):
    save(tmp_path / "folder", some, timeout=30)
    files = files_of(tmp_path / "folder")
    rows = list(csv.reader((tmp_path / "folder/instances.csv").read_text().splitlines()))
    assert len(rows) == len(some) == 6
    assert {row[2] for row in rows} == {"30"}
    assert {name for row in rows for name in row[:2]} <= set(files)
    expected = list(csv.DictReader((tmp_path / "folder/expected.csv").read_text().splitlines()))
    assert tuple(expected[0]) == EXPECTED
    assert [row["answer"] for row in expected] == [str(each.answer) for each in some]
    readme = files["README.md"].decode()
    for word in ("Apache-2.0", "opset 13", "VNN-LIB 2.0", "6 instances", "float32"):
        assert word in readme
    for each in some:
        proof = json.loads(files[f"proofs/{each.name}.json"])
        assert proof["answer"] == str(each.answer)
        assert Fraction(proof["rounding"]) == Fraction(each.rounding)
        assert ("witness" in proof) == (each.answer == "sat")
        for kind, name in (
            ("onnx", f"onnx/{each.network_name}.onnx"),
            ("vnnlib", f"vnnlib/{each.name}.vnnlib"),
            ("vnnlib2", f"vnnlib2/{each.name}.vnnlib"),
        ):
            assert proof[kind] == hashlib.sha256(files[name]).hexdigest()


@pytest.mark.parametrize(
    ("timeout", "written"),
    [(1e-6, "0.000001"), (0.5, "0.5"), (60.0, "60"), (123456.7, "123456.7"), (999_999, "999999")],
)
def test_timeouts_are_written_as_the_checker_reads_them(tmp_path, some, timeout, written):
    save(tmp_path / "folder", some[:2], timeout=timeout)
    first, second = (tmp_path / "folder/instances.csv").read_text().splitlines()
    assert first.endswith(f",{written}")
    assert second.endswith(f",{written}")
    assert check(tmp_path / "folder").proved


def test_what_tools_see_says_nothing_of_the_answer(tmp_path, some):
    save(tmp_path / "folder", some)
    for name, content in files_of(tmp_path / "folder").items():
        if name.startswith(("onnx", "vnnlib", "instances")):
            assert not re.search("sat", name + content.decode(errors="replace"), re.IGNORECASE)


def rows_of(folder):
    """What a guesser reads, without the networks: networks, names and properties, in order."""
    lines = csv.reader((folder / "instances.csv").read_text().splitlines())
    return [(graph, Path(p).stem, read_property((folder / p).read_text())) for graph, p, _ in lines]


def guesses(folder):
    """Answers of who reads properties only: of two, the higher threshold or smaller box is unsat.

    Where a network has one property, the answer is a constant.
    """
    asked = {}
    for graph, name, wanted in rows_of(folder):
        key = wanted.disjuncts[0][0].threshold, -wanted.box.widths.sum()
        asked.setdefault(graph, []).append((key, name))
    for few in asked.values():
        for place, (_, name) in enumerate(sorted(few)):
            yield name, "sat" if place < len(few) / 2 else "unsat"


def features(folder):
    """Numbers about names, order and properties, a row for each instance."""
    rows = rows_of(folder)
    graphs = [graph for graph, *_ in rows]
    higher = dict(guesses(folder))
    for place, (graph, name, wanted) in enumerate(rows):
        ((atom, *_), *_), width = wanted.disjuncts, np.log(wanted.box.widths.max())
        digits = [int(x, 16) for x in name[1:6]]
        yield [
            1.0, name.endswith("a"), place % 2, place / len(rows), graphs.count(graph),
            graph == graphs[place - 1], higher[name] == "sat", atom.coefficients[0],
            np.sign(atom.threshold), np.log(abs(atom.threshold) + 1e-9), width,
            len(wanted.box.lower), sum(digits), digits[0], digits[-1] % 2,
        ]  # fmt: skip


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Default folders of three seeds."""
    folders = []
    for seed in range(3):
        made, folder = make(126, dims=(2, 4), seed=seed), tmp_path_factory.mktemp("f") / "folder"
        save(folder, made)
        folders.append((folder, np.array([each.answer == "sat" for each in made])))
    return folders


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_answers_cannot_be_guessed(drawn, seed):
    """Neither by a rule, nor by one that is fitted to the answers of two other folders."""
    folder, sat = drawn[seed]
    said = dict(guesses(folder))
    assert len(said) == len(sat)
    assert abs(sat.mean() - 0.5) <= 0.1
    by_rule = np.array([said[name] == "sat" for _, name, _ in rows_of(folder)])
    assert (by_rule == sat).mean() <= 0.6
    others = [drawn[other] for other in range(3) if other != seed]
    known = np.concatenate([np.array(list(features(other))) for other, _ in others])
    answers = np.concatenate([right for _, right in others])
    weights = np.linalg.lstsq(known, answers - 0.5, rcond=None)[0]
    fitted = np.array(list(features(folder))) @ weights > 0
    assert (fitted == sat).mean() <= 0.6


def test_guessers_guess_what_can_be_guessed(tmp_path):
    twins = planted(dim=3)
    save(tmp_path / "twins", twins)
    assert dict(guesses(tmp_path / "twins")) == {each.name: each.answer for each in twins}


def test_names_and_order_say_no_family():
    made = make(60, dims=(2, 3), kinds=["corner", "needle"], seed=3)
    assert all(re.fullmatch("n[0-9a-f]{5}_[ab]", each.name) for each in made)
    assert [each.name for each in made] == sorted(each.name for each in made)
    first = [each.family for each in made[: len(made) // 2]]
    assert 0.25 <= first.count("corner") / len(first) <= 0.75


def test_graphs_are_static_and_compute_the_network(tmp_path, some):
    save(tmp_path / "folder", some)
    random = np.random.default_rng(0)
    for each in some:
        path = tmp_path / f"folder/onnx/{each.network_name}.onnx"
        model = onnx.load(path)
        assert [node.op_type for node in model.graph.node] == OPERATORS
        assert [(o.domain, o.version) for o in model.opset_import] == [("", 13)]
        assert model.ir_version == 8
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (x,), (y,) = session.get_inputs(), session.get_outputs()
        assert (x.name, x.shape, x.type) == ("X", [1, each.network.input_dim], "tensor(float)")
        assert (y.name, y.shape, y.type) == ("Y", [1, 1], "tensor(float)")
        box = each.property.box
        for point in random.uniform(box.lower, box.upper, (5, len(box.lower))):
            inputs = np.clip(point.astype(np.float32), box.lower, box.upper).astype(np.float32)
            (found,) = session.run(None, {"X": inputs[np.newaxis]})
            exact = each.network(inputs[np.newaxis].astype(np.float64))
            assert abs(found - exact).max() <= each.rounding
        if each.answer == "sat":
            witness = np.float32([[float(v) for v in each.proof.point]])
            (found,) = session.run(None, {"X": witness})
            assert each.property.least_slack(found.astype(np.float64))[0] > each.margin / 2


def test_a_folder_is_written_whole_or_not_at_all(tmp_path, some):
    save(tmp_path / "folder", some[:2])
    before = files_of(tmp_path / "folder")
    other = [replace(some[0], name=some[1].name), some[1]]
    with pytest.raises(ParameterError, match="same name"):
        save(tmp_path / "folder", other)
    assert files_of(tmp_path / "folder") == before
    save(tmp_path / "folder", some[2:4])  # other names
    assert not set(files_of(tmp_path / "folder")) & {f"proofs/{some[0].name}.json"}
    save(tmp_path / "folder", some[:2])
    (tmp_path / "folder/onnx/notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"onnx/notes\.txt"):
        save(tmp_path / "folder", some[:2])
    (tmp_path / "folder/onnx/notes.txt").unlink()
    save(tmp_path / "folder", some[:2])
    assert files_of(tmp_path / "folder") == before
    assert require_folder(tmp_path / "folder", list(before))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_what_is_not_a_folder_of_instances_is_refused(tmp_path, some):
    one, two, other = some[:3]
    for group, options, word in (
        ([], {}, "instances"),
        ([one, one], {}, "same name"),
        ([one, replace(other, name=two.name)], {}, "different networks of one name"),
        ([replace(one, name="../a_b")], {}, "cannot be the name"),
        ([replace(one, name=".a_b")], {}, "cannot be the name"),
        (some, {"timeout": float("nan")}, "timeout"),
        (some, {"timeout": "60"}, "timeout='60'"),
        (some, {"timeout": True}, "timeout=True"),
    ):
        with pytest.raises(ParameterError, match=word):
            save(tmp_path / "folder", group, **options)
    assert not list(tmp_path.iterdir())


def test_how_many_are_made():
    made = make(7, kinds=["corner"], dims=(3, 3), scale=32.0)
    assert len(made) in {7, 8}
    assert {each.network.input_dim for each in made} == {3}
    for options, word in (
        ({"kinds": ["none"]}, "family"),
        ({"kinds": ["shadow"], "decoy": 0.5}, "decoy"),
        ({"scale": (64.0, 16.0)}, "range"),
        ({"dims": (0, 4)}, "range"),
        ({"dims": (2, 4, 8)}, "pair"),
        ({"scale": 1e9}, "scale"),
    ):
        with pytest.raises(ParameterError, match=word):
            make(2, **options)
    with pytest.raises(ParameterError, match="kind"):
        planted(dim=2, kind="robust")


# Results of verifiers against proved answers: words, files of results, witnesses.


@pytest.fixture(scope="module")
def made():
    drawn = ("needle", 2), ("readout", 2), ("needle", 4)
    return [
        each
        for kind, dim in drawn
        for each in FAMILIES[kind]().make(dim, seed=3, name=f"{kind}_{dim}")
    ]


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
    families = {key for key in found.counts() if key[0] != "all"}
    assert families == {(f, a) for f in ("needle", "readout") for a in ("sat", "unsat")}


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
    assert grade(witness_of(one).replace("(Y_0 ", "(Y_0 9")) is Grade.EXACT, "outputs are ignored"
    width = float(one.property.box.widths[0])
    for text, word in (
        (moved(one, 4 * width), "outside"),
        (moved(one, 0.1 * width), "miss the property"),
        ("((X_0 0.0))", "does not name"),
        ("", "does not name"),
        ("((unsat))", "does not name"),
        (moved(one, float("nan")), "does not name"),
        (witness_of(one).replace("X_1", "X_0"), "does not name"),
    ):
        found = replayed(graph, one.property, text)
        assert found.grade is Grade.REFUSED, text
        assert word in found.reason
        line = f'{one.name},sat,"{text}"'
        assert outcomes(score(folder, results(tmp_path, line)))[one.name] is Outcome.UNSHOWN


def test_witnesses_within_the_tolerance(tmp_path, folder, made):
    """Of inputs alone, 1e-4, and such a witness does not show sat; outputs have none."""
    one = next(each for each in made if each.answer == "sat" and each.family == "needle")
    graph = folder / f"onnx/{one.network_name}.onnx"
    text, value = witness_of(one), one.network([[float(x) for x in one.proof.point]])[0, 0]
    for above, grade in ((-1e-5, Grade.EXACT), (5e-5, Grade.REFUSED)):
        threshold = float((value + above).astype("float32"))
        wanted = Property(one.property.box, ((Atom([1.0], threshold),),))
        assert replayed(graph, wanted, text).grade is grade
    point = [float(x) for x in one.proof.point]
    for by, grade in ((5e-5, Grade.TOLERATED), (2e-4, Grade.REFUSED)):
        lower = np.float32([x + by * (i == 0) for i, x in enumerate(point)]).tolist()
        upper = [max(a, b) for a, b in zip(lower, one.property.box.upper.tolist(), strict=True)]
        wanted = Property(Box(lower, upper), one.property.disjuncts)
        assert replayed(graph, wanted, text).grade is grade
    head = Head([[4.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]])
    own = Property(Box([-1.0], [1.0]), ((Atom([1.0], 0.75),),))
    save(tmp_path / "own", [
        Instance("own", Network((head,)), own, Answer.SAT, Witness((Fraction(1),)), "own")
    ])  # fmt: skip
    for x, outcome in ((1.0, Outcome.RIGHT), (1.00005, Outcome.UNSHOWN), (1.1, Outcome.UNSHOWN)):
        rows = results(tmp_path, f"own,sat,((X_0 {x}) (Y_0 9.0))")
        assert outcomes(score(tmp_path / "own", rows)) == {"own": outcome}


def second(instance):
    """A witness as VNN-LIB 2.0 has it: names with shapes, and one number a line."""
    point = [float(x) for x in instance.proof.point]
    numbers = "\n".join(map(repr, point))
    return f"X float32 [1,{len(point)}]\n{numbers}\nY float32 [1,1]\n0.0\n"


@pytest.mark.parametrize("inside", ["", "needles/"])
def test_witnesses_beside_the_results_of_a_harness(tmp_path, folder, made, inside):
    """The scripts of the competition write them, in both versions of VNN-LIB."""
    sats = [each for each in made if each.answer == "sat"]
    lines = (f"b,onnx/{e.network_name}.onnx,vnnlib/{e.name}.vnnlib,0.1,sat,0.2" for e in sats)
    rows = results(tmp_path, *lines)
    (tmp_path / inside).mkdir(exist_ok=True)
    assert set(outcomes(score(folder, rows)).values()) == {Outcome.UNSHOWN, Outcome.MISSING}
    for k, each in enumerate(sats):
        text = f"sat\n{witness_of(each)}\n" if k else f"sat\n{second(each)}"
        place = tmp_path / f"{inside}{each.network_name}_{each.name}.counterexample.gz"
        place.write_bytes(gzip.compress(text.encode()))
    found = outcomes(score(folder, rows))
    assert {found[each.name] for each in sats} == {Outcome.RIGHT}


def test_a_second_witness_has_to_be_whole(folder, made):
    one = next(each for each in made if each.answer == "sat" and each.family == "needle")
    graph = folder / f"onnx/{one.network_name}.onnx"
    text = second(one)
    assert replayed(graph, one.property, text).grade is Grade.EXACT
    number = text.splitlines()[1]
    for other in (
        text.replace(f"{number}\n", "", 1),
        text.replace(number, f"{number}\n{number}", 1),
        text.replace(number, "nan", 1),
        text.replace("X float32", "Z float32"),
        f"unsat\n{text}",
        f"{text}{text}",
    ):
        assert replayed(graph, one.property, other).grade is Grade.REFUSED


def test_the_steps_of_the_platform_of_the_competition(tmp_path):
    """A clone, `generate_properties.py SEED`, and what is then read of each version."""
    words = [
        "instances",
        "make",
        "--count",
        "4",
        "--dim",
        "2:3",
        "--kind=needle",
        "--kind=operator",
    ]
    made = make(4, kinds=("needle", "operator"), dims=(2, 3))
    wheel = tmp_path / "constructive_attention-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    save_benchmark(tmp_path / "benchmark", made, command=words, wheel=wheel)
    clone = shutil.copytree(tmp_path / "benchmark", tmp_path / "clone")
    assert (clone / "requirements.txt").read_text() == f"./{wheel.name}[instances]\n"
    assert (clone / wheel.name).read_bytes() == b"wheel"
    before, seen = files_of(clone), {}
    assert not [name for name in before if re.search("expected|proof|answer", name)]
    for seed in (0, 7):
        run = [sys.executable, "generate_properties.py", str(seed)]
        subprocess.run(run, cwd=clone, check=True, capture_output=True)
        seen[seed] = files_of(clone)
        for version in ("1.0", "2.0"):
            home = clone / version
            assert {path.name for path in home.iterdir()} == {"onnx", "vnnlib", "instances.csv"}
            rows = list(csv.reader((home / "instances.csv").read_text().splitlines()))
            assert len(rows) >= 4
            assert sum(float(row[2]) for row in rows) <= 6 * 3600
            for graph, wanted, _ in rows:
                model = onnx.load(home / graph)
                text = (home / wanted).read_text()
                assert ("declare-network" in text) == (version == "2.0")
                width = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
                name = "X_" if version == "1.0" else "X[0,"
                assert f"{name}{width - 1}" in text
                assert f"{name}{width}" not in text
    assert seen[0] == before
    assert set(seen[7]) != set(before) or seen[7] != before


@pytest.mark.slow
def test_a_wheel_makes_the_benchmark_in_a_fresh_environment(tmp_path):
    """As on the platform: nothing but Python, `requirements.txt`, and a seed of the organizers."""
    source, fresh = tmp_path / "source", tmp_path / "fresh"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "constructive", source / "constructive", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    plain = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*words, cwd=tmp_path, env=plain):
        return subprocess.run(words, cwd=cwd, env=env, check=True, capture_output=True, text=True)

    pip = "-m", "pip", "--quiet"
    run(sys.executable, *pip, "wheel", "--no-deps", "-w", ".", source, env=None)
    (wheel,) = tmp_path.glob("*.whl")
    words = "instances make --count 6 --dim 2:3 --kind needle --kind operator --kind readout"
    program = [sys.executable, "-m", "constructive", *words.split(), "-o", "answers"]
    run(*program, "--vnncomp", "benchmark", "--wheel", wheel, env=None)
    run(sys.executable, "-m", "venv", fresh, env=None)
    python, home = fresh / "bin/python", tmp_path / "benchmark"
    run(python, *pip, "install", "-r", "requirements.txt", cwd=home)
    run(python, "generate_properties.py", "896832480", cwd=home)
    where = run(python, "-c", "import constructive; print(constructive.__file__)").stdout
    assert Path(where.strip()).is_relative_to(fresh)
    graphs = []
    for version in ("1.0", "2.0"):
        rows = list(csv.reader((home / version / "instances.csv").read_text().splitlines()))
        assert len(rows) >= 6
        assert all((home / version / path).is_file() for row in rows for path in row[:2])
        graphs.append({path.name: path.read_bytes() for path in (home / version).glob("onnx/*")})
    assert graphs[0] == graphs[1]


def test_a_benchmark_is_for_six_hours_at_most(tmp_path):
    made = make(4, kinds="corner", dims=(2, 2))
    with pytest.raises(ParameterError, match="6 hours"):
        save_benchmark(tmp_path / "benchmark", made, command=[], timeout=6000.0)
    assert not list(tmp_path.iterdir())


def test_properties_are_read_back(made):
    for each in made:
        found = read_property(version_1(each.property))
        assert found.box.lower.tolist() == each.property.box.lower.tolist()
        assert found.box.upper.tolist() == each.property.box.upper.tolist()
        assert [[(a.coefficients.tolist(), a.threshold) for a in d] for d in found.disjuncts] == [
            [(a.coefficients.tolist(), a.threshold) for a in d] for d in each.property.disjuncts
        ]
        with pytest.raises(FormatError, match="cannot be read"):
            read_property(version_2(each.property))
    text = version_1(made[0].property)
    for other in (
        f"{text} (assert (>= Y_0 9.0))\n",
        text.replace("(declare-const Y_0 Real)", "(declare-const Y_0 Real)(assert (>= Y_0 9.0))"),
        text.replace("(assert (<= X_0", "(assert (>= Y_0 9.0))(assert (<= X_0"),
    ):
        assert len(read_property(other).disjuncts[0]) == 2, "no condition is skipped"
    for other in ("(assert (>= (+ Y_0 Y_1) 0.5))", f"; {text}"):
        with pytest.raises(FormatError, match="cannot be read"):
            read_property(other)
    with pytest.raises(FormatError, match="cannot be read"):
        read_property("(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= Y_0 0.5))")


# The program that runs verifiers: sound bounds have no false answer, unsound ones have some.


PROGRAM = ROOT / "tests/benchmarks/verifiers"

MISLED = """
VERIFIERS["marabou"] = lambda: answer_all("always unsat", lambda problem: "unsat")
VERIFIERS["vibecheck"] = lambda: sys.exit(1)
ends = lambda number: lambda rows: [number] * len(rows)
VERIFIERS["lirpa-ibp"] = lambda: answer_all("low", lambda p: by_bounds(p, ends(9.0), ends(9.1)))

"""


def cells(output, name):
    line = next(line for line in output.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The program, with adapters that say unsat always, die, or have bounds that are too low."""
    place = tmp_path_factory.mktemp("verifiers")
    (place / "run.py").write_text((PROGRAM / "run.py").read_text())
    text, main, rest = (PROGRAM / "adapters.py").read_text().partition("if __name__")
    (place / "adapters.py").write_text(text + MISLED + main + rest)
    return place


def test_outcomes_are_those_of_the_score(copied):
    command = [sys.executable, copied / "run.py", "--count=4", "--kind=corner", "--dim", "2", "4"]
    names = ["interval-form", "marabou", "vibecheck", "lirpa-ibp"]
    run = subprocess.run([*command, *names], capture_output=True, text=True, check=True)
    assert cells(run.stdout, "interval-form")[5:9] == ["0"] * 4
    assert cells(run.stdout, "marabou")[2:10] == ["corner", *"04011", "0", "0"]
    assert cells(run.stdout, "lirpa-ibp")[8:10] == ["5", "5"]
    assert cells(run.stdout, "vibecheck")[1] == "not found"
