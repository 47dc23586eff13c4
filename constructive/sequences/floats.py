"""Networks in floating point: dense matrices of rounded weights, and what they put out.

Nothing is proved here. A float has 53 bits (24 in float32), and words longer than that are lost;
`SequenceMemorizer.reproduced` measures how many labels are left.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.sequences.network import Column, ReluNetwork, SparseMatrix, UniformAttention
from constructive.sequences.storage import Number
from constructive.support.arrays import Integers, float_type
from constructive.support.errors import PrecisionError

Floats = npt.NDArray[np.floating[Any]]


def dense_layers(network: ReluNetwork, dtype: npt.DTypeLike) -> list[tuple[Floats, Floats]]:
    """Return W (outputs, inputs) and b (outputs,) of each layer, rounded, or infinite."""
    kind = float_type(dtype)
    return [_dense(layer, kind) for layer in network.layers]


def _evaluated(network: ReluNetwork, values: Floats) -> Floats:
    """Evaluate examples in floats as a network does exactly: (B, inputs) to (B, outputs)."""
    maps = dense_layers(network, values.dtype)
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
        stream = _evaluated(embedding, tokens)
        value, output = (
            floats(weights, kind) for weights in (attention.value_weights, attention.output_weights)
        )
        share = kind.type(1) / kind.type(ids.shape[1])
        mean = ((stream @ value)[ids] * share).sum(axis=1)
        own = ids if every else ids[:, -1:]
        moved = stream[own] + mean[:, np.newaxis, np.newaxis] * output
        found: Floats = _evaluated(classifier, moved.reshape(-1, len(output)))[:, 0]
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
