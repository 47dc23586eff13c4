"""Columns whose second half follows from the first one, as those of heads in pairs."""

import dataclasses

import numpy as np

from constructive.layers.packed.rules import Bits, Matrix, Rule, Stored
from constructive.support.arrays import Array


class Paired(Rule):
    """The last half of the rows is plus or minus the rows before it, which another rule gives.

    A row in front of both halves, as in U, belongs to those of the other rule.
    """

    def __init__(self, rule: Rule) -> None:
        self.name, self.rule = f"paired {rule.name}", rule

    def counted(self, rows: int) -> int:
        """Count the numbers of the first rows."""
        return self.rule.counted(rows - rows // 2)

    def store(self, values: Array, index: int, matrix: Matrix) -> Stored | None:
        """Compare the halves, and store the first one."""
        half = len(values) // 2
        first = len(values) - half
        for sign in (1, -1):
            if half and (sign * values[first - half : first] == values[first:]).all():
                inner = self.rule.store(values[:first], index, _rows(matrix, first))
                return None if inner is None else Stored((sign, *inner.parameters), inner.bits)
        return None

    def read(self, parameters: tuple[int, ...], bits: Bits, index: int, matrix: Matrix) -> Array:
        """Read the first rows, and repeat them."""
        sign, *inner = parameters
        half = matrix.shape[0] // 2
        first = matrix.shape[0] - half
        if sign not in (1, -1):
            raise ValueError("the sign of its pairs is none")
        given = self.rule.read(tuple(inner), bits, index, _rows(matrix, first))
        column: Array = np.concatenate([given, sign * given[first - half :] + 0.0])
        return column


def _rows(matrix: Matrix, count: int) -> Matrix:
    """The first rows of a matrix."""
    return dataclasses.replace(matrix, shape=(count, matrix.shape[1]))
