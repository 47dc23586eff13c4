"""A matrix product, a softmax and another product for each head; the sum of the heads."""

from typing import TYPE_CHECKING

from constructive.instances.graphs.graph import NetworkGraph, float32
from constructive.instances.network import Network

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph


class Split(NetworkGraph):
    """The graph that most tools take: two-dimensional softmax of each head."""

    name = "split"
    operators = "Gemm, Softmax, MatMul, Add"

    def add(self, graph: "Graph", network: Network) -> None:
        """Add three nodes for each head, and the sums."""
        count = len(network.heads)
        total = ""
        for h, head in enumerate(network.heads):
            a = graph.constant(f"A{h}", float32(head.slopes.T))
            b = graph.constant(f"b{h}", float32(head.offsets))
            v = graph.constant(f"V{h}", float32(head.values))
            logits = graph.node("Gemm", "X", a, b, name=f"logits{h}")
            attention = self.softmax(graph, logits, h)
            last = "Y" if count == 1 else f"head{h}"
            output = graph.node("MatMul", attention, v, name=last)
            total = self.summed(graph, total, output, h, count)

    def softmax(self, graph: "Graph", logits: str, number: int) -> str:
        """Add the softmax of one head to a graph with its logits, and return its name."""
        return graph.node("Softmax", logits, name=f"attention{number}", axis=1)
