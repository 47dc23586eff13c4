"""The arrays of a PyTorch data set. PyTorch itself is not imported: they are asked for them."""

from typing import Any

import numpy as np

from constructive.support.arrays import as_array
from constructive.support.errors import DataError, ParameterError

_WANTED = "a TensorDataset(contexts, queries, targets), or examples (context, query, target)"


def arrays_of(examples: object) -> tuple[Any, Any, Any]:
    """Return contexts, queries and targets of a data set, or of what gives triples by index.

    Raises ParameterError for what gives no examples, and DataError for what are not triples.
    """
    given: Any = examples
    if hasattr(given, "tensors"):
        found = tuple(given.tensors)
    else:
        try:
            rows = [tuple(given[index]) for index in range(len(given))]
        except TypeError as error:
            raise ParameterError(
                f"a {type(given).__name__} does not give examples by their index: {error}",
                witness=type(given).__name__,
                suggestion=_WANTED,
            ) from error
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise DataError(
                f"examples have from {min(lengths)} to {max(lengths)} parts",
                witness=tuple(sorted(lengths)),
                suggestion=_WANTED,
            )
        found = tuple(zip(*rows, strict=True))
    if len(found) != 3:
        raise DataError(
            f"examples have {len(found)} parts, not a context, a query and a target",
            witness=len(found),
            suggestion=_WANTED,
        )
    contexts, queries, targets = (
        array if hasattr(array, "shape") else _stacked(array) for array in found
    )
    return contexts, queries, targets


def _stacked(parts: tuple[Any, ...]) -> np.ndarray[Any, Any] | list[Any]:
    """Return parts of all examples as one array, or as a list where they have different shapes."""
    arrays = [as_array(part) for part in parts]
    return np.stack(arrays) if len({array.shape for array in arrays}) == 1 else list(parts)
