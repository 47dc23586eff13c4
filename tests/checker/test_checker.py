"""The checker: an island which believes nothing it has not shown."""

import json
import shutil

import numpy as np
import pytest
from checker_parts import (
    FILES_OF,
    FOLDER,
    SOURCES,
    foreign_imports,
    modules_loaded_by,
    paths,
    refused,
    said,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import constructive
from constructive import (
    AttentionLayer,
    Dataset,
    ExtendedLayer,
    FormatError,
    Memorizer,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
    strategies,
)
from constructive.support.tensors import fingerprint

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
        "PROVED",
    ]


@settings(max_examples=15)
@given(strategies.memorizable(), st.booleans())
def test_it_agrees_with_certify(checker, tmp_path_factory, problem, single):
    folder = tmp_path_factory.mktemp("agree")
    memorizer = problem.build()
    problem.dataset.save(folder / "data.npz")
    claims = ("grouping", "rank", "error")
    if single:  # float32 keeps the rank, not the error
        memorizer, claims = memorizer.astype(np.float32), claims[:2]
    certificate = certify(memorizer, problem.dataset, claims=claims)
    assert certificate.proved
    memorizer.save(folder / "weights.safetensors")
    certificate.save(folder / "certificate.json")
    for quick in (False, True):
        found = checker.check(paths(folder), quick=quick)
        assert found == {claim.name: claim.statement for claim in certificate.claims}


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


# Contexts of different lengths in the checker: it hides by itself what fills up.

LENGTHS = [2, 4, 1, 3, 4, 2, 4, 3, 1, 2]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    contexts = [rng.standard_normal((length, 6)) for length in LENGTHS]
    return Dataset(contexts, rng.standard_normal((10, 6)), rng.standard_normal(10))


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data)


FORGED = {
    "no lengths": lambda arrays: {k: v for k, v in arrays.items() if k != "lengths"},
    "other lengths": lambda arrays: arrays | {"lengths": arrays["lengths"][::-1]},
    "one longer": lambda arrays: arrays | {"lengths": arrays["lengths"] + (np.arange(10) == 2)},
    "too long": lambda arrays: arrays | {"lengths": arrays["lengths"] + 1},
    "none": lambda arrays: arrays | {"lengths": 0 * arrays["lengths"]},
    "fractions": lambda arrays: arrays | {"lengths": arrays["lengths"] - 0.5},
    "too few": lambda arrays: arrays | {"lengths": arrays["lengths"][1:]},
    "of one length": lambda arrays: arrays | {"lengths": 0 * arrays["lengths"] + 4},
    "negative": lambda arrays: arrays | {"lengths": -arrays["lengths"]},
}


def checked(checker, certificate, memorizer, arrays, folder):
    """The status of the checker, and what it prints."""
    files = paths(folder)
    certificate.save(files[0])
    memorizer.save(files[1])
    np.savez(files[2], **arrays)
    return said(checker, files)


def stored(data):
    return data.arrays | {"lengths": data.lengths}


@pytest.mark.parametrize("name", FORGED)
def test_certificates_of_other_lengths_are_refused(checker, data, memorizer, name, tmp_path):
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert checked(checker, certificate, memorizer, stored(data), tmp_path)[0] == 0
    status, printed = checked(checker, certificate, memorizer, FORGED[name](stored(data)), tmp_path)
    assert status == 1
    assert printed.startswith("NOT PROVED")


def test_lengths_are_of_contexts_of_their_own(checker):
    """Else a square context that all share would be one for each query."""
    for shape, lengths in (((3, 3), [3, 1, 2]), ((3, 2, 3), [[2], [1], [2]])):
        with refused("lengths do not fit"):
            checker.attend.of_lengths({"contexts": np.ones(shape), "lengths": np.array(lengths)})


def test_a_checker_does_not_read_what_fills_up(checker, data, memorizer, tmp_path):
    certificate = certify(memorizer, data, claims=["rank", "error"])
    arrays = stored(data)
    arrays["contexts"] = np.where(data.contexts.mask[..., None], arrays["contexts"], 1e30)
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 0
    arrays["contexts"][0, 0, 0] += 1.0
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 1


def test_lengths_that_are_all_n_are_none(checker, tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data)
    arrays = data.arrays | {"lengths": np.full(7, 3)}
    status, printed = checked(checker, certificate, memorizer, arrays, tmp_path)
    assert (status, "of one length" in printed) == (1, True)
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 0


