"""Arrays of our own, which nobody else can write to: what was checked once stays as it was."""

from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.errors import ParameterError


def private(name: str, values: object) -> npt.NDArray[Any]:
    """A read-only copy as an array; also of what only looks like one, such as a tensor.

    Raises ParameterError for what numpy cannot hold in an array.

    >>> given = np.zeros(2)
    >>> kept = private("weights", given)
    >>> given[0] = 1.0
    >>> kept
    array([0., 0.])
    """
    try:
        # Not np.array(values): what converts itself may say that it made a copy, and did not.
        return frozen(np.asarray(values).copy("K"))
    except (ValueError, TypeError, RuntimeError) as error:  # of numpy, or of what is converted
        raise ParameterError(
            f"{name} is no array: {error}",
            suggestion="arrays whose rows have one length; tensor.detach() for tensors",
        ) from error


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of an array which nobody else holds, and of its bases.

    numpy makes no view writable whose base is not; so the view can be handed out.

    >>> frozen(np.zeros(2)).flags.writeable = True
    Traceback (most recent call last):
        ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    held: object = array
    while isinstance(held, np.ndarray):
        held.flags.writeable = False
        held = held.base
    return array.view()


class Rebuilt:
    """An object which its constructor makes anew when it is copied or unpickled.

    So arrays are copied, checked and read-only there as well.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(vars(self).values())
