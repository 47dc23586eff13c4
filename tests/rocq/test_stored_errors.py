"""`check --rocq` of the claim *error*: what files say, and what Rocq proves of it or refuses."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from stored_parts import (
    by_rocq,
    instance_of,
    one_changed,
    replaced,
    require_compared,
    require_refused,
    saved,
    with_evidence,
)
from typer.testing import CliRunner

from constructive import (
    AttentionLayer,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    TrainedRecord,
    build_memorizer,
    certify,
    cli,
    generators,
)
from constructive.rocq import confirm as confirmation
from constructive.rocq.confirm import confirm
from constructive.rocq.theories import ERROR, ERROR_ARRAYS, NotConfirmableError

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to" / "verify-a-certificate.md"


def cases():
    """Layers and data: own contexts and a shared one, one output and three, float32, a tight bound.

    Tokens of unlike sizes are integers of unlike lengths in Rocq.
    """
    own = generators.uniform(num_examples=7, context_size=3, width=5, seed=0)
    shared = generators.shared_context(num_examples=7, context_size=3, width=5)
    targets = np.random.default_rng(0).normal(size=(7, 3))
    three = Dataset(own.contexts, own.queries, targets)
    sizes = np.array([1.0, -1e-9, 1e9, 3.0, 1e-3])
    unlike = Dataset(own.contexts * sizes, own.queries, own.targets)
    rounded = build_memorizer(own, num_heads=3).astype("float32")
    return {
        "own": (build_memorizer(own, num_heads=3), own, 1e-6),
        "shared": (build_memorizer(shared, num_heads=3), shared, 1e-6),
        "three outputs": (build_memorizer(three, num_heads=3), three, 1e-6),
        "random heads": (build_memorizer(own, num_heads=3, construction="generic"), own, 1e-5),
        "tight": (build_memorizer(own, num_heads=3), own, 1e-14),
        "unlike sizes": (build_memorizer(unlike, num_heads=3), unlike, 1e-6),
        "float32": (rounded, own, 0.5),
    }


CASES = cases()


def certificate_of(name):
    memorizer, data, epsilon = CASES[name]
    return certify(memorizer, data, claims=["rank", "error"], epsilon=epsilon)


def made_of(name):
    memorizer, data, _ = CASES[name]
    return instance_of(ERROR, certificate_of(name), memorizer, data)


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read_back(name):
    memorizer, data, epsilon = CASES[name]
    known = ERROR.known_of(certificate_of(name), memorizer, data)
    require_compared(made_of(name), known, ERROR_ARRAYS, ["n", "d", "dh", "dv", "dout", "T", "H"])
    assert known.arrays["epsilon"].tolist() == [[epsilon]]
    assert np.array_equal(known.arrays["targets"][:, 0], data.targets.reshape(7, -1)[:, 0])


def test_a_certificate_without_the_claim_and_other_layers_are_refused():
    memorizer, data, _ = CASES["own"]
    with pytest.raises(FormatError, match="does not claim that error is PROVED"):
        instance_of(ERROR, certify(memorizer, data, claims=["rank"]), memorizer, data)
    extended = build_memorizer(data, num_heads=3, precision=200)
    with pytest.raises(NotConfirmableError, match="confirmed for float layers"):
        instance_of(ERROR, certificate_of("own"), extended, data)


def beyond(name):
    """A layer with a proved error that Rocq has no program for, data, and what its witness says."""
    data = CASES["three outputs"][1]
    make, witness = BEYOND[name]
    return make(data), data, witness


def with_narrow_values(data):
    """Ten random heads with values of one entry, and W_O (10, 3) solved for."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 10, data.width, 1))
    layer = AttentionLayer(*weights, np.zeros((10, 3)), np.eye(3))
    z = layer.intermediate(data.contexts, data.queries).reshape(len(data), 10, -1)
    values = np.einsum("thd,hd->th", z, weights[2, :, :, 0])
    outputs = np.linalg.lstsq(values, data.targets)[0]
    layer = AttentionLayer(*weights, outputs, np.eye(3))
    return Memorizer(layer, TrainedRecord("narrow values", scalar_targets=False, constant=False))


BEYOND = {
    "narrow values": (with_narrow_values, "W_O 10 x 3"),
    "extended precision": (
        lambda data: build_memorizer(data, num_heads=3, precision=200), "ExtendedLayer",
    ),
}  # fmt: skip


def lines_of(done, start):
    return [line for line in done.report.splitlines() if line.startswith(start)]


@pytest.mark.usefixtures("without_rocq")
@pytest.mark.parametrize("name", BEYOND)
def test_the_rank_is_confirmed_where_the_error_cannot_be(name, tmp_path):
    memorizer, data, witness = beyond(name)
    files = saved(tmp_path, certify(memorizer, data, claims=["rank", "error"]), memorizer, data)
    folder = tmp_path / "compiled"
    done = confirm(*files, folder=folder)
    assert done.proved
    assert lines_of(done, "rank Z = T = 7")
    assert "max |f(E_t" not in done.report
    (reason,) = lines_of(done, "not confirmed: ")
    assert reason.startswith("not confirmed: error: ")
    assert witness in reason
    assert lines_of(done, "PROVED") == ["PROVED: rank"]
    assert sorted(path.name for path in folder.iterdir()) == ["rank", "theory"]
    run = CliRunner().invoke(cli.app, ["check", *map(str, files), "--rocq"])
    assert run.exit_code == 0, run.output
    assert run.output.endswith("PROVED: rank\n")


