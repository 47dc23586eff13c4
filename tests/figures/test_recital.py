"""The picture of a decoder: attention is that of the layer, and titles say what is proved."""

import dataclasses

import numpy as np
import pytest

from constructive import Text, build_decoder
from constructive.figures import decoders, drawing

CAT = "the cat sat on the mat, and the cat saw the rat"


@pytest.fixture
def pictured(tmp_path):
    """Draw a decoder: the words in its picture."""

    def pictured(decoder, text):
        figure = drawing.new_figure(decoders.HEIGHT)
        decoders.draw_recital(figure, decoder, text)
        return drawing.save(figure, tmp_path / "picture.svg").read_text()

    return pictured


@pytest.mark.parametrize("window", [None, 5])
def test_attention_is_that_of_the_layer(window):
    text = Text.words(CAT)
    decoder = build_decoder(text, width=64, window=window, num_heads=3)
    tokens = decoder.embedded(text.ids[np.newaxis])[0]
    weights = decoders.attention(decoder, text.ids, last=7, heads=2)
    assert weights.shape == (2, 7, 24)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, rtol=1e-5)
    z = decoder.layer.intermediate(tokens[np.newaxis])[0, -7:].reshape(7, 4, 64)
    np.testing.assert_allclose(weights @ tokens, z[:, 1:3].transpose(1, 0, 2), atol=1e-5)
    row, key = np.arange(17, 24)[:, np.newaxis], np.arange(24)
    unseen = (key > row) | (key <= row - (window or 24))
    assert (weights[:, unseen] == 0).all()
    assert decoders.attention(decoder, text.ids, last=100, heads=100).shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("text", "window"),
    [(Text.of([5]), None), (Text.of([1, 2, 3], [4, 5] * 9), None), (Text.bytes(CAT), 4)],
)
def test_any_text(pictured, text, window):
    svg = pictured(build_decoder(text, width=64, window=window), text)
    assert f"each of {text.num_positions} next tokens wins" in svg


def test_what_is_not_proved_is_said(pictured):
    text = Text.words(CAT)
    decoder = build_decoder(text, width=64)
    swapped = text.ids.copy()
    swapped[[2, 4]] = swapped[[4, 2]]
    other = dataclasses.replace(text, ids=swapped)
    assert "of 24 next tokens are not proved to win" in pictured(decoder, other)
    coarse = pictured(decoder.stored_as("bfloat16"), text)
    assert "bfloat16: " in coarse
    # Logits of heads which are not exact: no bound at all, and the picture is there all the same.
    record = dataclasses.replace(decoder.record, storage="bfloat16")
    unbounded = dataclasses.replace(decoder, record=record)
    assert "24 of 24 next tokens are not proved to win" in pictured(unbounded, text)
