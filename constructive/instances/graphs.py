"""What a graph is: one way to write a network as ONNX, for tools that take only some operators.

All graphs are static: opset 13, one input `X` (1, d), one output `Y` (1, k), batch 1, initializers
and no constants, matrices in two dimensions where the graph allows it.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from constructive.instances.network import Network
from constructive.instances.properties import Box
from constructive.instances.rounding import MODEL, logit_sizes
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, require

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph

OPSET, IR_VERSION = 13, 8  # Of ONNX 1.8 (2020), which all verifiers read.


class NetworkGraph(ABC):
    """A way to write networks as ONNX. A new one is a subclass, and a name in `GRAPHS`.

    Attributes:
        name: as `--graph` takes it
        operators: that it uses, in words
        exception: what its evaluations do otherwise than programs of the model of floating point,
            with the same bound of rounding; "" for nothing
    """

    name: ClassVar[str]
    operators: ClassVar[str]
    exception: ClassVar[str] = ""

    def refuses(self, network: Network, box: Box) -> str | None:
        """Return why this graph does not compute the network in float32, or None.

        Args:
            network: f
            box: of inputs
        """
        del network, box
        return None

    def fixed(self, network: Network) -> Array:
        """Return the inputs of the model that come before x, and have one value: (m,).

        There are none by default.

        Args:
            network: f
        """
        del network
        return np.zeros(0)

    @abstractmethod
    def add(self, graph: "Graph", network: Network) -> None:
        """Add the nodes that compute `Y` from `X`.

        Args:
            graph: an empty one
            network: f
        """

    @staticmethod
    def summed(graph: "Graph", total: str, output: str, number: int, count: int) -> str:
        """Add the output of a head to the sum of those before it; the last sum is `Y`."""
        if not number:
            return output
        name = "Y" if number == count - 1 else f"sum{number}"
        return graph.node("Add", total, output, name=name)

    def check(self, network: Network, box: Box) -> None:
        """Check that this graph computes a network in float32.

        Args:
            network: f
            box: of inputs

        Raises:
            ParameterError: where it does not
        """
        reason = self.refuses(network, box)
        if reason is not None:
            raise ParameterError(
                f"the graph {self.name!r} cannot have this network: {reason}",
                witness=self.name,
                suggestion="graph='split', or a smaller scale",
            )

    def written(self, network: Network) -> bytes:
        """Return the bytes of the ONNX model.

        Args:
            network: f

        Raises:
            MissingExtraError: without onnx
        """
        require("onnx", extra="instances", purpose="writing instances")
        from constructive.interop.onnx_graph import Graph, Value  # noqa: PLC0415 - onnx is optional

        graph = Graph(OPSET, IR_VERSION)
        self.add(graph, network)
        kind = np.float32
        model: Any = graph.model(
            "network",
            [Value("X", kind, (1, len(self.fixed(network)) + network.input_dim))],
            Value("Y", kind, (1, network.output_dim)),
        )
        return bytes(model.SerializeToString(deterministic=True))


def float32(array: Array) -> Array:
    """Return an array, whose entries are float32 numbers, as float32."""
    return array.astype(np.float32)


# A matrix product, a softmax and another product for each head; the sum of the heads.


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


# One matrix product for the logits of all heads, and one for their values.


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


# Contexts as inputs: logits are products of two inputs, and so are outputs.
#
# X is (E, x): the tokens (A_1[i], b_1[i], V_1[i], ..., A_H[i], b_H[i], V_H[i]) of
# `Network.context`, one after the other, and then x. In properties the bounds of all entries of E
# agree, so the answer is that of the other graphs, by the same proof. A tool that does not use
# that those inputs have one value relaxes products of two variables.


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


# Softmax written out, exp over a sum of exps, for tools that have rules for these operators.
#
# Nothing is subtracted before exp, so the graph is refused where a logit may be larger than 40 in
# size on the box, or may be computed so by float32: a logit of large terms that cancel is off by a
# part of these. Below that no exponential underflows or overflows, and the bound of rounding is
# that of the other graphs.


_LARGEST = 40.0


class Exponentials(Split):
    """Softmax as Exp, ReduceSum and Div."""

    name = "exp"
    exception = "exponentials of the logits themselves, which are at most 40 in size"
    operators = "Gemm, Exp, ReduceSum, Div, MatMul, Add"

    def refuses(self, network: Network, box: Box) -> str | None:
        """Return the size of the largest logit, as float32 may compute it, if it is above 40."""
        middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0
        gamma = float(MODEL.gamma(len(middle) + 3))  # far above what float64 rounds here
        largest = max(
            float((np.abs(h.slopes @ middle + h.offsets) + np.abs(h.slopes) @ radius
                   + gamma * logit_sizes(h, box)).max())
            for h in network.heads
        )  # fmt: skip
        return f"logits may be {largest:.3g}, above {_LARGEST:g}" if largest > _LARGEST else None

    def softmax(self, graph: "Graph", logits: str, number: int) -> str:
        """Add the quotient of exponentials and their sum, and return its name."""
        axes = graph.constant(f"axes{number}", np.array([1], np.int64))
        powers = graph.node("Exp", logits, name=f"exp{number}")
        whole = graph.node("ReduceSum", powers, axes, name=f"whole{number}", keepdims=1)
        return graph.node("Div", powers, whole, name=f"attention{number}")


# As `--graph` takes them. A new graph is a class, and a name here.
GRAPHS: dict[str, type[NetworkGraph]] = {
    graph.name: graph for graph in (Split, Fused, Flat, Exponentials)
}
