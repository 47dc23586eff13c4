"""Answers in real arithmetic and of float32 programs: both hold, in any order of additions."""

import csv
import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from instance_parts import check_facts, check_refusals, check_seeds

from constructive import ParameterError
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
    score,
)
from constructive.instances.instance import Deployed
from constructive.instances.scoring import Outcome

STEPS = [0.0625, 0.25, 1.0, 2.0, 4.0, 32.0, 256.0]


def made(dim, step, seed=0):
    return FAMILIES["rounding"]().make(dim, seed=seed, step=step)


def float32_program(network, x, rng):
    """f in float32, with the terms of each sum in a random order."""
    (head,) = network.heads
    logits = np.zeros(len(head.offsets), np.float32)
    for j in rng.permutation(len(x) + 1):
        logits += (
            np.float32(head.offsets)
            if j == len(x)
            else np.float32(head.slopes[:, j]) * np.float32(x[j])
        )
    weights = np.exp(logits - logits.max())
    order = rng.permutation(len(weights))
    whole = np.cumsum(weights[order], dtype=np.float32)[-1]
    parts = weights[order] / whole * np.float32(head.values[order, 0])
    return float(np.cumsum(parts, dtype=np.float32)[-1])


def points_of(instance, rng, count=60):
    box = instance.property.box
    drawn = rng.uniform(box.lower, box.upper, (count, len(box.lower)))
    drawn[::3] = np.where(rng.random(drawn[::3].shape) < 0.5, box.lower, box.upper)
    return np.clip(drawn.astype(np.float32).astype(float), box.lower, box.upper)


def test_the_family_keeps_the_laws():
    family = FAMILIES["rounding"]()
    check_facts(family)
    check_refusals(family, 2)
    check_seeds(family, 3, {})


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dim", [1, 3, 17])
def test_both_answers_hold(step, dim):
    rng = np.random.default_rng(0)
    pair = made(dim, step)
    assert {(each.answer, each.deployed) for each in pair} == {("sat", "unsat"), ("unsat", "sat")}
    for each in pair:
        proof = each.proof if each.answer is Answer.SAT else each.float32.witness
        witness = np.array([float(x) for x in proof.point])
        for x in (witness, *points_of(each, rng)):
            real = each.property.least_slack(each.network(x[None]))[0]
            computed = float32_program(each.network, x, rng)
            slack = each.property.least_slack(np.array([[computed]]))[0]
            if x is witness:
                assert (real >= 0, slack >= 0) == (each.answer == "sat", each.deployed == "sat")
            assert real < 0 or each.answer == "sat"
            assert slack < 0 or each.deployed == "sat"


def test_onnxruntime_and_the_checker_agree(tmp_path):
    pairs = make(12, kinds="rounding", dims=(1, 20), seed=3)
    save(tmp_path / "folder", pairs)
    checked = check(tmp_path / "folder")
    assert checked.proved
    for each in pairs:
        (line,) = [line for line in checked.report.splitlines() if line.startswith(each.name)]
        assert f" {each.answer}: " in line
        assert f"; {each.deployed} in every float32 evaluation" in line
        session = onnxruntime.InferenceSession(
            tmp_path / f"folder/onnx/{each.network_name}.onnx", providers=["CPUExecutionProvider"]
        )
        for x in points_of(each, np.random.default_rng(1), 30):
            (found,) = session.run(None, {"X": x[None].astype(np.float32)})
            assert each.property.least_slack(found.astype(float))[0] < 0 or each.deployed == "sat"


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "folder", [*made(3, 4.0), *planted(dim=2, scale=16.0)])
    return tmp_path / "folder"


def forged(folder, change):
    """The checker's report of the first pair, after a change of the proof that is unsat."""
    names = [path.stem for path in (folder / "proofs").iterdir() if path.stem.startswith("round")]
    for name in names:
        path = folder / f"proofs/{name}.json"
        proof = json.loads(path.read_text())
        if proof["answer"] == "unsat":
            change(proof)
            path.write_text(json.dumps(proof))
            return next(line for line in check(folder).report.splitlines() if line.startswith(name))
    raise AssertionError


