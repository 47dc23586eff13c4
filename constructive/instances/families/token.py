"""One perturbed token: the query is fixed, and one token of the context moves.

It moves along the directions that the values do not read, so that logits vary and values do not. In
each head one logit varies, and the head is monotone in it; heads share the inputs.
"""

import numpy as np

from constructive.data.dataset import Dataset
from constructive.instances.families.robust import Robust
from constructive.instances.network import Network
from constructive.instances.of_layers import network_of_token
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


class Token(Robust):
    """Boxes around a token of a memorized example, in which the output stays near its target."""

    name = "token"
    purpose = "one token of a memorized example moves, and the query does not"

    def width(self, dim: int, heads: int) -> int:
        """Return the width that leaves so many directions: each head reads one."""
        return dim + heads

    def around(self, memorizer: Memorizer, data: Dataset) -> tuple[Network, Array]:
        """Return the network of the first token of the first example, and the origin."""
        network = network_of_token(memorizer.layer, data.contexts[0], data.queries[0])
        if network.input_dim != data.width - memorizer.layer.num_heads:
            raise ParameterError(
                "values of two heads read one direction",
                witness=network.input_dim,
                suggestion="other data, or another construction",
            )
        return network, np.zeros(network.input_dim)
