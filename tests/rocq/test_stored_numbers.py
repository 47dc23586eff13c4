"""`check --rocq` of all claims: what files say, and what Rocq proves of it or refuses."""

import base64
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from decoder_parts import SENTENCE, changed, compact
from stored_parts import (
    BOUNDS,
    ERRORS,
    KINDS,
    LIMITED,
    ONTOS,
    RECITALS,
    RHYME,
    THREE,
    bound,
    by_rocq,
    drawn,
    error,
    instance_of,
    onto,
    rank,
    recital,
    require_compared,
    require_refused,
    saved,
    with_evidence,
)
from typer.testing import CliRunner

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    Text,
    TrainedRecord,
    build_decoder,
    build_memorizer,
    certify,
    cli,
    generators,
    upper_bound_certificate,
)
from constructive.rocq import confirm as confirmation
from constructive.rocq import theories
from constructive.rocq.confirm import confirm, read, require_same
from constructive.rocq.definitions import write
from constructive.rocq.theories import (
    IMPOSSIBLE,
    RECITES,
    NotConfirmableError,
    examples_of,
    stored_decoder,
    stored_examples,
)
from constructive.support.verdict import pack

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to" / "verify-a-certificate.md"
CASES = [(claim, name) for claim, kind in KINDS.items() for name in kind.cases]
FORGED = [
    (claim, name, forged)
    for claim, kind in KINDS.items()
    for name, changes in kind.forged.items()
    for forged in changes
]


@pytest.mark.parametrize(("claim", "name"), CASES)
def test_what_is_written_is_read_back(claim, name):
    kind = KINDS[claim]
    made = kind.instance(name)
    found = require_compared(made, kind.known(name), kind.arrays, kind.sizes)
    for field, value in made.values.items():
        array = isinstance(value, np.ndarray)
        same = np.ravel(found[field]) == np.ravel(value) if array else found[field] == value
        assert np.all(same), field


@by_rocq
@pytest.mark.parametrize(("claim", "name"), CASES)
def test_rocq_proves_it(claim, name, tmp_path):
    kind = KINDS[claim]
    certificate, *files = saved(tmp_path, *kind.make(name))
    weights = files[0] if len(files) > 1 else None
    done = confirm(certificate, weights, files[-1])
    assert done.proved, done.report
    assert kind.words.format(**kind.instance(name).values) in done.report
    size = sum(x.size for x in kind.known(name).arrays.values())
    assert f"read back: {size} numbers" in done.report


@by_rocq
@pytest.mark.parametrize(("claim", "name", "forged"), FORGED)
def test_rocq_refuses_what_does_not_hold(claim, name, forged):
    kind = KINDS[claim]
    report = require_refused(kind.forged[name][forged](kind.instance(name)), kind.known(name))
    if claim == "impossible":
        assert "roots = true" in report  # what the program does not say, and nothing else


# A certificate without the claim: of another one that is PROVED, or with this one UNDECIDED.
WITHOUT = {
    "rank": lambda: (certify(*rank("own")[1:], claims=["error"]), *rank("own")[1:]),
    "onto": lambda: rank("own"),
    "error": lambda: rank("own"),
    "recites": lambda: (
        certify(*recital("two outputs")[1:], claims=["executed"]), *recital("two outputs")[1:]
    ),
    "impossible": lambda: (upper_bound_certificate(LIMITED["own"][0], 9), LIMITED["own"][0]),
}  # fmt: skip


@pytest.mark.parametrize("claim", KINDS)
def test_a_certificate_without_the_claim_is_refused(claim):
    with pytest.raises(FormatError, match=f"does not claim that {claim} is PROVED"):
        instance_of(KINDS[claim].theory, *WITHOUT[claim]())


NONE = base64.b64encode(b"\0" * 28).decode()
OTHERS = {
    ("rank", "own"): [
        ({"columns": NONE}, "not about these weights"),
        ({"value": 1}, "not about these weights"),
        ({"prime": None}, "cannot be read"),
    ],
    ("onto", "equal heads"): [
        ({"prime": 1 << 22}, "not about these data"),
        ({"value": 1}, "not about these data"),
        ({"groups": [2]}, "cannot be read"),
        ({"query": ""}, "cannot be read"),
        ({"uniform": 0}, "cannot be read"),
        ({"head_dim": None}, "cannot be read"),
    ],
    ("error", "own"): [
        *(({"bound": bound}, "evidence of error") for bound in ("inf", "nan", "-0x1p+0", None)),
        ({"bound": "0x0p+0"}, "too small"),  # a bound, which no enclosure reaches
    ],
    ("recites", "two outputs"): [
        ({"bound": bound}, "evidence of recites")
        for bound in ((0.0).hex(), (-1.0).hex(), "inf", "nan", "x", None)
    ],
    ("impossible", "own"): [
        ({"examples": pack([3, 2])}, "not about these data"),
        ({"examples": pack(range(15))}, "not about these data"),  # as many as the bound
        ({"examples": pack([*range(15), 99])}, "not about these data"),
        ({"examples": base64.b64encode(b"abc").decode()}, "cannot be read"),
        ({"heads": 4}, "not about these data"),
        ({"heads": 0}, "not about these data"),
        ({"heads": None}, "cannot be read"),
        ({"vectors": [["x"] * 5]}, "cannot be read"),
        ({"zeros": 1}, "not about these data"),
    ],
}


