"""Which examples are taken: indices, or a Boolean for each."""

from typing import Any

import numpy.typing as npt

from constructive.support.arrays import UNREADABLE, as_array
from constructive.support.errors import DataError


def indices(examples: npt.ArrayLike, total: int) -> npt.NDArray[Any]:
    """Return indices of some of `total` examples, from a list of them or a Boolean for each.

    Args:
        examples: indices from -T to T - 1, or T Booleans
        total: T

    Raises:
        DataError: for anything else, and where nothing is taken

    Example:
        >>> indices([True, False, True], 3)
        array([ True, False,  True])
    """

    def refuse(problem: str, witness: object) -> DataError:
        ways = f"indices from 0 to {total - 1}, or {total} Booleans, in a list or array"
        return DataError(problem, witness=witness, suggestion=ways)

    try:
        index = as_array(examples)
    except UNREADABLE as error:
        raise refuse(f"the examples to take are not an array: {error}", None) from error
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
