"""Layers as ONNX models, run by onnxruntime."""

import numpy as np
import onnx
import pytest
from runtimes import in_onnx

from constructive import (
    Dataset,
    OutputError,
    ParameterError,
    build_memorizer,
    generators,
)


def run(path, data):
    return in_onnx(path)(contexts=data.contexts, queries=data.queries)


@pytest.mark.parametrize("target_dim", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_onnxruntime_gives_what_numpy_gives(tmp_path, shared, target_dim):
    kind = generators.shared_context if shared else generators.uniform
    data = kind(num_examples=22, context_size=4, width=8, target_dim=target_dim)
    memorizer = build_memorizer(data, num_heads=8, value_dim=3)
    memorizer.to_onnx(tmp_path / "m.onnx", shared_context=shared)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {tensor.name for tensor in model.graph.initializer} > {"W_Q", "W_K", "W_V", "W_O", "W_D"}
    outputs = run(tmp_path / "m.onnx", data)
    assert outputs.dtype == np.float64
    assert outputs.shape == data.targets.shape
    np.testing.assert_allclose(outputs, memorizer.predict(data.contexts, data.queries), atol=1e-9)
    some = run(tmp_path / "m.onnx", data.take(range(5)))  # T is free
    np.testing.assert_allclose(some, data.targets[:5], atol=1e-9)


def test_float32(tmp_path):
    data = generators.uniform(num_examples=22, context_size=4, width=8)
    memorizer = build_memorizer(data, num_heads=8).astype(np.float32)
    memorizer.to_onnx(tmp_path / "m.onnx")
    narrow = Dataset(*(x.astype(np.float32) for x in (data.contexts, data.queries, data.targets)))
    outputs = run(tmp_path / "m.onnx", narrow)
    assert outputs.dtype == np.float32
    assert np.abs(outputs - data.targets).max() < 1e-2


def test_what_has_no_onnx_model_leaves_no_file(tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    extended = build_memorizer(data, num_heads=3, precision=80)
    with pytest.raises(ParameterError, match="ONNX models hold floats, not the weights of"):
        extended.to_onnx(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="no such folder"):
        build_memorizer(data, num_heads=3).to_onnx(tmp_path / "none" / "m.onnx")
