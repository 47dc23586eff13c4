"""Matrices of rational numbers: arrays of Fractions, and those of python-flint."""

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

Fractions = npt.NDArray[Any]  # An object array of `fractions.Fraction`.


def array_of(values: list[Any], shape: tuple[int, ...]) -> Fractions:
    """Return an object array of Fractions, from Fractions or flint's rationals in nested lists.

    Example:
        >>> array_of([flint.fmpq(1, 3), Fraction(2)], (2,))
        array([Fraction(1, 3), Fraction(2, 1)], dtype=object)
    """
    flat = np.empty(math.prod(shape), dtype=object)
    entries = [x for row in values for x in (row if isinstance(row, list) else [row])]
    flat[:] = [x if isinstance(x, Fraction) else Fraction(int(x.p), int(x.q)) for x in entries]
    return flat.reshape(shape)


def matrix_of(array: Fractions) -> flint.fmpq_mat:
    """Return a matrix of Fractions, integers or floats for python-flint.

    Example:
        >>> matrix_of(np.array([[Fraction(1, 3)]]))
        [1/3]
    """
    rows, columns = array.shape
    entries = [flint.fmpq(*x.as_integer_ratio()) for x in array.ravel().tolist()]
    return flint.fmpq_mat(rows, columns, entries)
