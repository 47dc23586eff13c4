"""How arrays lie in memory: alone, inside larger arrays, or with gaps between their rows.

What lies around and between the numbers is NaN, so a kernel that reads it shows it; in `spread` it
is rows of the array itself, so that what a kernel without strides reads can be told.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.support.arguments import require_known
from constructive.support.arrays import Array

_MARGIN = 3  # Places around an array that is surrounded, on each side of each axis
_PARTS = 3  # Of an array that is interleaved: q, k and v of one product


@dataclass(frozen=True)
class Place:
    """A way in which an array lies in memory."""

    # returns the memory of an array: a contiguous array that contains it
    whole: Callable[[Array], Array]
    # returns the array, of memory in numpy or torch; or a copy of it in jax
    view: Callable[[Any], Any]

    def flat(self, array: Array, *, from_start: bool = False) -> Array:
        """Return what a kernel reads that takes an array as contiguous, whatever its strides.

        Example:
            >>> PLACES["spread"].flat(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
            array([[1., 2.],
                   [5., 6.],
                   [3., 4.]])
        """
        whole = self.whole(array)
        address = 0 if from_start else self.view(whole).ctypes.data - whole.ctypes.data
        memory = whole.ravel()[address // whole.itemsize :][: array.size]
        found = np.pad(memory, (0, array.size - memory.size), constant_values=np.nan)
        return found.reshape(array.shape)


def place_named(name: str) -> Place:
    """Return a place.

    Example:
        >>> place_named("contiguous").flat(np.ones(2))
        array([1., 1.])
    """
    require_known("placed", name, PLACES)
    return PLACES[name]


def _alone(array: Any) -> Any:  # noqa: ANN401
    return array


def _surrounded(array: Array) -> Array:
    return np.pad(array, _MARGIN, constant_values=np.nan)


def _inner(whole: Any) -> Any:  # noqa: ANN401
    return whole[tuple(slice(_MARGIN, -_MARGIN) for _ in whole.shape)]


def _interleaved(array: Array) -> Array:
    gap = np.full_like(array, np.nan)
    return np.concatenate([gap, array, gap], axis=-1)


def _middle(whole: Any) -> Any:  # noqa: ANN401
    width = whole.shape[-1] // _PARTS
    return whole[..., width : 2 * width]


def _spread(array: Array) -> Array:
    both = np.stack([array, np.roll(array, 1, axis=-2)], axis=-2)
    return both.reshape(*array.shape[:-2], -1, array.shape[-1])


def _every_other(whole: Any) -> Any:  # noqa: ANN401
    return whole[..., ::2, :]


def _swapped(array: Array) -> Array:
    return np.ascontiguousarray(_turned(array))


def _turned(whole: Any) -> Any:  # noqa: ANN401
    return whole.swapaxes(1, 2) if whole.ndim > 3 else whole


# A part of a larger array; every third part of rows, as of a product that makes q, k and v; every
# other row; axes of heads and tokens swapped. A new place is two functions and a line here.
PLACES: dict[str, Place] = {
    "contiguous": Place(np.ascontiguousarray, _alone),
    "surrounded": Place(_surrounded, _inner),
    "interleaved": Place(_interleaved, _middle),
    "spread": Place(_spread, _every_other),
    "swapped": Place(_swapped, _turned),
}
