"""Networks in floating point: dense matrices of rounded weights, and what they put out.

Nothing is proved here. A float has 53 bits (24 in float32), and words longer than that are lost;
`SequenceMemorizer.reproduced` measures how many labels are left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.sequences.attention import UniformAttention
from constructive.sequences.network import Column, Network, Number, SparseMatrix
from constructive.support.arrays import Integers, float_type
from constructive.support.errors import PrecisionError

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class RoundedNetwork:
    """`x -> W x + b` for each layer, in floats, with relu and skip connections as in `Network`.

    Example:
        >>> from constructive.sequences.network import Affine, Program
        >>> program = Program(("x",), {"r": Affine({"x": 2}, 1)}, (), (Affine({"r": 1}),))
        >>> rounded = RoundedNetwork.of(program.network(), np.float32)
        >>> rounded(np.array([[3.0]], dtype=np.float32))
        array([[7.]], dtype=float32)
    """

    layers: tuple[tuple[Floats, Floats], ...]  # pairs of W (outputs, inputs) and b (outputs,)

    @classmethod
    def of(cls, network: Network, dtype: npt.DTypeLike) -> "RoundedNetwork":
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
    embedding: Network,
    attention: UniformAttention,
    classifier: Network,
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
    """Round numbers; to infinity where they are beyond all floats.

    Example:
        >>> floats([Fraction(1, 2), 10**400], np.float64)
        array([0.5, inf])
    """
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
