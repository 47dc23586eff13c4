"""The flat graph has contexts as inputs; answers and proofs are those of the other graphs."""

import hashlib
import json

import pytest

from constructive import Verdict, instances
from constructive.instances.graphs import GRAPHS
from constructive.instances.reading import read_property

pytest.importorskip("onnx")


def made(kinds, **options):
    return instances.make(4 * len(kinds), kinds=kinds, dims=(2, 5), seed=3, **options)


@pytest.fixture
def folder(tmp_path):
    instances.save(tmp_path / "folder", made(["needle", "robust"]), graph="flat", vnnlib="1")
    return tmp_path / "folder"


def test_answers_are_proved_by_the_same_proofs(tmp_path):
    several = made(["needle", "classes", "relabelled"])
    for graph in ("flat", "split"):
        instances.save(tmp_path / graph, several, graph=graph)
        assert instances.check(tmp_path / graph).verdict is Verdict.PROVED
    for each in several:
        flat, split = (
            json.loads((tmp_path / graph / f"proofs/{each.name}.json").read_text())
            for graph in ("flat", "split")
        )
        for proof in (flat, split):
            for name in ("onnx", "vnnlib", "vnnlib2"):
                del proof[name]
        inputs = each.network.input_dim
        if "witness" in flat:
            flat["witness"] = flat["witness"][-inputs:]
        for part in flat.get("refutations", []):
            if "direction" in part:
                assert set(part["direction"][:-inputs]) <= {"0"}
                part["direction"] = part["direction"][-inputs:]
        assert flat == split


def test_models_of_one_shape_are_the_same_file(folder):
    """All that is particular is in the property."""
    one, other = (instances.planted(dim=3, seed=seed).sat.network for seed in (0, 1))
    graph = GRAPHS["flat"]()
    assert graph.written(one) == graph.written(other)
    name = next(path.stem for path in (folder / "vnnlib").iterdir() if "needle" in path.stem)
    read = read_property((folder / f"vnnlib/{name}.vnnlib").read_text())
    varying = read.box.widths > 0
    assert not varying[: -varying.sum()].any()


def forge(folder, name, old, new):
    """Replace a line of a property, and the hashes of the proof."""
    path, proof_path = folder / f"vnnlib/{name}.vnnlib", folder / f"proofs/{name}.json"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    proof = json.loads(proof_path.read_text())
    proof["vnnlib"] = hashlib.sha256(path.read_bytes()).hexdigest()
    proof_path.write_text(json.dumps(proof))


def bound_line(folder, name, which, side):
    """The line of a property that bounds one input, and its number."""
    lines = (folder / f"vnnlib/{name}.vnnlib").read_text().splitlines()
    start = f"(assert ({side} X_{which} "
    (line,) = (line for line in lines if line.startswith(start))
    return line, float(line.removeprefix(start).rstrip(")"))


def test_a_context_that_varies_is_refused(folder):
    answers = {}
    for path in sorted((folder / "proofs").glob("robust*.json")):
        answers.setdefault(json.loads(path.read_text())["answer"], path.stem)
    name = answers["unsat"]
    old, value = bound_line(folder, name, 0, "<=")
    forge(folder, name, old, f"(assert (<= X_0 {value + 0.5}))")
    report = instances.check(folder)
    assert report.verdict is not Verdict.PROVED
    assert f"{name} NOT PROVED" in str(report).replace("  ", " ")


def test_a_proof_without_the_context_is_refused(folder):
    """A witness of x alone is not a point of the box."""
    for path in sorted((folder / "proofs").glob("*.json")):
        proof = json.loads(path.read_text())
        if "witness" in proof:
            proof["witness"] = proof["witness"][-2:]
            path.write_text(json.dumps(proof))
            break
    report = instances.check(folder)
    assert report.verdict is not Verdict.PROVED
    assert f"{path.stem} NOT PROVED" in str(report).replace("  ", " ")
