"""A decoder as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from constructive.interop.onnx_graph import IR_VERSION, OPSET
from constructive.layers.decoder import Decoder


def model(decoder: Decoder) -> onnx.ModelProto:
    """The model with input `ids` (S, N), int64, and output `logits` (S, N, V + 1), float32.

    S and N are free. Its initializers have the names and shapes which a file of `Decoder.save`
    gives them. Its metadata name the model of floating-point programs that it belongs to, as
    `float_model`. It has passed onnx's own checker. All H N N logits of heads are held at once.
    Runtimes refuse ids of V or more, and more tokens than there are positions; ids from -V to -1
    they count from the end, as ONNX has it.

    Args:
        decoder: its weights are copied

    Example:
        >>> from constructive import Text, build_decoder
        >>> decoder = build_decoder(Text.words("the cat sat"), width=32)
        >>> graph = model(decoder).graph
        >>> [value.name for value in (*graph.input, *graph.output)]
        ['ids', 'logits']
    """
    initializers, nodes = [], []

    def constant(name: str, array: npt.NDArray[Any]) -> str:
        initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:  # noqa: ANN401 - as onnx takes them
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    for name, array in decoder.tensors.items():
        constant(name, array)
    zero, one = constant("zero", np.array(0)), constant("one", np.array(1))
    first, second = constant("first_axis", np.array([0])), constant("second_axis", np.array([1]))

    place = node("Squeeze", [node("Shape", ["ids"], "length", start=1), first], "num_tokens")
    place = node("Range", [zero, place, one], "places")
    row, column = (
        node("Unsqueeze", [place, axis], name)
        for axis, name in ((second, "row"), (first, "column"))
    )
    hidden = node("Greater", [column, row], "later")
    if decoder.layer.window is not None:
        reach = node("Add", [column, constant("window", np.array(decoder.layer.window))], "reach")
        earlier = node("LessOrEqual", [reach, row], "earlier")
        hidden = node("Or", [hidden, earlier], "hidden")

    tokens = node("Gather", ["embedding", "ids"], "tokens")
    tokens = node("Add", [tokens, node("Gather", ["positions", place], "placed")], "x")
    each = node("Unsqueeze", [tokens, second], "x_of_heads")  # (S, 1, N, d)
    query = node("MatMul", [each, "W_Q"], "query")  # (S, H, N, d_h)
    key = node("MatMul", [each, "W_K"], "key")
    turned = node("Transpose", [key], "turned", perm=[0, 1, 3, 2])
    scores = node("MatMul", [query, turned], "scores")  # (S, H, N, N)
    never = constant("never", np.array(-np.inf, dtype=np.float32))
    scores = node("Where", [hidden, never, scores], "seen")
    attention = node("Softmax", [scores], "attention", axis=-1)
    attended = node("MatMul", [attention, each], "attended")  # (S, H, N, d)
    parts = node("Concat", [each, attended], "parts", axis=1)
    by_position = node("Transpose", [parts], "by_position", perm=[0, 2, 1, 3])
    side_by_side = constant("side_by_side", np.array([0, 0, decoder.layer.inner_dim]))
    z = node("Reshape", [by_position, side_by_side], "z")
    output = node("MatMul", [z, "U"], "output")
    node("MatMul", [output, node("Transpose", ["unembedding"], "outputs", perm=[1, 0])], "logits")

    shape: list[str | int] = ["S", "N", decoder.end + 1]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["S", "N"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
        initializers,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    made = helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="constructive"
    )
    helper.set_model_props(made, {"float_model": decoder.float_model})
    onnx.checker.check_model(made, full_check=True)
    return made
