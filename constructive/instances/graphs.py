"""Networks as graphs: one input `X` (1, d), one output `Y` (1, k), batch 1, initializers.

`graph_of` returns what the checker reads of an ONNX file, `written` the bytes of the file. Heads
are Gemm, Softmax and MatMul in two dimensions, which all tools take, of opset 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from constructive.checker.graphs import Graph, Node
from constructive.instances.network import Network, Rectified, Stacked
from constructive.support.arrays import Array
from constructive.support.errors import require

Attribute = int | float | list[int]
OPSET = 13
# The oldest formats with these opsets: of ONNX 1.8 (2020), which all verifiers read, and later.
IR_VERSIONS = {13: 8, 17: 8, 20: 9}


class Drawing:
    """A graph while nodes and constants are added to it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def constant(self, name: str, values: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """Add a constant, and return its name."""
        self.constants[name] = np.array(values, dtype)
        return name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Attribute) -> str:
        """Add a node with one output, and return its name."""
        name = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(Node(operator, inputs, (name,), attributes))
        return name

    def split(self, value: str) -> tuple[str, str]:
        """Add a node with both halves of a row, and return their names."""
        names = f"{value}_first", f"{value}_second"
        self.nodes.append(Node("Split", (value,), names, {"axis": 1}))
        return names

    def end(self) -> None:
        """Call the output of the last node Y."""
        self.nodes[-1] = self.nodes[-1]._replace(outputs=("Y",))


@dataclass(frozen=True, eq=False)
class OperatorGraph:
    """A network of other operators than sums of heads have."""

    input_dim: int  # d
    output_dim: int  # k
    nodes: Sequence[Node]  # in order; the last has the output `Y`
    constants: Mapping[str, Array] = field(repr=False)  # float32 or int64, by name
    opset: int = OPSET  # 13, 17 or 20


AnyNetwork = Network | OperatorGraph


def graph_of(network: AnyNetwork) -> Graph:
    """Return the graph of a network, as the checker reads it from a file."""
    ends = ("X", (1, network.input_dim)), ("Y", (1, network.output_dim))
    if isinstance(network, OperatorGraph):
        return Graph(*ends, dict(network.constants), [*network.nodes], network.opset)
    made, query = Drawing(), "X"
    if isinstance(network, Stacked):
        before = _heads(made, network.first, "X", "before", "_before")
        query = made.node("Add", "X", before, name="query")
    if isinstance(network, Rectified):
        features = _heads(made, network, query, "features")
        units = made.constant("units", network.units.T)
        biases = made.constant("biases", network.biases)
        before = made.node("Gemm", features, units, biases, name="before_relu")
        after = made.node("Relu", before, name="after_relu")
        ones = made.constant("ones", np.ones((len(network.biases), 1)))
        made.node("MatMul", after, ones, name="Y")
    else:
        _heads(made, network, query, "Y")
    return Graph(*ends, made.constants, made.nodes, OPSET)


def written(network: AnyNetwork) -> bytes:
    """Return the bytes of the ONNX model of a network. Raises MissingExtraError without onnx."""
    require("onnx", extra="instances", purpose="writing instances")
    from constructive.interop.onnx_graph import Graph as Onnx  # noqa: PLC0415 - onnx is optional
    from constructive.interop.onnx_graph import Value  # noqa: PLC0415

    graph = graph_of(network)
    made = Onnx(graph.opset, IR_VERSIONS[graph.opset])
    for name, array in graph.constants.items():
        made.constant(name, array)
    for node in graph.nodes:
        made.node(node.operator, *node.inputs, outputs=node.outputs, **node.attributes)
    (start, end), kind = (graph.input, graph.output), np.float32
    model = made.model("network", [Value(start[0], kind, start[1])], Value(end[0], kind, end[1]))
    return bytes(model.SerializeToString(deterministic=True))


def _heads(made: Drawing, network: Network, query: str, last: str, layer: str = "") -> str:
    """Add nodes for each head, and their sums, of which the last has a given name."""
    count, total = len(network.heads), ""
    for h, head in enumerate(network.heads):
        a = made.constant(f"A{h}{layer}", head.slopes.T)
        b = made.constant(f"b{h}{layer}", head.offsets)
        v = made.constant(f"V{h}{layer}", head.values)
        logits = made.node("Gemm", query, a, b, name=f"logits{h}{layer}")
        attention = made.node("Softmax", logits, name=f"attention{h}{layer}", axis=1)
        name = last if count == 1 else f"head{h}{layer}"
        output = made.node("MatMul", attention, v, name=name)
        if h:
            name = last if h == count - 1 else f"sum{h}{layer}"
            output = made.node("Add", total, output, name=name)
        total = output
    return total