@pytest.mark.parametrize(
    ("case", "change", "words"), [(case, *other) for case, all_ in OTHERS.items() for other in all_]
)
def test_other_evidence_is_refused(case, change, words):
    (claim, name) = case
    certificate, *subject = KINDS[claim].make(name)
    with pytest.raises((FormatError, ParameterError), match=words):
        instance_of(KINDS[claim].theory, with_evidence(certificate, **change), *subject)


# *onto*


def test_these_layers_are_of_all_kinds():
    evidence = {name: onto(name)[0]["onto"].evidence for name in ONTOS.cases}
    assert evidence["equal heads"]["groups"] == [3]
    assert evidence["uniform attention"]["uniform"]
    assert not evidence["equal heads"]["uniform"]
    assert len(evidence["several groups"]["groups"]) > 1
    assert ONTOS.instance("equal heads").values["leaders"] == [2, 2, 2]
    assert ONTOS.known("an example twice").sizes["T"] == 13
    assert ONTOS.known("lengths").arrays["lengths"].tolist() == [1, 2, 3, 4] * 3 + [1, 2]


def test_data_of_smaller_rank_have_no_right_inverse():
    certificate, memorizer, _ = onto("equal heads")
    with pytest.raises(ParameterError, match=r"rows have rank 22 modulo \d+ in 45 columns, not 23"):
        instance_of(ONTOS.theory, certificate, memorizer, drawn(23, 3, 5))


# *error*, and claims that Rocq does not know


def test_the_targets_and_the_bound_are_those_of_the_claim():
    known = ERRORS.known("three outputs")
    assert known.arrays["epsilon"].tolist() == [[1e-6]]
    assert np.array_equal(known.arrays["targets"], THREE.targets)


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


# Layers with a proved error that Rocq has no program for, and what the witness says.
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
    make, witness = BEYOND[name]
    memorizer = make(THREE)
    files = saved(tmp_path, certify(memorizer, THREE, claims=["rank", "error"]), memorizer, THREE)
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
    certificate, memorizer, data = error("own")
    done = confirm(*saved(tmp_path, certify(memorizer, data), memorizer, data))
    said = [line.split(": ")[1] for line in lines_of(done, "not confirmed: ")]
    assert said == ["grouping"]
    assert lines_of(done, "PROVED") == ["PROVED: rank, error"]
    done = confirm(*saved(tmp_path, certificate, memorizer, data))  # nothing is left out
    assert not lines_of(done, "not confirmed")
    assert lines_of(done, "PROVED") == ["PROVED"]


@pytest.mark.usefixtures("without_rocq")
def test_what_rocq_refuses_is_not_proved_whatever_else_is_not_confirmed(tmp_path, monkeypatch):
    refused = subprocess.CompletedProcess([], 1, "", "Error")
    monkeypatch.setattr(confirmation, "compile_files", lambda *_: refused)
    memorizer = with_narrow_values(THREE)
    done = confirm(*saved(tmp_path, certify(memorizer, THREE), memorizer, THREE))
    assert not done.proved
    assert done.report.endswith("NOT PROVED: Rocq refuses")
    assert not lines_of(done, "PROVED")


@pytest.mark.parametrize("name", BEYOND)
def test_a_certificate_of_which_nothing_can_be_confirmed_is_refused(name, tmp_path):
    make, witness = BEYOND[name]
    memorizer = make(THREE)
    files = saved(tmp_path, certify(memorizer, THREE, claims=["error"]), memorizer, THREE)
    with pytest.raises(NotConfirmableError, match="confirmed for float layers") as caught:
        confirm(*files)
    assert witness in caught.value.witness


@pytest.mark.usefixtures("without_rocq")
def test_evidence_of_another_layer_is_an_error_and_not_left_out(tmp_path):
    other = build_memorizer(THREE, num_heads=3)
    certificate = certify(with_narrow_values(THREE), THREE, claims=["rank", "error"])
    with pytest.raises(ParameterError, match="not about these weights") as caught:
        confirm(*saved(tmp_path, certificate, other, THREE))
    assert not isinstance(caught.value, NotConfirmableError)


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


# *recites*


