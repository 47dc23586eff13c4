"""ReLU networks as plain data: programs on integer registers, their layers, and exact evaluation.

A *program* is a sequence of steps on named registers. Each step is one hidden layer: its units are
relu(a.r + b), and registers are then kept or made anew from the units. Programs are how the proofs
speak. A *network* is what users get: blocks `x <- x + W_2 relu(W_1 x + b_1) + b_2`, feed-forward
layers of a transformer. Registers are coordinates of x, which cost nothing to keep.

All weights are integers or Fractions. Nothing is rounded, so `==` decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Number = int | Fraction
# One quantity for all examples (N,), int64, or objects where numbers are long or fractions.
Column = npt.NDArray[Any]

_WORD = 1 << 62  # Integers up to this size are computed in int64


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
        sizes = self._sizes(inputs)
        rows = zip(self.columns, self.values, self.biases, strict=True)
        return [
            _combined([inputs[c] for c in row], [sizes[c] for c in row], values, bias, count)
            for row, values, bias in rows
        ]

    def added_to(self, before: Sequence[Column], inputs: Sequence[Column]) -> list[Column]:
        """Return `before` + W x + b; where a row is empty, the column itself."""
        sizes, found = self._sizes(inputs), list(before)
        for place, (row, values, bias) in enumerate(
            zip(self.columns, self.values, self.biases, strict=True)
        ):
            if row or bias:
                kept = before[place]
                columns, bounds = [inputs[c] for c in row], [sizes[c] for c in row]
                found[place] = _combined(
                    [kept, *columns], [_largest(kept), *bounds], (1, *values), bias, len(kept)
                )
        return found

    def _sizes(self, inputs: Sequence[Column]) -> dict[int, int]:
        return {c: _largest(inputs[c]) for c in set(chain.from_iterable(self.columns))}

    @property
    def nonzero(self) -> int:
        """Weights and biases that are not zero."""
        return sum(map(len, self.values)) + sum(1 for bias in self.biases if bias)

    @property
    def total(self) -> int:
        """Weights and biases of the dense matrix."""
        return len(self.biases) * (self.width + 1)

    def numbers(self) -> Iterable[Number]:
        """Return all weights and biases that are not zero."""
        for row in self.values:
            yield from row
        yield from (bias for bias in self.biases if bias)


@dataclass(frozen=True)
class ReluNetwork:
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
        count = len(inputs[0])
        values = self.layers[0](inputs, count)
        for first, second in self.blocks:
            units = [np.maximum(unit, 0) for unit in first(values, count)]
            values = second.added_to(values, units)
        return self.layers[-1](values, count)

    @property
    def blocks(self) -> list[tuple[SparseMatrix, SparseMatrix]]:
        """The pairs W_1, W_2."""
        return list(zip(self.layers[1:-1:2], self.layers[2:-1:2], strict=True))

    def numbers(self) -> Iterable[Number]:
        """Return all weights and biases that are not zero."""
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
    def nonzero_parameters(self) -> int:
        """Weights and biases that are not zero."""
        return sum(layer.nonzero for layer in self.layers)

    @property
    def total_parameters(self) -> int:
        """Weights and biases of the dense matrices."""
        return sum(layer.total for layer in self.layers)

    @property
    def largest_bits(self) -> int:
        """Bits of the longest weight (`bits`)."""
        return max(map(bits, self.numbers()), default=0)

    @property
    def total_bits(self) -> int:
        """Bits of all weights that are not zero."""
        return sum(map(bits, self.numbers()))


def bits(number: Number) -> int:
    """Return the length of an integer, or of numerator and denominator less one."""
    if isinstance(number, int):
        return number.bit_length()
    return number.numerator.bit_length() + number.denominator.bit_length() - 1


def _largest(column: Column) -> int:
    """Return the size of the largest integer; for fractions one that does not fit into int64."""
    if column.dtype == object and Fraction in set(map(type, column)):
        return _WORD
    return max(int(column.max(initial=0)), -int(column.min(initial=0)))


def combination(
    columns: Sequence[Column], values: Sequence[Number], bias: Number, *, divided_by: int = 1
) -> Column:
    """Sum values times columns (of one length) and a bias; then divide by an integer."""
    sizes = [_largest(column) for column in columns]
    total = _combined(columns, sizes, values, bias, len(columns[0]))
    if divided_by == 1:
        return total
    if total.dtype != object and not (total % divided_by).any():
        return total // divided_by
    return _normalised(total.astype(object) * Fraction(1, divided_by))


def _combined(
    columns: Sequence[Column],
    sizes: Sequence[int],
    values: Sequence[Number],
    bias: Number,
    count: int,
) -> Column:
    """Return the sum of values times columns, and a bias; in int64 where no number can get long."""
    bound: Number = max(bias, -bias)
    for value, size in zip(values, sizes, strict=True):
        bound += max(value, -value) * max(size, 1)
    short = bound < _WORD and all(isinstance(v, int) for v in (*values, bias))
    kind: Any = np.int64 if short else object
    total = np.full(count, bias, dtype=kind)
    for column, value in zip(columns, values, strict=True):
        if value:
            total = total + value * column.astype(kind)
    return total if short else _normalised(total)


def _normalised(column: Column) -> Column:
    """Return fractions that are integers as integers, which are quicker."""
    if Fraction not in set(map(type, column)):
        return column
    for place, value in enumerate(column):
        if isinstance(value, Fraction) and value.denominator == 1:
            column[place] = value.numerator
    return column
