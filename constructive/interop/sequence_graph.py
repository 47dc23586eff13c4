"""A sequence memorizer as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from constructive.interop.onnx_graph import Graph, Value
from constructive.sequences.attention import UniformAttention
from constructive.sequences.network import Network
from constructive.sequences.rounded import RoundedNetwork, require_exact
from constructive.support.arrays import float_type


def model(
    embedding: Network,
    attention: UniformAttention,
    classifier: Network,
    *,
    task: str,
    context_size: int,
    dtype: npt.DTypeLike = np.float64,
) -> onnx.ModelProto:
    """Return the model with input `sequences` (N, n, d), and `outputs` (N,), or (N, n) for seq2seq.

    It has passed onnx's own checker.

    Example:
        >>> from constructive import build_sequence_memorizer
        >>> built = build_sequence_memorizer(["ab", "cd"], ["x", "y"])
        >>> parts = built.embedding, built.attention, built.classifier
        >>> graph = model(*parts, task="next", context_size=2).graph
        >>> [value.name for value in (*graph.input, *graph.output)]
        ['sequences', 'outputs']
    """
    kind = float_type(dtype)
    require_exact(attention.numbers(), kind)
    graph, width = Graph(), embedding.layers[0].width
    stream = _tokenwise(graph, "embedding", embedding, kind, "sequences")
    rows = attention.query_weights, attention.key_weights, attention.value_weights
    query, key, value = (
        graph.node("MatMul", stream, graph.constant(f"W_{name}", np.array([weights], kind).T))
        for name, weights in zip("QKV", rows, strict=True)
    )
    turned = graph.node("Transpose", key, perm=[0, 2, 1])
    shares = graph.node("Softmax", graph.node("MatMul", query, turned), axis=-1)
    attended = graph.node("MatMul", shares, value)
    output = graph.constant("W_O", np.array([attention.output_weights], kind))
    moved = graph.node("Add", stream, graph.node("MatMul", attended, output))
    if task != "seq2seq":
        moved = graph.node("Gather", moved, graph.constant("last", np.array(-1)), axis=1)
    found = _tokenwise(graph, "classifier", classifier, kind, moved)
    last = graph.constant("last_axis", np.array([-1]))
    graph.node("Squeeze", found, last, name="outputs")
    return graph.model(
        "sequence_memorizer",
        [Value("sequences", kind, ("N", context_size, width))],
        Value("outputs", kind, ("N", context_size) if task == "seq2seq" else ("N",)),
    )


def _tokenwise(graph: Graph, name: str, network: Network, kind: np.dtype[Any], values: str) -> str:
    """Add a ReLU network on the last axis."""
    require_exact(network.numbers(), kind)
    rounded = RoundedNetwork.of(network, kind)

    def affine(index: int, inputs: str) -> str:
        weights, bias = rounded.layers[index]
        w = graph.constant(f"{name}.{index}.weight", weights.T)
        b = graph.constant(f"{name}.{index}.bias", bias)
        return graph.node("Add", graph.node("MatMul", inputs, w), b)

    count = len(rounded.layers)
    values = affine(0, values)
    for index in range(1, count - 1, 2):
        hidden = graph.node("Relu", affine(index, values))
        values = graph.node("Add", values, affine(index + 1, hidden))
    return affine(count - 1, values)
