"""Contexts as inputs: logits are products of two inputs, and so are outputs.

X is (E, x): the tokens (A_1[i], b_1[i], V_1[i], ..., A_H[i], b_H[i], V_H[i]) of `Network.context`,
one after the other, and then x. In properties the bounds of all entries of E agree, so the answer
is that of the other graphs, by the same proof. A tool that does not use that those inputs have one
value relaxes products of two variables.
"""

from typing import TYPE_CHECKING

from constructive.instances.graphs.graph import NetworkGraph
from constructive.instances.network import Network
from constructive.support.arrays import Array

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph


class Flat(NetworkGraph):
    """One softmax for each head, of products of parts of the input."""

    name = "flat"
    operators = "Split, Reshape, Transpose, MatMul, Add, Softmax"

    def fixed(self, network: Network) -> Array:
        """Return the tokens, one after the other: (n H (d + 1 + k),)."""
        return network.context.ravel()

    def add(self, graph: "Graph", network: Network) -> None:
        """Add the parts of the input, six nodes for each head, and the sums."""
        heads, (tokens, width) = len(network.heads), network.context.shape
        inputs, outputs = network.input_dim, network.output_dim
        graph.split("X", [tokens * width, inputs], ["tokens", "x"], axis=1)
        shape = graph.constant("context_shape", [tokens, width])
        graph.node("Reshape", "tokens", shape, name="context")
        parts = [f"{part}{h}" for h in range(heads) for part in "AbV"]
        graph.split("context", [inputs, 1, outputs] * heads, parts, axis=1)
        total = ""
        for h in range(heads):
            slopes = graph.node("Transpose", f"A{h}", name=f"slopes{h}", perm=[1, 0])
            offsets = graph.node("Transpose", f"b{h}", name=f"offsets{h}", perm=[1, 0])
            products = graph.node("MatMul", "x", slopes, name=f"products{h}")
            logits = graph.node("Add", products, offsets, name=f"logits{h}")
            attention = graph.node("Softmax", logits, name=f"attention{h}", axis=1)
            last = "Y" if heads == 1 else f"head{h}"
            output = graph.node("MatMul", attention, f"V{h}", name=last)
            total = self.summed(graph, total, output, h, heads)
