"""Attention in floats, and what all arithmetics share whose numbers are in arrays."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.exact.arithmetics.arithmetic import Arithmetic, Hidden, Matrices, Numbers
from constructive.support.arrays import Array


class Absorbed(NamedTuple):
    """W_Q W_K^T of all heads side by side."""

    # (d, H d); or (d, H n), times the tokens that all queries share; or W_Q alone, (d, H d_h)
    matrix: Numbers
    heads: int  # H
    shared: bool  # whether these are in it
    keys: Numbers | None = None  # W_K^T (H, d_h, d) where it is not in it, else None


class Arrays(Arithmetic[Absorbed, Numbers, Matrices]):
    """An arithmetic whose logits are an array (k, H, n) or (k, b, H, n).

    W_K W_Q^T is absorbed into the query first, and the heads then act as a query axis of length H:
    one matrix product for all heads, and one batched product over the groups. With tokens that all
    queries share, keys are absorbed as well.
    """

    @abstractmethod
    def product(self, left: Numbers, right: Numbers) -> Numbers:
        """Return `left @ right` in numbers for logits, batched as numpy's matmul is."""

    @abstractmethod
    def read(self, array: Numbers) -> Numbers:
        """Read W_Q or W_K (H, d, d_h), for logits."""

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Absorbed:
        """Multiply the weights of all heads, and the tokens that all queries share."""
        keys = self.read(key_weights).transpose(0, 2, 1)
        if shared is not None:
            keys = self.product(keys, shared.T)
        matrix = side_by_side(self.product(self.read(query_weights), keys))
        return Absorbed(matrix, len(query_weights), shared is not None)

    def logits(self, weights: Absorbed, queries: Numbers, keys: Numbers) -> Numbers:
        """Return the logits of a block: (k, H, n) or (k, b, H, n)."""
        if not weights.shared:
            return absorbed_logits(self.product, weights.matrix, queries, keys)
        logits = self.product(queries, weights.matrix)
        return logits.reshape(*queries.shape[:-1], weights.heads, -1)


class Floats(Arrays[Array]):
    """Floats of one dtype, without bounds."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize

    def read(self, array: Numbers) -> Array:
        """Round an array to the dtype, without a copy if it has it."""
        return array.astype(self.dtype, copy=False)

    queries = keys = values = read

    def tokens(self, array: Numbers) -> tuple[Array, Array]:
        """Round tokens to the dtype, once."""
        rounded = self.read(array)
        return rounded, rounded

    def product(self, left: Array, right: Array) -> Array:
        """Return `left @ right`."""
        result: Array = np.matmul(left, right)
        return result

    def softmax(self, logits: Array, hidden: Hidden | None) -> Array:
        """Return attention, in the array of the logits."""
        if hidden is not None:
            np.copyto(logits, -np.inf, where=hidden[:, np.newaxis])
        return softmax_in_place(logits)

    def averages(self, attention: Array, values: Array) -> Array:
        """Return the averages: (k, H, d) or (k, b, H, d)."""
        return averaged(self.product, attention, values)


class FactoredFloats(Floats):
    """Floats that multiply queries by W_Q, and that by W_K, where it is less work.

    Last digits are not those of `Floats`, which multiplies W_Q by W_K first.
    """

    def weights(
        self, query_weights: Numbers, key_weights: Numbers, shared: Numbers | None = None
    ) -> Absorbed:
        """Multiply the weights of all heads, unless 3 d_h <= d."""
        heads, width, head_dim = query_weights.shape
        if shared is not None or 3 * head_dim > width:
            return super().weights(query_weights, key_weights, shared)
        keys = self.read(key_weights).transpose(0, 2, 1)
        matrix = side_by_side(self.read(query_weights))
        return Absorbed(matrix, heads, shared=False, keys=np.ascontiguousarray(keys))

    def logits(self, weights: Absorbed, queries: Numbers, keys: Numbers) -> Numbers:
        """Return the logits of a block: (k, H, n) or (k, b, H, n)."""
        if weights.keys is None:
            return super().logits(weights, queries, keys)
        heads, head_dim, width = weights.keys.shape
        read = self.product(queries, weights.matrix).reshape(-1, heads, head_dim)
        absorbed = np.empty((len(read), heads, width), self.dtype)
        np.matmul(read.transpose(1, 0, 2), weights.keys, out=absorbed.transpose(1, 0, 2))
        grouped = absorbed.reshape(len(queries), -1, width)
        logits = self.product(grouped, keys.transpose(0, 2, 1))
        return logits.reshape(*queries.shape[:-1], heads, -1)


def softmax_in_place(logits: Array) -> Array:
    """Apply softmax over the last axis, in the array itself, less the largest logit first.

    Example:
        >>> softmax_in_place(np.array([1000.0, 1000.0]))
        array([0.5, 0.5])
    """
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


def side_by_side(matrices: Numbers) -> Numbers:
    """Return matrices (H, d, k) as one, (d, H k)."""
    flat: Numbers = matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)
    return flat


def absorbed_logits(
    product: Callable[[Numbers, Numbers], Numbers],
    matrix: Numbers,
    queries: Numbers,
    keys: Numbers,
) -> Numbers:
    """Multiply queries by W_Q W_K^T of all heads side by side, and that by the tokens.

    Queries are (k, d) or (k, b, d), tokens (k, n, d) or (1, n, d) for all, and logits (k, H, n) or
    (k, b, H, n).
    """
    absorbed = product(queries, matrix).reshape(len(queries), -1, queries.shape[-1])
    logits = product(absorbed, keys.transpose(0, 2, 1))
    return logits.reshape(*queries.shape[:-1], -1, keys.shape[1])


def averaged(
    product: Callable[[Numbers, Numbers], Numbers], attention: Numbers, values: Numbers
) -> Numbers:
    """Multiply attention of each query by the tokens that it sees: (k, H, d) or (k, b, H, d).

    Tokens are (k, n, d), or (1, n, d) for all.
    """
    flat = attention.reshape(len(attention), -1, attention.shape[-1])
    return product(flat, values).reshape(*attention.shape[:-1], -1)
