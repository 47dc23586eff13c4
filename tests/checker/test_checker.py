"""The checker: an island which believes nothing it has not shown."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from claim_parts import certified
from hypothesis import given, settings
from hypothesis import strategies as st
from islands import FOLDER, SOURCES, foreign_imports, modules_loaded_by
from three_files import FILES_OF, paths, saved

import constructive
from constructive import Dataset, Verdict, build_memorizer, certify, check, generators, strategies
from constructive.certificates.families import fingerprint
from constructive.support.verdict import pack

FILES = FILES_OF[Dataset]


# It is an island.


def test_it_imports_nothing_of_the_package():
    found = {name: foreign_imports(path.read_text()) for name, path in SOURCES.items()}
    assert {name: foreign for name, foreign in found.items() if foreign} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import constructive",
        "from constructive.exact import modular",
        "from . import errors",
        "def late():\n    import flint",
    ],
)
def test_the_test_of_imports_can_fail(line):
    assert foreign_imports(SOURCES["layers"].read_text() + line + "\n")


def test_the_test_of_loaded_modules_can_fail(proved, tmp_path):
    traitor = tmp_path / "traitor"
    shutil.copytree(FOLDER, traitor)
    source = SOURCES["files"].read_text()
    (traitor / "files.py").write_text(
        source.replace("import sys\n", "import sys\nimport flint\n", 1)
    )
    assert modules_loaded_by(traitor, paths(proved[3])) == "status 0 loaded ['flint']"


def test_it_is_short_enough_to_be_read():
    lengths = {name: len(path.read_text().splitlines()) for name, path in SOURCES.items()}
    assert [name for name, length in lengths.items() if length >= 500] == []


# It proves what is true.


@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize("quick", [False, True])
def test_a_true_certificate_is_proved_in_a_process_of_its_own(proved, quick):
    checked = check(*paths(proved[3]), quick=quick)
    assert checked.verdict is Verdict.PROVED
    lines = checked.report.splitlines()
    assert [line.split()[0] for line in lines] == [
        "needs",
        "grouping",
        "rank",
        "error",
        "readout",
        "PROVED",
    ]


@settings(max_examples=25)
@given(strategies.memorizable(), st.booleans())
def test_it_agrees_with_certify(checker, tmp_path_factory, problem, single):
    folder = tmp_path_factory.mktemp("agree")
    memorizer = problem.build()
    problem.dataset.save(folder / "data.npz")
    claims = ("grouping", "rank", "error", "readout")
    if single:  # float32 keeps the rank, not the error
        memorizer, claims = memorizer.astype(np.float32), claims[:2]
    certificate = certify(memorizer, problem.dataset, claims=claims)
    assert certificate.proved
    memorizer.save(folder / "weights.safetensors")
    certificate.save(folder / "certificate.json")
    for quick in (False, True):
        found = checker.check(paths(folder), quick=quick)
        assert found == {claim.name: claim.statement for claim in certificate.claims}


def test_integers_as_numpy_saves_them(checker, tmp_path):
    data = generators.integers(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    certified(memorizer, data).save(tmp_path / FILES[0])
    memorizer.save(tmp_path / FILES[1])
    as_integers = {
        "contexts": data.contexts.astype(np.int16),
        "queries": data.queries.astype(np.int64),
        "targets": data.targets.astype(np.int8),
    }
    np.savez_compressed(tmp_path / FILES[2], **as_integers)
    assert len(checker.check(paths(tmp_path))) == 4


def test_an_ill_conditioned_readout(checker, tmp_path):
    data = generators.shared_context(num_examples=61, context_size=16, width=20)
    memorizer = build_memorizer(
        data, num_heads=4, construction="rank_one", precision="auto", tolerance=1e-14
    )
    assert memorizer.record.precision > 53
    certificate = certify(memorizer, data, claims=["readout"])
    assert (
        "in balls" in certificate["readout"].detail or "balls of" in certificate["readout"].detail
    )
    saved(tmp_path, memorizer, data, certificate)
    assert "readout" in checker.check(paths(tmp_path))


# Forgeries: whoever writes the certificate has the package, and recomputes what he likes.


def forged_rank(checker, data, memorizer):
    """A certificate that claims rank T with columns that are there, and a false solution."""
    honest, total = certify(memorizer, data, claims=["rank"]), data.num_examples
    columns = honest["rank"].evidence.get("columns", pack(range(total)))
    evidence = {
        "prime": 4194287,
        "value": 5,
        "columns": columns,
        "solution": pack([0] * 12 * total),
    }
    claim = dataclasses.replace(
        honest["rank"],
        verdict=Verdict.PROVED,
        witness=None,
        statement=checker.rank.Rank.statement.format(total),
        evidence=evidence,
    )
    return dataclasses.replace(honest, claims=(claim,))


@pytest.mark.parametrize("quick", ["--quick", None])
@pytest.mark.parametrize("case", ["beyond the bound", "twice the same", "honest, false factors"])
def test_forged_ranks(checker, tmp_path, capsys, quick, case):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    memorizer = build_memorizer(data.take(range(7)), num_heads=3)
    chosen = {"beyond the bound": range(8), "twice the same": [0, 1, 1, 2]}.get(case, range(7))
    chosen = data.take(list(chosen))
    files = saved(tmp_path, memorizer, chosen, forged_rank(checker, chosen, memorizer))
    status = checker.main([*files, *([quick] if quick else [])])
    said = capsys.readouterr().out
    if case == "honest, false factors" and quick is None:
        # The claim is true, and elimination does not read what is false: the solution.
        assert status == 0
        assert said.endswith("\nPROVED\n")
        return
    assert status == 1
    assert ("solution modulo p is wrong" if quick else "singular modulo p") in said


# What it asks for.


def test_small_files_cannot_ask_for_much_memory(checker, proved, tmp_path, capsys):
    heads = size = 1 << 13
    layer = constructive.AttentionLayer(
        np.ones((heads, 1, 1)),
        np.ones((heads, 1, 1)),
        np.ones((heads, 1, 1)),
        np.ones((heads, 1)),
        np.ones((1, 1)),
    )
    data = Dataset(np.arange(size, dtype=float)[:, None], np.ones((1, 1)), np.ones(1))
    type(proved[1])(layer, proved[1].record).save(tmp_path / FILES[1])
    data.save(tmp_path / FILES[2])
    content = json.loads((proved[3] / FILES[0]).read_text())
    kept = {name: getattr(data, name) for name in ("contexts", "queries", "targets")}
    for part, held in (("data", kept), ("weights", layer.tensors)):
        content[part] = {
            name: {"dtype": x.dtype.name, "shape": list(x.shape)} for name, x in held.items()
        }
        content[part]["sha256"] = fingerprint(held).hex()
    (tmp_path / FILES[0]).write_text(json.dumps(content))
    assert checker.main([*paths(tmp_path), "--max-memory", "2"]) == 1
    said = capsys.readouterr()
    needed = said.err.removeprefix("needs up to ").strip()  # said before it is taken
    assert float(needed.split()[0]) > 2
    assert f"{needed} are needed, and --max-memory is 2" in said.out