@pytest.mark.parametrize("name", RECITALS.cases)
def test_the_numbers_are_those_of_the_decoder(name):
    certificate, decoder, text = recital(name)
    found, known = RECITALS.instance(name).values, RECITALS.known(name)
    assert sum(x.size for x in known.arrays.values()) == (
        decoder.num_parameters + len(text) + text.num_texts + 1
    )
    assert np.array_equal(found["embedding"], decoder.embedding)
    readout = np.concatenate([found["skip"][np.newaxis], found["readouts"]])
    assert np.array_equal(readout.reshape(-1, found["k"]), decoder.layer.readout_weights)
    assert np.array_equal(found["ids"], text.ids)
    margin = Fraction(int(found["margin"][0, 0]), 2 ** int(found["margin_bits"]))
    assert margin == Fraction(float.fromhex(certificate["recites"].evidence["bound"]))
    assert found["window"] == (decoder.layer.window or text.longest)


@pytest.mark.parametrize("value", ["Zpos 0x0g", "Zplus 0x1", "0x1", "Zneg"])
def test_another_way_to_write_an_integer_is_refused(value):
    files = write(RECITALS.instance("two outputs"))
    forged = {name: text.replace("Zpos 0x40", value, 1) for name, text in files.items()}
    assert forged != files
    with pytest.raises(FormatError, match="not a file for Rocq"):
        read(RECITES, forged)


def test_decoders_that_are_not_of_integers_are_left_to_the_checker():
    text = Text.words(SENTENCE)
    wide = build_decoder(text, width=32)
    with pytest.raises(NotConfirmableError, match="decoders of integers") as caught:
        stored_decoder(wide, text, 1.0)
    assert "embedding" in caught.value.witness
    even, text = compact(even=True)
    with pytest.raises(NotConfirmableError, match="saturated heads"):
        stored_decoder(even, text, 1.0)
    _, decoder, text = recital("two outputs")
    token = changed(decoder, "embedding", (0, 1), 3)
    with pytest.raises(NotConfirmableError, match="saturated heads"):
        stored_decoder(token, text, 1.0)
    with pytest.raises(DataError, match="other tokens"):
        stored_decoder(decoder, Text.words(RHYME), 1.0)


def test_what_would_take_hours_is_left_to_the_checker(monkeypatch):
    _, decoder, text = recital("two outputs")
    heads, width, _ = decoder.layer.query_weights.shape
    steps = len(text) * heads * width * 5
    monkeypatch.setattr(theories, "_MOST_STEPS", steps)
    stored_decoder(decoder, text, 1.0)
    monkeypatch.setattr(theories, "_MOST_STEPS", steps - 1)
    with pytest.raises(NotConfirmableError, match="too long"):
        stored_decoder(decoder, text, 1.0)


@pytest.mark.usefixtures("without_rocq")
def test_all_positions_are_counted_and_the_margin_is_named(tmp_path):
    certificate, *subject = recital("texts")
    lines = confirm(*saved(tmp_path, certificate, *subject)).report.splitlines()
    least = float.fromhex(certificate["recites"].evidence["bound"])
    assert lines[1].startswith("at all 9 positions of S = 3 texts")
    assert f"by {least!r} or more" in lines[1]
    assert "not confirmed: executed: not a claim that Rocq proves of these files" in lines
    assert lines[-1] == "PROVED: recites"


# *impossible*


def test_evidence_is_what_the_data_need():
    found = {name: BOUNDS.instance(name).values for name in BOUNDS.cases}
    counts = {name: (len(v["vectors"]), len(v["words"])) for name, v in found.items()}
    assert counts["own"] == (0, 0)
    assert counts["constant"] == (1, 0)
    assert counts["subspace"] == (3, 0)
    assert counts["words"] == (0, 6)
    assert counts["shared"] == (0, 3)
    assert len(found["part"]["queries"]) == 9


def test_other_examples_are_other_numbers():
    data, heads = LIMITED["part"]
    found = read(IMPOSSIBLE, write(BOUNDS.instance("part")))
    with pytest.raises(FormatError, match=r"contexts\[0, .* is stored"):
        require_same(found, stored_examples(data, np.arange(1, 10), heads))


def test_examples_which_are_one_input_count_once():
    certificate, data = bound("own")
    contexts = np.concatenate([data.contexts, data.contexts[:, ::-1]])
    twice = Dataset(contexts, np.concatenate([data.queries] * 2), np.zeros(32))
    forged = with_evidence(certificate, count=32, examples=pack(range(32)))
    assert examples_of(forged, twice)[1].tolist() == list(range(16))
    assert instance_of(IMPOSSIBLE, forged, twice).values["T"] == 16


def test_the_certificate_of_weights_is_none_of_an_upper_bound(tmp_path):
    certificate, _, data = saved(tmp_path, *rank("own"))
    done = CliRunner().invoke(cli.app, ["check", str(certificate), str(data), "--rocq"])
    assert "does not claim that impossible is PROVED" in str(done.exception)
