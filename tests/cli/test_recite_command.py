"""Texts: `recite` and `continue`."""

import dataclasses
import lzma
import sys

import numpy as np
import pytest

import constructive
from constructive import Decoder, Text, build_decoder
from constructive.support.work import progress_to

CAT = "the cat sat on the mat, and the cat saw the rat\r\n"


FILES = ["decoder-certificate.json", "decoder.png", "decoder.safetensors", "text.json"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cat.txt").write_bytes(CAT.encode())
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch):
    """Without matplotlib, as drawing takes longer than the rest."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_recited_and_proved(run, folder):
    printed = run("recite", "cat.txt", "--width", 64)
    for words in (
        "cat.txt: words and what is between them, N = 26 tokens, V = 12 different ones",
        "built, not trained: one causal layer of 1 head, 19,648 parameters",
        '"the cat sat on the mat, and the cat saw the rat"',
        "recited from its first token: all 49 bytes are those of the file",
        "Certificate: PROVED",
        "rank      PROVED", "recites   PROVED", "executed  PROVED",
        "$ constructive check decoder-certificate.json decoder.safetensors text.json",
        "written to decoder.safetensors, text.json and decoder-certificate.json",
        "drawn in decoder.png",
    ):  # fmt: skip
        assert words in printed
    assert names(folder) == ["cat.txt", *FILES]
    assert (folder / "decoder.png").read_bytes().startswith(b"\x89PNG")
    decoder, text = Decoder.load(folder / "decoder.safetensors"), Text.load(folder / "text.json")
    assert decoder.joined(decoder.generate("the")) == text.joined(text.tokens) == CAT
    checked = run("check", *(FILES[i] for i in (0, 2, 3)))
    assert checked.strip().endswith("PROVED")
    assert checked.strip() in printed
    assert "exists already" in run("recite", "cat.txt", "--width", 64, status=2)
    (folder / "cat.txt").write_text("the dog")
    assert "all 7 bytes" in run("recite", "cat.txt", "--width", 64, "--force")
    assert Decoder.load(folder / "decoder.safetensors").vocabulary == ("the", " ", "dog")


def test_options(run, folder):
    printed = run("recite", "cat.txt", "--unit", "bytes", "--limit", 20, "-d", 32, "-H", 2,
                  "--window", 9, "--seed", 5, "-o", "d.safetensors",
                  "--text", "t.json", "--certificate", "c.json", "--picture", "p.svg")  # fmt: skip
    assert "cat.txt: bytes, from its start: N = 20 tokens" in printed
    assert "recited from its first token: the first 20 of 49 bytes are those of the file" in printed
    assert names(folder) == ["c.json", "cat.txt", "d.safetensors", "p.svg", "t.json"]
    decoder = Decoder.load(folder / "d.safetensors")
    assert repr(decoder).startswith("Decoder(20 positions, V=10 bytes, H=2, d=32, d_h=32, window 9")
    assert decoder.record.seed == 5
    assert bytes(Text.load(folder / "t.json").tokens) == CAT.encode()[:20]
    assert "<svg" in (folder / "p.svg").read_text()


@pytest.mark.usefixtures("undrawn")
def test_few_parameters(run, folder):
    printed = run("recite", "cat.txt", "--parameters", "few")
    decoder, text = Decoder.load(folder / "decoder.safetensors"), Text.load(folder / "text.json")
    assert decoder.joined(decoder.generate("the")) == CAT
    assert (np.rint(decoder.layer.readout_weights) == decoder.layer.readout_weights).all()
    size = (folder / "decoder.safetensors").stat().st_size
    for words in (
        f"{decoder.num_stored:,}", f"{decoder.num_bits:,}",
        f"{decoder.num_bits / len(text):,.2f}",
        f"bytes: {size:,} in the file, vocabulary and all else included; 49 in the text, "
        f"{len(lzma.compress(CAT.encode(), preset=9 | lzma.PRESET_EXTREME))} under xz",
        "recites   PROVED", "executed  PROVED", "recited from its first token",
    ):  # fmt: skip
        assert words in printed


@pytest.mark.usefixtures("undrawn")
def test_one_token_and_any_bytes(run, folder):
    (folder / "one.txt").write_text("a")
    assert "all 1 bytes" in run("recite", "one.txt", "--width", 16)
    printed = run("recite", "cat.txt", "--limit", 4, "--width", 32, "--force")
    assert "from its start: N = 4 tokens, V = 3" in printed
    assert "the first 8 of 49 bytes are those of the file" in printed
    (folder / "any.bin").write_bytes(b"\x1b[31m\x00\xff")
    printed = run("recite", "any.bin", "--unit", "bytes", "--width", 32, "--force")
    assert '"?[31m?\N{REPLACEMENT CHARACTER}"' in printed


def of_another_text(text, **options):
    """A decoder for other words in the same places."""
    ids = text.ids.copy()
    ids[[2, 4]] = ids[[4, 2]]
    return build_decoder(dataclasses.replace(text, ids=ids), **options)


@pytest.mark.usefixtures("undrawn")
def test_what_is_not_recited(run, folder, monkeypatch):
    """Seen by the comparison, and by each proof; files are there all the same."""
    monkeypatch.setattr(constructive, "build_decoder", of_another_text)
    printed = run("recite", "cat.txt", "--width", 64, status=1)
    assert "NOT RECITED: byte 4 of 49 is the first which differs" in printed
    assert "recites   REFUTED" in printed
    assert "NOT PROVED" in printed
    assert {*names(folder)} > {*FILES} - {"decoder.png"}


@pytest.mark.usefixtures("folder", "undrawn")
def test_margins_of_another_text(run, monkeypatch):
    """Margins that a decoder remembers wrongly are believed by nobody but those who made them."""

    def another(text, **options):
        built = of_another_text(text, **options)
        (_, model), about = built.remembered["judged"]
        built.remembered["judged"] = (text, model), about
        return built

    monkeypatch.setattr(constructive, "build_decoder", another)
    printed = run("recite", "cat.txt", "--width", 64, status=1)
    assert "recites   PROVED" in printed
    assert "NOT PROVED: " in printed


@pytest.mark.usefixtures("undrawn")
def test_what_ends_too_early(run, folder, monkeypatch):
    (folder / "twice.txt").write_text("a b")

    def shorter(_text, **options):
        decoder = build_decoder(Text.words("a", " ", "b"), **options)
        return dataclasses.replace(decoder, positions=np.repeat(decoder.positions, 3, axis=0))

    monkeypatch.setattr(constructive, "build_decoder", shorter)
    printed = run("recite", "twice.txt", "--width", 64, status=1)
    assert "NOT RECITED: byte 1 of 3 is the first which differs" in printed


@pytest.mark.usefixtures("undrawn")
def test_no_picture_without_matplotlib(run, folder):
    printed = run("recite", "cat.txt", "--width", 64)
    assert printed.startswith("no picture: a picture needs matplotlib, which is not installed; pip")
    assert names(folder) == ["cat.txt", *(name for name in FILES if name != "decoder.png")]


@pytest.mark.usefixtures("undrawn")
def test_a_picture_that_is_asked_for_is_refused_before_the_work(run, folder):
    before = names(folder)
    printed = run("recite", "cat.txt", "--width", 64, "--picture", "cat.svg", status=2)
    assert "MissingExtraError" in printed
    assert "N = " not in printed
    assert names(folder) == before


def test_decoding_says_how_far_it_is():
    text, steps = Text.words(CAT), []
    decoder = constructive.build_decoder(text, width=64)
    with progress_to(lambda *step: steps.append(step)):
        found = decoder.generate(text.tokens[:1])
    assert found == text.tokens
    assert steps == [("decode", done, 26) for done in range(1, 26)]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("unit", "prompt"), [("words", "the cat "), ("bytes", "the ca")])
def test_a_saved_decoder_continues_a_prompt(run, folder, unit, prompt):
    (folder / "cat.txt").write_bytes(CAT.replace("\r", "").encode())
    run("recite", "cat.txt", "--width", 64, "--unit", unit)
    assert run("continue", "decoder.safetensors", prompt) == CAT.replace("\r\n", "\n\n")
    shorter = run("continue", "decoder.safetensors", prompt, "--length", 7)
    assert CAT.startswith(shorter.removesuffix("\n"))
    assert len(shorter) < len(CAT)
