"""Arrays as kernels get them: library, layout and format, and how they lie in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.kernels.spec import Spec, format_of, holds, numpy_dtype, stored_name
from constructive.support.arguments import require_known
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, require

LAYOUTS = ("BHTd", "BTHd", "packed")


def tensors(
    spec: Spec, arrays: tuple[Array, Array, Array], *, library: str, layout: str, device: str,
    dtype: str, placed: str, poison: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return q, k and v as a kernel gets them."""
    require_known("layout", layout, LAYOUTS)
    place = place_named(placed)
    chosen = format_of(dtype)
    if not all(holds(chosen, array) for array in arrays):
        raise ParameterError(
            f"{dtype} does not hold the numbers of this problem",
            witness=dtype,
            suggestion="a Spec with this dtype",
        )
    lengths = spec.lengths[0], spec.lengths[1], spec.lengths[1]
    found = []
    for array, ends, is_query in zip(arrays, lengths, (True, False, False), strict=True):
        if poison and not is_query:
            beyond = np.arange(array.shape[2]) >= ends[:, None]
            array = np.where(beyond[:, None, :, None], np.nan, array)  # noqa: PLW2901
        laid = _laid_out(array, ends, layout)
        share = spec.shared and not is_query and layout != "packed"
        memory = place.whole(laid[:1] if share else laid)
        found.append(place.view(converted(memory, library, device, dtype)))
        if share:
            found[-1] = _expanded(found[-1], spec.batch)
    return found[0], found[1], found[2]


def _laid_out(array: Array, ends: npt.NDArray[np.int64], layout: str) -> Array:
    if layout == "BHTd":
        return array
    tokens = array.transpose(0, 2, 1, 3)
    if layout == "BTHd":
        return tokens
    return np.concatenate([rows[:end] for rows, end in zip(tokens, ends, strict=True)])


def from_layout(spec: Spec, out: Array, layout: str) -> Array:
    """Return an output in the layout (B, H, T_q, d_v); rows that do not exist are NaN."""
    if layout == "BHTd":
        return out
    if layout == "BTHd":
        return out.transpose(0, 2, 1, 3)
    whole = np.full((spec.batch, spec.queries, *out.shape[1:]), np.nan)
    whole[spec.rows()] = out
    return whole.transpose(0, 2, 1, 3)


def converted(array: npt.NDArray[Any], library: str, device: str, dtype: str) -> Any:  # noqa: ANN401
    """Return an array of a library; torch and jax are imported when they are asked for."""
    require_known("library", library, _LIBRARIES)
    return _LIBRARIES[library](np.ascontiguousarray(array), device, dtype)


def require_device(library: str, device: str) -> None:
    """Check that a device is there, once for all problems."""
    try:
        converted(np.zeros(1), library, device, "float32")
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        first = str(error).partition("\n")[0]
        raise ParameterError(
            f"{library} cannot use device={device!r} here: {first}",
            witness=device,
            suggestion=f"--device cpu, or a build of {library} for such a device",
        ) from error


def _numpy(array: npt.NDArray[Any], device: str, dtype: str) -> Any:  # noqa: ANN401
    del device
    return array.astype(numpy_dtype(dtype))


def _torch(array: npt.NDArray[Any], device: str, dtype: str) -> Any:  # noqa: ANN401
    torch = require("torch", extra="torch", purpose="tensors of torch")
    return torch.tensor(array).to(getattr(torch, stored_name(dtype))).to(device)


def _jax(array: npt.NDArray[Any], device: str, dtype: str) -> Any:  # noqa: ANN401
    jax = require("jax", extra="jax", purpose="arrays of jax")
    where = jax.devices(device)[0] if device else None
    return jax.device_put(_numpy(array, device, dtype), where)


_LIBRARIES: dict[str, Callable[[npt.NDArray[Any], str, str], Any]] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
}


def _expanded(array: Any, batch: int) -> Any:  # noqa: ANN401
    """Return an array that all sequences share, without a copy where the library can."""
    if hasattr(array, "expand"):
        return array.expand(batch, *array.shape[1:])
    if isinstance(array, np.ndarray):
        return np.broadcast_to(array, (batch, *array.shape[1:]))
    return array.repeat(batch, axis=0)


# How arrays lie in memory: alone, inside larger arrays, or with gaps between their rows.
#
# What lies around and between the numbers is NaN, so a kernel that reads it shows it; in `spread`
# it is rows of the array itself, so that what a kernel without strides reads can be told.


_MARGIN = 3  # Places around an array that is surrounded, on each side of each axis
_PARTS = 3  # Of an array that is interleaved: q, k and v of one product


@dataclass(frozen=True)
class Place:
    """A way in which an array lies in memory."""

    # returns the memory of an array: a contiguous array that contains it
    whole: Callable[[Array], Array]
    # returns the array, of memory in numpy or torch; or a copy of it in jax
    view: Callable[[Any], Any]

    def flat(self, array: Array) -> Array:
        """Return what a kernel reads that takes an array as contiguous, whatever its strides.

        Example:
            >>> PLACES["spread"].flat(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
            array([[1., 2.],
                   [5., 6.],
                   [3., 4.]])
        """
        whole = self.whole(array)
        address = self.view(whole).ctypes.data - whole.ctypes.data
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
