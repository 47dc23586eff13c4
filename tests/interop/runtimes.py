"""Exported models in the programs that evaluate them: PyTorch by its back ends, and onnxruntime."""

import contextlib

import numpy as np
import onnxruntime
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from constructive.layers.margins import recital

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
