"""`check --rocq` of the claim *recites*: what files say, and what Rocq proves of it or refuses."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from decoder_parts import SENTENCE, WINDOW, changed, compact
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

from constructive import DataError, FormatError, Text, build_decoder, certify
from constructive.rocq import theories
from constructive.rocq.confirm import confirm, read
from constructive.rocq.definitions import write
from constructive.rocq.theories import RECITES, NotConfirmableError, stored_decoder

RHYME = "one for the cook, one for the crook, and one for the boy with the broken hook"
ARRAYS = (
    "margin", "embedding", "positions", "query_weights", "key_weights", "skip", "readouts",
    "unembedding", "lengths", "ids",
)  # fmt: skip


def without_window():
    """A text that is shorter than the window, which is then left out."""
    decoder, text = compact(Text.words("a b c d"))
    assert len(text) < WINDOW
    layer = dataclasses.replace(decoder.layer, window=None)
    return dataclasses.replace(decoder, layer=layer), text


def built(text):
    return build_decoder(text, parameters="few"), text


def cases():
    """Decoders of integers with their texts: one output and two, many texts, all that was seen."""
    return {
        "built": built(Text.words(RHYME)),
        "two outputs": compact(outputs=2),
        "texts": built(Text.words("one two three", "one ten two", "two one ten", prompt=3)),
        "no window": without_window(),
    }


CASES = cases()


def certificate_of(name):
    return certify(*CASES[name], claims=["recites", "executed"])


def made_of(name):
    return instance_of(RECITES, certificate_of(name), *CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read_back(name):
    certificate, (decoder, text) = certificate_of(name), CASES[name]
    known = RECITES.known_of(certificate, decoder, text)
    assert sum(x.size for x in known.arrays.values()) == (
        decoder.num_parameters + len(text) + text.num_texts + 1
    )
    found = require_compared(made_of(name), known, ARRAYS, ["window", "prompt", "V", "margin_bits"])
    values = {name: np.asarray(value) for name, value in found.items()}
    assert np.array_equal(values["embedding"], decoder.embedding)
    readout = np.concatenate([values["skip"][np.newaxis], values["readouts"]])
    assert np.array_equal(readout.reshape(-1, values["k"]), decoder.layer.readout_weights)
    assert np.array_equal(values["ids"], text.ids)
    margin = Fraction(int(values["margin"][0, 0]), 2 ** int(values["margin_bits"]))
    assert margin == Fraction(float.fromhex(certificate["recites"].evidence["bound"]))
    assert values["window"] == (decoder.layer.window or text.longest)


@pytest.mark.parametrize("value", ["Zpos 0x0g", "Zplus 0x1", "0x1", "Zneg"])
def test_another_way_to_write_an_integer_is_refused(value):
    files = write(made_of("two outputs"))
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
    decoder, text = CASES["two outputs"]
    token = changed(decoder, "embedding", (0, 1), 3)
    with pytest.raises(NotConfirmableError, match="saturated heads"):
        stored_decoder(token, text, 1.0)
    with pytest.raises(DataError, match="other tokens"):
        stored_decoder(decoder, Text.words(RHYME), 1.0)


def test_what_would_take_hours_is_left_to_the_checker(monkeypatch):
    decoder, text = CASES["two outputs"]
    heads, width, _ = decoder.layer.query_weights.shape
    steps = len(text) * heads * width * 5
    monkeypatch.setattr(theories, "_MOST_STEPS", steps)
    stored_decoder(decoder, text, 1.0)
    monkeypatch.setattr(theories, "_MOST_STEPS", steps - 1)
    with pytest.raises(NotConfirmableError, match="too long"):
        stored_decoder(decoder, text, 1.0)


@pytest.mark.parametrize("bound", [(0.0).hex(), (-1.0).hex(), "inf", "nan", "x", None])
def test_a_margin_that_is_none_is_refused(bound):
    certificate = with_evidence(certificate_of("two outputs"), bound=bound)
    with pytest.raises(FormatError, match="evidence of recites"):
        RECITES.known_of(certificate, *CASES["two outputs"])


def test_a_certificate_without_the_claim_is_refused():
    decoder, text = CASES["two outputs"]
    with pytest.raises(FormatError, match="does not claim that recites is PROVED"):
        RECITES.known_of(certify(decoder, text, claims=["executed"]), decoder, text)


@pytest.mark.usefixtures("without_rocq")
def test_other_claims_are_named(tmp_path):
    done = confirm(*saved(tmp_path, certificate_of("texts"), *CASES["texts"]))
    lines = done.report.splitlines()
    assert lines[1].startswith("at all 9 positions of S = 3 texts")
    assert "not confirmed: executed: not a claim that Rocq proves of these files" in lines
    assert lines[-1] == "PROVED: recites"


@by_rocq
@pytest.mark.parametrize("name", CASES)
def test_rocq_proves_that_it_recites(name, tmp_path):
    done = confirm(*saved(tmp_path, certificate_of(name), *CASES[name]))
    assert done.proved, done.report
    bound = float.fromhex(certificate_of(name)["recites"].evidence["bound"])
    positions = CASES[name][1].num_positions
    assert f"at all {positions} positions" in done.report
    assert f"by {bound!r} or more" in done.report


def swapped(made):
    ids = made.values["ids"].copy()
    ids[[10, 12]] = ids[[12, 10]]
    assert (ids != made.values["ids"]).any()
    return replaced(made, ids=ids)


FORGED = {
    "text": swapped,
    "another end": lambda made: replaced(made, lengths=made.values["lengths"] - 1),
    "readout": lambda made: one_changed(made, "readouts", 10**6, place=4),
    "skip": lambda made: one_changed(made, "skip", 10**6, place=4),
    "token": lambda made: one_changed(made, "embedding", 2, place=2),
    "key": lambda made: one_changed(
        made, "key_weights", -made.values["key_weights"].flat[-1], place=-1
    ),
    "unembedding": lambda made: one_changed(made, "unembedding", 10**9, place=-1),
    "margin": lambda made: one_changed(made, "margin", made.values["margin"][0, 0]),
    "no margin": lambda made: replaced(made, margin=np.array([[0]])),
    "window": lambda made: replaced(made, window=2 * made.values["window"]),
    "width": lambda made: replaced(made, d=made.values["d"] - 1),
}


@by_rocq
@pytest.mark.parametrize("forged", FORGED)
def test_rocq_refuses_what_does_not_hold(forged):
    known = RECITES.known_of(certificate_of("two outputs"), *CASES["two outputs"])
    require_refused(FORGED[forged](made_of("two outputs")), known)
