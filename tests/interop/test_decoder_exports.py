"""Decoders in PyTorch and in ONNX recite the same, token for token."""

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import BACKENDS, in_onnx, in_torch, judge

from constructive import DataError, OutputError, Text, build_decoder

STORY = "The cat sat on the mat, and the cat saw the rat, and the rat saw the cat."
LICENSE = (Path(__file__).parent.parent.parent / "LICENSE").read_text()
TEXTS = {
    "words": (Text.words(STORY), None),
    "bytes": (Text.bytes(STORY), None),
    "ids": (Text.of([50256, 11, 11, 0, 464, 11, 50256, 11]), None),
    "several": (Text.words("to be or not", "that is the question", "or not to be that"), None),
    "prompts": (Text.bytes("ab or ac", "ac or ab", "ad", prompt=2), None),
    "window": (Text.words(STORY), 3),
    "itself alone": (Text.words(STORY), 1),
    "wider than all": (Text.words("a cat sat", "the rat saw"), 9),
    "one token": (Text.of([7]), None),
    "longer than a block": (Text.words(LICENSE[:2000]), None),
    "longer than a block, window": (Text.words(LICENSE[:2000]), 20),
}


def built(text, window):
    """Several texts differ where some head looks far back: a single one is badly conditioned."""
    heads = 8 if text.num_texts > 1 else None
    return build_decoder(text, width=64, num_heads=heads, window=window)


@pytest.fixture(scope="module", params=TEXTS)
def case(request):
    text, window = TEXTS[request.param]
    return built(text, window), text


def of_torch(decoder, backend=None):
    """Logits (S, N, V + 1) of ids (S, N), as arrays."""
    return partial(in_torch, decoder.to_torch(), backend=backend)


def of_onnx(decoder, folder):
    decoder.to_onnx(folder / "decoder.onnx")
    model = in_onnx(folder / "decoder.onnx")
    return lambda ids: model(ids=np.asarray(ids, dtype=np.int64))


def continued(decoder, logits, prompt):
    """Greedy decoding, which evaluates all that there is again for each token."""
    ids = decoder.ids(prompt).tolist()
    while len(ids) < decoder.num_positions:
        following = int(logits([ids])[0, -1].argmax())
        if following == decoder.end:
            break
        ids.append(following)
    return tuple(decoder.vocabulary[i] for i in ids)


def recited(decoder, text, logits):
    return all(
        continued(decoder, logits, tokens[: text.prompt]) == tokens
        and decoder.generate(tokens[: text.prompt]) == tokens
        for tokens in text.texts
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_torch_recites(case, backend):
    decoder, text = case
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if backend is None else 1)
        logits = of_torch(decoder, backend)
        judge(decoder, text, logits)
        assert len(text) > 100 or backend is not None or recited(decoder, text, logits)
    finally:
        torch.set_num_threads(before)


def test_onnx_recites(case, tmp_path):
    decoder, text = case
    logits = of_onnx(decoder, tmp_path)
    onnx.checker.check_model(onnx.load(tmp_path / "decoder.onnx"), full_check=True)
    judge(decoder, text, logits)
    assert len(text) > 100 or recited(decoder, text, logits)


def test_numpy_recites(case):
    decoder, text = case
    assert decoder.recites(text)
    assert all(decoder.generate(tokens[: text.prompt]) == tokens for tokens in text.texts)


def test_logits_are_those_of_the_decoder(case, tmp_path):
    decoder, text = case
    tokens = text.texts[0]
    expected, ids = decoder.logits(tokens), decoder.ids(tokens)[None]
    for logits in (of_torch(decoder), of_onnx(decoder, tmp_path)):
        found = logits(ids)[0]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_wrong_logit_would_be_seen():
    decoder, text = built(Text.words(STORY), None), Text.words(STORY)
    logits = of_torch(decoder)
    judge(decoder, text, logits)
    for wrong in (lambda ids: logits(ids) * 1.01, lambda ids: -logits(ids)):
        with pytest.raises(AssertionError):
            judge(decoder, text, wrong)
    assert not recited(decoder, text, lambda ids: -logits(ids))


