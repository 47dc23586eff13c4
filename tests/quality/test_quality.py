"""The accuracy and the sizes that the documentation states."""

import inspect
import lzma
import textwrap
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from pytorch import torch

from constructive import Decoder, Text, build_decoder, build_memorizer, certify, check, generators
from constructive.constructions.multihead import readout

# The accuracy that the documentation states, at the sizes of the paper's experiments.


SIZES = {"num_examples": 1861, "context_size": 32, "width": 64}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "largest_error"),
    [
        (generators.uniform, 1e-10),
        (generators.gaussian, 1e-10),
        (generators.bag_of_tokens, 1e-10),
        (generators.moment_curve, 1e-10),
        (generators.shared_context, 1e-6),
    ],
)
def test_saturated_heads_at_1861_examples(make, largest_error):
    data = make(**SIZES, seed=1)
    memorizer = build_memorizer(data, num_heads=60, head_dim=64)
    assert memorizer.record.construction == "saturated"
    assert memorizer.max_error(data) <= largest_error
    assert min(head.saturated_fraction for head in memorizer.record.heads) >= 0.99
    assert memorizer.record.heads[-1].rank_reached == 1861


@pytest.mark.slow
def test_rank_one_heads_at_1861_examples():
    data = generators.uniform(**SIZES, seed=1)
    memorizer = build_memorizer(data, num_heads=60, construction="rank_one")
    assert memorizer.layer.head_dim == 1
    assert memorizer.max_error(data) <= 1e-10


@pytest.mark.parametrize("tokens", [2, 4, 8, 12])
def test_rank_one_heads_on_a_shared_context(tokens):
    data = generators.shared_context(
        num_examples=20 * (tokens - 1) + 1, context_size=tokens, width=32
    )
    memorizer = build_memorizer(data, num_heads=20, construction="rank_one")
    assert memorizer.max_error(data) <= 1e-6


def test_the_stated_error_is_the_error_of_the_layer():
    data = generators.shared_context(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20, construction="rank_one")
    assert memorizer.max_error(data) <= 10 * memorizer.record.max_error + 1e-15


def test_the_condition_estimate_is_near_the_condition_number():
    data = generators.uniform(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20)
    singular = np.linalg.svd(
        memorizer.layer.intermediate(data.contexts, data.queries), compute_uv=False
    )
    exact = singular[0] / singular[-1]
    assert exact / 20 <= memorizer.record.condition <= 20 * exact


def test_a_singular_intermediate_representation_is_not_called_independent():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((6, 8))
    z[4] = z[0] + z[1]
    solution = readout.solve(z, rng.standard_normal((6, 1)))
    assert solution.ranks(np.array([3, 6])) == (3, 5)
    assert solution.condition > 1e12
    assert solution.residuals[0] > 1e-3


def test_float32_weights_lose_some_digits_but_not_the_targets():
    data = generators.gaussian(num_examples=141, context_size=8, width=32)
    memorizer = build_memorizer(data, num_heads=20)
    assert memorizer.astype(np.float32).max_error(data) < 1e-2


# Decoders of few numbers at real sizes: what they store, and who recites.


LICENSE = (Path(__file__).parent.parent.parent / "LICENSE").read_text()
TEXTS = {
    "LICENSE": (LICENSE, {"stored": 1.0, "bits": 10.5, "readout": 0.85}),
    "code": (
        "".join(Text.words(inspect.getsource(textwrap)).tokens[:2000]),
        {"stored": 1.2, "bits": 12.0, "readout": 1.0},
    ),
}
"""Texts, and the most that is stored for each token: numbers, bits, and numbers of the readout."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_the_file_is_smaller_than_the_text_and_all_is_proved(name, tmp_path):
    content, most = TEXTS[name]
    text = Text.words(content)
    decoder = build_decoder(text, parameters="few")
    decoder.save(tmp_path / "decoder.safetensors")
    size = (tmp_path / "decoder.safetensors").stat().st_size
    assert size < len(content.encode())
    assert len(lzma.compress(content.encode(), preset=9)) < size  # it is not compression
    used = int(decoder.layer.readout_weights.any(axis=1).sum())
    assert decoder.num_stored / len(text) < most["stored"]
    assert decoder.num_bits / len(text) < most["bits"]
    assert used / len(text) < most["readout"]
    read = Decoder.load(tmp_path / "decoder.safetensors")
    assert all((read.tensors[key] == array).all() for key, array in decoder.tensors.items())
    assert read.joined(read.generate(text.tokens[:1])) == content
    text.save(tmp_path / "text.json")
    for model in (None, "float32, TF32 products", "float32, float16 products"):
        certificate = certify(read, text, model=model)
        assert certificate.proved
        certificate.save(tmp_path / "certificate.json")
        names = "certificate.json", "decoder.safetensors", "text.json"
        assert check(*(tmp_path / name for name in names)).proved
    right = np.append(text.ids[1:], text.end)
    with torch.no_grad():
        logits = read.to_torch()(torch.tensor(text.ids[None]))[0].numpy()
    assert (logits.argmax(axis=1) == right).all()
    read.to_onnx(tmp_path / "decoder.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "decoder.onnx")
    logits = session.run(None, {"ids": text.ids[None]})[0][0]
    assert (logits.argmax(axis=1) == right).all()
