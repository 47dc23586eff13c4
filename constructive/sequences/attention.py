"""One head of uniform attention with a skip connection, exactly.

Queries and keys are zero, so that all logits are 0 and softmax is 1/n for every token, whatever the
tokens are. What is left is a mean of values, which is rational where the weights are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import chain

import numpy as np

from constructive.sequences.network import Column, Number, bits, combination
from constructive.sequences.storage import Json, number, written
from constructive.support.arrays import Integers
from constructive.support.errors import ParameterError, shown

WEIGHTS = "W_Q", "W_K", "W_V", "W_O"


@dataclass(frozen=True)
class UniformAttention:
    """One head of dimension 1: `x_i <- x_i + W_O softmax(...) W_V x`, on a stream of some width.

    Example:
        >>> attention = UniformAttention.summing(3, width=2)
        >>> attention.value_weights, attention.output_weights
        ((3, 0), (0, 1))
        >>> h, total = attention([np.array([1, 5]), np.array([0, 0])], np.array([[0, 0, 1]]))
        >>> h.tolist(), total.tolist()
        ([[1, 1, 5]], [[7, 7, 7]])
    """

    query_weights: tuple[Number, ...]  # W_Q (width,), all zero
    key_weights: tuple[Number, ...]  # W_K (width,), all zero
    value_weights: tuple[Number, ...]  # W_V (width,), which reads a number from each token
    output_weights: tuple[Number, ...]  # W_O (width,), which adds their mean to each

    def __post_init__(self) -> None:
        moved = [weight for weight in (*self.query_weights, *self.key_weights) if weight]
        lengths = [len(weights) for weights in vars(self).values()]
        if moved or len(set(lengths)) > 1:
            raise ParameterError(
                "attention is not uniform, or of no width",
                witness=shown(moved[0]) if moved else lengths,
                suggestion="W_Q and W_K of zeros, and all four weights of one length",
            )

    @classmethod
    def summing(cls, context_size: int, width: int) -> "UniformAttention":
        """Make attention that writes the sum of the first entries into the last: W_V is n there."""
        zero, rest = (0,) * width, (0,) * (width - 1)
        return cls(zero, zero, (context_size, *rest), (*rest, 1))

    def __call__(self, stream: Sequence[Column], ids: Integers) -> list[Column]:
        """Attend within sequences."""
        count, size = ids.shape
        values = combination(stream, self.value_weights, 0)[ids]
        total = combination([values[:, j] for j in range(size)], [1] * size, 0)
        mean = combination([total], [1], 0, divided_by=size)
        means = np.repeat(mean, size)
        flat = ids.reshape(-1)
        return [
            combination([column[flat], means], [1, weight], 0).reshape(count, size)
            for column, weight in zip(stream, self.output_weights, strict=True)
        ]

    @property
    def nonzero_parameters(self) -> int:
        """Weights that are not zero."""
        return sum(1 for weight in self.numbers() if weight)

    @property
    def total_parameters(self) -> int:
        """All weights, as in dense matrices."""
        return len(list(self.numbers()))

    @property
    def largest_bits(self) -> int:
        """Bits of the longest weight (`network.bits`)."""
        return max(map(bits, self.numbers()))

    def content(self) -> Json:
        """Return the weights by name, as files have them."""
        return {
            name: list(map(written, weights))
            for name, weights in zip(WEIGHTS, astuple(self), strict=True)
        }

    @classmethod
    def from_content(cls, content: Json) -> "UniformAttention":
        """Return the attention of which `content` is the content."""
        return cls(*(tuple(map(number, content[name])) for name in WEIGHTS))

    def numbers(self) -> Iterable[Number]:
        """Return all weights."""
        return chain(self.query_weights, self.key_weights, self.value_weights, self.output_weights)