FORGERIES = {
    "other answer": (lambda p: p["float32"].update(answer="unsat"), "other entries"),
    "no evidence": (lambda p: p["float32"].pop("witness"), "other entries"),
    "unsat": (lambda p: p.update(float32={"answer": "unsat"}), "not shown"),
    "no answer": (lambda p: p.pop("float32"), "rounding"),
    "outside": (lambda p: p["float32"]["witness"].__setitem__(0, "100"), "outside of the box"),
    "no float32 number": (lambda p: p["float32"]["witness"].__setitem__(0, "1/3"), "float32"),
    "more": (lambda p: p["float32"].update(more=1), "other entries"),
    "a word": (lambda p: p["float32"].update(answer="maybe"), "neither sat nor unsat"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_answers_in_float32_are_refused(folder, name):
    change, words = FORGERIES[name]
    line = forged(folder, change)
    assert "NOT PROVED" in line
    assert words in line


def test_the_table_has_to_say_the_answer_that_is_proved(folder):
    path = folder / "expected.csv"
    text = path.read_text()
    other = "unsat" if "needle_a,sat," in text else "sat"
    path.write_text(re.sub(r"(needle_a,\w+),\w+", rf"\1,{other}", text))
    assert "another answer" in check(folder).report
    path.write_text(text.replace(",float32,", ",in float32,"))
    assert "has not the columns" in check(folder).report


def test_answers_are_scored_apart(folder, tmp_path):
    rows = list(csv.DictReader((folder / "expected.csv").read_text().splitlines()))
    results = tmp_path / "results.csv"
    results.write_text("".join(f"{row['instance']},{row['answer']}\n" for row in rows))
    found = score(folder, results)
    assert not found.false
    assert len(found.false_in_float32) == 2
    assert found.sound
    results.write_text("".join(f"{row['instance']},{row['float32']}\n" for row in rows))
    found = score(folder, results)
    assert (len(found.false), found.false_in_float32, found.sound) == (2, (), True)
    results.write_text("".join(f"{row['instance']},unsat\n" for row in rows))
    found = score(folder, results)
    assert not found.sound
    keys = set(found.counts())
    assert {("rounding, real", "sat"), ("rounding, float32", "sat"), ("needle", "sat")} <= keys
    assert found.document()["counts in float32"]["FALSE"] == len(found.false_in_float32) == 2


@pytest.mark.parametrize("semantics", ["answer", "float32"])
def test_a_witness_has_to_hold_in_the_semantics_that_it_is_for(folder, tmp_path, semantics):
    for each in made(3, 4.0):
        deployed = semantics == "float32"
        if (each.deployed if deployed else each.answer) == "unsat":
            continue
        proof = each.float32.witness if deployed else each.proof
        entries = " ".join(f"(X_{i} {float(x)!r})" for i, x in enumerate(proof.point))
        results = tmp_path / "results.csv"
        results.write_text(f'{each.name},sat,"({entries})"\n')
        (row,) = [row for row in score(folder, results).rows if row.expected.name == each.name]
        outcomes = row.outcome, row.in_float32
        assert outcomes == (
            (Outcome.FALSE, Outcome.RIGHT) if deployed else (Outcome.RIGHT, Outcome.FALSE)
        )


def test_what_is_not_proved_is_refused():
    sat = next(each for each in made(3, 4.0) if each.answer is Answer.SAT)
    for other in (Deployed(Answer.SAT), Deployed(Answer.SAT, sat.proof)):
        with pytest.raises(ParameterError, match="no proof"):
            replace(sat, float32=other)
    outside = replace(sat.proof, point=(Fraction(100), *sat.proof.point[1:]))
    with pytest.raises(ParameterError, match="no proof"):
        replace(sat, float32=Deployed(Answer.SAT, outside))
    with pytest.raises(ParameterError, match="twice"):
        replace(sat, float32=None)


def test_inputs_that_programs_take_for_zero_prove_nothing():
    """A program that flushes what is below 2^-126 computes the logit 0, and so 1/2."""
    head = Head(np.array([[2.0**127], [0.0]]), np.zeros(2), np.array([[1.0], [0.0]]))
    wanted = Property(Box(np.zeros(1), np.array([2.0**-127])), ((Atom([1.0], 0.625),),))
    witness = Witness((Fraction(1, 2**127),))

    def instance():
        claimed = Deployed(Answer.SAT, witness)
        return Instance(
            "own", Network((head,)), wanted, Answer.SAT, witness, "own", float32=claimed
        )

    with pytest.raises(ParameterError, match="no proof"):
        instance()
