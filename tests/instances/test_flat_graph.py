"""The flat graph has contexts as inputs; answers and proofs are those of the other graphs."""

import json

import numpy as np
import pytest
from drawn_networks import Files

from constructive import Verdict, instances
from constructive.instances import Box, Property
from constructive.instances.graphs import GRAPHS

pytest.importorskip("onnx")


def made(kinds, **options):
    return instances.make(4 * len(kinds), kinds=kinds, dims=(2, 5), seed=3, **options)


@pytest.fixture
def folder(tmp_path):
    instances.save(tmp_path / "folder", made(["needle", "robust"]), graph="flat")
    return tmp_path / "folder"


def files_of(folder):
    """The files of each instance, by name."""
    return (Files(folder, path.stem) for path in sorted((folder / "proofs").iterdir()))


def test_answers_are_proved_by_the_same_proofs(tmp_path):
    several = made(["needle", "classes", "robust"])
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
    needle = next(files for files in files_of(folder) if files.name.startswith("needle"))
    varying = needle.wanted.box.widths > 0
    assert not varying[: -varying.sum()].any()


def refused(folder, name):
    report = instances.check(folder)
    assert report.verdict is not Verdict.PROVED
    assert f"{name} NOT PROVED" in " ".join(str(report).split())


def test_a_context_that_varies_is_refused(folder):
    files = next(
        files
        for files in files_of(folder)
        if files.name.startswith("robust") and files.proof["answer"] == "unsat"
    )
    box, disjuncts = files.wanted.box, files.wanted.disjuncts
    upper = box.upper.copy()
    upper[0] = np.float32(upper[0] + 0.5)
    files.write(Property(Box(box.lower, upper), disjuncts))
    refused(folder, files.name)


def test_a_proof_without_the_context_is_refused(folder):
    """A witness of x alone is not a point of the box."""
    files = next(files for files in files_of(folder) if "witness" in files.proof)
    files.proof["witness"] = files.proof["witness"][-2:]
    files.write()
    refused(folder, files.name)