@pytest.mark.parametrize("storage", ["bfloat16", "float16"])
def test_stored_in_fewer_bits(storage, tmp_path):
    text = Text.words(STORY)
    decoder = built(text, None).stored_as(storage)
    for logits in (of_torch(decoder), of_onnx(decoder, tmp_path)):
        assert recited(decoder, text, logits)
    weights = decoder.to_torch().U
    assert torch.equal(weights.to(getattr(torch, storage)).float(), weights)


TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=20) | st.integers(1, 20).map(
    lambda count: [5] * count
)


@settings(max_examples=20)
@given(TOKENS, st.none() | st.integers(1, 6))
def test_small_sequences(tmp_path_factory, tokens, window):
    text = Text.of(tokens)
    decoder = built(text, window)
    folder = tmp_path_factory.mktemp("decoder")
    for logits in (of_torch(decoder), of_onnx(decoder, folder)):
        assert recited(decoder, text, logits)
        judge(decoder, text, logits)


@settings(max_examples=10)
@given(st.lists(TOKENS, min_size=2, max_size=4), st.none() | st.integers(2, 6))
def test_several_small_sequences(tmp_path_factory, texts, window):
    """Each begins with a token of its own, which all of its contexts see in a wide window."""
    longest = max(map(len, texts)) + 1
    text = Text.of(*([100 + k, *tokens] for k, tokens in enumerate(texts)))
    decoder = built(text, None if window is None else longest + window)
    folder = tmp_path_factory.mktemp("decoder")
    for logits in (of_torch(decoder), of_onnx(decoder, folder)):
        assert recited(decoder, text, logits)
        judge(decoder, text, logits)


def test_a_saved_decoder_is_a_state_dict(tmp_path):
    text = Text.words(STORY)
    decoder, other = (build_decoder(text, width=64, seed=seed) for seed in (0, 1))
    decoder.save(tmp_path / "decoder.safetensors")
    module = other.to_torch()
    assert not torch.equal(module.U, decoder.to_torch().U)
    module.load_state_dict(safetensors.torch.load_file(tmp_path / "decoder.safetensors"))
    ids = torch.tensor(text.ids[None])
    assert torch.equal(module(ids), decoder.to_torch()(ids))
    assert sum(p.numel() for p in module.parameters()) == decoder.num_parameters


def test_weights_are_copies():
    decoder = built(Text.words(STORY), None)
    module = decoder.to_torch()
    with torch.no_grad():
        module.U.zero_()
    assert decoder.recites(Text.words(STORY))


def test_gradients_go_through():
    module = built(Text.words(STORY), None).to_torch()
    ids = torch.tensor(Text.words(STORY).ids[None])
    torch.nn.functional.cross_entropy(module(ids)[0, :-1], ids[0, 1:]).backward()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())


WRONG = {
    "too long": (torch.zeros(1, 99, dtype=torch.int64), "99 tokens are more than the 38 positions"),
    "beyond": (torch.tensor([[0, 12]]), "the id 12 is none of the 12 tokens"),
    "negative": (torch.tensor([[0, -1]]), "the id -1 is none of the 12 tokens"),
    "floats": (torch.zeros(1, 2), r"ids are torch.float32 of shape \(1, 2\), not integers"),
    "a row": (torch.zeros(2, dtype=torch.int64), r"of shape \(2,\), not integers \(S, N\)"),
    "none": (torch.zeros(1, 0, dtype=torch.int64), r"of shape \(1, 0\), not integers \(S, N\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_ids_which_are_none(name):
    ids, message = WRONG[name]
    text = Text.words(STORY)
    assert (len(text), len(text.vocabulary)) == (38, 12)
    with pytest.raises(DataError, match=message) as raised:
        built(text, None).to_torch()(ids)
    assert raised.value.witness is not None
    assert raised.value.suggestion


def test_runtimes_refuse_ids_which_are_none(tmp_path, capfd):
    logits = of_onnx(built(Text.words(STORY), None), tmp_path)
    for wrong in ([[0, 12]], [[0] * 39]):
        with pytest.raises(Exception, match="indices element out of data bounds"):
            logits(wrong)
    assert "out of data bounds" in capfd.readouterr().err


def test_no_folder(tmp_path):
    with pytest.raises(OutputError, match="no such folder"):
        built(Text.words("a b"), None).to_onnx(tmp_path / "none" / "decoder.onnx")
    assert list(tmp_path.iterdir()) == []