# certify asks the layer what it is, and refuses what it does not know.


@pytest.fixture(scope="module")
def many():
    return generators.uniform(num_examples=40, context_size=4, width=8)


@pytest.fixture(scope="module")
def paired(many):
    return build_memorizer(many, num_heads=14, construction="paired")


def corrected(memorizer, size):
    shape = (1, *memorizer.layer.value_weights.shape)
    layer = ExtendedLayer(*memorizer.layer.tensors.values(), np.full(shape, size), 106)
    return Memorizer(layer, memorizer.record)


def test_corrections_are_judged_whatever_the_record_says(many, paired):
    """A record of 53 bits, and a layer of more, of which the proof of pairs knows nothing."""
    wrong = corrected(paired, 5.0)
    assert wrong.max_error(many) > 100
    certificate = certify(wrong, many)
    assert certificate["error"].verdict is Verdict.REFUTED
    assert certificate.format == "constructive certificate 1"
    right = certify(corrected(paired, 0.0), many)
    assert right.proved
    assert right.format == "constructive certificate 1"
    assert certify(paired, many).format == "constructive paired certificate 1"


def test_a_file_with_corrections_of_no_bits_is_refused(paired, tmp_path):
    corrected(paired, 5.0).save(tmp_path / "m.safetensors")
    with pytest.raises(FormatError, match="precision=53 is not a number of bits beyond a float64"):
        Memorizer.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("precision", [53, 0, -500, 1 << 14, 106.0, True])
def test_corrections_are_bits_beyond_a_float(paired, precision):
    layer = paired.layer
    with pytest.raises(ParameterError, match="is not a number of bits beyond a float64"):
        ExtendedLayer(*layer.tensors.values(), np.zeros((1, *layer.value_weights.shape)), precision)


def test_a_layer_which_inherits_is_judged_as_its_kind(many):
    class Mine(AttentionLayer):
        """Another name for the same."""

    memorizer = build_memorizer(many, num_heads=14)
    mine = Memorizer(Mine(*vars(memorizer.layer).values()), memorizer.record)
    assert certify(mine, many).proved


def test_a_layer_of_no_kind_is_refused(many, paired):
    class Other:
        target_dim = 1

    with pytest.raises(ParameterError, match="certify knows nothing of an Other") as caught:
        certify(Memorizer(Other(), paired.record), many)
    assert "AttentionLayer" in caught.value.suggestion


def test_many_paired_examples_have_no_other_claim_beside_the_rank(many):
    """Certificates of pairs have no place for `labels`, and others take a T x T matrix."""
    index = np.arange(many.num_examples) % 2
    classes = Dataset.of_classes(many.contexts, many.queries, index)
    paired = build_memorizer(classes, num_heads=12, construction="paired")
    together = certify(paired, classes, claims=["rank", "error", "labels"])
    assert together.format == "constructive certificate 1"
    assert together["rank"].verdict is Verdict.PROVED
    many = generators.gaussian(num_examples=2001, context_size=3, width=64, target_dim=2, seed=4)
    memorizer = build_memorizer(many, num_heads=72, construction="paired")
    with pytest.raises(ParameterError, match="rank beside labels") as caught:
        certify(memorizer, many, claims=["rank", "error", "labels"])
    assert caught.value.witness == 2001
    assert "two certificates" in caught.value.suggestion
    alone = certify(memorizer, many, claims=["rank", "error"])
    assert alone.format == "constructive paired certificate 1"
    assert alone.proved


def test_a_certificate_says_which_file_is_another_one():
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=0)
    memorizer = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data, claims=["error"])
    other = {"num_examples": 6, "context_size": 3, "width": 4}
    rounded = Dataset(data.contexts.astype("f4"), data.queries, data.targets)
    for weights, examples, words in (
        (build_memorizer(data, num_heads=3, seed=1), data, "weights: other numbers"),
        (build_memorizer(data, num_heads=4), data, "weights: W_Q are [3, 5, 3] there and [4, 5"),
        (memorizer, Dataset(data.contexts, data.queries, -data.targets), "data: other numbers"),
        (
            memorizer,
            generators.uniform(**other),
            "data: contexts are [7, 3, 5] there and [6, 3, 4]",
        ),
        (memorizer, rounded, "data: other types or shapes of contexts than"),
    ):
        report = str(check(certificate, weights, examples))
        assert f"NOT PROVED: the certificate is about other {words}" in report
