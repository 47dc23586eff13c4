"""A slice of the campaign of tests/campaign/hostile.py, with fixed seeds; and it can fail."""

import contextlib
import csv
import json
import shutil
import sys
import warnings
from functools import partial
from pathlib import Path

import decoder_forgeries
import decoder_judge
import forgeries
import hostile
import instance_forgeries
import instance_judge
import judges
import numpy as np
import pytest
import triples
from decoder_parts import TWO, TWO_ROWS, by_hand, files_of, two_tokens
from triples import pack

from constructive.checker.claim import Claim

pytestmark = pytest.mark.usefixtures("one_sieve")
# Families, seeds and numbers of cases that are always run.
QUICK = [
    ("mutations", 1, 12),
    ("false claims", 10, 20),
    ("fuzzed files", 21, 80),
    ("certify", 31, 6),
    ("decoders", 40, 20),
    ("instances", 50, 20),
]
# Some thousand.
SLOW = [
    *(("mutations", seed, 100) for seed in range(4)),
    *(("false claims", seed, 200) for seed in range(10, 16)),
    *(("fuzzed files", seed, 200) for seed in range(20, 22)),
    *(("certify", seed, 30) for seed in range(30, 32)),
    *(("decoders", seed, 150) for seed in range(40, 44)),
    *(("instances", seed, 200) for seed in range(50, 54)),
]


@pytest.fixture
def runner(tmp_path):
    """A runner of cases, whose folder goes away."""
    with contextlib.closing(hostile.Runner("all", tmp_path / "kept")) as runner:
        yield runner


@pytest.mark.parametrize(
    ("family", "seed", "cases"),
    [*QUICK, *(pytest.param(*piece, marks=pytest.mark.slow) for piece in SLOW)],
)
def test_nothing_false_is_accepted(tmp_path, family, seed, cases):
    counts = hostile.run(family, seed, cases, keep=tmp_path)
    kept = [path.read_text() for path in tmp_path.rglob("why.txt")]
    assert not kept
    assert not any(counts[column] for column in hostile.BAD)
    assert counts["tried"] == cases
    assert counts["accepted, true"] > 0  # what refuses everything is not a checker
    assert counts["refused"] > 0
    assert counts["true, refused"] == 0
    # Between one evaluation and all is room; networks that were changed may be right or wrong.
    most = 0.05 if family in ("decoders", "instances") else 0.0
    assert counts["not judged"] <= most * cases


# A campaign which cannot fail would prove nothing.


def believe(command):
    """A checker which believes whatever a certificate states."""
    content = json.loads(Path(command[0]).read_bytes())
    stated = [f"{name:9} {claim['statement']}" for name, claim in content["claims"].items()]
    sys.stdout.write("\n".join([*stated, "PROVED", ""]))
    return 0


def believe_instances(command):
    """A checker that believes proofs, and margins of expected.csv."""
    root, lines = Path(command[1]), []
    for row in csv.DictReader((root / "expected.csv").read_text().splitlines()):
        proof = json.loads((root / f"proofs/{row['instance']}.json").read_text())
        line = f"{row['instance']} {proof['answer']}: as it says, by a margin of "
        if "float32" in proof:
            near = f"{0.9 * float(row['margin']):.4g}"
            line += f"{near}; {proof['float32']['answer']} in every float32 evaluation, by a margin"
            lines.append(f"{line} of {near} ({proof['model']})")
            continue
        if "rounding" not in proof:
            line += f"{row['margin']} in real arithmetic and in every float32 evaluation"
            lines.append(f"{line} ({proof['model']})")
            continue
        line += f"{row['margin']}; float32 is off by at most {row['rounding']}"
        lines.append(f"{line} ({proof['model']})")
    lines += [f"{len(lines)} of {len(lines)} answers are proved", "PROVED", ""]
    sys.stdout.write("\n".join(lines))
    return 0


