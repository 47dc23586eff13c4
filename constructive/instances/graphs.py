"""Networks as ONNX: opset 13, one input `X` (1, d), one output `Y` (1, k), batch 1, initializers.

Each head is Gemm, Softmax and MatMul in two dimensions, which all tools take.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from constructive.instances.network import Network, Rectified, Stacked
from constructive.support.arrays import Array
from constructive.support.errors import require

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph

OPSET, IR_VERSION = 13, 8  # Of ONNX 1.8 (2020), which all verifiers read.


def written(network: Network) -> bytes:
    """Return the bytes of the ONNX model of a network. Raises MissingExtraError without onnx."""
    require("onnx", extra="instances", purpose="writing instances")
    from constructive.interop.onnx_graph import Graph, Value  # noqa: PLC0415 - onnx is optional

    made, kind = Graph(OPSET, IR_VERSION), np.float32
    query = "X"
    if isinstance(network, Stacked):
        before = _heads(made, network.first, "X", "before", "_before")
        query = made.node("Add", "X", before, name="query")
    if isinstance(network, Rectified):
        features = _heads(made, network, query, "features")
        units = made.constant("units", _float32(network.units.T))
        biases = made.constant("biases", _float32(network.biases))
        before = made.node("Gemm", features, units, biases, name="before_relu")
        after = made.node("Relu", before, name="after_relu")
        ones = made.constant("ones", _float32(np.ones((len(network.biases), 1))))
        made.node("MatMul", after, ones, name="Y")
    else:
        _heads(made, network, query, "Y")
    model: Any = made.model(
        "network",
        [Value("X", kind, (1, network.input_dim))],
        Value("Y", kind, (1, network.output_dim)),
    )
    return bytes(model.SerializeToString(deterministic=True))


def _heads(made: "Graph", network: Network, query: str, last: str, layer: str = "") -> str:
    """Add nodes for each head, and their sums, of which the last has a given name."""
    count, total = len(network.heads), ""
    for h, head in enumerate(network.heads):
        a = made.constant(f"A{h}{layer}", _float32(head.slopes.T))
        b = made.constant(f"b{h}{layer}", _float32(head.offsets))
        v = made.constant(f"V{h}{layer}", _float32(head.values))
        logits = made.node("Gemm", query, a, b, name=f"logits{h}{layer}")
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
