"""Positions that repeat: a decoder with them is the one with every row written out."""

import dataclasses

import numpy as np
import pytest
from decoder_parts import by_hand
from three_files import saved

from constructive import Decoder, ParameterError, Text, certify, check
from constructive.support.errors import DataError

PERIOD = 3
LENGTH = 8


@pytest.fixture
def text():
    return Text.of([0, 1, 1, 0, 1, 0, 0, 1])


@pytest.fixture
def pair(text):
    """The same decoder twice: with 3 rows of positions, and with a row for each position."""
    rng = np.random.default_rng(5)
    heads, width = 6, 7
    weights = {
        "embedding": rng.choice([-0.5, 0.5], (2, width)),
        "positions": rng.choice([-0.5, 0.5], (PERIOD, width)),
        "W_Q": rng.integers(-2, 3, (heads, width, 1)),
        "W_K": rng.integers(-2, 3, (heads, width, 1)),
        "unembedding": rng.choice([-1.0, 1.0], (3, width)),
        "U": np.zeros(((heads + 1) * width, width)),
    }
    rolled = np.arange(LENGTH) % PERIOD
    plain = by_hand(text, weights | {"positions": weights["positions"][rolled]})
    z = plain.layer.intermediate(plain.embedded(text.ids[None]))[0].astype(float)
    following = np.append(text.ids[1:], text.end)
    wanted = weights["unembedding"][following] / width
    u = np.linalg.lstsq(z, wanted, rcond=None)[0]
    plain = by_hand(text, weights | {"positions": weights["positions"][rolled], "U": u})
    periodic = dataclasses.replace(by_hand(text, weights | {"U": u}), longest=LENGTH)
    return periodic, plain


def test_it_is_the_decoder_with_every_row(pair, text):
    periodic, plain = pair
    assert (periodic.num_positions, len(periodic.positions)) == (LENGTH, PERIOD)
    assert (periodic.logits(text.tokens) == plain.logits(text.tokens)).all()
    assert plain.recites(text)
    assert periodic.generate(text.tokens[:1]) == plain.generate(text.tokens[:1]) == text.tokens
    assert certify(periodic, text)["recites"].evidence == certify(plain, text)["recites"].evidence


def test_files_and_certificates(pair, text, tmp_path):
    periodic, plain = pair
    for decoder in pair:
        paths = saved(tmp_path, decoder, text, certify(decoder, text, claims=["recites"]))
        read = Decoder.load(paths[1])
        assert (read.longest, read.logits(text.tokens).tolist()) == (
            decoder.longest,
            decoder.logits(text.tokens).tolist(),
        )
        assert check(*paths).proved
    assert "longest" not in plain.about()
    periodic.save(tmp_path / "other.safetensors")
    assert not check(paths[0], tmp_path / "other.safetensors", paths[2]).proved


def test_a_text_that_is_too_long(pair, text):
    periodic, _ = pair
    longer = Text.of([*text.tokens, 0])
    with pytest.raises(DataError, match="positions"):
        periodic.recites(longer)
    with pytest.raises(DataError, match="positions"):
        periodic.logits(longer.tokens)


@pytest.mark.parametrize("longest", [0, -1, 1.5, True])
def test_a_longest_text_that_is_none(pair, longest):
    with pytest.raises(ParameterError, match="longest"):
        dataclasses.replace(pair[0], longest=longest)


def test_exports_have_the_same_positions(pair, text, tmp_path):
    torch, onnxruntime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    periodic, plain = pair
    wanted = plain.logits(text.tokens)
    ids = text.ids[None]
    found = periodic.to_torch()(torch.tensor(ids)).detach().numpy()[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    periodic.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    np.testing.assert_allclose(session.run(None, {"ids": ids})[0][0], wanted, atol=1e-5)
    with pytest.raises(DataError, match="positions"):
        periodic.to_torch()(torch.tensor([[*text.ids, 0]]))
