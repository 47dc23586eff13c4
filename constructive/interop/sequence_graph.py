"""A sequence memorizer as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from constructive.interop.onnx_graph import IR_VERSION, OPSET
from constructive.sequences.attention import UniformAttention
from constructive.sequences.network import Network
from constructive.sequences.rounded import RoundedNetwork, float_type, require_exact


def model(
    embedding: Network,
    attention: UniformAttention,
    classifier: Network,
    *,
    task: str,
    context_size: int,
    dtype: npt.DTypeLike = np.float64,
) -> onnx.ModelProto:
    """The model with input `sequences` (N, n, d), and `outputs` (N,), or (N, n) for seq2seq.

    It has passed onnx's own checker.

    Args:
        embedding: of the `SequenceMemorizer`
        attention: of the `SequenceMemorizer`
        classifier: of the `SequenceMemorizer`
        task: of the `SequenceMemorizer`
        context_size: n
        dtype: of all numbers of the model; float64, the default, or float32

    Raises:
        PrecisionError: where a weight is no number of `dtype`
        ParameterError: for another dtype

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
    graph = _Graph(kind)
    width = embedding.layers[0].width
    stream = graph.tokenwise("embedding", embedding, "sequences")
    rows = attention.query_weights, attention.key_weights, attention.value_weights
    query, key, value = (
        graph.node("MatMul", [stream, graph.constant(f"W_{name}", np.array([weights], kind).T)])
        for name, weights in zip("QKV", rows, strict=True)
    )
    turned = graph.node("Transpose", [key], perm=[0, 2, 1])
    shares = graph.node("Softmax", [graph.node("MatMul", [query, turned])], axis=-1)
    attended = graph.node("MatMul", [shares, value])
    output = graph.constant("W_O", np.array([attention.output_weights], kind))
    moved = graph.node("Add", [stream, graph.node("MatMul", [attended, output])])
    if task != "seq2seq":
        moved = graph.node("Gather", [moved, graph.constant("last", np.array(-1))], axis=1)
    found = graph.tokenwise("classifier", classifier, moved)
    last = graph.constant("last_axis", np.array([-1]))
    graph.nodes.append(helper.make_node("Squeeze", [found, last], ["outputs"], name="outputs"))
    shape: list[str | int] = ["N", context_size] if task == "seq2seq" else ["N"]
    number = helper.np_dtype_to_tensor_dtype(kind)
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "sequence_memorizer",
            [helper.make_tensor_value_info("sequences", number, ["N", context_size, width])],
            [helper.make_tensor_value_info("outputs", number, shape)],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="constructive",
    )
    onnx.checker.check_model(made, full_check=True)
    return made


class _Graph:
    """Nodes and constants, which are named in the order in which they come."""

    def __init__(self, kind: np.dtype[Any]) -> None:
        self.kind = kind
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, operator: str, inputs: list[str], **attributes: Any) -> str:  # noqa: ANN401 - as onnx takes them
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def tokenwise(self, name: str, network: Network, values: str) -> str:
        """A ReLU network on the last axis."""
        require_exact(network.numbers(), self.kind)
        rounded = RoundedNetwork.of(network, self.kind)

        def affine(index: int, inputs: str) -> str:
            weights, bias = rounded.layers[index]
            w = self.constant(f"{name}.{index}.weight", weights.T)
            b = self.constant(f"{name}.{index}.bias", bias)
            return self.node("Add", [self.node("MatMul", [inputs, w]), b])

        count = len(rounded.layers)
        values = affine(0, values)
        for index in range(1, count - 1, 2):
            hidden = self.node("Relu", [affine(index, values)])
            values = self.node("Add", [values, affine(index + 1, hidden)])
        return affine(count - 1, values)
