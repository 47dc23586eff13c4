"""What the shapes of weights say, in any arithmetic."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.data.shapes import ExampleShapes
from constructive.support.arrays import Rebuilt, first_place
from constructive.support.errors import DataError, ParameterError

FLOAT64_BITS = 53  # Bits of a float64, and so of a readout that is not a sum of several


class HeadShapes(Rebuilt):
    """The shapes of the weights of a layer, whatever their entries are."""

    query_weights: npt.NDArray[Any]
    key_weights: npt.NDArray[Any]

    @property
    def num_heads(self) -> int:
        """H, the number of heads."""
        return len(self.query_weights)

    @property
    def width(self) -> int:
        """d, the number of entries of a token or a query."""
        return int(self.query_weights.shape[1])

    @property
    def head_tensors(self) -> dict[str, npt.NDArray[Any]]:
        """What attention is made of, by the names which files give it."""
        return {"W_Q": self.query_weights, "W_K": self.key_weights}

    @property
    def head_dim(self) -> int:
        """d_h, the inner dimension of W_K W_Q^T."""
        return int(self.query_weights.shape[2])

    @property
    def num_parameters(self) -> int:
        """The number of entries of the weights."""
        return sum(array.size for array in vars(self).values() if isinstance(array, np.ndarray))


def head_weights(
    tensors: dict[str, npt.NDArray[Any]],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the first two arrays of a layer, from tensors of a file."""
    return tensors["W_Q"], tensors["W_K"]


def check_targets(dataset: ExampleShapes, target_dim: int) -> None:
    """Raise DataError if targets have another number of entries than the outputs of a layer."""
    if dataset.target_dim != target_dim:
        raise DataError(
            f"targets have d_out={dataset.target_dim}, the layer {target_dim}",
            witness=dataset.target_dim,
            suggestion=f"targets with d_out={target_dim}",
        )


def require_floats(tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise ParameterError for dtypes but float32 or float64 alone, and what is not finite."""
    kinds = sorted({str(array.dtype) for array in tensors.values()})
    if kinds not in (["float32"], ["float64"]):
        raise ParameterError(
            f"the weights have dtypes {kinds}",
            witness=tuple(kinds),
            suggestion="all float64, or all float32",
        )
    for name, array in tensors.items():
        wrong = ~np.isfinite(array)
        if wrong.any():
            place = first_place(wrong)
            raise ParameterError(
                f"{name}{list(place)} is {array[place]}",
                witness=(name, place),
                suggestion="finite weights only",
            )
