"""Softmax written out, exp over a sum of exps, for tools that have rules for these operators.

Nothing is subtracted before exp, so the graph is refused where a logit may be larger than 40 in
size on the box, or may be computed so by float32: a logit of large terms that cancel is off by a
part of these. Below that no exponential underflows or overflows, and the bound of rounding is that
of the other graphs.
"""

from typing import TYPE_CHECKING

import numpy as np

from constructive.instances.graphs.split import Split
from constructive.instances.network import Network
from constructive.instances.properties import Box
from constructive.instances.rounding import MODEL, logit_sizes

if TYPE_CHECKING:
    from constructive.interop.onnx_graph import Graph

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
