"""Both constructions of decoders keep the laws; what many parameters are by default."""

import numpy as np
import pytest

from constructive import CapacityError, DataError, Decoder, ParameterError, Text, build_decoder
from constructive.constructions.decoder import TAKES, spread_codes

CAT = "the cat sat on the mat, and the cat saw the rat"
LONGER = f"{CAT}; the rat sat on the cat"
TEXTS = [
    Text.words(CAT),
    Text.of([5]),
    Text.of([7, 9]),
    Text.of([0] * 50 + [1]),
    Text.bytes(b"ab" * 30),
    Text.words("one two three four", "three two four", "two one one", "four one", prompt=2),
]
GIVEN = {
    "width": 32, "num_heads": 2, "head_dim": 4, "window": 4, "code_width": 8, "outputs": 2,
    "readout": "int8", "every": True,
}  # fmt: skip
"""A value for each option, which works where the option is taken."""


def assert_recites(decoder, text):
    assert decoder.recites(text)
    for tokens in text.texts:
        assert decoder.generate(tokens[: text.prompt]) == tokens  # it ends where the text does
        assert decoder.generate(tokens[: text.prompt], text.prompt) == tokens[: text.prompt]
        half = max(1, len(tokens) // 2)
        assert decoder.generate(tokens[:1], half) == tokens[:half] or text.prompt > 1
        assert decoder.logits(tokens).shape == (len(tokens), len(text.vocabulary) + 1)


@pytest.mark.parametrize("name", TAKES)
def test_both_constructions_keep_the_laws(name, tmp_path):
    text = TEXTS[0]
    for each in TEXTS:
        decoder = build_decoder(each, parameters=name)
        assert_recites(decoder, each)
        assert decoder.record.share < 1.0
        assert decoder.record.margin > 0
        assert decoder.record.num_positions == len(each.different(decoder.layer.window))
    one, again, other = (build_decoder(text, parameters=name, seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(one.tensors[key], again.tensors[key]) for key in one.tensors)
    assert not np.array_equal(one.layer.query_weights, other.layer.query_weights)
    for option, value in GIVEN.items():
        if option in TAKES[name]:
            assert_recites(build_decoder(text, parameters=name, **{option: value}), text)
            continue
        with pytest.raises(ParameterError, match=option) as caught:
            build_decoder(text, parameters=name, **{option: value})
        assert caught.value.witness == value
        assert "parameters=" in caught.value.suggestion
    with pytest.raises(DataError, match="goes on"):
        build_decoder(Text.words("a b c", "a b d"), parameters=name)
    one.save(tmp_path / "decoder.safetensors")
    assert Decoder.load(tmp_path / "decoder.safetensors").record == one.record


def test_the_default_is_smaller_than_full_heads():
    text = Text.words(LONGER)
    default, full = build_decoder(text), build_decoder(text, width=32)
    assert (default.layer.head_dim, default.layer.window, default.layer.target_dim) == (1, 16, 16)
    assert (full.layer.head_dim, full.layer.window, full.layer.target_dim) == (32, None, 32)
    assert default.num_parameters < full.num_parameters / 2


def test_options_without_a_width_are_kept():
    decoder = build_decoder(Text.words(LONGER), window=5, head_dim=2, code_width=12, num_heads=3)
    layer = decoder.layer
    assert (layer.window, layer.head_dim, layer.target_dim, layer.num_heads) == (5, 2, 12, 3)


def test_texts_that_need_a_longer_window_get_one():
    common = " a" * 20
    text = Text.words("one" + common + " b", "two" + common + " c")
    decoder = build_decoder(text)
    assert decoder.layer.window is None
    assert decoder.recites(text)
    with pytest.raises(DataError, match="goes on"):
        build_decoder(text, window=16)


def test_many_first_positions_need_a_width():
    text = Text.of(*([number] for number in range(300)))
    with pytest.raises(CapacityError, match="300 positions"):
        build_decoder(text)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_short_outputs_recite(width):
    text = Text.words(LONGER)
    decoder = build_decoder(text, width=32, code_width=width)
    assert decoder.layer.target_dim == width
    assert decoder.recites(text)


def test_code_widths_are_looked_at():
    for options in ({"code_width": 0}, {"code_width": 2.5}):
        with pytest.raises(ParameterError, match="code_width"):
            build_decoder(Text.words(LONGER), **options)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (2, 3), (30, 4), (200, 8)])
def test_codes_keep_away_from_each_other(count, width):
    codes = spread_codes(np.random.default_rng(0), count, width)
    assert np.allclose(np.linalg.norm(codes, axis=1), 1.0)
    assert np.array_equal(codes, codes.astype(np.float32))
    products = codes @ codes.T - 2 * np.eye(count)
    drawn = np.random.default_rng(1).standard_normal((count, width))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    random = drawn @ drawn.T - 2 * np.eye(count)
    assert products.max() <= random.max() + 1e-6
    if count > 2:
        assert 1 - products.max() > 3 * (1 - random.max())