@pytest.mark.usefixtures("without_rocq")
def test_claims_that_rocq_does_not_know_are_named(tmp_path):
    memorizer, data, _ = CASES["own"]
    done = confirm(*saved(tmp_path, certify(memorizer, data), memorizer, data))
    said = [line.split(": ")[1] for line in lines_of(done, "not confirmed: ")]
    assert said == ["grouping"]
    assert lines_of(done, "PROVED") == ["PROVED: rank, error"]
    done = confirm(
        *saved(tmp_path, certificate_of("own"), *CASES["own"][:2])
    )  # nothing is left out
    assert not lines_of(done, "not confirmed")
    assert lines_of(done, "PROVED") == ["PROVED"]


@pytest.mark.parametrize(
    ("bound", "kind", "words"),
    [
        *((bound, FormatError, "evidence of error") for bound in ("inf", "nan", "-0x1p+0", None)),
        ("0x0p+0", NotConfirmableError, "too small"),  # a bound, which no enclosure reaches
    ],
)
def test_an_epsilon_that_is_none_is_refused(bound, kind, words):
    memorizer, data, _ = CASES["own"]
    certificate = with_evidence(certify(memorizer, data, claims=["error"]), bound=bound)
    with pytest.raises(kind, match=words):
        instance_of(ERROR, certificate, memorizer, data)


@pytest.mark.usefixtures("without_rocq")
def test_what_rocq_refuses_is_not_proved_whatever_else_is_not_confirmed(tmp_path, monkeypatch):
    refused = subprocess.CompletedProcess([], 1, "", "Error")
    monkeypatch.setattr(confirmation, "compile_files", lambda *_: refused)
    memorizer, data, _ = beyond("narrow values")
    done = confirm(*saved(tmp_path, certify(memorizer, data), memorizer, data))
    assert not done.proved
    assert done.report.endswith("NOT PROVED: Rocq refuses")
    assert not lines_of(done, "PROVED")


@pytest.mark.parametrize("name", BEYOND)
def test_a_certificate_of_which_nothing_can_be_confirmed_is_refused(name, tmp_path):
    memorizer, data, witness = beyond(name)
    files = saved(tmp_path, certify(memorizer, data, claims=["error"]), memorizer, data)
    with pytest.raises(NotConfirmableError, match="confirmed for float layers") as caught:
        confirm(*files)
    assert witness in caught.value.witness


@pytest.mark.usefixtures("without_rocq")
def test_evidence_of_another_layer_is_an_error_and_not_left_out(tmp_path):
    memorizer, data, _ = beyond("narrow values")
    other = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data, claims=["rank", "error"])
    with pytest.raises(ParameterError, match="not about these weights") as caught:
        confirm(*saved(tmp_path, certificate, other, data))
    assert not isinstance(caught.value, NotConfirmableError)


@by_rocq
@pytest.mark.parametrize("name", CASES)
def test_rocq_proves_rank_and_error(name, tmp_path):
    done = confirm(*saved(tmp_path, certificate_of(name), *CASES[name][:2]))
    assert done.proved, done.report
    assert "rank Z = T = 7" in done.report
    assert f"max |f(E_t, e_t) - y_t| <= {CASES[name][2]!r}" in done.report


FORGED = {
    "target": lambda made: one_changed(made, "targets", 3e-6, place=3),
    "readout": lambda made: one_changed(made, "readout_weights", 1.0),
    "token": lambda made: one_changed(made, "contexts", 0.5, place=52),
    "values": lambda made: replaced(made, value_weights=made.values["value_weights"][::-1].copy()),
    "epsilon": lambda made: replaced(made, epsilon=np.array([[1e-18]])),
    "too few digits": lambda made: replaced(made, digits=1),
    "too few terms": lambda made: replaced(made, terms=3),
    "fewer tokens": lambda made: replaced(made, n=2),
}


@by_rocq
@pytest.mark.parametrize("forged", FORGED)
def test_rocq_refuses_what_does_not_hold(forged):
    known = ERROR.known_of(certificate_of("own"), *CASES["own"][:2])
    require_refused(FORGED[forged](made_of("own")), known)


@by_rocq
def test_the_how_to_shows_what_the_command_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = HOW_TO.read_text()
    (command,) = [line for line in page.splitlines() if line.endswith("small.npz --rocq")]
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    data.save("small.npz")
    memorizer.save("small.safetensors")
    certify(memorizer, data).save("small.json")
    done = CliRunner().invoke(cli.app, command.split()[1:])
    assert done.exit_code == 0, done.output
    assert f"```text\n{done.stdout}```" in page
