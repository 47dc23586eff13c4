"""Every construction of decoders keeps the laws; what many parameters are by default."""

import dataclasses

import numpy as np
import pytest
from decoder_conformance import check_decoder_kind

from constructive import CapacityError, DataError, ParameterError, Text, build_decoder
from constructive.constructions.decoder import DECODERS
from constructive.constructions.wide_decoder import Many, spread_codes

CAT = "the cat sat on the mat, and the cat saw the rat; the rat sat on the cat"


@pytest.mark.parametrize("name", DECODERS)
def test_constructions(name, tmp_path):
    check_decoder_kind(name, tmp_path)


class Stubborn(Many):
    """Draws the same heads for every seed."""

    def build(self, text, options):
        return super().build(text, dataclasses.replace(options, seed=0))


class Deaf(Many):
    """Does not hear what it takes."""

    takes = Many.takes | {"every"}

    def require(self, options):
        """Refuse nothing."""


@pytest.mark.parametrize("lie", [Stubborn(), Deaf()], ids=["seed", "options"])
def test_lies_are_found(lie, tmp_path, monkeypatch):
    monkeypatch.setitem(DECODERS, "many", lie)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_decoder_kind("many", tmp_path)


def test_the_default_is_smaller_than_full_heads():
    text = Text.words(CAT)
    default, full = build_decoder(text), build_decoder(text, width=32)
    assert (default.layer.head_dim, default.layer.window, default.layer.target_dim) == (1, 16, 16)
    assert (full.layer.head_dim, full.layer.window, full.layer.target_dim) == (32, None, 32)
    assert default.num_parameters < full.num_parameters / 2


def test_options_without_a_width_are_kept():
    decoder = build_decoder(Text.words(CAT), window=5, head_dim=2, code_width=12, num_heads=3)
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
    text = Text.words(CAT)
    decoder = build_decoder(text, width=32, code_width=width)
    assert decoder.layer.target_dim == width
    assert decoder.recites(text)


def test_code_widths_are_looked_at():
    for options in ({"code_width": 0}, {"code_width": 2.5}):
        with pytest.raises(ParameterError, match="code_width"):
            build_decoder(Text.words(CAT), **options)


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
