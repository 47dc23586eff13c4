"""A new claim is a file and a line in the package, and a file and a line in the checker."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from constructive import (
    Certificate,
    Dataset,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates import check as checking
from constructive.certificates.claims import registry

REGISTERED = "registry.HOMES['toy'] = 'toy_claim:TOY'"
CLAIM = """
from claim import Claim
from files import require


class Toy(Claim):
    name, statement = "toy", "{} of the targets are not zero"

    def check(self, about):
        count = int((about.data["targets"] != 0).sum())
        require(self.evidence == {"count": count}, "toy: the count is another")
        return (count,)
"""
LINE = "    known = Grouping, "


@pytest.fixture(scope="module")
def data():
    return generators.uniform(num_examples=7, context_size=3, width=5)


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data, num_heads=3)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy_claim:TOY")


@pytest.fixture
def taught(tmp_path, monkeypatch):
    """A checker which knows it, too."""
    folder = tmp_path / "checker"
    shutil.copytree(checking.CHECKER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "toy.py").write_text(CLAIM)
    layers = (folder / "layers.py").read_text()
    assert LINE in layers
    layers = layers.replace(LINE, f"{LINE}Toy, ").replace(
        "import math\n", "import math\nfrom toy import Toy\n"
    )
    (folder / "layers.py").write_text(layers)
    monkeypatch.setattr(checking, "CHECKER", folder)


@pytest.mark.usefixtures("toy")
def test_it_is_judged_saved_and_loaded(data, memorizer, tmp_path):
    assert "toy" not in [claim.name for claim in certify(memorizer, data).claims]
    certificate = certify(memorizer, data, claims=["toy", "rank"])
    assert [claim.name for claim in certificate.claims] == ["rank", "toy"]
    assert certificate["toy"].statement == "7 of the targets are not zero"
    certificate.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json")["toy"].proved
    zeros = Dataset(data.contexts, data.queries, np.zeros(7))
    assert certify(memorizer, zeros, claims=["toy"])["toy"].verdict is Verdict.REFUTED


@pytest.mark.usefixtures("toy", "taught")
def test_it_is_checked(data, memorizer):
    certificate = certify(memorizer, data, claims=["rank", "toy"])
    report = check(certificate, memorizer, data)
    assert report.proved
    assert "toy       7 of the targets are not zero" in report.report
    rank, toy = certificate.claims
    forged = dataclasses.replace(toy, evidence={"count": 6})
    refused = check(dataclasses.replace(certificate, claims=(rank, forged)), memorizer, data)
    assert "toy: the count is another" in refused.report
    other = dataclasses.replace(toy, statement="6 of the targets are not zero")
    refused = check(dataclasses.replace(certificate, claims=(rank, other)), memorizer, data)
    assert "it does not state" in refused.report


@pytest.mark.usefixtures("toy")
def test_a_checker_which_does_not_know_it_refuses(data, memorizer):
    report = check(certify(memorizer, data, claims=["toy"]), memorizer, data)
    assert not report.proved
    assert "nothing known" in report.report


def test_without_its_line_nobody_knows_it(data, memorizer):
    with pytest.raises(ParameterError, match="are not claims about a layer"):
        certify(memorizer, data, claims=["toy"])


@pytest.mark.usefixtures("toy")
def test_it_is_asked_of_paired_heads_too(data):
    paired = build_memorizer(data, num_heads=4, construction="paired")
    claims = ["rank", "error", "readout", "toy"]
    assert [claim.name for claim in certify(paired, data, claims=claims).claims] == claims


@pytest.mark.usefixtures("toy")
def test_it_is_made_always_if_it_says_so(data, memorizer, monkeypatch):
    kind = dataclasses.replace(registry.CLAIMS["toy"], usual=True)
    monkeypatch.setattr("toy_claim.TOY", kind)
    names = [claim.name for claim in certify(memorizer, data).claims]
    assert names == ["grouping", "rank", "error", "readout", "toy"]


def test_the_command_line_offers_it():
    code = f"from constructive.certificates.claims import registry; {REGISTERED}\n"
    code += "from constructive.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, "certify", "--help"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "toy" in run.stdout
