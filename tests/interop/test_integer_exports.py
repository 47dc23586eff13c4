"""Decoders of integers recite in NumPy, PyTorch and ONNX, and with factors of fewer bits."""

import numpy as np
import pytest
import torch
from compact_parts import changed, compact
from runtimes import in_onnx, in_torch

from constructive import ParameterError, Text, Verdict, certify
from constructive.exact.float_model import INTEGER_MODELS
from constructive.layers.causal import picks, read

FACTORS = [model.factors.name for model in INTEGER_MODELS.values()]


def exact_logits(decoder, text):
    """Of all positions, from integers: z from the definition of saturated heads."""
    x = decoder.embedded(text.ids[None])[0]
    weights = decoder.layer
    at = picks(x, weights.query_weights, weights.key_weights, weights.window).tokens
    outputs = read(x, at).astype(float) @ weights.readout_weights
    return outputs @ decoder.unembedding.T.astype(float)


def of_torch(decoder, text, factors=None):
    return in_torch(decoder.to_torch(factors=factors), text.ids[None])[0]


@pytest.fixture(scope="module", params=[{}, {"outputs": 2}, {"window": 2}, {"window": 4}])
def case(request):
    return compact(**request.param)


def test_every_program_here_gives_the_exact_logits(case, tmp_path):
    decoder, text = case
    exact = exact_logits(decoder, text)
    assert np.abs(exact).max() < 2**24
    decoder.to_onnx(tmp_path / "decoder.onnx")
    assert (in_onnx(tmp_path / "decoder.onnx")(ids=text.ids[None])[0] == exact).all()
    assert (decoder.logits(text.tokens) == exact).all()
    for factors in (None, *FACTORS):
        assert (of_torch(decoder, text, factors) == exact).all()
    assert decoder.generate(text.tokens[:1]) == text.tokens


def test_several_texts_at_once(case):
    """Blocks of one text do not see another, and short texts are as they were."""
    decoder, text = case
    ids = np.stack([text.ids, text.ids[::-1]])
    with torch.no_grad():
        both = decoder.to_torch()(torch.tensor(ids))
        alone = [decoder.to_torch()(torch.tensor(row[None]))[0] for row in ids]
        short = decoder.to_torch()(torch.tensor(ids[:, :3]))
    for found, row in zip(both, alone, strict=True):
        assert torch.equal(found, row)
    assert torch.equal(short[0], both[0, :3])


def test_factors_that_do_not_fit_are_rounded():
    """So the option does round: where a key has more than 8 bits, bfloat16 may miss a token."""
    text = Text.words("".join(f"{i % 7}{'ab'[i % 3 % 2]} " for i in range(60)))
    decoder, text = compact(text, period=64, heads=20)
    wide = changed(decoder, "W_K", array=decoder.layer.key_weights * np.float32(5.0))
    exact = exact_logits(wide, text)
    for factors in FACTORS:
        model = f"float32, {factors} products"
        proved = certify(wide, text, claims=["executed"], model=model).verdict is Verdict.PROVED
        assert proved == (factors != "bfloat16")
        if proved:
            assert (of_torch(wide, text, factors).argmax(1) == exact.argmax(1)).all()
    module = wide.to_torch(factors="bfloat16")
    x = torch.tensor([1.0, 257.0, -515.0])
    assert module._factor(x).tolist() == [1.0, 256.0, -516.0]
    assert wide.to_torch(factors="TF32")._factor(x * 9).tolist() == [9.0, 2312.0, -4636.0]


def test_the_model_that_a_module_names(case):
    decoder, text = case
    for factors in FACTORS:
        module = decoder.to_torch(factors=factors)
        assert certify(decoder, text, claims=["executed"], model=module.float_model).proved
    with pytest.raises(ParameterError, match="model"):
        decoder.to_torch(factors="int8")
