"""Networks as ONNX: opset 13, one input `X` (1, d), one output `Y` (1, k), batch 1, initializers.

The graph `split` has Gemm, Softmax and MatMul for each head, in two dimensions, which all tools
take. In `exp` softmax is Exp, ReduceSum and Div, for tools that have rules for these. Nothing is
subtracted before Exp, so it is refused where a logit may be larger than 40 in size on the box, or
may be computed so by float32: a logit of large terms that cancel is off by a part of these. Below
that no exponential underflows or overflows, and the bound of rounding is that of `split`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from constructive.instances.network import Network, Rectified, Stacked
from constructive.instances.properties import Box
from constructive.instances.rounding import MODEL, logit_sizes
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, require, shown

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph

OPSET, IR_VERSION = 13, 8  # Of ONNX 1.8 (2020), which all verifiers read.
# As `--graph` takes them, with their operators.
GRAPHS = {
    "split": "Gemm, Softmax, MatMul, Add, and Relu where there is a readout",
    "exp": "Gemm, Exp, ReduceSum, Div, MatMul, Add",
}
# What evaluations of `exp` do otherwise than the model says, with the same bound of rounding.
EXCEPTION = "exponentials of the logits themselves, which are at most 40 in size"
_LARGEST = 40.0


def check_graph(network: Network, box: Box, graph: str) -> None:
    """Check that a graph computes a network in float32 on a box. Raises ParameterError."""
    if graph not in GRAPHS:
        raise ParameterError(
            f"graph={shown(graph)} is not a graph",
            witness=shown(graph),
            suggestion=" or ".join(map(repr, GRAPHS)),
        )
    if graph == "split":
        return
    middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0
    gamma = float(MODEL.gamma(len(middle) + 3))  # far above what float64 rounds here
    largest = max(
        float((np.abs(h.slopes @ middle + h.offsets) + np.abs(h.slopes) @ radius
               + gamma * logit_sizes(h, box)).max())
        for h in network.heads
    )  # fmt: skip
    if type(network) is not Network or largest > _LARGEST:
        raise ParameterError(
            f"the graph {graph!r} cannot have this network: logits may be {largest:.3g}, above "
            f"{_LARGEST:g}, or it is more than a sum of heads",
            witness=largest,
            suggestion="graph='split', or a smaller scale",
        )


def written(network: Network, graph: str = "split") -> bytes:
    """Return the bytes of the ONNX model of a network.

    Args:
        network: f
        graph: "split" or "exp"

    Raises:
        MissingExtraError: without onnx
    """
    require("onnx", extra="instances", purpose="writing instances")
    from constructive.interop.onnx_graph import Graph, Value  # noqa: PLC0415 - onnx is optional

    made, kind = Graph(OPSET, IR_VERSION), np.float32
    query = "X"
    if isinstance(network, Stacked):
        before = _heads(made, network.first, "X", "before", graph, "_before")
        query = made.node("Add", "X", before, name="query")
    if isinstance(network, Rectified):
        features = _heads(made, network, query, "features", graph)
        units = made.constant("units", _float32(network.units.T))
        biases = made.constant("biases", _float32(network.biases))
        before = made.node("Gemm", features, units, biases, name="before_relu")
        after = made.node("Relu", before, name="after_relu")
        ones = made.constant("ones", _float32(np.ones((len(network.biases), 1))))
        made.node("MatMul", after, ones, name="Y")
    else:
        _heads(made, network, query, "Y", graph)
    model: Any = made.model(
        "network",
        [Value("X", kind, (1, network.input_dim))],
        Value("Y", kind, (1, network.output_dim)),
    )
    return bytes(model.SerializeToString(deterministic=True))


def _heads(
    made: "Graph", network: Network, query: str, last: str, graph: str, layer: str = ""
) -> str:
    """Add nodes for each head, and their sums, of which the last has a given name."""
    count, total = len(network.heads), ""
    for h, head in enumerate(network.heads):
        a = made.constant(f"A{h}{layer}", _float32(head.slopes.T))
        b = made.constant(f"b{h}{layer}", _float32(head.offsets))
        v = made.constant(f"V{h}{layer}", _float32(head.values))
        logits = made.node("Gemm", query, a, b, name=f"logits{h}{layer}")
        if graph == "exp":
            axes = made.constant(f"axes{h}", np.array([1], np.int64))
            powers = made.node("Exp", logits, name=f"exp{h}")
            whole = made.node("ReduceSum", powers, axes, name=f"whole{h}", keepdims=1)
            attention = made.node("Div", powers, whole, name=f"attention{h}")
        else:
            attention = made.node("Softmax", logits, name=f"attention{h}{layer}", axis=1)
        name = last if count == 1 else f"head{h}{layer}"
        output = made.node("MatMul", attention, v, name=name)
        if h:
            name = last if h == count - 1 else f"sum{h}{layer}"
            output = made.node("Add", total, output, name=name)
        total = output
    return total


def _float32(array: Array) -> Array:
    """An array, whose entries are float32 numbers, as float32."""
    return array.astype(np.float32)
