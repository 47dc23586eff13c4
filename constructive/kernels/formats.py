"""The formats of inputs and outputs: how many bits they have, and which numbers they hold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Array
from constructive.support.errors import ParameterError
from constructive.support.extras import require


@dataclass(frozen=True)
class Format:
    """A floating-point format, in which a kernel reads q, k and v.

    Attributes:
        name: as `Spec.dtype` has it
        bits: bits of a significand, the leading one included
        largest: the largest number
        smallest: the smallest normal number
        output: name of the format of results
        numpy: name of the numpy type that stores it
        library: where the type is from, "numpy" or "ml_dtypes"
    """

    name: str
    bits: int
    largest: float
    smallest: float
    output: str
    numpy: str
    library: str = "numpy"

    def dtype(self) -> np.dtype[Any]:
        """Return the numpy type; one of `ml_dtypes` is imported now.

        Raises:
            MissingExtraError: if `ml_dtypes` is needed and not installed
        """
        if self.library == "numpy":
            return np.dtype(self.numpy)
        types = require(self.library, extra="kernels", purpose=f"numpy arrays of {self.name}")
        return np.dtype(getattr(types, self.numpy))

    def holds(self, values: Array) -> bool:
        """Return whether every value is a number of this format, bit for bit.

        Args:
            values: of any shape, finite

        Example:
            >>> FORMATS["bfloat16"].holds(np.array([1.0, 1.5])), FORMATS["float16"].holds(1e5)
            (True, False)
        """
        sizes = np.abs(np.asarray(values, dtype=np.float64))
        sizes = sizes[sizes > 0]
        scaled = np.ldexp(np.frexp(sizes)[0], self.bits)
        inside = (sizes <= self.largest) & (sizes >= self.smallest)
        return bool((inside & (scaled == np.floor(scaled))).all())


_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127

FORMATS = {
    entry.name: entry
    for entry in (
        Format("float64", 53, 2.0**1023, 2.0**-1022, "float64", "float64"),
        Format("float32", 24, _FLOAT32, 2.0**-126, "float32", "float32"),
        Format("tf32", 11, (2.0 - 2.0**-10) * 2.0**127, 2.0**-126, "float32", "float32"),
        Format("float16", 11, 65504.0, 2.0**-14, "float16", "float16"),
        Format(
            "bfloat16", 8, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126, "bfloat16", "bfloat16", "ml_dtypes"
        ),
        Format("float8_e4m3", 4, 448.0, 2.0**-6, "bfloat16", "float8_e4m3fn", "ml_dtypes"),
        Format("float8_e5m2", 3, 57344.0, 2.0**-14, "bfloat16", "float8_e5m2", "ml_dtypes"),
    )
}
"""Formats by name. float8 is storage: sums and outputs have more bits."""


def format_of(name: str) -> Format:
    """Return a format by its name.

    Args:
        name: a key of `FORMATS`

    Raises:
        ParameterError: for another name

    Example:
        >>> format_of("bfloat16").bits
        8
    """
    if name not in FORMATS:
        raise ParameterError(
            f"dtype={name!r} is not a format of kernels", witness=name, suggestion=", ".join(FORMATS)
        )
    return FORMATS[name]


def as_float64(values: object) -> npt.NDArray[np.float64]:
    """Return the numbers of an array or tensor of any library in float64; nothing is rounded.

    Args:
        values: numpy array, torch tensor, jax array or what numpy can read

    Raises:
        ParameterError: for what numpy cannot read

    Example:
        >>> as_float64([[1, 2]]).dtype
        dtype('float64')
    """
    given: Any = values
    try:
        if hasattr(given, "detach"):  # a torch tensor; numpy lacks its short formats
            given = given.detach().cpu().double().numpy()
        return np.asarray(given).astype(np.float64)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ParameterError(
            f"the output is not an array of numbers: {error}",
            witness=type(values).__name__,
            suggestion="a numpy array, or tensor.float() for a format that numpy lacks",
        ) from error
