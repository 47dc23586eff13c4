"""What an arithmetic is: numbers for logits, numbers for values, and a softmax between them.

Attention of all heads is the same few steps in every arithmetic, with queries e and tokens x ::

    weights     W_Q W_K^T of all heads, once
    logits      x^T (W_K W_Q^T) e, of each query, head and token
    softmax     attention (H, n) of each query; 0 where a token is hidden
    averages    z = attention times tokens, (H, d) of each query

A block of queries has the shape (k, d), and sees groups of n tokens, (k, n, d) or one group for
all, (1, n, d); or each of k groups has b queries, (k, b, d).

`layers.attend` takes them one after the other for the blocks of a view. An arithmetic knows arrays
alone: neither layers nor data sets.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from constructive.support.arrays import Booleans

Weights = TypeVar("Weights")
Logits = TypeVar("Logits")
Matrices = TypeVar("Matrices")

# An array of the numbers of an arithmetic, with the shape of the floats that it was read from.
Numbers = npt.NDArray[Any]
Hidden = Booleans  # Which tokens a query of a block does not see: (b, n)


class Arithmetic(ABC, Generic[Weights, Logits, Matrices]):
    """Numbers for logits, numbers for values, and a softmax between them.

    Matrices, (H, n) or (H, d), are those of the queries of a block, in their order: an array that
    has the axes of these first, or a sequence that makes them one at a time.
    """

    itemsize: int = 8  # about how many bytes a number takes; blocks are made so large that they fit

    def queries(self, array: Numbers) -> Numbers:
        """Read queries of any shape, for logits; by default they stay as they are."""
        return array

    def keys(self, array: Numbers) -> Numbers:
        """Read tokens of any shape, for logits; by default they stay as they are."""
        return array

    def values(self, array: Numbers) -> Numbers:
        """Read tokens of any shape, for averages; by default they stay as they are."""
        return array

    def tokens(self, array: Numbers) -> tuple[Numbers, Numbers]:
        """Read tokens once, for logits and for averages."""
        return self.keys(array), self.values(array)

    @abstractmethod
    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Weights:
        """Multiply the weights of all heads, as `logits` takes them."""

    @abstractmethod
    def logits(self, weights: Weights, queries: Numbers, keys: Numbers) -> Logits:
        """Return the logits of a block."""

    @abstractmethod
    def softmax(self, logits: Logits, hidden: Hidden | None) -> Matrices:
        """Return attention (H, n) of each query; `logits` may be used up."""

    @abstractmethod
    def averages(self, attention: Matrices, values: Numbers) -> Matrices:
        """Return the averages (H, d) of each query."""
