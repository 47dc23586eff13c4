"""A layer as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

import numpy as np
import onnx

from constructive.interop.onnx_graph import Graph, Value
from constructive.layers.attention import AttentionLayer


def model(
    layer: AttentionLayer, *, scalar_targets: bool, shared_context: bool = False
) -> onnx.ModelProto:
    """Return the model with inputs `contexts` and `queries`, and output `predictions`.

    Its initializers are W_Q, W_K, W_V, W_O and W_D, with the heads of the first three side by side:
    (d, H k). Its metadata name the model of floating-point programs that it belongs to in float32,
    as `float_model`. It has passed onnx's own checker.

    Example:
        >>> layer = AttentionLayer.from_effective_readout(
        ...     np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), np.ones((2, 1))
        ... )
        >>> [value.name for value in model(layer, scalar_targets=True).graph.input]
        ['contexts', 'queries']
    """
    graph, heads, width = Graph(), layer.num_heads, layer.width
    for name, array in layer.tensors.items():
        flat = array.transpose(1, 0, 2).reshape(width, -1) if array.ndim > 2 else array
        graph.constant(name, flat)
    apart = graph.constant("heads_apart", np.array([0, 0, heads, -1]))
    joined = graph.constant("heads_joined", np.array([0, -1]))

    def heads_of(tokens: str, weights: str, name: str, order: list[int]) -> str:
        """(T, n, d) @ (d, H k), then (T, n, H, k), then the axes in another order."""
        product = graph.node("MatMul", tokens, weights, name=f"{name}_all")
        parts = graph.node("Reshape", product, apart, name=f"{name}_by_head")
        return graph.node("Transpose", parts, name=name, perm=order)

    contexts = "contexts"
    if shared_context:
        first = graph.constant("first_axis", np.array([0]))
        contexts = graph.node("Unsqueeze", "contexts", first, name="one_context")
    second = graph.constant("second_axis", np.array([1]))
    each = graph.node("Unsqueeze", "queries", second, name="query_tokens")  # (T, 1, d)
    query = heads_of(each, "W_Q", "query", [0, 2, 1, 3])  # (T, H, 1, d_h)
    key = heads_of(contexts, "W_K", "key", [0, 2, 3, 1])  # (T, H, d_h, n)
    value = heads_of(contexts, "W_V", "value", [0, 2, 1, 3])  # (T, H, n, d_v)
    logits = graph.node("MatMul", query, key, name="logits")
    attention = graph.node("Softmax", logits, name="attention", axis=-1)
    attended = graph.node("MatMul", attention, value, name="attended")  # (T, H, 1, d_v)
    side_by_side = graph.node("Reshape", attended, joined, name="attended_joined")
    output = graph.node("MatMul", side_by_side, "W_O", name="output")
    last = "outputs" if scalar_targets else "predictions"
    predicted = graph.node("MatMul", output, "W_D", name=last)
    if scalar_targets:
        graph.node("Squeeze", predicted, second, name="predictions")

    kind = layer.query_weights.dtype
    tokens = ("n", width) if shared_context else ("T", "n", width)
    return graph.model(
        "memorizer",
        [Value("contexts", kind, tokens), Value("queries", kind, ("T", width))],
        Value("predictions", kind, ("T",) if scalar_targets else ("T", layer.target_dim)),
        float_model=layer.float_model,
    )
