"""Decoders of few numbers at real sizes: what they store, and who recites."""

import inspect
import textwrap
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from constructive import Decoder, Text, build_decoder, certify, check
from constructive.layers.decoder import sizes

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
    found = sizes((tmp_path / "decoder.safetensors").stat().st_size, content.encode())
    assert found.file < found.text
    assert found.xz < found.file  # it is not compression
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
    for factors in (None, "TF32", "float16"):
        with torch.no_grad():
            logits = read.to_torch(factors=factors)(torch.tensor(text.ids[None]))[0].numpy()
        assert (logits.argmax(axis=1) == right).all()
    read.to_onnx(tmp_path / "decoder.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "decoder.onnx")
    logits = session.run(None, {"ids": text.ids[None]})[0][0]
    assert (logits.argmax(axis=1) == right).all()
