"""Every claim of the checker, on every kind of data, passes the same suite."""

import pytest
from checker_suite import KINDS, Files, check_checker_claim, check_mutants
from islands import FOLDER, modules_loaded_by

CLAIMS = {
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
    if kind in CLAIMS:
        return CLAIMS[kind]
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
    known = checker.registry.CLAIMS.items()
    assert tried == {(about.format, claim.name) for about, claims in known for claim in claims}
