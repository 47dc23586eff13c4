"""What a graph is: one way to write a network as ONNX, for tools that take only some operators.

All graphs are static: opset 13, one input `X` (1, d), one output `Y` (1, k), batch 1, initializers
and no constants, matrices in two dimensions where the graph allows it.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from constructive.instances.network import Network
from constructive.instances.properties import Box
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError
from constructive.support.extras import require

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph

OPSET, IR_VERSION = 13, 8  # Of ONNX 1.8 (2020), which all verifiers read.


class NetworkGraph(ABC):
    """A way to write networks as ONNX. A new one is a subclass in a file, and a line in `GRAPHS`.

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
