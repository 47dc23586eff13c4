"""What every construction of decoders has to do: a new one is tested by `check_decoder_kind`."""

import numpy as np
import pytest

from constructive import DataError, Decoder, ParameterError, Text, build_decoder
from constructive.constructions.decoder import DECODERS
from constructive.constructions.wide_decoder import DecoderKind

CAT = "the cat sat on the mat, and the cat saw the rat"
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


def check_decoder_kind(name, folder):
    """Check the laws of a construction of decoders; raises AssertionError for a breach.

    name: the argument `parameters`
    folder: an empty folder for files
    """
    kind, text = DECODERS[name], TEXTS[0]
    assert isinstance(kind, DecoderKind)
    assert kind.parameters == name
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
        if option in kind.takes:
            assert_recites(build_decoder(text, parameters=name, **{option: value}), text)
            continue
        with pytest.raises(ParameterError, match=option) as caught:
            build_decoder(text, parameters=name, **{option: value})
        assert caught.value.witness == (option,)
    with pytest.raises(DataError, match="goes on"):
        build_decoder(Text.words("a b c", "a b d"), parameters=name)
    one.save(folder / "decoder.safetensors")
    assert Decoder.load(folder / "decoder.safetensors").record == one.record
