"""Decoders in PyTorch and ONNX recite the same, and are within the bounds of their models."""

import contextlib
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.torch
import torch
from decoder_parts import changed, compact
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

from constructive import (
    AttentionLayer,
    DataError,
    Memorizer,
    OutputError,
    Text,
    build_decoder,
    build_memorizer,
    certify,
    checker,
    generators,
)
from constructive.layers.record import TrainedRecord
from constructive.recite.causal import picks, read_tokens
from constructive.recite.decoder import recital

# Exported models in the programs that evaluate them: PyTorch by its back ends, and onnxruntime.


BACKENDS = None, SDPBackend.MATH, SDPBackend.FLASH_ATTENTION


def in_torch(module, *arrays, backend=None):
    """The outputs of a module, as an array."""
    chosen = contextlib.nullcontext() if backend is None else sdpa_kernel([backend])
    with torch.no_grad(), chosen:
        return module(*map(torch.tensor, arrays)).numpy()


def in_onnx(path):
    """A function from the inputs of a model, by name, to its only output."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda **inputs: session.run(None, inputs)[0]


def judge(decoder, text, logits, **model):
    """All prompts are continued rightly, and margins are where the bounds say they are."""
    seen, right = recital(decoder, text, **model), np.empty(len(text), dtype=bool)
    margins = np.full(len(text), np.nan)
    for batch in text.batches():
        asked = batch.following >= 0
        found, following = logits(batch.ids)[asked].astype(np.float64), batch.following[asked]
        right[batch.places[asked]] = found.argmax(axis=1) == following
        each = np.arange(len(found))
        own = found[each, following]
        found[each, following] = -np.inf
        margins[batch.places[asked]] = own - found.max(axis=1)
    assert right[seen.places].all()
    found = margins[seen.places]
    assert (seen.share < 1.0).all()
    assert (found >= seen.least * (1.0 - seen.share)).all()
    assert (found <= seen.most * (1.0 + seen.share)).all()


# Decoders in PyTorch and in ONNX recite the same, token for token.


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
    judge(decoder, text, logits)
    assert len(text) > 100 or recited(decoder, text, logits)


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


@settings(max_examples=12)
@given(st.lists(TOKENS, min_size=1, max_size=4), st.none() | st.integers(1, 6))
def test_small_sequences(tmp_path_factory, texts, window):
    """Several begin with tokens of their own, which their contexts see in a wide window."""
    if len(texts) > 1:
        texts = [[100 + k, *tokens] for k, tokens in enumerate(texts)]
        window = None if window is None else window + max(map(len, texts))
    text = Text.of(*texts)
    decoder = built(text, window)
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


def test_weights_are_copies_that_can_be_trained():
    text = Text.words(STORY)
    decoder = built(text, None)
    module, ids = decoder.to_torch(), torch.tensor(text.ids[None])
    torch.nn.functional.cross_entropy(module(ids)[0, :-1], ids[0, 1:]).backward()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())
    with torch.no_grad():
        module.U.zero_()
    assert decoder.recites(text)


def test_ids_that_are_not_those_of_the_decoder(tmp_path, capfd):
    decoder = built(Text.words(STORY), None)
    for ids, message in (
        (torch.zeros(1, 39, dtype=torch.int64), "39 tokens are more than the 38 positions"),
        (torch.tensor([[0, 12]]), "the id 12 is none of the 12 tokens"),
        (torch.tensor([[0, -1]]), "the id -1 is none of the 12 tokens"),
        (torch.zeros(1, 2), r"ids are torch.float32 of shape \(1, 2\), not integers"),
        (torch.zeros(2, dtype=torch.int64), r"of shape \(2,\), not integers \(S, N\)"),
        (torch.zeros(1, 0, dtype=torch.int64), r"of shape \(1, 0\), not integers \(S, N\)"),
    ):
        with pytest.raises(DataError, match=message) as raised:
            decoder.to_torch()(ids)
        assert raised.value.witness is not None
        assert raised.value.suggestion
    logits = of_onnx(decoder, tmp_path)
    for wrong in ([[0, 12]], [[0] * 39]):
        with pytest.raises(Exception, match="indices element out of data bounds"):
            logits(wrong)
    assert "out of data bounds" in capfd.readouterr().err
    with pytest.raises(OutputError, match="no such folder"):
        decoder.to_onnx(tmp_path / "none" / "decoder.onnx")


# Decoders of integers, and with factors of fewer bits.


FACTORS = [model.factors[0] for model in checker.INTEGER_MODELS.values()]


@pytest.mark.parametrize("options", [{}, {"outputs": 2}, {"window": 2}, {"window": 4}])
def test_every_program_here_gives_the_exact_logits(options, tmp_path):
    """From integers: z from the definition of saturated heads. Texts do not see one another."""
    decoder, text = compact(**options)
    weights, x = decoder.layer, decoder.embedded(text.ids[None])[0]
    at = picks(x, weights.query_weights, weights.key_weights, weights.window).tokens
    outputs = read_tokens(x, at).astype(float) @ weights.readout_weights
    exact = outputs @ decoder.unembedding.T.astype(float)
    assert np.abs(exact).max() < 2**24
    assert (decoder.logits(text.tokens) == exact).all()
    assert decoder.generate(text.tokens[:1]) == text.tokens
    for logits in (of_torch(decoder), of_onnx(decoder, tmp_path)):
        both = logits(np.stack([text.ids, text.ids[::-1]]))
        assert (both[0] == exact).all()
        assert (both[1] == logits(text.ids[None, ::-1].copy())[0]).all()
        assert (logits(text.ids[None, :3])[0] == exact[:3]).all()


@pytest.mark.parametrize("factors", FACTORS)
def test_models_of_rounded_factors(factors):
    """Where a key has more than 8 bits, bfloat16 may miss a token."""
    text = Text.words("".join(f"{i % 7}{'ab'[i % 3 % 2]} " for i in range(60)))
    decoder, text = compact(text, period=64, heads=20)
    wide = changed(decoder, "W_K", array=decoder.layer.key_weights * np.float32(5.0))
    model = f"float32, {factors} products"
    for each, fits in ((decoder, True), (wide, factors != "bfloat16")):
        assert certify(each, text, claims=["executed"], model=model).proved == fits


# Every export names its model of floating-point programs, and returns the targets.


def built_layer(width, heads, head_dim=None):
    """A layer in float32."""
    drawn = generators.uniform(num_examples=7, context_size=3, width=width, seed=2, dtype="f4")
    options = {"construction": "saturated"}
    if head_dim is not None:
        options = {"construction": "generic", "head_dim": head_dim, "value_dim": head_dim}
    memorizer = build_memorizer(drawn, num_heads=heads, **options)
    return memorizer.astype(np.float32), drawn


BUILT = {
    "saturated": built_layer(8, 4),
    "generic": built_layer(8, 4, 2),
    "heads of 16 entries": built_layer(16, 1, 16),
    "heads of 4 entries": built_layer(8, 2, 4),
}


def layer_of_torch(module, data, backend=None):
    return in_torch(module, data.contexts, data.queries, backend=backend)


def model_of(path):
    """The model of floating-point programs that an ONNX file names."""
    (named,) = onnx.load(path).metadata_props
    assert named.key == "float_model"
    return named.value


def near(data, outputs):
    """Whether outputs in float32 are the targets, but for rounding."""
    assert outputs.dtype == np.float32
    return bool(np.abs(outputs.astype(float) - data.targets).max() <= 1e-3)


@pytest.mark.parametrize("name", BUILT)
def test_exports_return_the_targets_and_name_a_model(name, tmp_path):
    memorizer, data = BUILT[name]
    own = memorizer.predict(data.contexts, data.queries)
    assert near(data, own)
    assert memorizer.layer.float_model == "float32, pairwise"
    path = tmp_path / "m.onnx"
    memorizer.to_onnx(path)
    outputs = in_onnx(path)(contexts=data.contexts, queries=data.queries)
    assert near(data, outputs)
    assert model_of(path) in checker.MODELS
    modules = [memorizer.to_torch()]
    assert modules[0].float_model == "float32, pairwise"
    if memorizer.layer.head_dim * memorizer.layer.num_heads == data.width:
        modules.append(memorizer.to_torch(multihead=True))
    for module in modules:
        same = memorizer.layer.head_dim == memorizer.layer.value_dim  # or there is no fused kernel
        for backend in BACKENDS[: 3 if same else 2]:
            assert module.float_model in checker.MODELS
            assert near(data, layer_of_torch(module, data, backend))


@pytest.mark.parametrize(
    ("heads", "head_dim", "model"),
    [
        (2, 1, "float32, pairwise"), (2, 2, "float32, scaled"), (1, 4, "float32, scaled"),
        (1, 8, "float32, scaled"), (1, 16, "float32, pairwise"), (1, 48, "float32, scaled"),
    ],
)  # fmt: skip
def test_multihead_names_its_model(heads, head_dim, model):
    layer = AttentionLayer(
        *np.zeros((3, heads, heads * head_dim, head_dim)),
        np.zeros((heads * head_dim, 1)),
        np.zeros((1, 1)),
    )
    memorizer = Memorizer(layer, TrainedRecord("torch", scalar_targets=True, constant=False))
    assert memorizer.to_torch(multihead=True).float_model == model


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
def test_exports_of_decoders_are_within_their_bounds(storage, tmp_path):
    text = Text.words(STORY)
    decoder = build_decoder(text, width=64).stored_as(storage)
    module = decoder.to_torch()
    assert module.float_model == decoder.float_model == f"{storage}, pairwise"
    claim = certify(decoder, text, claims="executed", model=decoder.float_model)["executed"]
    assert claim.verdict.name == "PROVED"
    programs = [partial(in_torch, module, backend=backend) for backend in BACKENDS]
    programs.append(of_onnx(decoder, tmp_path))
    assert model_of(tmp_path / "decoder.onnx") == decoder.float_model
    programs.append(lambda _: decoder.logits(text.texts[0])[None])
    for logits in programs:
        judge(decoder, text, logits, model=decoder.float_model)
    assert decoder.generate(text.texts[0][: text.prompt]) == text.texts[0]
