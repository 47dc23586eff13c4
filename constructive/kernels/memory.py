"""Arrays as kernels get them: library, layout and format; `places` says how they lie in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.kernels.places import place_named
from constructive.kernels.spec import Spec, format_of, holds, numpy_dtype, stored_name
from constructive.support.arguments import require_known
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError
from constructive.support.extras import require

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
