"""Every claim passes the same suites: of the checker, on every kind of data, and of certify."""

import dataclasses

import numpy as np
import pytest
from checker_suite import KINDS, Files, check_checker_claim, check_mutants
from claim_conformance import check_claim
from islands import FOLDER, modules_loaded_by

from constructive import Dataset
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.families import CLAIMS

OF_KIND = {
    "own contexts": ("grouping", "rank", "error", "readout"),
    "contexts of different lengths": ("rank", "error", "readout", "executed"),
    "a shared context": ("grouping", "rank", "error", "readout"),
    "corrections": ("rank", "error", "readout"),
    "wide groups": ("wide_grouping", "rank"),
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
