"""Every claim passes the same suites: of the checker, on every kind of data, and of certify."""

import contextlib
import dataclasses
import shutil

import numpy as np
import pytest
from checker_parts import FOLDER, modules_loaded_by
from checker_suite import KINDS, Files, check_checker_claim, check_claim, check_mutants

from constructive import (
    Claim,
    Dataset,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates import check as checking
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.kind import ClaimKind
from constructive.certificates.families import CLAIMS
from constructive.support.progress import report

OF_KIND = {
    "own contexts": ("grouping", "rank", "error", "readout"),
    "contexts of different lengths": ("rank", "error", "readout", "executed"),
    "a shared context": ("grouping", "rank", "error", "readout"),
    "corrections": ("rank", "error", "readout"),
    "wide groups": ("wide_grouping", "rank"),
    "labels": ("labels",),
    "inseparable": ("inseparable",),
    "pairs": ("rank", "error", "readout"),
    "several texts": ("rank", "recites", "executed"),
    "decoder of integers": ("recites", "executed"),
    "upper bound": ("impossible",),
}


def claims_of(kind):
    if kind in OF_KIND:
        return OF_KIND[kind]
    if kind.startswith("executed"):
        return ("executed",)
    return ("rank", "recites", "executed") if kind.startswith("decoder") else ("equality", "size")


@pytest.fixture(scope="module")
def files(checker, tmp_path_factory):
    """Files of a kind, which are made once."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = Files(KINDS[kind](), tmp_path_factory.mktemp("kind"), checker)
        return made[kind]

    return of


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in KINDS for name in claims_of(k)])
def test_claims(files, kind, name):
    check_checker_claim(files(kind), name)


@pytest.mark.parametrize("kind", KINDS)
def test_mutants(files, kind):
    check_mutants(files(kind), seed=len(kind))


@pytest.mark.parametrize("kind", ["own contexts", "pairs", "decoder", "next", "upper bound"])
def test_a_run_loads_nothing_of_the_package(files, kind):
    made = files(kind)
    made.restore()
    assert modules_loaded_by(FOLDER, map(str, made.paths)) == "status 0 loaded []"


def test_all_claims_are_tried(files, checker):
    tried = {
        (files(kind).content["format"], name) for kind in KINDS for name in files(kind).kind.claims
    }
    known = checker.command.CLAIMS.items()
    assert tried == {(about.format, claim.name) for about, claims in known for claim in claims}


# And every kind of claim passes `check_claim`: one line for each, and for each of its proofs.


def scaled(memorizer, data):
    """Contexts are so large that float32 overflows."""
    return memorizer, Dataset(data.contexts * 2.0**200, data.queries, data.targets)


def blind(memorizer, data):
    """Heads attend uniformly, so that Z is singular."""
    zeros = np.zeros_like(memorizer.layer.query_weights)
    layer = dataclasses.replace(memorizer.layer, query_weights=zeros)
    return dataclasses.replace(memorizer, layer=layer), data


def boasting(*_):
    """Other sequences, and a record with a size beyond what they have."""
    other = KINDS["last"]()
    sizes = dataclasses.replace(other.weights.record.sizes, token_bits=10**6)
    record = dataclasses.replace(other.weights.record, sizes=sizes)
    return dataclasses.replace(other.weights, record=record), other.data


def fewer(_, data):
    """As many examples as tokens have entries."""
    return None, data.take(range(data.width))


CASES = {
    ("layer", "grouping"): ("own contexts", None),
    ("layer", "wide_grouping"): ("wide groups", None),
    ("layer", "rank"): ("own contexts", None),
    ("layer", "error"): ("own contexts", None),
    ("layer", "readout"): ("own contexts", blind),
    ("layer", "labels"): ("labels", None),
    ("layer", "inseparable"): ("inseparable", None),
    ("layer", "executed"): ("executed", scaled),
    ("layer", "rank", "paired"): ("pairs", None),
    ("layer", "error", "paired"): ("pairs", None),
    ("layer", "readout", "paired"): ("pairs", blind),
    ("decoder", "rank"): ("decoder", None),
    ("decoder", "recites"): ("decoder", None),
    ("decoder", "executed"): ("decoder", None),
    ("decoder", "recites", "integers"): ("decoder of integers", None),
    ("decoder", "executed", "integers"): ("decoder of integers", None),
    ("sequences", "equality"): ("seq2seq", None),
    ("sequences", "size"): ("seq2seq", boasting),
    ("all weights", "impossible"): ("upper bound", fewer),
}
"""A kind of the suite, and what certify cannot prove, where the checker has other data for that."""


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_claim_does_what_all_claims_do(case, checker, tmp_path):
    row, name, *_ = case
    kind, spoil = CASES[case]
    made = KINDS[kind]()
    holds = made.weights, made.data
    fails = spoil(*holds) if spoil else made.spoil[name]
    if made.weights is None:
        heads = AllWeights(made.options["num_heads"])
        holds, fails = ((heads, data) for _, data in (holds, fails))
    known = checker.command.CLAIMS.values()
    statements = {claim: claim.statement for claims in known for claim in claims}
    check_claim(CLAIMS[row][name], holds, fails, statements=statements, folder=tmp_path)


def test_no_kind_is_left_out():
    registered = {(row, name) for row, kinds in CLAIMS.items() for name in kinds}
    assert {case[:2] for case in CASES} == registered


# The smallest claim there is, how many targets are not zero; and two that break the rules.


class Toy(ClaimKind):
    name = "toy"
    statement = "{} of the targets are not zero"
    usual = False

    def judge(self, subject):
        report("play", 0, 1)
        count = int(np.count_nonzero(subject.data.targets))
        if not count:
            statement = self.statement.format("some")
            return Claim("toy", statement, Verdict.REFUTED, "all are zero", 0)
        statement, evidence = self.statement.format(count), {"count": count}
        return Claim("toy", statement, Verdict.PROVED, "counted", evidence=evidence)


class Liar(Toy):
    """It calls everything PROVED."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), verdict=Verdict.PROVED, witness=None)


class Reckless(Toy):
    """It forgets what a checker needs."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), evidence={})


TOY, LIAR, RECKLESS = Toy(), Liar(), Reckless()

# A new claim is a file and a line in the package, and a file and a line in the checker.

CLAIM = f"""
from claim import Claim
from files import require


class Toy(Claim):
    name, statement = "toy", {TOY.statement!r}

    def check(self, about):
        count = int((about.data["targets"] != 0).sum())
        require(self.evidence == {{"count": count}}, "toy: the count is another")
        return (count,)
"""
FIRST = "        Grouping,\n"


@pytest.fixture(scope="module")
def data():
    return generators.uniform(num_examples=7, context_size=3, width=5)


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data, num_heads=3)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(CLAIMS["layer"], "toy", TOY)


@pytest.fixture
def taught(tmp_path, monkeypatch):
    """A checker which knows it, too."""
    folder = tmp_path / "checker"
    shutil.copytree(checking.CHECKER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "toy.py").write_text(CLAIM)
    command = (folder / "command.py").read_text()
    assert FIRST in command
    command = command.replace(FIRST, f"        Toy,\n{FIRST}")
    (folder / "command.py").write_text(f"from toy import Toy\n{command}")
    monkeypatch.setattr(checking, "CHECKER", folder)


@pytest.mark.usefixtures("taught", "own_process")
@pytest.mark.parametrize(("toy", "words"), [(TOY, None), (LIAR, "false"), (RECKLESS, "checker")])
def test_what_a_claim_has_to_do(data, memorizer, monkeypatch, tmp_path, toy, words):
    """One that lies does not pass, nor does one whose evidence shows nothing."""
    zeros = Dataset(data.contexts, data.queries, np.zeros(7))
    monkeypatch.setitem(CLAIMS["layer"], "toy", toy)
    statements = {"toy": toy.statement}
    with pytest.raises(AssertionError, match=words) if words else contextlib.nullcontext():
        check_claim(
            toy, (memorizer, data), (memorizer, zeros), statements=statements, folder=tmp_path
        )


@pytest.mark.usefixtures("toy")
def test_a_checker_which_does_not_know_it_refuses(data, memorizer):
    report = check(certify(memorizer, data, claims=["toy"]), memorizer, data)
    assert not report.proved
    assert "nothing known" in report.report


@pytest.mark.usefixtures("toy")
def test_it_stands_in_the_order_of_the_registry(data, memorizer):
    names = [claim.name for claim in certify(memorizer, data, claims=["toy", "rank"]).claims]
    assert names == ["rank", "toy"]


def test_without_its_line_nobody_knows_it(data, memorizer):
    with pytest.raises(ParameterError, match="claims") as caught:
        certify(memorizer, data, claims=["toy"])
    assert caught.value.witness == ["toy"]


@pytest.mark.usefixtures("toy")
def test_it_is_asked_of_paired_heads_too(data):
    paired = build_memorizer(data, num_heads=4, construction="paired")
    claims = ["rank", "error", "readout", "toy"]
    assert [claim.name for claim in certify(paired, data, claims=claims).claims] == claims


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("usual", [False, True])
def test_it_is_made_always_if_it_says_so(data, memorizer, monkeypatch, usual):
    monkeypatch.setattr(Toy, "usual", usual)
    assert ("toy" in [claim.name for claim in certify(memorizer, data).claims]) == usual


@pytest.mark.usefixtures("toy")
def test_it_takes_the_options_that_it_names(data, memorizer, monkeypatch):
    options = {"claims": "toy", "model": "float32, scaled"}
    with pytest.raises(ParameterError, match="model"):
        certify(memorizer, data, **options)
    monkeypatch.setattr(Toy, "options", frozenset({"model"}))
    assert certify(memorizer, data, **options).proved
