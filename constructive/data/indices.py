"""Which examples are taken: indices, or a Boolean for each."""

from typing import Any

import numpy.typing as npt

from constructive.support.arrays import readable_array
from constructive.support.errors import DataError


def indices(examples: npt.ArrayLike, total: int) -> npt.NDArray[Any]:
    """Return indices of some of T = `total` examples, which may be from -T on, or T Booleans.

    Raises DataError for anything else, and where nothing is taken.

    Example:
        >>> indices([True, False, True], 3)
        array([ True, False,  True])
    """
    ways = f"indices from 0 to {total - 1}, or {total} Booleans, in a list or array"

    def refuse(problem: str, witness: object) -> DataError:
        return DataError(problem, witness=witness, suggestion=ways)

    index = readable_array("the examples to take", examples, ways)
    if index.ndim != 1:
        raise refuse(f"the examples to take have {index.ndim} axes, not one", index.shape)
    if not index.size:
        raise refuse("no examples to take", index.shape)
    if index.dtype == bool:
        if len(index) != total:
            raise refuse(
                f"{len(index)} Booleans are not one for each of {total} examples", index.shape
            )
        if not index.any():
            raise refuse("no examples to take: all Booleans are False", index.shape)
        return index
    if index.dtype.kind not in "iu":
        raise refuse(f"the examples to take have dtype {index.dtype}", str(index.dtype))
    beyond = index[(index < -total) | (index >= total)]
    if len(beyond):
        raise refuse(f"there is no example with index {beyond[0]} among {total}", int(beyond[0]))
    return index
