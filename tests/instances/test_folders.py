"""Folders of instances: what tools see, graphs that runtimes evaluate, and the same bytes."""

import csv
import hashlib
import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from drawn_networks import files_of

from constructive import OutputError, ParameterError
from constructive.instances import Atom, Box, Property, check, make, planted, save
from constructive.instances.folder import EXPECTED
from constructive.instances.making import KINDS
from constructive.instances.properties import decimal, text_of, version_1, version_2
from constructive.support.files import require_folder

OPERATORS = ["Gemm", "Softmax", "MatMul"] * 2 + ["Add"]


@pytest.fixture(scope="module")
def some():
    return make(8, dims=(2, 6), scale=(8.0, 12.0), seed=3)


def test_what_is_in_a_folder(tmp_path, some):
    save(tmp_path / "folder", some, timeout=30)
    files = files_of(tmp_path / "folder")
    rows = list(csv.reader((tmp_path / "folder/instances.csv").read_text().splitlines()))
    assert len(rows) == len(some) == 8
    assert {row[2] for row in rows} == {"30"}
    assert {name for row in rows for name in row[:2]} <= set(files)
    expected = list(csv.DictReader((tmp_path / "folder/expected.csv").read_text().splitlines()))
    assert tuple(expected[0]) == EXPECTED
    assert [row["answer"] for row in expected] == [str(each.answer) for each in some]
    readme = files["README.md"].decode()
    for word in ("Apache-2.0", "opset\n  13", "VNN-LIB 2.0", "8 instances", "float32"):
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


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        save(tmp_path / name, make(6, dims=(2, 9), seed=seed))
    one, same, other = (files_of(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    networks = [name for name in one if name.startswith("onnx/")]
    assert networks
    assert all(one[name] != other.get(name) for name in networks)


def test_a_folder_is_written_whole_or_not_at_all(tmp_path, some):
    save(tmp_path / "folder", some[:2])
    before = files_of(tmp_path / "folder")
    other = [replace(some[0], name=some[1].name), some[1]]
    with pytest.raises(ParameterError, match="same name"):
        save(tmp_path / "folder", other)
    with pytest.raises(OutputError, match="something else"):
        save(tmp_path / "folder", some[2:4])  # other names
    assert files_of(tmp_path / "folder") == before
    (tmp_path / "folder/onnx/notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"onnx/notes\.txt"):
        save(tmp_path / "folder", some[:2])
    (tmp_path / "folder/onnx/notes.txt").unlink()
    save(tmp_path / "folder", some[:2])
    assert files_of(tmp_path / "folder") == before
    assert require_folder(tmp_path / "folder", list(before))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_kinds_are_one_name_or_more():
    made = make(2, kinds="needle", dims=(2, 2))
    assert [each.name for each in made] == ["needle_0000_a", "needle_0000_b"]
    assert KINDS == ("needle", "corner", "shadow")
    for kinds, word in (([], "no family"), ((), "no family"), ("n", "'n'"), (["x"], "'x'")):
        with pytest.raises(ParameterError, match=word) as caught:
            make(2, kinds=kinds)
        assert "needle" in caught.value.suggestion


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


def test_properties_are_exact_decimals_on_lines_of_their_own():
    third = float(np.float32(1 / 3))
    atoms = Atom([1.0, 0.0], third), Atom([0.0, -1.0], -2.0), Atom([-1.0, 1.0], 0.0)
    wanted = Property(Box([-third, 2.0**-30], [0.0, 1e10]), (atoms[:2], atoms[2:]))
    for text, x, y in (
        (version_1(wanted), "X_{}", "Y_{}"),
        (version_2(wanted), "X[0,{}]", "Y[0,{}]"),
    ):
        y0, y1, x0 = y.format(0), y.format(1), x.format(0)
        lines = text.splitlines()
        assert f"(assert (>= {x0} {decimal(-third)}))" in lines
        assert f"(assert (<= {x0} 0.0))" in lines
        assert "(assert (or" in lines[-1]
        assert f"(and (>= {y0} {decimal(third)}) (<= {y1} 2.0)) (and (>= {y1} {y0}))" in lines[-1]
        assert all(line.count("assert") <= 1 for line in lines)
        assert not re.search(r"\d[eE][+-]?\d", text)
        assert text.count("(") == text.count(")")


@pytest.mark.parametrize("value", [0.0, -1.5, 2.0**-126, 1.0 / 3.0, 2.0**100, -0.1])
def test_decimals_are_exact(value):
    for text in (decimal(value), text_of(value)):
        assert Fraction(text) == Fraction(value)
        assert "e" not in text


def test_how_many_are_made():
    made = make(7, kinds=["corner"], dims=(3, 3), scale=32.0)
    assert len(made) == 8
    assert {each.network.input_dim for each in made} == {3}
    for options, word in (
        ({"kinds": ["none"]}, "no family"),
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
