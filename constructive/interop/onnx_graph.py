"""A layer as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from constructive.layers.attention import AttentionLayer

OPSET, IR_VERSION = 18, 9
"""Of ONNX 1.13 (2022), old enough for every runtime in use."""


def model(
    layer: AttentionLayer, *, scalar_targets: bool, shared_context: bool = False
) -> onnx.ModelProto:
    """The model with inputs `contexts` and `queries`, and output `predictions`.

    Its initializers are W_Q, W_K, W_V, W_O and W_D, with the heads of the first three side by side:
    (d, H k). Its metadata name the model of floating-point programs that it belongs to in float32,
    as `float_model`. It has passed onnx's own checker.

    Args:
        layer: its dtype is that of the model
        scalar_targets: whether predictions are (T,) rather than (T, d_out), where d_out is 1
        shared_context: whether contexts are one (n, d) rather than (T, n, d)

    Example:
        >>> layer = AttentionLayer.from_effective_readout(
        ...     np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), np.ones((2, 1))
        ... )
        >>> [value.name for value in model(layer, scalar_targets=True).graph.input]
        ['contexts', 'queries']
    """
    kind = helper.np_dtype_to_tensor_dtype(layer.query_weights.dtype)
    initializers = []

    def constant(name: str, array: npt.NDArray[Any]) -> str:
        initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    heads, width = layer.num_heads, layer.width
    for name, array in layer.tensors.items():
        flat = array.transpose(1, 0, 2).reshape(width, -1) if array.ndim > 2 else array
        constant(name, flat)
    apart = constant("heads_apart", np.array([0, 0, heads, -1]))
    joined = constant("heads_joined", np.array([0, -1]))

    nodes = []

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:  # noqa: ANN401 - as onnx takes them
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def heads_of(tokens: str, weights: str, output: str, order: list[int]) -> str:
        """(T, n, d) @ (d, H k), then (T, n, H, k), then the axes in another order."""
        product = node("MatMul", [tokens, weights], f"{output}_all")
        parts = node("Reshape", [product, apart], f"{output}_by_head")
        return node("Transpose", [parts], output, perm=order)

    contexts = "contexts"
    if shared_context:
        first = constant("first_axis", np.array([0]))
        contexts = node("Unsqueeze", ["contexts", first], "one_context")
    second = constant("second_axis", np.array([1]))
    each = node("Unsqueeze", ["queries", second], "query_tokens")  # (T, 1, d)
    query = heads_of(each, "W_Q", "query", [0, 2, 1, 3])  # (T, H, 1, d_h)
    key = heads_of(contexts, "W_K", "key", [0, 2, 3, 1])  # (T, H, d_h, n)
    value = heads_of(contexts, "W_V", "value", [0, 2, 1, 3])  # (T, H, n, d_v)
    logits = node("MatMul", [query, key], "logits")
    attention = node("Softmax", [logits], "attention", axis=-1)
    attended = node("MatMul", [attention, value], "attended")  # (T, H, 1, d_v)
    side_by_side = node("Reshape", [attended, joined], "attended_joined")
    output = node("MatMul", [side_by_side, "W_O"], "output")
    last = "outputs" if scalar_targets else "predictions"
    predicted = node("MatMul", [output, "W_D"], last)
    shape: list[str | int] = ["T", layer.target_dim]
    if scalar_targets:
        node("Squeeze", [predicted, second], "predictions")
        shape = ["T"]

    tokens: list[str | int] = ["n", width] if shared_context else ["T", "n", width]
    graph = helper.make_graph(
        nodes,
        "memorizer",
        [
            helper.make_tensor_value_info("contexts", kind, tokens),
            helper.make_tensor_value_info("queries", kind, ["T", width]),
        ],
        [helper.make_tensor_value_info("predictions", kind, shape)],
        initializers,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    made = helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="constructive"
    )
    helper.set_model_props(made, {"float_model": layer.float_model})
    onnx.checker.check_model(made, full_check=True)
    return made
