"""A writer of static ONNX graphs. Needs onnx (`pip install ".[onnx]"`).

`layer_graph`, `causal_graph` and `sequence_graph` say which nodes the models of layers, decoders
and sequence memorizers have.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 18, 9  # Of ONNX 1.13 (2022), old enough for every runtime in use.


class Value(NamedTuple):
    """An input or an output of a model."""

    name: str  # as runtimes take it
    dtype: npt.DTypeLike  # of its entries
    shape: Sequence[int | str]  # lengths of its axes, or names of those that are free


class Graph:
    """Nodes and constants, in the order in which they are added.

    Example:
        >>> graph = Graph()
        >>> weights = graph.constant("W", np.eye(2))
        >>> graph.node("MatMul", "x", weights, name="y")
        'y'
        >>> x, y = (Value(name, np.float64, ("T", 2)) for name in "xy")
        >>> [node.op_type for node in graph.model("linear", [x], y).graph.node]
        ['MatMul']
    """

    def __init__(self, opset: int = OPSET, ir_version: int = IR_VERSION) -> None:
        self._opset, self._ir_version = opset, ir_version
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """Add an initializer, and return its name."""
        self._constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:  # noqa: ANN401 - as onnx takes them
        """Add a node, and return the name of its only output, which is also its own name."""
        name = name or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def split(self, value: str, sizes: Sequence[int], names: Sequence[str], *, axis: int) -> None:
        """Add a node that cuts a value into parts."""
        at = self.constant(f"{value}_sizes", np.array(sizes, np.int64))
        made = helper.make_node("Split", [value, at], list(names), name=f"{value}_cut", axis=axis)
        self._nodes.append(made)

    def model(
        self, name: str, inputs: Sequence[Value], output: Value, **properties: str
    ) -> onnx.ModelProto:
        """Return the model, which has passed onnx's own checker."""
        graph = helper.make_graph(
            self._nodes, name, [*map(_info, inputs)], [_info(output)], self._constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=self._ir_version,
            producer_name="constructive",
        )
        helper.set_model_props(model, properties)
        onnx.checker.check_model(model, full_check=True)
        return model


def _info(value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, kind, value.shape)
