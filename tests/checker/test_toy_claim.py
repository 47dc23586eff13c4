"""A new claim is a file and a line in the package, and a file and a line in the checker."""

import shutil

import numpy as np
import pytest
import toy_claim
from claim_conformance import check_claim

from constructive import Dataset, ParameterError, build_memorizer, certify, check, generators
from constructive.certificates import check as checking
from constructive.certificates.families import CLAIMS

CLAIM = f"""
from claim import Claim
from files import require


class Toy(Claim):
    name, statement = "toy", {toy_claim.TOY.statement!r}

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
    monkeypatch.setitem(CLAIMS["layer"], "toy", toy_claim.TOY)


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


@pytest.mark.usefixtures("toy", "taught", "own_process")
@pytest.mark.parametrize("kind", ["TOY", "LIAR", "RECKLESS"])
def test_what_a_claim_has_to_do(data, memorizer, monkeypatch, tmp_path, kind):
    """One that lies does not pass, nor does one whose evidence shows nothing."""
    zeros = Dataset(data.contexts, data.queries, np.zeros(7))
    toy = getattr(toy_claim, kind)
    monkeypatch.setitem(CLAIMS["layer"], "toy", toy)
    statements = {"toy": toy.statement}

    def conforms():
        check_claim(
            toy, (memorizer, data), (memorizer, zeros), statements=statements, folder=tmp_path
        )

    if kind == "TOY":
        conforms()
        return
    with pytest.raises(AssertionError, match="false" if kind == "LIAR" else "checker"):
        conforms()


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
    monkeypatch.setattr(toy_claim.Toy, "usual", usual)
    assert ("toy" in [claim.name for claim in certify(memorizer, data).claims]) == usual


@pytest.mark.usefixtures("toy")
def test_it_takes_the_options_that_it_names(data, memorizer, monkeypatch):
    options = {"claims": "toy", "model": "float32, scaled"}
    with pytest.raises(ParameterError, match="model"):
        certify(memorizer, data, **options)
    monkeypatch.setattr(toy_claim.Toy, "options", frozenset({"model"}))
    assert certify(memorizer, data, **options).proved
