"""One matrix product for the logits of all heads, and one for their values."""

from typing import TYPE_CHECKING

import numpy as np

from constructive.instances.graphs.graph import NetworkGraph, float32
from constructive.instances.network import Network

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph


class Fused(NetworkGraph):
    """Softmax over the last of three axes, (1, H, n)."""

    name = "fused"
    operators = "Gemm, Reshape, Softmax, MatMul"

    def add(self, graph: "Graph", network: Network) -> None:
        """Add five nodes."""
        heads, tokens = len(network.heads), network.num_tokens
        a = graph.constant("A", float32(np.vstack([head.slopes for head in network.heads]).T))
        b = graph.constant("b", float32(np.hstack([head.offsets for head in network.heads])))
        v = graph.constant("V", float32(np.vstack([head.values for head in network.heads])))
        apart = graph.constant("heads_apart", np.array([1, heads, tokens], np.int64))
        joined = graph.constant("heads_joined", np.array([1, heads * tokens], np.int64))
        logits = graph.node("Gemm", "X", a, b, name="logits")
        by_head = graph.node("Reshape", logits, apart, name="logits_by_head")
        attention = graph.node("Softmax", by_head, name="attention", axis=2)
        flat = graph.node("Reshape", attention, joined, name="attention_joined")
        graph.node("MatMul", flat, v, name="Y")