# What these forge says nothing false: the judge of instances does not look at models.
HARMLESS = decoder_forgeries.nothing, decoder_forgeries.fewer_claims, instance_forgeries.numbers
BELIEVED = [
    *((believe, build) for build, _ in forgeries.FALSE),
    *((believe, partial(decoder_forgeries.forgery, ways=[(way, 1)]))
      for way, _ in decoder_forgeries.WAYS if way not in HARMLESS),
    *((believe_instances, partial(instance_forgeries.forgery, ways=[way]))
      for way in dict.fromkeys(instance_forgeries.FORGERIES) if way not in HARMLESS),
]  # fmt: skip


def name_of(forge):
    way = forge.keywords["ways"][0] if isinstance(forge, partial) else forge
    return way[0].__name__ if isinstance(way, tuple) else way.__name__


@pytest.mark.parametrize(("believing", "forge"), BELIEVED, ids=name_of)
def test_a_checker_which_believes_everything_is_found_out(runner, believing, forge):
    """One of sixty forgeries of each kind is false and accepted, and counted as that."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.checker, "main", believing)
        warnings.simplefilter("ignore")
        for _ in range(60):
            runner.case(forge(rng))
            if runner.counts["accepted, false"]:
                break
    assert runner.counts["accepted, false"] > 0
    assert list(runner.keep.rglob("why.txt"))


def test_the_judge_of_instances_believes_honest_folders(runner):
    """The checker, too, proves all of them."""
    for base in instance_forgeries.honest()[::4]:
        files = base.write(runner.work)
        status, printed, *_ = runner.check(files)
        assert status == 0, printed
        assert instance_judge.all_true(base, base, printed) is True
        shutil.rmtree(runner.work)
        runner.work.mkdir()


def test_the_judge_of_decoders_knows_all_answers(tmp_path):
    """Margins of 0.9 and more; rows of Z that are made equal; and what float32 may do to them."""
    judged = {}
    for near, last in ((1.0, 1.0), (2.0**-16, 1.0), (2.0**-30, 1.0), (1.0, 0.0)):
        embedding = [[1, 1, last], [1, 1, -last]]
        decoder = by_hand(TWO, two_tokens(embedding=embedding, unembedding=1.0 + near * TWO_ROWS))
        files = files_of(decoder, TWO, {}).write(tmp_path)[1:]
        on = decoder_judge.read(*files)
        judged[near, last] = (
            decoder_judge.executes(on),
            decoder_judge.margins_hold(on, 0.4 * near),
            decoder_judge.rank_holds(on, 2),
        )
    assert judged[1.0, 1.0] == (True, True, True)
    assert judged[2.0**-16, 1.0] == (None, True, True)
    assert judged[2.0**-30, 1.0][:2] == (False, False)
    assert judged[1.0, 0.0][1:] == (False, False)
    assert decoder_judge.rank_holds(on, 1) is False


@pytest.mark.parametrize("family", ["mutations", "certify", "decoders", "fuzzed files"])
def test_a_case_that_raises_is_counted_and_the_next_one_runs(tmp_path, monkeypatch, family):
    def fail(*_):
        raise ValueError("the shape of U is (2, 30)")

    for module, name in (
        (forgeries, "fuzzed"), (forgeries, "mutation"), (decoder_forgeries, "forgery"),
        (hostile, "certified"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, fail)
    counts = hostile.run(family, 0, 7, keep=tmp_path)
    assert counts["traceback"] == 7
    words = [path.read_text() for path in tmp_path.rglob("why.txt")]
    assert len(words) == 7
    assert all("(2, 30)" in each for each in words)


def test_a_checker_which_raises_is_found_out(runner, monkeypatch):
    def fail(_command):
        raise KeyError("claims")

    monkeypatch.setattr(runner.checker, "main", fail)
    runner.case(forgeries.exact_bounds(np.random.default_rng(0)))
    assert runner.counts["traceback"] == 1


def test_a_checker_which_refutes_what_is_true_is_found_out(runner, monkeypatch):
    judge = Claim.judge

    def refute(claim, about):
        return judge(claim, about)._replace(verdict="REFUTED")

    case = forgeries.of_triple("honest", triples.honest_layers()[0])
    runner.case(case)
    assert runner.counts["accepted, true"] == 1
    monkeypatch.setattr(Claim, "judge", refute)
    runner.case(case)
    assert runner.counts["accepted, false"] == 1


def test_a_checker_which_takes_long_is_found_out(runner, monkeypatch):
    monkeypatch.setattr(hostile, "SECONDS", -1.0)
    runner.case(forgeries.exact_bounds(np.random.default_rng(0)))
    assert runner.counts["over time"] == 1


# Judges, on what is known.


def test_judges_of_errors_and_ranks_know_both_answers():
    """One head of uniform attention: Z has the mean tokens as its rows."""
    rng = np.random.default_rng(0)
    weights = forgeries.exact_layer(rng, 1, 2, 1, 1, 1, "zero")
    weights["W_V"][0, :, 0] = 3.0, -2.0
    contexts = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]])
    data = {"contexts": contexts, "queries": np.eye(2), "targets": np.array([3.5, -2.0])}
    assert judges.error_holds(weights, data, 0.5)
    assert not judges.error_holds(weights, data, np.nextafter(0.5, 0))
    assert judges.rank_is_full(weights, data)
    data["contexts"] = contexts[[0, 0]]
    assert not judges.rank_is_full(weights, data)


def test_the_judge_of_upper_bounds_knows_both_answers():
    tokens = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 2.0, 2.0]])
    data = {"contexts": tokens[[[0, 1], [1, 0], [0, 2]]], "queries": np.eye(3)}
    statement = triples.STATEMENTS["impossible"]
    evidence = {"examples": pack([0, 1])}

    def judged(*told):
        text = statement.format(*told)
        return judges.layer_statement("impossible", text, None, data, evidence)

    assert judged(1, 2, 2) is False  # no more examples than the rank may be
    data["queries"] = np.eye(3)[[0, 0, 1]]
    data["contexts"][1, 0, 1] = 2 + 2.0**-51  # so that they are two inputs
    assert judged(1, 1, 2) is False
    data["contexts"][:, :] = tokens[0]
    data["queries"] = np.eye(3)[[0, 1, 1]]
    assert judged(1, 1, 2) is True
    assert judged(9, 1, 2) is True
    assert judged(1, 0, 2) is False
    assert judged(1, 1, 3) is False
    evidence["examples"] = pack([1, 2])  # one input, twice
    assert judged(1, 1, 2) is False
    assert judged(1, 0, 1) is False
    data["contexts"][0, 1, 0] = np.nextafter(1.0, 2.0)
    evidence["examples"] = pack([0, 1])
    assert judged(1, 1, 2) is False
    evidence["examples"] = pack([1, 3])
    assert judged(1, 1, 2) is False
    single = {"contexts": np.zeros((2, 3)), "queries": np.eye(3)[:1]}
    evidence["examples"] = pack([0])
    text = statement.format(5, 0, 1)
    assert judges.layer_statement("impossible", text, None, single, evidence) is True
    single["contexts"][1, 1] = 5e-324
    assert judges.layer_statement("impossible", text, None, single, evidence) is False


@pytest.mark.parametrize(
    "scale", [0, *(pytest.param(scale, marks=pytest.mark.slow) for scale in range(1, 6))]
)
def test_honest_triples_stay_true_at_any_scale(runner, scale):
    rng, found = np.random.default_rng(scale), 0
    honest = *triples.honest_layers(), *triples.honest_pairs(), *triples.honest_bounds()
    for triple in honest[:: 1 if scale else 2]:
        files = triple.scaled(rng).write(runner.work)
        status, printed, *_ = runner.check(files)
        assert status == 0, printed
        found += 1
    assert found > 20
