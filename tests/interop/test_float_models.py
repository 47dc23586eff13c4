"""Every export names its model of floating-point programs, and is within the bound for it."""

import math
from functools import partial

import numpy as np
import onnx
import pytest
from runtimes import BACKENDS, in_onnx, in_torch, judge

from constructive import (
    AttentionLayer,
    Dataset,
    Memorizer,
    Text,
    build_decoder,
    build_memorizer,
    certify,
    generators,
)
from constructive.exact.float_model import MODELS
from constructive.layers.record import TrainedRecord


def single(data):
    return Dataset(*(a.astype(np.float32) for a in (data.contexts, data.queries, data.targets)))


def built(construction, width=8, heads=4, head_dim=2):
    drawn = generators.uniform(num_examples=7, context_size=3, width=width, seed=2)
    options = {"head_dim": head_dim, "value_dim": head_dim} if head_dim else {}
    if construction == "exact":
        rng = np.random.default_rng(0)
        arrays = (np.float32(rng.integers(-4, 5, a.shape)) for a in (drawn.contexts, drawn.queries))
        data = Dataset(*arrays, drawn.targets.astype(np.float32))
        options |= {"construction": "generic", "exact_logits": True}
    else:
        data = single(drawn)
        options |= {"construction": construction}
    return build_memorizer(data, num_heads=heads, **options).astype(np.float32), data


BUILT = {
    "saturated": built("saturated", head_dim=None),
    "generic": built("generic"),
    "exact logits": built("exact"),
    "heads of 16 entries": built("exact", width=16, heads=1, head_dim=16),
    "heads of 4 entries": built("exact", width=8, heads=2, head_dim=4),
}


def of_torch(module, data, backend=None):
    return in_torch(module, data.contexts, data.queries, backend=backend)


def of_onnx(memorizer, data, folder):
    path = folder / "m.onnx"
    memorizer.to_onnx(path)
    names = {each.key: each.value for each in onnx.load(path).metadata_props}
    return names["float_model"], in_onnx(path)(contexts=data.contexts, queries=data.queries)


def within(memorizer, data, model, outputs):
    """Whether outputs are as the certificate says of programs of a model."""
    claim = certify(memorizer, data, claims="executed", model=model)["executed"]
    bound = float.fromhex(claim.evidence["bound"])
    assert outputs.dtype == np.float32
    assert math.isfinite(bound)
    return bool(np.abs(outputs.astype(float) - data.targets).max() <= bound)


@pytest.mark.parametrize("name", BUILT)
def test_exports_are_within_their_bounds(name, tmp_path):
    memorizer, data = BUILT[name]
    own = memorizer.predict(data.contexts, data.queries)
    assert within(memorizer, data, memorizer.layer.float_model, own)
    assert within(memorizer, data, *of_onnx(memorizer, data, tmp_path))
    modules = [memorizer.to_torch()]
    assert modules[0].float_model == "float32, pairwise"
    if memorizer.layer.head_dim * memorizer.layer.num_heads == data.width:
        modules.append(memorizer.to_torch(multihead=True))
    for module in modules:
        same = memorizer.layer.head_dim == memorizer.layer.value_dim  # or there is no fused kernel
        for backend in BACKENDS[: 3 if same else 2]:
            assert within(memorizer, data, module.float_model, of_torch(module, data, backend))


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


def test_multihead_is_beyond_pairwise():
    """Logits that are exact, and not after a product with sqrt(2) and its inverse."""
    broken = []
    for a in range(1, 8):
        sizes = np.diag([float(a), 7.0])
        weights = 2.0**16 * sizes[None], sizes[::-1, ::-1][None], np.eye(2)[None]
        last = np.eye(2), np.array([[1.0], [-1.0]])
        layer = AttentionLayer(*(w.astype(np.float32) for w in (*weights, *last)))
        memorizer = Memorizer(layer, TrainedRecord("torch", scalar_targets=True, constant=False))
        one = np.eye(2, dtype=np.float32)
        data = Dataset(one, np.ones((1, 2), np.float32), np.zeros(1, np.float32))
        module = memorizer.to_torch(multihead=True)
        outputs = of_torch(module, data)
        assert within(memorizer, data, module.float_model, outputs)
        assert within(memorizer, data, "float32, pairwise", of_torch(memorizer.to_torch(), data))
        broken.append(not within(memorizer, data, "float32, pairwise", outputs))
    assert any(broken)


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
def test_exports_of_decoders_are_within_their_bounds(storage, tmp_path):
    text = Text.words("The cat sat on the mat, and the cat saw the rat, and the rat saw the cat.")
    decoder = build_decoder(text, width=64).stored_as(storage)
    module = decoder.to_torch()
    assert module.float_model == decoder.float_model == f"{storage}, pairwise"
    claim = certify(decoder, text, claims="executed", model=decoder.float_model)["executed"]
    assert claim.verdict.name == "PROVED"
    decoder.to_onnx(tmp_path / "d.onnx")
    names = {each.key: each.value for each in onnx.load(tmp_path / "d.onnx").metadata_props}
    assert names == {"float_model": decoder.float_model}
    programs = [partial(in_torch, module, backend=backend) for backend in BACKENDS]
    programs.append(lambda ids: in_onnx(tmp_path / "d.onnx")(ids=ids))
    programs.append(lambda _: decoder.logits(text.texts[0])[None])
    for logits in programs:
        judge(decoder, text, logits, model=MODELS[decoder.float_model])
    assert decoder.generate(text.texts[0][: text.prompt]) == text.texts[0]
