"""The formats of inputs and outputs of kernels: those of `exact.float_model`, and TF32."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.exact.float_model import FORMATS, Format
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError
from constructive.support.extras import require

_TF32 = replace(FORMATS["float32"], name="tf32", digits=11, largest=(2.0 - 2.0**-10) * 2.0**127)
DTYPES = {name: FORMATS[name] for name in ("float64", "float32")}
DTYPES["tf32"] = _TF32
DTYPES |= {name: FORMATS[name] for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")}
"""Formats of q, k and v by name. TF32 is stored as float32."""
# Of formats in which no output is: float8 is storage.
_OUTPUTS = {"tf32": "float32", "float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16"}
_OF_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def format_of(name: str) -> Format:
    """Return a format by its name.

    Example:
        >>> format_of("bfloat16").digits
        8
    """
    if not isinstance(name, str):
        raise ParameterError(
            f"dtype={name!r} is a {type(name).__name__}, not a name",
            witness=type(name).__name__,
            suggestion='dtype="bfloat16", as text; ' + ", ".join(DTYPES),
        )
    if name not in DTYPES:
        raise ParameterError(
            f"dtype={name!r} is not a format of kernels", witness=name, suggestion=", ".join(DTYPES)
        )
    return DTYPES[name]


def output_of(name: str) -> Format:
    """Return the format of results.

    Example:
        >>> output_of("float8_e5m2").name, output_of("float16").name
        ('bfloat16', 'float16')
    """
    return format_of(_OUTPUTS.get(name, name))


def stored_name(name: str) -> str:
    """Return what numpy, ml_dtypes, torch and jax call a format.

    Example:
        >>> stored_name("tf32")
        'float32'
    """
    return "float32" if name == "tf32" else name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy type of a format; ml_dtypes is imported if it has it.

    Example:
        >>> numpy_dtype("tf32")
        dtype('float32')
    """
    if name not in _OF_ML_DTYPES:
        return np.dtype(stored_name(name))
    types = require("ml_dtypes", extra="kernels", purpose=f"a numpy array of {name}")
    found: np.dtype[Any] = np.dtype(getattr(types, name))
    return found


def holds(numbers: Format, values: npt.ArrayLike) -> bool:
    """Return whether every value is a number of a format, bit for bit.

    Example:
        >>> holds(DTYPES["bfloat16"], [1.0, 1.5]), holds(DTYPES["float16"], 1e5)
        (True, False)
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    sizes = sizes[sizes > 0]
    scaled = np.ldexp(np.frexp(sizes)[0], numbers.digits)
    inside = (sizes <= numbers.largest) & (sizes >= numbers.smallest)
    return bool((inside & (scaled == np.floor(scaled))).all())


def as_float64(values: object) -> Array:
    """Return the numbers of an array or tensor of any library in float64; nothing is rounded.

    Example:
        >>> as_float64([[1, 2]]).dtype
        dtype('float64')
    """
    given: Any = values
    if given is None:
        raise ParameterError(
            "the output is None", witness=None, suggestion="return the output of the kernel"
        )
    if isinstance(given, tuple) and any(hasattr(part, "shape") or part is None for part in given):
        raise ParameterError(
            f"the output is a tuple of {len(given)}, as of a kernel that also returns sums",
            witness=type(given).__name__,
            suggestion="check(problem, out[0]): its first entry alone",
        )
    try:
        if hasattr(given, "detach"):  # a torch tensor; numpy lacks its short formats
            given = given.detach().cpu().double().numpy()
        if np.iscomplexobj(given):
            raise TypeError("its entries are complex")
        return np.asarray(given).astype(np.float64)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ParameterError(
            f"the output is not an array of numbers: {error}",
            witness=type(values).__name__,
            suggestion="a numpy array, or tensor.float() for a format that numpy lacks",
        ) from error
