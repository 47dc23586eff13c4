"""Exported models in the programs that evaluate them: PyTorch by its back ends, and onnxruntime."""

import contextlib

import onnxruntime
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

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
