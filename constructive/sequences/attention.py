"""Uniform attention, exactly; and what floats make of it and of the networks."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.sequences.network import (
    Column,
    Number,
    ReluNetwork,
    SparseMatrix,
    bits,
    combination,
    whole,
)
from constructive.sequences.storage import number, written
from constructive.support.arrays import Integers, float_type
from constructive.support.errors import ParameterError, PrecisionError, shown
from constructive.support.files import Json

# One head of uniform attention with a skip connection, exactly.
#
# Queries and keys are zero, so that all logits are 0 and softmax is 1/n for every token, whatever
# the tokens are. What is left is a mean of values, which is rational where the weights are.


WEIGHTS = "W_Q", "W_K", "W_V", "W_O"


@dataclass(frozen=True)
class UniformAttention:
    """One head of dimension 1: `x_i <- x_i + W_O softmax(...) W_V x`, on a stream of some width."""

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
        values = combination(stream, self.value_weights)[ids]
        means = np.repeat(whole(values.sum(axis=1) * Fraction(1, size)), size)
        flat = ids.reshape(-1)
        return [
            combination([column[flat], means], [1, weight]).reshape(count, size)
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


# Networks in floating point: dense matrices of rounded weights, and what they put out.
#
# Nothing is proved here. A float has 53 bits (24 in float32), and words longer than that are lost;
# `SequenceMemorizer.reproduced` measures how many labels are left.


Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class RoundedNetwork:
    """`x -> W x + b` for each layer, in floats; relu and skip connections as in `ReluNetwork`."""

    layers: tuple[tuple[Floats, Floats], ...]  # pairs of W (outputs, inputs) and b (outputs,)

    @classmethod
    def of(cls, network: ReluNetwork, dtype: npt.DTypeLike) -> "RoundedNetwork":
        """Round the weights of a network; those beyond all floats become infinite."""
        kind = float_type(dtype)
        return cls(tuple(_dense(layer, kind) for layer in network.layers))

    def __call__(self, values: Floats) -> Floats:
        """Evaluate examples: (B, inputs) to (B, outputs)."""
        maps = self.layers
        values = _affine(maps[0], values)
        for first, second in zip(maps[1:-1:2], maps[2:-1:2], strict=True):
            values = values + _affine(second, np.maximum(_affine(first, values), 0))
        return _affine(maps[-1], values)


def rounded_outputs(
    embedding: ReluNetwork,
    attention: UniformAttention,
    classifier: ReluNetwork,
    tokens: Floats,
    ids: Integers,
    *,
    every: bool,
) -> Floats:
    """Return what a memorizer gives if all is computed in floats, as exported models compute it."""
    kind = tokens.dtype
    with np.errstate(all="ignore"):  # what overflows is not reproduced
        stream = RoundedNetwork.of(embedding, kind)(tokens)
        value, output = (
            floats(weights, kind) for weights in (attention.value_weights, attention.output_weights)
        )
        share = kind.type(1) / kind.type(ids.shape[1])
        mean = ((stream @ value)[ids] * share).sum(axis=1)
        own = ids if every else ids[:, -1:]
        moved = stream[own] + mean[:, np.newaxis, np.newaxis] * output
        found: Floats = RoundedNetwork.of(classifier, kind)(moved.reshape(-1, len(output)))[:, 0]
    return found


def require_exact(weights: Iterable[Number], dtype: npt.DTypeLike) -> None:
    """Raise PrecisionError where a weight is not a number of that type."""
    kind = float_type(dtype)
    for weight in weights:
        (rounded,) = floats([weight], kind)
        if not np.isfinite(rounded) or Fraction(float(rounded)) != weight:
            bits = weight.numerator.bit_length()
            raise PrecisionError(
                f"a weight of {bits} bits is not a number of {kind.name}",
                witness=bits,
                suggestion="construction='float_separating_set' and max_word_bits=52, or 23 for "
                "float32; and measure `reproduced`",
            )


def floats(numbers: Iterable[Number], dtype: npt.DTypeLike) -> Floats:
    """Round numbers; to infinity where they are beyond all floats."""
    with np.errstate(over="ignore"):
        return np.array(list(map(_float, numbers))).astype(dtype)


def rows_of_floats(columns: Sequence[Column], dtype: npt.DTypeLike) -> Floats:
    """Return rounded columns side by side: (V, d)."""
    kind = float_type(dtype)
    return np.stack([floats(column.tolist(), kind) for column in columns], axis=-1)


def _dense(layer: SparseMatrix, kind: np.dtype[Any]) -> tuple[Floats, Floats]:
    weights = np.zeros((len(layer.biases), layer.width), dtype=kind)
    for row, columns, values in zip(weights, layer.columns, layer.values, strict=True):
        row[list(columns)] = floats(values, kind)
    return weights, floats(layer.biases, kind)


def _affine(layer: tuple[Floats, Floats], values: Floats) -> Floats:
    return values @ layer[0].T + layer[1]


def _float(number: Number) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
