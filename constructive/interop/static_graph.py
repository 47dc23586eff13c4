"""A layer as an ONNX model with fixed shapes, as verifiers take it. Needs onnx.

Opset 13, one input `X` and one output `Y` of one example, matrices in two dimensions, initializers
only. With a fixed context, X (1, d) is the query, and logits are affine in it. Otherwise
X (1, n d + d) is the context, token after token, and the query; logits are products of two inputs.
"""

import numpy as np
import onnx

from constructive.interop.onnx_graph import Graph, Value
from constructive.layers.attention import AttentionLayer
from constructive.support.arrays import Array, as_array
from constructive.support.errors import ParameterError, shown

OPSET, IR_VERSION = 13, 8  # Of ONNX 1.8 (2020), which all verifiers read.


def static_model(
    layer: AttentionLayer, *, context_size: int = 0, context: Array | None = None
) -> onnx.ModelProto:
    """Return the model with input `X` and output `Y` (1, d_out), in the dtype of the weights.

    Products of weights, and with a fixed context, are computed in float64 and rounded once.

    Example:
        >>> layer = AttentionLayer.from_effective_readout(
        ...     np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), np.ones((2, 1))
        ... )
        >>> graph = static_model(layer, context=np.eye(2)).graph
        >>> [node.op_type for node in graph.node]
        ['Gemm', 'Softmax', 'MatMul']
    """
    if context is not None:
        return _affine(layer, _checked(layer, context))
    if context_size < 1:
        raise ParameterError(
            "the number of tokens of a context is not known",
            witness=context_size,
            suggestion="context= an array (n, d)",
        )
    return _bilinear(layer, context_size)


def _checked(layer: AttentionLayer, context: Array) -> Array:
    tokens = as_array(context).astype(np.float64)
    if tokens.ndim != 2 or not len(tokens) or tokens.shape[1] != layer.width:
        raise ParameterError(
            f"the context is not one of tokens with {layer.width} entries",
            witness=shown(tokens.shape),
            suggestion=f"context= an array (n, {layer.width})",
        )
    return tokens


def _affine(layer: AttentionLayer, tokens: Array) -> onnx.ModelProto:
    """Return logits X A_h, values E U_h."""
    graph, kind = Graph(OPSET, IR_VERSION), layer.query_weights.dtype
    heads = []
    pairs = zip(layer.query_weights, layer.key_weights, layer.readouts(), strict=True)
    for h, (query, key, readout) in enumerate(pairs):
        slopes = query.astype(np.float64) @ (key.astype(np.float64).T @ tokens.T)
        a = graph.constant(f"A{h}", slopes.astype(kind))
        v = graph.constant(f"V{h}", (tokens @ readout).astype(kind))
        zero = graph.constant(f"b{h}", np.zeros(len(tokens), kind))  # tools know logits as Gemm
        attention = graph.node("Softmax", graph.node("Gemm", "X", a, zero), axis=1)
        last = "Y" if layer.num_heads == 1 else ""
        heads.append(graph.node("MatMul", attention, v, name=last))
    return _whole(graph, layer, heads, layer.width)


def _bilinear(layer: AttentionLayer, size: int) -> onnx.ModelProto:
    """Return logits q_h k_h^T, of keys and queries that are both computed."""
    graph, kind, width = Graph(OPSET, IR_VERSION), layer.query_weights.dtype, layer.width
    ends = {name: graph.constant(name, np.array([at])) for name, at in (
        ("first", 0), ("middle", size * width), ("last", (size + 1) * width), ("columns", 1),
    )}  # fmt: skip
    flat = graph.node("Slice", "X", ends["first"], ends["middle"], ends["columns"])
    query = graph.node("Slice", "X", ends["middle"], ends["last"], ends["columns"], name="query")
    shape = graph.constant("tokens_shape", np.array([size, width]))
    tokens = graph.node("Reshape", flat, shape, name="tokens")
    heads = []
    weights = zip(layer.query_weights, layer.key_weights, layer.readouts(), strict=True)
    for h, (w_q, w_k, readout) in enumerate(weights):
        queries = graph.node("MatMul", query, graph.constant(f"W_Q{h}", w_q))
        keys = graph.node("MatMul", tokens, graph.constant(f"W_K{h}", w_k))
        turned = graph.node("Transpose", keys, perm=[1, 0])
        attention = graph.node("Softmax", graph.node("MatMul", queries, turned), axis=1)
        values = graph.node("MatMul", tokens, graph.constant(f"U{h}", readout.astype(kind)))
        last = "Y" if layer.num_heads == 1 else ""
        heads.append(graph.node("MatMul", attention, values, name=last))
    return _whole(graph, layer, heads, (size + 1) * width)


def _whole(graph: Graph, layer: AttentionLayer, heads: list[str], inputs: int) -> onnx.ModelProto:
    """Add the heads, and return the model."""
    total = heads[0]
    for h, head in enumerate(heads[1:], 2):
        total = graph.node("Add", total, head, name="Y" if h == len(heads) else "")
    kind = layer.query_weights.dtype
    return graph.model(
        "memorizer",
        [Value("X", kind, (1, inputs))],
        Value("Y", kind, (1, layer.target_dim)),
        float_model=layer.float_model,
    )
