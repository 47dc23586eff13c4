"""ReLU networks and uniform attention as plain data, evaluated exactly; programs for networks.

A *program* is a sequence of steps on named registers. Each step is one hidden layer: its units are
relu(a.r + b), and registers are then kept or made anew from the units. Programs are how the proofs
speak. A *network* is what users get: blocks `x <- x + W_2 relu(W_1 x + b_1) + b_2`, feed-forward
layers of a transformer. Registers are coordinates of x, which cost nothing to keep.

All weights are integers or Fractions. Nothing is rounded, so `==` decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.sequences.examples import Number, number, written
from constructive.support.arrays import AnyArray, Integers, float_type
from constructive.support.errors import ParameterError, PrecisionError, shown
from constructive.support.files import Json

Column = AnyArray  # One quantity for all examples (N,): objects, integers or Fractions


@dataclass(frozen=True)
class Affine:
    """A sum of coefficients times named quantities, and a constant."""

    # coefficients by the names of quantities; those that are zero are left out
    terms: Mapping[str, Number] = field(default_factory=dict)
    constant: Number = 0  # by default 0

    def __post_init__(self) -> None:
        kept = {name: value for name, value in self.terms.items() if value}
        object.__setattr__(self, "terms", kept)


@dataclass(frozen=True)
class ProgramStep:
    """A hidden layer: units relu(...) of registers, and registers made of units.

    Registers that do not change are kept.
    """

    units: Mapping[str, Affine]  # what goes into each relu, by the name of the unit
    # registers that change, as sums of units and of registers; other registers than the changed one
    # itself, and that one where its coefficient is not 1, are copied by units relu(r) of their own,
    # so that they must not be negative
    updates: Mapping[str, Affine]


@dataclass(frozen=True)
class Program:
    """Registers from inputs, steps, and outputs from registers."""

    inputs: tuple[str, ...]  # names of the inputs, in order
    start: Mapping[str, Affine]  # registers as affine functions of the inputs
    steps: tuple[ProgramStep, ...]  # hidden layers, in order
    outputs: tuple[Affine, ...]  # affine functions of the registers, in order

    def network(self) -> "ReluNetwork":
        """Return the network that computes what this program does: a coordinate for each register.

        Registers that are copied by units of their own must not be negative there (`ProgramStep`).
        """
        changed = (name for step in self.steps for name in step.updates)
        names = sorted({*self.start, *changed})
        zero = Affine()
        layers = [SparseMatrix.of([self.start.get(n, zero) for n in names], self.inputs)]
        for step in self.steps:
            units = dict(step.units)
            rows = []
            for name in names:
                update = step.updates.get(name)
                if update is None:
                    rows.append(zero)
                    continue
                terms = {part: v for part, v in update.terms.items() if part in step.units}
                changes = {part: v for part, v in update.terms.items() if part not in step.units}
                changes[name] = changes.get(name, 0) - 1  # the old value is taken away
                for part, value in changes.items():
                    if value:
                        units[f"carried {part}"] = Affine({part: 1})
                        terms[f"carried {part}"] = value
                rows.append(Affine(terms, update.constant))
            layers += [SparseMatrix.of(units.values(), names), SparseMatrix.of(rows, list(units))]
        return ReluNetwork((*layers, SparseMatrix.of(self.outputs, names)))


@dataclass(frozen=True)
class SparseMatrix:
    """`x -> W x + b`, the non-zero weights row by row."""

    columns: tuple[tuple[int, ...], ...]  # for each row the places of its weights
    values: tuple[tuple[Number, ...], ...]  # for each row its weights
    biases: tuple[Number, ...]  # a number a row
    width: int  # the length of x

    @classmethod
    def of(cls, rows: Iterable[Affine], names: Sequence[str]) -> "SparseMatrix":
        """Return rows that are affine functions of quantities with these names, in this order."""
        index = {name: place for place, name in enumerate(names)}
        listed = list(rows)
        return cls(
            tuple(tuple(index[name] for name in row.terms) for row in listed),
            tuple(tuple(row.terms.values()) for row in listed),
            tuple(row.constant for row in listed),
            len(names),
        )

    def __call__(self, inputs: Sequence[Column], count: int) -> list[Column]:
        """Apply it to a column (count,) for each entry of x."""
        return self.added_to([np.zeros(count, dtype=object)] * len(self.biases), inputs)

    def added_to(self, before: Sequence[Column], inputs: Sequence[Column]) -> list[Column]:
        """Return `before` + W x + b."""
        rows = zip(before, self.columns, self.values, self.biases, strict=True)
        return [
            combination([kept, *(inputs[c] for c in row)], (1, *values), bias)
            for kept, row, values, bias in rows
        ]

    @property
    def total(self) -> int:
        """Weights and biases of the dense matrix."""
        return len(self.biases) * (self.width + 1)

    def numbers(self) -> Iterable[Number]:
        """Return all weights and biases that are not zero."""
        for row in self.values:
            yield from row
        yield from (bias for bias in self.biases if bias)


class Weights(ABC):
    """A part of a memorizer: how many weights it has, and how long they are."""

    @abstractmethod
    def numbers(self) -> Iterable[Number]:
        """Return all weights and biases that are not zero."""

    @property
    @abstractmethod
    def total_parameters(self) -> int:
        """Weights and biases of the dense matrices."""

    @property
    def nonzero_parameters(self) -> int:
        """Weights and biases that are not zero."""
        return sum(1 for _ in self.numbers())

    @property
    def largest_bits(self) -> int:
        """Bits of the longest weight: those of an integer, of a fraction of both less one."""
        return max(map(_bits, self.numbers()), default=0)

    @property
    def total_bits(self) -> int:
        """Bits of all weights that are not zero."""
        return sum(map(_bits, self.numbers()))


def _bits(number: Number) -> int:
    if isinstance(number, int):
        return number.bit_length()
    return number.numerator.bit_length() + number.denominator.bit_length() - 1


@dataclass(frozen=True)
class ReluNetwork(Weights):
    """A ReLU network with skip connections."""

    # affine maps: the first makes x of the inputs, the last reads the outputs of x, and between
    # them are the pairs W_1, W_2 of blocks `x <- x + W_2 relu(W_1 x)`
    layers: tuple[SparseMatrix, ...]

    def __post_init__(self) -> None:
        if not self.layers or len(self.layers) % 2:
            raise ValueError(f"a network of {len(self.layers)} layers")
        for layer in self.layers:
            for columns, values in zip(layer.columns, layer.values, strict=True):
                known = all(type(c) is int and 0 <= c < layer.width for c in columns)
                if not known or len(set(columns)) != len(columns) or 0 in values:
                    raise ValueError(f"a row of a layer of {layer.width} inputs has others")
                if len(values) != len(columns):
                    raise ValueError(f"{len(values)} weights for {len(columns)} columns")
        for before, after in pairwise(self.layers):
            if len(before.biases) != after.width:
                raise ValueError(f"{after.width} inputs after {len(before.biases)} outputs")
        if {layer.width for layer in self.layers[1::2]} != {self.layers[-1].width}:
            raise ValueError("blocks of different widths")

    def __call__(self, inputs: Sequence[Column]) -> list[Column]:
        """Evaluate examples exactly: a column of numbers for each input and for each output."""
        count, columns = len(inputs[0]), [np.asarray(column, dtype=object) for column in inputs]
        values = [whole(column) for column in self.layers[0](columns, count)]
        for first, second in self.blocks:
            units = [np.maximum(unit, 0) for unit in first(values, count)]
            values = second.added_to(values, units)
        return [whole(column) for column in self.layers[-1](values, count)]

    @property
    def blocks(self) -> list[tuple[SparseMatrix, SparseMatrix]]:
        """The pairs W_1, W_2."""
        return list(zip(self.layers[1:-1:2], self.layers[2:-1:2], strict=True))

    def numbers(self) -> Iterable[Number]:
        """Return those of all layers."""
        return chain.from_iterable(layer.numbers() for layer in self.layers)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.layers[-1].biases)

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """The largest number of units of a hidden layer."""
        return max((len(first.biases) for first, _ in self.blocks), default=0)

    @property
    def total_parameters(self) -> int:
        """Weights and biases of the dense matrices."""
        return sum(layer.total for layer in self.layers)

    def content(self) -> Json:
        """Return for each layer its inputs, and rows of columns, values and a bias."""
        return {
            "residual": True,
            "layers": [
                {
                    "inputs": layer.width,
                    "rows": [
                        [list(columns), list(map(written, values)), written(bias)]
                        for columns, values, bias in zip(
                            layer.columns, layer.values, layer.biases, strict=True
                        )
                    ],
                }
                for layer in self.layers
            ],
        }

    @classmethod
    def from_content(cls, content: Json) -> "ReluNetwork":
        """Return the network of which `content` is the content."""
        return cls(
            tuple(
                SparseMatrix(
                    tuple(tuple(columns) for columns, _, _ in layer["rows"]),
                    tuple(tuple(map(number, values)) for _, values, _ in layer["rows"]),
                    tuple(number(bias) for _, _, bias in layer["rows"]),
                    layer["inputs"],
                )
                for layer in content["layers"]
            )
        )


# One head of uniform attention with a skip connection, exactly.
#
# Queries and keys are zero, so that all logits are 0 and softmax is 1/n for every token, whatever
# the tokens are. What is left is a mean of values, which is rational where the weights are.


WEIGHTS = "W_Q", "W_K", "W_V", "W_O"


@dataclass(frozen=True)
class UniformAttention(Weights):
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
    def total_parameters(self) -> int:
        """All weights."""
        return 4 * len(self.query_weights)

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
        """Return all weights that are not zero."""
        return filter(None, chain.from_iterable(astuple(self)))


def combination(columns: Sequence[Column], values: Sequence[Number], bias: Number = 0) -> Column:
    """Return the sum of values times columns, of one length, and a bias."""
    pairs = zip(columns, values, strict=True)
    terms = [column if value == 1 else value * column for column, value in pairs if value]
    total = sum(terms[1:], start=terms[0]) if terms else np.zeros_like(columns[0])
    return total + bias if bias else total


def whole(column: Column) -> Column:
    """Return fractions that are integers as integers, which are quicker."""
    if Fraction not in set(map(type, column)):
        return column
    return np.array([x.numerator if x.denominator == 1 else x for x in column], dtype=object)


# Networks in floating point: dense matrices of rounded weights, and what they put out.
#
# Nothing is proved here. A float has 53 bits (24 in float32), and words longer than that are lost;
# `SequenceMemorizer.reproduced` measures how many labels are left.

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
