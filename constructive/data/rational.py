"""Datasets of exact rational numbers."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.data.shapes import ExampleShapes
from constructive.exact.softmax import Fractions, array_of
from constructive.support.arrays import as_array, frozen
from constructive.support.errors import DataError


@dataclass(frozen=True, eq=False)
class RationalDataset(ExampleShapes):
    """T examples of exact rational numbers, each a context of n tokens, a query and a target.

    The arrays are read-only and hold Fractions; integers, Fractions and floats are accepted, floats
    as the dyadic rationals that they are.

    Attributes:
        contexts: (T, n, d), or (n, d) for one context that all examples share
        queries: (T, d)
        targets: (T,) or (T, d_out)

    Raises:
        DataError: for what is not a rational number, and for shapes that do not fit

    Example:
        >>> data = RationalDataset([[[1, 0], [1, 1]]], [[2, 3]], [Fraction(1, 3)])
        >>> data.targets
        array([Fraction(1, 3)], dtype=object)
    """

    contexts: Fractions
    queries: Fractions
    targets: Fractions

    def __post_init__(self) -> None:
        for name in ("contexts", "queries", "targets"):
            object.__setattr__(self, name, frozen(fractions(name, getattr(self, name))))
        self.set_sizes(self.contexts.shape)


def fractions(name: str, values: object) -> Fractions:
    """Return an array of Fractions with the values of integers, Fractions or floats."""
    if isinstance(values, np.ndarray) or hasattr(values, "detach"):
        array = as_array(values)
    else:  # lists of long integers stay what they are
        array = np.asarray(values, dtype=object)
    flat = array.ravel().tolist()
    try:
        exact = [x if isinstance(x, Fraction) else Fraction(x) for x in flat]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} are not rational numbers: {error}",
            suggestion="integers, Fractions, or finite floats",
        ) from error
    return array_of(exact, array.shape)
